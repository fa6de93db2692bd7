"""What became of the outputs of an app under test, by the batch answer for what it was given.

- lost: in the batch answer with and without the closing events, and not in the output;
- duplicated: more often in the output than in the batch answer;
- wrong: in the output, and in neither batch answer.

A closing event is in some results, and in others waits for a watermark that does not come; so of a result that it
changes either answer is right. A view is held to it twice, by what its topic says and by its table. A stream is read as
its readers do: in exact mode every committed record, otherwise `hr.read`, which drops repeats by their id.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import SparkSession

from headrace import names
from headrace.app import App
from headrace.graph.node import Source
from headrace.graph.plan import Query
from headrace.kernel import bridge
from headrace.log import catalogue
from headrace.log.consumer import Record, read
from headrace.log.row import read as read_rows
from headrace.testing.change import Event
from headrace.testing.oracle import oracle
from headrace.testing.trial import Trial

EXAMPLES = 5
SHOWN = 300
REMEMBERED = 10_000_000  # ids: a restored checkpoint may repeat more than a batch


@dataclass(frozen=True)
class Verdict:
    """What became of one output: the rows it must have, and how many are lost, duplicated and wrong."""

    output: str
    rows: int
    lost: int
    duplicated: int
    wrong: int
    examples: tuple[str, ...] = field(default=(), repr=False)

    @property
    def holds(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)


class Judge:
    """Compares the outputs of an app that has come to rest. `repeats`: it was live, so records may come again."""

    def __init__(self, app: App, trial: Trial, spark: SparkSession, *, repeats: bool) -> None:
        self._app = app
        self._trial = trial
        self._spark = spark
        self._repeats = repeats
        self._dead = {
            source.name: self._letters_of(source) for source in trial.graph.sources if source.kind == "stream"
        }
        dead = {one.value for letters in self._dead.values() for one in letters if one.value is not None}
        self._refused = {name: trial.feeder.large_of(name) & dead for name in self._dead}
        tables = trial.database.rows() if trial.database else {}
        without = {value for values in self._refused.values() for value in values}
        self._given: list[Mapping[str, Sequence[Event]]] = [
            {**trial.feeder.sent(closing=closing, without=without), **tables} for closing in (False, True)
        ]

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each output."""
        outputs = [verdict for query in self._trial.queries for verdict in self._of(query)]
        return (*outputs, *map(self._of_letters, self._dead))

    def _of(self, query: Query) -> list[Verdict]:
        without, whole = (_bag(oracle(self._app, query.name, given, self._spark)) for given in self._given)
        connection, topic = self._trial.connection, query.node.topic
        if query.node.kind != "view":
            if self._repeats:
                rows = list(read_rows(connection, topic, within=REMEMBERED))
            else:
                rows = [json.loads(one.value) for one in read(connection, topic) if one.value]
            found, required = _bag(_accumulated(rows)), without & whole
            return [_compare(f"topic {topic}", found, required, required - found, without | whole)]
        last: dict[bytes | None, bytes | None] = {one.key: one.value for one in read(connection, topic)}
        in_log = _bag([json.loads(value) for value in last.values() if value is not None])
        return [
            _of_view(f"view {query.name}, topic", in_log, without, whole, query.node.key),
            _of_view(f"view {query.name}, table", self._table(query), without, whole, query.node.key),
        ]

    def _table(self, query: Query) -> Counter[str]:
        """The rows of a view's table as they would stand in the log."""
        view = catalogue.views(self._trial.connection, self._trial.graph.app)[query.name]
        with psycopg.connect(self._trial.postgres) as database:
            statement = sql.SQL("select * from {}").format(sql.Identifier(self._trial.graph.app, query.name))
            found = database.execute(statement)
            columns = [column.name for column in found.description or ()]
            rows = [dict(zip(columns, one, strict=True)) for one in found.fetchall()]
        return _bag(_as_in_log(rows, view.schema, self._spark))

    def _letters_of(self, source: Source) -> list[Record]:
        """The dead letters of a source; in live mode each position once for a query."""
        letters = list(read(self._trial.connection, names.dead_topic(source.topic)))
        place = (names.HEADER_TOPIC, names.HEADER_PARTITION, names.HEADER_OFFSET, names.HEADER_QUERY)
        if self._repeats:
            return list({tuple(map(one.header, place)): one for one in letters}.values())
        return letters

    def _of_letters(self, source: str) -> Verdict:
        """Every record that does not fit, once for each query that reads it."""
        readers = [query.name for query in self._trial.queries if source in query.reads]
        broken = self._trial.feeder.broken(source) + Counter(self._refused[source])
        expected = Counter({f"{raw!r} {reader}": times for raw, times in broken.items() for reader in readers})
        found = Counter(f"{one.value!r} {one.header(names.HEADER_QUERY)}" for one in self._dead[source])
        return _compare(f"dead letters of {source}", found, expected, expected - found, expected)


def _of_view(
    output: str, found: Counter[str], without: Counter[str], whole: Counter[str], key: Sequence[str]
) -> Verdict:
    """A key that both answers have must be there, and its row be that of one of them. A null in it is no key."""

    def key_of(row: str) -> str | None:
        values = [json.loads(row).get(column) for column in key]
        return None if None in values else json.dumps(values)

    there, wanted = set(map(key_of, found)), set(map(key_of, whole)) - {None}
    required = Counter({row: times for row, times in without.items() if key_of(row) in wanted})
    lost = {row: 1 for row in required if key_of(row) not in there or (row in whole and row not in found)}
    allowed = Counter({row: times for row, times in (without | whole).items() if key_of(row) is not None})
    right = {key_of(row): f", where the batch answer has {row}" for row in whole}
    beside = {row: right.get(key_of(row), "") for row in found - allowed}
    return _compare(output, found, required, Counter(lost), allowed, beside=beside)


def _compare(
    output: str,
    found: Counter[str],
    required: Counter[str],
    lost: Counter[str],
    allowed: Counter[str],
    *,
    beside: Mapping[str, str] | None = None,
) -> Verdict:
    more = found - allowed
    duplicated = Counter({row: times for row, times in more.items() if row in allowed})
    wrong = more - duplicated
    examples = [f"lost: {row}" for row in lost] + [f"duplicated: {row}" for row in duplicated]
    examples += [f"wrong: {row}{(beside or {}).get(row, '')}" for row in wrong]
    shown = tuple(one if len(one) < SHOWN else f"{one[:SHOWN]}…" for one in sorted(examples)[:EXAMPLES])
    return Verdict(output, required.total(), lost.total(), duplicated.total(), wrong.total(), shown)


def _bag(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def _accumulated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows put there and not taken back, where `change` says so; the others as they are."""
    if not rows or any(row.get("change") not in ("+", "-") for row in rows):
        return list(rows)
    left: Counter[str] = Counter()
    for row in rows:
        left[json.dumps({**row, "change": "+"}, sort_keys=True)] += 1 if row["change"] == "+" else -1
    if any(times < 0 for times in left.values()):
        left += Counter({row: -times for row, times in left.items() if times < 0})
    return [json.loads(row) for row, times in left.items() for _ in range(times)]


def _as_in_log(rows: Sequence[dict[str, Any]], schema: str, spark: SparkSession) -> list[dict[str, Any]]:
    if not rows:
        return []
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema, verifySchema=False)
    return [json.loads(row.value) for row in bridge.encode(frame, ()).collect()]
