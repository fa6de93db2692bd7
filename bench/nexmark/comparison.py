"""Queries of Nexmark on Headrace, checked and then beside Flink, for a bench over some of them.

`checked`: two sets of events, one in order and one with a second of disorder, through the queries as the product runs
them (exact mode, Kafka to Kafka) and against the oracle. `compared`: the whole topic to a sink that discards, each
engine in a new process, one after the other; cold is the first run in it, warm the median of the others.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.ground import Ground, note
from bench.nexmark import oracle, ours, peer
from bench.nexmark.events import Events
from bench.nexmark.peer import Flink, Timing
from bench.nexmark.queries import PARTITIONS, QUERIES, closing
from bench.nexmark.verdict import compare
from bench.result import Result, print_result
from headrace.engine.mode import Mode
from headrace.log.consumer import read


@dataclass(frozen=True, kw_only=True)
class Nexmark(Result):
    """A query beside Flink; `equal` says whether its answers are right."""

    peer_cold_events_per_second: int | None = None
    peer_load: float | None = None
    equal: bool | None = None


def arguments(prog: str, description: str, cases: Sequence[str]) -> ArgumentParser:
    """What the command line of such a bench takes."""
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--events", type=int, default=2_000_000, help="how many records (default 2,000,000)")
    parser.add_argument("--checked", type=int, default=200_000, help="how many for the answers (default 200,000)")
    parser.add_argument("--warm", type=int, default=3, help="warm runs, of which the median counts (default 3)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of the live measurement (default 60)")
    parser.add_argument("--state", choices=("hashmap", "rocksdb"), default="hashmap", help="of Flink")
    parser.add_argument("--only", nargs="+", choices=cases, default=cases, metavar="CASE", help=", ".join(cases))
    parser.add_argument("--quick", action="store_true", help="100,000 records, 20,000 for the answers, one warm run")
    return parser


def asked(parser: ArgumentParser) -> Namespace:
    """What the command line says."""
    given = parser.parse_args()
    if given.quick:
        given.events, given.checked, given.warm, given.seconds = 100_000, 20_000, 1, 3.0
    return given


def checked(here: Ground, queries: Sequence[str], count: int, wrong: list[str]) -> dict[str, bool]:
    """Whether each query gives the right answers, from events in order and shuffled; `wrong` gets what differs."""
    right = dict.fromkeys(queries, True)
    for name, events in {
        "ordered": Events(count),
        "shuffled": Events(count, seed=7, rate=500, shuffle=500),
    }.items():
        _load(here, name, events, queries)
        known = oracle.events(events)
        note(f"computing the answers of {', '.join(queries)}")
        bootstrap = here.connection.bootstrap
        ours.emit(
            here.spark, bootstrap, queries, topic=name, results=f"{name}.ours", closing=closing(events),
            directory=here.settings.directory,
        )  # fmt: skip
        for query in queries:
            rows = [json.loads(one.value) for one in read(here.connection, f"{name}.ours.{query}") if one.value]
            verdict = compare(query, known, rows)
            told = "equal" if verdict.equal else "NOT equal"
            note(f"{query}, {name}: {verdict.rows:,} rows, {verdict.given:,} given, {told}")
            if not verdict.equal:
                right[query] = False
                wrong.append(f"{query} is wrong on the {name} events: {verdict}")
    return right


def compared(
    here: Ground,
    flink: Flink | None,
    right: dict[str, bool],
    *,
    goals: Mapping[str, float],
    count: int,
    warm: int,
    state: str,
) -> list[Nexmark]:
    """Headrace and Flink, one after the other, query by query; `goals` are the ratios that are asked for."""
    _load(here, "events", Events(count), list(right))
    results: list[Nexmark] = []
    for query, equal in right.items():
        asked = {"query": query, "topic": "events", "bootstrap": here.connection.bootstrap}
        asked |= {"directory": str(here.settings.state), "events": count, "runs": 1 + warm}
        mine = _timed(query, "Headrace", lambda asked=asked: peer.ours(**asked))
        theirs = _timed(query, "Flink", lambda asked=asked: flink.run(**asked, state=state) if flink else None)
        if mine is None:
            right[query] = False
            continue
        result = Nexmark(
            case=query,
            mode=str(Mode.EXACT),
            events=count,
            events_per_second=_warm(mine),
            events_per_cpu_second=_warm_by_cpu(mine, count),
            cold_events_per_second=mine[0].events_per_second,
            goal=goals[query],
            load=mine[-1].load,
            equal=equal,
        )
        if theirs:
            result = replace(
                result,
                peer=f"flink {state}",
                peer_events_per_second=_warm(theirs),
                peer_events_per_cpu_second=_warm_by_cpu(theirs, count),
                peer_cold_events_per_second=theirs[0].events_per_second,
                peer_load=theirs[-1].load,
                ratio=round(_warm(mine) / _warm(theirs), 2),
            )
        else:
            result = replace(result, goal=None)
        print_result(result)
        results.append(result)
    return results


def _load(here: Ground, name: str, events: Events, queries: Sequence[str]) -> None:
    """The events as a topic, with all that the queries read beside it."""
    here.load(name, chain(events, closing(events)), partitions=PARTITIONS)
    if any(QUERIES[query].labels for query in queries):
        ours.load_labels(here.connection, name)


def _timed(query: str, engine: str, run: Callable[[], list[Timing] | None]) -> list[Timing] | None:
    try:
        timings = run()
    except peer.RunFailedError as error:
        note(f"{query} failed on {engine}: {error}")
        return None
    for number, one in enumerate(timings or ()):
        kind = "warm" if number else "cold"
        note(
            f"{kind} {query} on {engine}: {one.events_per_second:,} events/s, {one.seconds:.1f} s, "
            f"{one.cpu_seconds:.1f} s of CPU, load {one.load}"
        )
    return timings


def _warm(timings: Sequence[Timing]) -> int:
    return round(median(one.events_per_second for one in timings[1:]))


def _warm_by_cpu(timings: Sequence[Timing], events: int) -> int:
    return round(events / median(one.cpu_seconds for one in timings[1:]))


def print_compared(results: Sequence[Nexmark], caption: str) -> None:
    table = Table(caption=caption, caption_justify="left")
    table.add_column("query")
    for name in ("Headrace cold", "warm", "Flink cold", "warm", "ratio", "goal", "by CPU", "equal"):
        table.add_column(name, justify="right")
    for one in results:
        mine, theirs = one.events_per_cpu_second, one.peer_events_per_cpu_second
        by_cpu = round(mine / theirs, 2) if mine and theirs else None
        figures = (one.cold_events_per_second, one.events_per_second, one.peer_cold_events_per_second,
                   one.peer_events_per_second, one.ratio, one.goal, by_cpu)  # fmt: skip
        cells = ("" if figure is None else f"{figure:,}" for figure in figures)
        table.add_row(one.case, *cells, "yes" if one.equal else "no")
    Console(stderr=True).print(table)
