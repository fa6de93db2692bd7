"""Debezium's topic and ours for the same transactions: they differ in the documented fields, and in no other, and the
engine reads both."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.capture.stage import Stage, eventually

import headrace as hr
from bench import debezium
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.consumer import Record, read
from headrace.settings import Settings

# Everything in a record that docs/reference/capture.md says to be each one's own.
OWN = {"version", "ts_ms", "ts_us", "ts_ns", "snapshot", "sequence", "name", "lsn", "txId", "xmin"}
OPTIONS = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "interval.handling.mode": "string",
    "provide.transaction.metadata": "true",
}
STATEMENTS = [
    "INSERT INTO cards VALUES (1, 'Ada', 12.50, '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02',"
    " true, '{1,NULL,3}', '{\"a\": [1]}', '\\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy', 1.5,"
    " '{a,\"b c\"}')",
    "INSERT INTO cards (id, owner) SELECT n, 'o' || n FROM generate_series(2, 6) n",
    "UPDATE cards SET owner = 'Bo \"x\" é', amount = 0.00001 WHERE id = 1",
    "UPDATE cards SET id = 100 WHERE id = 2",
    "DELETE FROM cards WHERE id = 3",
    "UPDATE cards SET ok = false",
    "INSERT INTO cards (id, owner) VALUES (3, 'again')",
    "INSERT INTO full_cards VALUES ('a', 1, 'x'), ('a', 2, NULL)",
    "UPDATE full_cards SET note = 'y' WHERE place = 1",
    "UPDATE full_cards SET place = 3 WHERE place = 2",
    "DELETE FROM full_cards",
]


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_the_topics_are_the_same_but_for_what_is_documented(stage: Stage, spark: SparkSession, tmp_path: Path):
    stage.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    stage.execute(
        "CREATE TABLE cards (id int PRIMARY KEY, owner text, amount numeric(12,5), day date, local timestamp,"
        " at timestamptz, ok boolean, numbers int[], document jsonb, raw bytea, number uuid, mood mood,"
        " ratio double precision, words text[])"
    )
    stage.execute("CREATE TABLE full_cards (row text, place int, note text, PRIMARY KEY (row, place))")
    stage.execute("ALTER TABLE full_cards REPLICA IDENTITY FULL")
    stage.execute("INSERT INTO cards (id, owner) VALUES (50, 'before')")
    tables = (stage.table("cards"), stage.table("full_cards", "row", "place"))
    peer = debezium.running(
        tmp_path / "debezium",
        stage.bootstrap,
        stage.url,
        prefix=f"theirs{stage.app}",
        tables=["public.cards", "public.full_cards"],
        options=OPTIONS,
        report=print,
    )
    with peer as other, stage.capturing(*tables) as running:
        running.wait_until_read()
        eventually(lambda: len(theirs(stage, "cards")) == 1, lambda: other.log.read_text()[-3000:], seconds=240)
        stage.execute("BEGIN")
        for statement in STATEMENTS:
            stage.execute(statement)
            if "full" not in statement:
                stage.execute("COMMIT")
                stage.execute("BEGIN")
        stage.execute("COMMIT")
        for table in ("cards", "full_cards"):
            eventually(lambda name=table: len(theirs(stage, name)) == len(stage.records(name)))
    slot = stage.left_slot(f"debezium_theirs{stage.app}".lower())
    stage.execute("SELECT pg_drop_replication_slot(%s)", slot)
    for table in ("cards", "full_cards"):
        ours = by_key(stage.records(table))
        peers = by_key(theirs(stage, table))
        assert sorted(ours) == sorted(peers)
        for key in ours:
            assert len(ours[key]) == len(peers[key])
            assert differences(ours[key], peers[key]) == [], (table, key)
    assert views(stage, spark, tmp_path) == [sorted(id_ for (id_,) in stage.execute("SELECT id FROM cards"))] * 2


def views(stage: Stage, spark: SparkSession, directory: Path) -> list[list[int]]:
    """The rows' ids in a view over Debezium's topic and in one over ours, which hold the same rows."""
    app = hr.App(f"{stage.app}reader")
    columns = "id int, owner string, amount decimal(12,5), at timestamp, ok boolean, numbers array<int>, mood string"
    app.table("theirs", hr.debezium(f"theirs{stage.app}.public.cards"), key="id", schema=columns)
    app.table("ours", hr.postgres("public.cards"), key="id", schema=columns, topic=stage.topic("cards"))

    @app.view(key="id", topic=f"{stage.app}.of_theirs")
    def of_theirs(theirs):
        return theirs

    @app.view(key="id", topic=f"{stage.app}.of_ours")
    def of_ours(ours):
        return ours

    settings = Settings.model_construct(directory=directory)
    with Run.start(app, mode=Mode.BATCH, settings=settings, bootstrap=stage.bootstrap, spark=spark):
        pass
    found = [
        sorted((json.loads(record.value or b"{}") for record in read(stage.connection, f"{stage.app}.{view}")), key=_id)
        for view in ("of_theirs", "of_ours")
    ]
    assert found[0] == found[1]
    return [[row["id"] for row in rows] for rows in found]


def _id(row: dict[str, Any]) -> int:
    return row["id"]


def theirs(stage: Stage, table: str) -> list[Record]:
    try:
        return list(read(stage.connection, f"theirs{stage.app}.public.{table}"))
    except Exception:
        return []


def by_key(records: list[Record]) -> dict[str, list[Any]]:
    """What was written about each key, in order, without what is each one's own."""
    found: dict[str, list[Any]] = {}
    for record in records:
        key = json.dumps(json.loads(record.key or b""), sort_keys=True)
        found.setdefault(key, []).append(None if record.value is None else common(json.loads(record.value)))
    return found


def differences(ours: list[Any], peers: list[Any]) -> list[tuple[str, Any, Any]]:
    """The fields of a key's records that differ, as they are in ours and in theirs."""
    pairs = [(mine or {}, other or {}) for mine, other in zip(ours, peers, strict=True)]
    return [
        (name, mine.get(name), other.get(name))
        for mine, other in pairs
        for name in sorted({*mine, *other})
        if (name in mine) != (name in other) or mine[name] != other[name]
    ]


def common(change: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in change.items() if name not in OWN}
    told["source"] = {name: value for name, value in change["source"].items() if name not in OWN}
    if told.get("transaction"):
        told["transaction"] = {k: v for k, v in told["transaction"].items() if k != "id"}
    if change["op"] == "r":
        told["transaction"] = None
    for side in ("before", "after"):
        if told[side]:
            told[side] = {name: plain(value) for name, value in told[side].items()}
    return told


def plain(value: Any) -> Any:
    """Times without a zone end in `Z` there, and fractions of a second may have more digits."""
    if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
        text = value.removesuffix("Z")
        return text if len(text) == 10 else datetime.fromisoformat(text).isoformat()
    return value
