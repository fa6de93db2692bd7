"""How late the events of a stream come, and what a delay of so much would cover."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import duration
from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app
from headrace.errors import RunError
from headrace.graph.node import Source
from headrace.log import topic as topics
from headrace.log.consumer import read
from headrace.log.lateness import SHARES, Lateness, observe

LAST = 100_000
_BAR = 40


def lateness(
    app: AppFile,
    stream: Annotated[str, typer.Argument(help="The stream, as the app names it.", show_default=False)],
    last: Annotated[int, typer.Option("--last", min=1, help="Look at about so many of the newest records.")] = LAST,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Say how late the events of a stream come, and which delay covers how many of them."""
    source = _source(app, stream)
    assert source.event_time is not None
    connection = connection_at(app, bootstrap)
    ends = topics.ends(connection, source.topic)
    begins = {one.partition: one.first for one in topics.describe(connection, source.topic).partitions}
    start = {partition: max(begins[partition], end - last // len(ends)) for partition, end in ends.items()}
    seen = observe(read(connection, source.topic, start=start), source.event_time)
    if as_json:
        terminal.out_json(
            {
                "stream": source.name,
                "events": len(seen.milliseconds),
                "unread": seen.unread,
                "declared_delay_ms": source.delay_ms,
                "declared_delay_covers": seen.covered(source.delay_ms) if seen.milliseconds else None,
                "delay_ms": {str(share): seen.delay(share) for share in SHARES} if seen.milliseconds else {},
                "histogram": seen.histogram(),
            }
        )
        return
    terminal.out(_text(source, seen))


def _text(source: Source, seen: Lateness) -> str:
    told = f"{len(seen.milliseconds):,} events of {source.name}, event time {source.event_time}"
    if seen.unread:
        told += f"; {seen.unread:,} records without a readable one are left out"
    if not seen.milliseconds:
        return told
    lines = [told, ""]
    shares = [(f"delay {duration.describe(seen.delay(share))}", f"covers {share:.4%}") for share in SHARES]
    lines += [f"  {left:<20} {_short(right)}" for left, right in shares]
    covered = seen.covered(source.delay_ms)
    declared = duration.describe(source.delay_ms)
    lines += ["", f"  The declared delay of {declared} covers {_short(f'{covered:.4%}')}.", ""]
    histogram = seen.histogram()
    most = max(count for _, count in histogram)
    for bound, count in histogram:
        bar = "█" * max(1 if count else 0, round(_BAR * count / most))
        label = "on time" if bound == 0 else f"up to {duration.describe(bound)}"
        lines.append(f"  {label:>18} {count:>9,} {bar}".rstrip())
    return "\n".join(lines)


def _short(percent: str) -> str:
    """`99.9000%` as `99.9 %`."""
    return percent.rstrip("%").rstrip("0").rstrip(".") + " %"


def _source(app: AppFile, stream: str) -> Source:
    graph = load_app(app).graph()
    found = next((node for node in graph.nodes if node.name == stream), None)
    if isinstance(found, Source) and found.event_time is not None:
        return found
    timed = [node.name for node in graph.nodes if isinstance(node, Source) and node.event_time]
    raise RunError(
        "HR-342",
        f"`{stream}` is not a stream of this app with an event time.",
        found=f"with an event time: {', '.join(timed) or 'none'}",
        fix="name one of them, or declare `event_time=` on the stream",
    )
