"""What is observed of an app: progress files as they grow, topics, health that needs more than one look."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import headrace as hr
import headrace.serve.observation
from headrace.engine import progress
from headrace.engine.health import Health
from headrace.engine.progress import Progress
from headrace.log.connection import Connection
from headrace.serve.observation.history import POINTS, History
from headrace.serve.observation.observer import Observer
from headrace.serve.observation.progress_files import ProgressFiles
from headrace.serve.observation.summary import Summary, overall
from headrace.serve.observation.topics import TopicGrowth
from headrace.settings import Settings

app = hr.App("pairs")
app.stream("clicks", schema="id string, at timestamp", event_time="at", delay="5 seconds", id="id", secret="id")
app.stream("orders", schema="id string, at timestamp", event_time="at", id="id")


@app.stream
def both(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    return clicks.union(orders)


def event(query: str = "both", **given: object) -> Progress:
    now = progress.moment()
    values = {"mode": "exact", "state": "running", "at": now, "started_at": now, "pid": 1, **given}
    return Progress(app="pairs", query=query, **values)  # pyright: ignore[reportArgumentType]


def test_a_look_that_fails_is_named_and_taken_again(tmp_path: Path):
    observer = Observer(app.graph(), Settings.load(tmp_path), Connection("127.0.0.1:1"))
    looks = iter([OSError(28, "No space left on device"), RuntimeError("odd"), None, None])
    seen: list[str | None] = []

    def look() -> None:
        seen.append(observer.failing)
        if len(seen) == 4:
            observer._ending.set()
        if (error := next(looks)) is not None:
            raise error

    observer._repeat("topics", look, 0.0)
    assert seen == [None, "topics: OSError: [Errno 28] No space left on device", "topics: RuntimeError: odd", None]


def growth(moved: float | None) -> TopicGrowth:
    made = TopicGrowth()
    made.moved = moved
    return made


def test_a_silent_input_holds_others_back(tmp_path: Path):
    now = time.time()
    observer = Observer(app.graph(), Settings.load(tmp_path), Connection("127.0.0.1:1"))
    history = History(event(watermark=progress.moment(now - 300), event_time=progress.moment(now)))
    observer.topics.growth.update(clicks=growth(now - 200), orders=growth(now))
    held = observer._held_back("both", history)
    assert held
    assert held.sentence == "held back by stream clicks, idle for 3m"
    observer.topics.growth["clicks"] = growth(None)
    held = observer._held_back("both", history)
    assert held
    assert held.sentence == "held back by stream clicks, which has brought nothing yet"
    for clicks, orders, mark in ((now, now, 300), (now - 200, now - 200, 300), (now - 200, now, 20)):
        observer.topics.growth.update(clicks=growth(clicks), orders=growth(orders))
        assert (
            observer._held_back(
                "both", History(event(watermark=progress.moment(now - mark), event_time=progress.moment(now)))
            )
            is None
        )


def test_a_progress_file_is_read_as_it_grows_and_after_it_was_cut(tmp_path: Path):
    settings = Settings.load(tmp_path)
    files = ProgressFiles(settings, "pairs")
    files.look()
    assert files.histories == {}
    for rows in range(5):
        progress.write(settings, event(rows_in=rows))
        time.sleep(0.002)
    files.look()
    assert [files.histories["both"].last.rows_in, len(files.histories["both"].points)] == [4, 5]
    file = progress.directory(settings, "pairs") / "both.jsonl"
    with file.open("a") as out:
        out.write('{"cut": ')  # a writer in the middle of a line
    files.look()
    with file.open("a") as out:
        out.write("1}\nnothing\n")
    progress.write(settings, event(rows_in=5))
    files.look()
    assert files.histories["both"].last.rows_in == 5
    shorter = file.with_suffix(".new")
    shorter.write_text("".join(file.read_text().splitlines(keepends=True)[-2:]))
    shorter.replace(file)
    time.sleep(0.002)  # events are told apart by their milliseconds
    progress.write(settings, event(rows_in=6))
    files.look()
    assert files.histories["both"].last.rows_in == 6
    assert len(files.histories["both"].points) <= POINTS


def test_rates_come_from_the_ends_of_topics():
    made = TopicGrowth()
    for second in range(10):
        made.take(100.0 + second, {0: 50 * second, 1: 10 * second})
    assert made.per_second == pytest.approx(60)
    assert made.moved == 109.0
    for second in range(10, 30):
        made.take(100.0 + second, {0: 450, 1: 90})
    assert made.per_second == 0
    assert made.moved == 109.0


def test_nothing_in_the_room_of_observation_draws():
    room = Path(headrace.serve.observation.__file__).parent
    for file in (*room.glob("*.py"), room.parent / "metrics.py"):
        assert not re.findall(
            r"^(?:import|from) (?:nicegui|headrace\.serve\.console)\b", file.read_text(), re.MULTILINE
        )


def summary(name: str, word: str) -> Summary:
    return Summary(name, "live", Health(word, f"it is {word}"), 0.0, 0.0, None, 0, 0, 0, 0)


def test_all_are_told_in_one_sentence():
    up, held, lost, stopped = (
        summary(*one) for one in (("a", "keeping-up"), ("b", "held-back"), ("c", "lost"), ("d", "stopped"))
    )
    assert overall([], away=True).sentence == "the log does not answer"
    assert overall([], away=False).sentence == "nothing has run yet"
    assert overall([stopped], away=False) == Health("stopped", "stopped")
    assert overall([up, stopped], away=False) == Health("keeping-up", "everything keeps up")
    assert overall([up, held, lost], away=False) == Health("lost", "c: it is lost, and 1 more")
    assert [one.is_up for one in (up, held, lost, stopped)] == [True, True, False, False]
