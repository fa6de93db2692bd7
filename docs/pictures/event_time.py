"""The pictures of docs/explanation/time.md, made from what really happens: `python -m docs.pictures.event_time`.

Each run sends a few events, one by one, to an app on real Spark and Kafka in exact mode, and notes after each what the
watermark is, what was told and what was refused. The pictures show these notes and nothing else, so they are the same
whenever they are made; tests/test_pictures.py makes them again and compares.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from docs.pictures.svg import Picture, Point
from pyspark.sql import SparkSession

import headrace as hr
from headrace import names
from headrace.engine.session import session
from headrace.log.consumer import read
from headrace.parts.embedded import Parts
from headrace.settings import Settings
from headrace.testing import Driver

TARGET = Path(__file__).parent.parent / "explanation"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SCHEMA = "id string, who string, at timestamp"
MINUTE = 60.0
Row = Mapping[str, Any]


# The apps

orders_app = hr.App("orders_pictures")
orders_app.source("orders", schema=SCHEMA, event_time="at", delay="10 seconds", id="id", partitions=1)


@orders_app.stream
def minutes(orders):
    return hr.window(orders, hr.tumbling("1 minute"), by=[], lateness="1 minute", n=hr.count())


@orders_app.stream
def at_once(orders):
    return hr.window(orders, hr.tumbling("1 minute"), by=[], emit="early", lateness="1 minute", n=hr.count())


sensors_app = hr.App("sensors_pictures")
sensors_app.source("sensors", schema=SCHEMA, event_time="at", delay="5 seconds", id="id", partitions=2)


@sensors_app.stream
def readings(sensors):
    return hr.window(sensors, hr.tumbling("30 seconds"), by=[], n=hr.count())


clicks_app = hr.App("clicks_pictures")
clicks_app.source("clicks", schema=SCHEMA, event_time="at", delay="10 seconds", id="id", partitions=1)


@clicks_app.stream
def visits(clicks):
    return hr.window(clicks, hr.session("10 minutes"), by="who", lateness="1 hour", n=hr.count())


# What happens


@dataclass(frozen=True)
class Sent:
    """An event: its name, its seconds after noon, who it is of, and the partition that it goes to."""

    name: str
    at: float
    who: str = "ann"
    partition: int = 0


@dataclass
class Step:
    """What there was after an event: the watermark in seconds after noon, if any, and what was new in the topics."""

    sent: Sent
    watermark: float | None = None
    told: dict[str, Sequence[Row]] = field(default_factory=dict)
    refused: dict[str, list[float]] = field(default_factory=dict)  # by query, the watermarks that rows missed


ORDERS = [
    Sent("a", 5),
    Sent("b", 20),
    Sent("c", 50),
    Sent("d", 35),
    Sent("e", 64),
    Sent("f", 57),
    Sent("g", 75),
    Sent("h", 45),
    Sent("i", 100),
    Sent("j", 150),
    Sent("k", 30),
    Sent("l", 165),
]
SENSORS = [
    Sent("a", 10),
    Sent("b", 12, partition=1),
    Sent("c", 30),
    Sent("d", 50),
    Sent("e", 70),
    Sent("f", 90),
    Sent("g", 40, partition=1),
    Sent("h", 95, partition=1),
]
CLICKS = [Sent("a", 0), Sent("b", 15 * MINUTE), Sent("x", 40 * MINUTE, "bob"), Sent("c", 8 * MINUTE)]


def played(
    app: hr.App, source: str, events: Sequence[Sent], *, spark: SparkSession, bootstrap: str, waiting: bool = False
) -> list[Step]:
    """Send the events one by one; a quiet partition is taken for idle after each, unless the run is `waiting`."""
    steps: list[Step] = []
    queries = [node.name for node in app.graph().nodes if node.name != source]
    known: dict[str, tuple[int, int]] = dict.fromkeys(queries, (0, 0))
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for sent in events:
            row = {"id": sent.name, "who": sent.who, "at": NOON + timedelta(seconds=sent.at)}
            driver.push(source, [row], partition=sent.partition)
            if waiting:
                driver.resume()
                for query in spark.streams.active:
                    for _ in range(2):
                        query.processAllAvailable()
            else:
                driver.advance()
            step = Step(sent, watermark(spark, queries[0]))
            for name in queries:
                told, late = driver.read(name), list(refused(driver, name))
                step.told[name], step.refused[name] = told[known[name][0] :], late[known[name][1] :]
                known[name] = len(told), len(late)
            steps.append(step)
    return steps


def watermark(spark: SparkSession, name: str) -> float | None:
    """The watermark of the last batch of a query, in seconds after noon."""
    (query,) = (query for query in spark.streams.active if (query.name or "").startswith(f"{name}@"))
    last = query.lastProgress
    text = (last["eventTime"] or {}).get("watermark") if last else None
    return None if text is None or text.startswith("1970") else seconds(text)


def refused(driver: Driver, name: str) -> Iterator[float]:
    """The watermarks that the rows in a late topic have missed."""
    for record in read(driver.connection, names.late_topic(driver.graph.node(name).topic)):
        yield seconds(record.header("headrace.watermark") or "")


def seconds(text: str) -> float:
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - NOON).total_seconds()


def clock(after: float, *, short: bool = False) -> str:
    at = NOON + timedelta(seconds=after)
    return f"{at:%H:%M}" if short else f"{at:%H:%M:%S}"


# How it is drawn


@dataclass(frozen=True)
class Plot:
    """A field of a picture: steps from left to right, seconds after noon from the bottom to the top."""

    left: float
    right: float
    top: float
    bottom: float
    steps: int
    until: float

    def x(self, step: float) -> float:
        """The place of a step; the first is 0."""
        return self.left + (self.right - self.left) * (step + 0.5) / self.steps

    def y(self, at: float) -> float:
        return self.bottom - (self.bottom - self.top) * at / self.until

    def grid(self, picture: Picture, every: float) -> None:
        for number in range(int(self.until // every) + 1):
            y = self.y(number * every)
            picture.line([(self.left, y), (self.right, y)], "axis" if number == 0 else "grid")
            picture.text(self.left - 8, y + 4, clock(number * every, short=every % MINUTE == 0), "soft", anchor="end")

    def stairs(self, marks: Sequence[float | None]) -> list[Point]:
        """The watermark as a line: each value holds from its step to the next."""
        points: list[Point] = []
        for step, mark in enumerate(marks):
            if mark is not None:
                end = self.right if step + 1 == len(marks) else self.x(step + 1)
                points += [(self.x(step), self.y(max(0, mark))), (end, self.y(max(0, mark)))]
        return points

    def watermark(self, picture: Picture, marks: Sequence[float | None]) -> None:
        stairs = self.stairs(marks)
        picture.area([(stairs[0][0], self.bottom), *stairs, (stairs[-1][0], self.bottom)], "shade")
        picture.line(stairs, "watermark")


def arrivals(steps: Sequence[Step]) -> Picture:
    """Events by arrival and event time, the watermark, and what became of each."""
    picture = Picture(
        760,
        430,
        title="Events in the order in which they came, and the watermark",
        description="Each mark is an order: from left to right when it came, from bottom to top when it happened. The "
        "watermark is a line of stairs that only rises, 10 seconds behind the newest event. " + told_as_words(steps),
    )
    plot = Plot(76, 736, 64, 340, len(steps), 3 * MINUTE)
    picture.text(24, 30, "Twelve orders: when they came, and when they happened", "heading")
    picture.text(24, 48, "delay 10 seconds · windows of one minute · lateness one minute", "soft")
    plot.grid(picture, MINUTE)
    plot.watermark(picture, [step.watermark for step in steps])
    for number, step in enumerate(steps):
        x, y = plot.x(number), plot.y(step.sent.at)
        draw(picture, x, y, outcome(step))
        picture.text(x, y - 11, step.sent.name, "ink", anchor="middle")
        picture.text(x, plot.bottom + 18, str(number + 1), "soft", anchor="middle")
    before = steps[-2].watermark or 0
    picture.text(plot.x(len(steps) - 1) - 8, plot.y(before) + 18, "the watermark", "watermark-text", anchor="end")
    picture.text((plot.left + plot.right) / 2, plot.bottom + 38, "order of arrival →", "soft", anchor="middle")
    words = {
        "counted": "counted in its window",
        "correcting": "corrects a window that was given",
        "late": "too late: kept in minutes.late",
    }
    x = 76.0
    for kind, meaning in words.items():
        draw(picture, x + 6, 405, kind)
        picture.text(x + 20, 409, meaning, "ink")
        x += 40 + 6.6 * len(meaning)
    return picture


def outcome(step: Step) -> str:
    """What became of an event, by what the query of the minutes told."""
    if any(step.refused.values()):
        return "late"
    return "correcting" if any(row.get("change") == "-" for row in step.told["minutes"]) else "counted"


def draw(picture: Picture, x: float, y: float, kind: str) -> None:
    {"counted": picture.dot, "correcting": picture.diamond, "late": picture.cross}[kind](x, y, kind)


def told_as_words(steps: Sequence[Step]) -> str:
    by = {kind: [s.sent.name for s in steps if outcome(s) == kind] for kind in ("correcting", "late")}
    return f"{' and '.join(by['correcting'])} corrects a result that was given; {' and '.join(by['late'])} is too late."


def life(steps: Sequence[Step]) -> Picture:
    """The first window from its first event to the row that is too late for it."""
    given = next(n for n, step in enumerate(steps) if (step.watermark or 0) >= MINUTE)
    over = next(n for n, step in enumerate(steps) if (step.watermark or 0) >= 2 * MINUTE)
    picture = Picture(
        760,
        380,
        title="The life of the window from 12:00 to 12:01",
        description="With emit early the count is told with every change. With emit final it is told when the "
        f"watermark passes 12:01, at the {given + 1}th event, corrected when a row comes within the lateness, and "
        f"over when the watermark passes 12:02, at the {over + 1}th event; what comes then goes to the late topic.",
    )
    plot = Plot(88, 744, 0, 1, len(steps), 1)
    picture.text(24, 30, "The life of the window 12:00 – 12:01", "heading")
    picture.text(24, 48, "delay 10 seconds · lateness one minute · times are minutes and seconds after 12:00", "soft")
    phases = [(0, given, "open"), (given, over, "given, and corrected"), (over, len(steps), "over")]
    for number, (first, end, words) in enumerate(phases):
        left, right = plot.x(first - 0.5), plot.x(end - 0.5)
        if number == 1:
            picture.box(left, 62, right - left, 256, "band")
        picture.text((left + right) / 2, 78, words, "soft", anchor="middle")
    for first in (given, over):
        picture.line([(plot.x(first - 0.5), 62), (plot.x(first - 0.5), 318)], "guide")
    lanes = {"at_once": 154.0, "minutes": 226.0}
    for label, y in (("event", 107), ("early", 158), ("final", 230), ("late", 295), ("watermark", 340)):
        picture.text(82, y, label, "watermark-text" if label == "watermark" else "soft", anchor="end")
    for y in (122, 187, 261):
        picture.line([(24, y), (744, y)], "grid")
    picture.line([(24, 318), (744, 318)], "axis")
    for number, step in enumerate(steps):
        x, own = plot.x(number), step.sent.at < MINUTE
        picture.text(x, 100, step.sent.name, "ink" if own else "soft", anchor="middle")
        picture.text(x, 115, clock(step.sent.at)[3:], "ink" if own else "soft", anchor="middle")
        for name, y in lanes.items():
            chips(picture, x, y, [row for row in step.told[name] if seconds(row["window_start"]) == 0])
        for missed in step.refused["minutes"]:
            picture.cross(x, 282, "late")
            picture.text(x, 306, f"missed {clock(missed)[3:]}", "late-text", anchor="middle")
        if step.watermark is not None:
            words = clock(step.watermark)[3:] if step.watermark >= 0 else "·"
            picture.text(x, 340, words, "watermark-text", anchor="middle")
    picture.text(plot.x(given) + 6, 362, "the window has ended ↑", "watermark-text", anchor="end")
    picture.text(plot.x(over) - 6, 362, "↑ so has the lateness", "watermark-text")
    return picture


def chips(picture: Picture, x: float, y: float, rows: Sequence[Row]) -> None:
    """The changes of a result, what is taken back above what is put there."""
    for place, row in enumerate(rows):
        middle = y + (place - (len(rows) - 1) / 2) * 24
        taken = row["change"] == "-"
        picture.box(x - 16, middle - 10, 32, 20, "taken" if taken else "put", round_=4)
        words = f"{'−' if taken else '+'}{row['n']}"
        picture.text(x, middle + 4, words, "soft" if taken else "counted-text", anchor="middle")


def partitions(waiting: Sequence[Step], idle: Sequence[Step]) -> Picture:
    """Two partitions of which one is quiet: with the watermark that waits for it, and with the one that does not."""
    picture = Picture(
        760,
        372,
        title="A quiet partition holds the watermark until it is taken for idle",
        description="On the left the watermark waits for partition 1 and stands still while it is quiet; nothing is "
        "late. On the right partition 1 is taken for idle: the watermark follows partition 0, and the old event with "
        "which partition 1 comes back is too late.",
    )
    picture.text(24, 30, "Two partitions, one of them quiet from c to f", "heading")
    picture.text(24, 48, "delay 5 seconds · windows of 30 seconds", "soft")
    panels = [(waiting, 76.0, "waited for"), (idle, 452.0, "taken for idle")]
    for steps, left, words in panels:
        plot = Plot(left, left + 288, 92, 300, len(steps), 105)
        plot.grid(picture, 30)
        picture.text(left, 78, f"partition 1 is {words}", "ink")
        plot.watermark(picture, [step.watermark for step in steps])
        for number, step in enumerate(steps):
            x, y = plot.x(number), plot.y(step.sent.at)
            if step.refused["readings"]:
                picture.cross(x, y, "late")
            elif step.sent.partition:
                picture.box(x - 5, y - 5, 10, 10, "correcting")
            else:
                picture.dot(x, y, "counted")
            picture.text(x, y - 10, step.sent.name, "ink", anchor="middle")
            given = [seconds(row["window_start"]) for row in step.told["readings"]]
            for place, start in enumerate(given):
                picture.text(x, plot.bottom + 18 + 14 * place, clock(start)[4:], "watermark-text", anchor="middle")
    picture.text(24, 318, "given", "watermark-text")
    picture.dot(82, 350, "counted")
    picture.text(96, 354, "partition 0", "ink")
    picture.box(185, 345, 10, 10, "correcting")
    picture.text(204, 354, "partition 1", "ink")
    picture.cross(298, 350, "late")
    picture.text(312, 354, "too late", "ink")
    picture.line([(386, 350), (410, 350)], "watermark")
    picture.text(420, 354, "the watermark; below, the windows that it gives", "ink")
    return picture


def merge(steps: Sequence[Step]) -> Picture:
    """Two sessions that were given, and the event that joins them."""
    picture = Picture(
        760,
        316,
        title="A late event joins two sessions",
        description="Ann clicks at 12:00 and 12:15, more than the gap of ten minutes apart. When the watermark has "
        "passed both, two sessions are given. A late click at 12:08 is within ten minutes of both: the two are taken "
        "back, and one session from 12:00 to 12:25 with three clicks is put in their place.",
    )
    picture.text(24, 30, "A late click joins two visits", "heading")
    picture.text(24, 48, "sessions with a gap of 10 minutes · lateness one hour", "soft")
    left, right = 220.0, 736.0

    def x(after: float) -> float:
        return left + (right - left) * after / (42 * MINUTE)

    for number in range(9):
        at = number * 5 * MINUTE
        picture.line([(x(at), 64), (x(at), 276)], "grid")
        picture.text(x(at), 296, clock(at, short=True), "soft", anchor="middle")
    picture.line([(left, 276), (right, 276)], "axis")
    come: list[Sent] = []
    stands: list[Row] = []
    for number, new in enumerate((steps[:2], steps[2:3], steps[3:])):
        y = 92.0 + 70 * number
        come += [step.sent for step in new]
        last = new[-1]
        told = [row for step in new for row in step.told["visits"] if row["who"] == "ann"]
        taken = [row for row in told if row["change"] == "-"]
        names_ = " and ".join(f"{step.sent.name} ({clock(step.sent.at, short=True)})" for step in new)
        picture.text(24, y + 2, f"{names_} {'come' if len(new) > 1 else 'comes'}", "ink")
        picture.text(24, y + 20, f"watermark {clock(last.watermark or 0)}", "watermark-text")
        if number:
            picture.line([(24, y - 30), (736, y - 30)], "axis")
        picture.line([(x(last.watermark or 0), y - 28), (x(last.watermark or 0), y + 38)], "watermark")
        put = [row for row in told if row["change"] == "+"]
        stands = [row for row in stands if bounds(row) not in [bounds(one) for one in taken]]
        top = y + 8 if taken else y - 6
        for row in taken:
            bar(picture, x, row, y - 22, words=f"−{row['n']}", style="taken")
        for row in (*stands, *put):
            bar(picture, x, row, top, words=f"{'+' if row in put else ''}{row['n']}", style="put")
        stands += put
        for sent in come:
            if sent.who == "ann":
                picture.dot(
                    x(sent.at), top + 10, "correcting" if taken and sent is last.sent else "counted", radius=4.5
                )
            elif sent is last.sent:
                picture.text(x(sent.at) - 9, top + 14, "x is of somebody else", "soft", anchor="end")
                picture.dot(x(sent.at), top + 10, "soft", radius=4.5)
    return picture


def bounds(row: Row) -> tuple[float, float]:
    return seconds(row["window_start"]), seconds(row["window_end"])


def bar(picture: Picture, x: Callable[[float], float], row: Row, top: float, *, words: str, style: str) -> None:
    """A session from its first event to its end, with its count."""
    begin, end = bounds(row)
    picture.box(x(begin), top, x(end) - x(begin), 20, style, round_=4)
    picture.text(x(end) - 8, top + 14, words, "soft" if style == "taken" else "counted-text", anchor="end")


def pictures(spark: SparkSession, bootstrap: str) -> dict[str, str]:
    """Every picture by the name of its file."""
    run: dict[str, Any] = {"spark": spark, "bootstrap": bootstrap}
    orders = played(orders_app, "orders", ORDERS, **run)
    waiting = played(sensors_app, "sensors", SENSORS, waiting=True, **run)
    idle = played(sensors_app, "sensors", SENSORS, **run)
    clicks = played(clicks_app, "clicks", CLICKS, **run)
    made = {
        "watermark.svg": arrivals(orders),
        "window.svg": life(orders),
        "idle.svg": partitions(waiting, idle),
        "session.svg": merge(clicks),
    }
    return {name: picture.written() for name, picture in made.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as home, Parts.start(Settings.load(Path(home)), report=print) as parts:
        spark = session("headrace-pictures", report=print)
        for name, text in pictures(spark, parts.bootstrap).items():
            (TARGET / name).write_text(text, encoding="utf-8")
            print(TARGET / name)
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
