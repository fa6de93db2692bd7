"""Runs a query of Nexmark on Flink, in a mini-cluster inside this process; needs the packages apache-flink and psutil.

    python flink.py '{"query": "q5", "topic": "events", "bootstrap": "…", "directory": "…", "jar": "…", "events": 2000}'

prints a JSON object for each run: `seconds` is the time of the job as Flink counts it, without planning, `cpu_seconds`
that of this process and those below it. The first run is cold. With `emit` the rows go to that topic, exactly once.
A table declares only the columns that the query needs. It is a program of its own: it imports nothing of Headrace.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BID = {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING", "url": "STRING"}
AUCTION = {
    "id": "BIGINT",
    "item": "STRING",
    "descr": "STRING",
    "initial_bid": "BIGINT",
    "reserve": "BIGINT",
    "expires": "BIGINT",
    "seller": "BIGINT",
    "category": "BIGINT",
}
PERSON = {"id": "BIGINT", "name": "STRING", "city": "STRING", "state": "STRING"}
TYPES = {**BID, **AUCTION, **PERSON, "extra": "STRING"}
KINDS = {"bid": BID, "auction": AUCTION, "person": PERSON}
LABELS = 10_000
PARALLELISM = 2
HEAP = "4g"
CHECKPOINT_MS = 5_000
WATERMARK_S = 4
LONGEST_S = 300
LEVELS = {
    "all": "",
    "low": "FILTER (WHERE price < 10000)",
    "mid": "FILTER (WHERE price >= 10000 AND price < 1000000)",
    "high": "FILTER (WHERE price >= 1000000)",
}

_MS = "CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', {}) AS BIGINT) * 1000"
_DAY = "DATE_FORMAT(rowtime, 'yyyy-MM-dd')"
_TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR({}), INTERVAL '10' SECOND))"
_HOP_COUNTS = """SELECT window_start AS ws, window_end AS we, auction, COUNT(*) AS bids
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, auction"""
_VALID = "bid b JOIN auction a ON b.auction = a.id AND b.ts >= a.ts AND b.ts <= a.expires"
_WHOLE_BID = (*BID, "extra")


@dataclass(frozen=True)
class Query:
    """What it reads beside `kind` and `ts`, what it gives, and the key of an updating one; `labels`: it reads these."""

    columns: tuple[str, ...]
    result: dict[str, str]
    sql: str
    key: tuple[str, ...] = ()
    watermark: bool = field(default=False)
    labels: bool = False


def counts(name: str, what: str) -> str:
    """The count of something at each level of price."""
    return ", ".join(f"COUNT({what}) {where} AS {name}_{level}" for level, where in LEVELS.items())


def counted(*names: str) -> dict[str, str]:
    return {f"{name}_{level}": "BIGINT" for name in names for level in LEVELS}


_ALL_COUNTS = ", ".join(
    [counts("bids", "*"), counts("bidders", "DISTINCT bidder"), counts("auctions", "DISTINCT auction")]
)

QUERIES = {
    "q5": Query(
        ("auction",),
        {"window_start": "BIGINT", "auction": "BIGINT", "bids": "BIGINT"},
        f"""SELECT {_MS.format("c.ws")}, c.auction, c.bids FROM ({_HOP_COUNTS}) c
  JOIN (SELECT ws, we, MAX(bids) AS top FROM ({_HOP_COUNTS}) GROUP BY ws, we) m
  ON c.ws = m.ws AND c.we = m.we AND c.bids = m.top""",
        watermark=True,
    ),
    "q7": Query(
        ("auction", "bidder", "price", "extra"),
        {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "ts": "BIGINT", "extra": "STRING"},
        f"""SELECT b.auction, b.bidder, b.price, b.ts, b.extra FROM (SELECT * FROM {_TUMBLE.format("rowtime")}) b
  JOIN (SELECT window_start, window_end, MAX(price) AS top FROM {_TUMBLE.format("rowtime")}
    GROUP BY window_start, window_end) m
  ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.top""",
        watermark=True,
    ),
    "q11": Query(
        ("bidder",),
        {"bidder": "BIGINT", "bids": "BIGINT", "first_ts": "BIGINT", "last_ts": "BIGINT"},
        """SELECT bidder, COUNT(*), MIN(ts), MAX(ts)
  FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
  GROUP BY bidder, window_start, window_end""",
        watermark=True,
    ),
    "q12": Query(
        ("bidder",),
        {"bidder": "BIGINT", "bids": "BIGINT", "window_start": "BIGINT"},
        f"""SELECT bidder, COUNT(*), {_MS.format("window_start")} FROM {_TUMBLE.format("pt")}
  GROUP BY bidder, window_start, window_end""",
    ),
    "q15": Query(
        ("auction", "bidder", "price"),
        {"day": "STRING", **counted("bids", "bidders", "auctions")},
        f"SELECT {_DAY}, {_ALL_COUNTS} FROM bid GROUP BY {_DAY}",
        key=("day",),
    ),
    "q16": Query(
        ("auction", "bidder", "price", "channel"),
        {"channel": "STRING", "day": "STRING", "last_minute": "STRING", **counted("bids", "bidders", "auctions")},
        f"SELECT channel, {_DAY}, MAX(DATE_FORMAT(rowtime, 'HH:mm')), {_ALL_COUNTS} FROM bid GROUP BY channel, {_DAY}",
        key=("channel", "day"),
    ),
    "q17": Query(
        ("auction", "price"),
        {
            "auction": "BIGINT",
            "day": "STRING",
            **counted("bids"),
            **dict.fromkeys(("low_price", "top_price", "avg_price", "sum_price"), "BIGINT"),
        },
        f"""SELECT auction, {_DAY}, {counts("bids", "*")}, MIN(price), MAX(price), AVG(price), SUM(price)
  FROM bid GROUP BY auction, {_DAY}""",
        key=("auction", "day"),
    ),
    "sliding": Query(
        ("bidder",),
        {"bidder": "BIGINT", "ts": "BIGINT", "bids": "BIGINT"},
        """SELECT bidder, ts, COUNT(*) OVER (PARTITION BY bidder ORDER BY rowtime
  RANGE BETWEEN INTERVAL '59.999' SECOND PRECEDING AND CURRENT ROW) FROM bid""",
        watermark=True,
    ),
    "q3": Query(
        ("id", "seller", "category", "name", "city", "state"),
        {"name": "STRING", "city": "STRING", "state": "STRING", "id": "BIGINT"},
        """SELECT p.name, p.city, p.state, a.id FROM (SELECT id, seller FROM auction WHERE category = 10) a
  JOIN (SELECT id, name, city, state FROM person WHERE state IN ('OR', 'ID', 'CA')) p ON p.id = a.seller""",
    ),
    "q4": Query(
        ("auction", "price", "id", "category", "expires"),
        {"category": "BIGINT", "average": "BIGINT"},
        f"""SELECT category, AVG(final) FROM (
  SELECT a.id, a.category, MAX(b.price) AS final FROM {_VALID} GROUP BY a.id, a.category) GROUP BY category""",
        key=("category",),
    ),
    "q8": Query(
        ("id", "name", "seller"),
        {"id": "BIGINT", "name": "STRING", "window_start": "BIGINT"},
        f"""SELECT p.id, p.name, {_MS.format("p.window_start")} FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end) p
  JOIN (SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end) a
  ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
        watermark=True,
    ),
    "q9": Query(
        ("auction", "bidder", "price", "extra", *AUCTION),
        {
            **AUCTION,
            "auction_ts": "BIGINT",
            "bidder": "BIGINT",
            "price": "BIGINT",
            "bid_ts": "BIGINT",
            "bid_extra": "STRING",
        },
        f"""SELECT {", ".join(AUCTION)}, auction_ts, bidder, price, bid_ts, bid_extra FROM (
  SELECT {", ".join(f"a.{name}" for name in AUCTION)}, a.ts AS auction_ts, b.bidder, b.price, b.ts AS bid_ts,
    b.extra AS bid_extra, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts ASC) AS place
  FROM {_VALID}) WHERE place = 1""",
        key=("id",),
    ),
    "q13": Query(
        ("auction", "bidder", "price"),
        {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "ts": "BIGINT", "label": "STRING"},
        f"""SELECT b.auction, b.bidder, b.price, b.ts, l.label FROM (SELECT *, MOD(auction, {LABELS}) AS k FROM bid) b
  JOIN labels FOR SYSTEM_TIME AS OF b.rowtime AS l ON b.k = l.k""",
        watermark=True,
        labels=True,
    ),
    "q18": Query(
        _WHOLE_BID,
        {**BID, "ts": "BIGINT", "extra": "STRING"},
        f"""SELECT {", ".join(BID)}, ts, extra FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY rowtime DESC) AS place FROM bid)
  WHERE place = 1""",
        key=("bidder", "auction"),
        watermark=True,
    ),
    "q19": Query(
        _WHOLE_BID,
        {**BID, "ts": "BIGINT", "extra": "STRING", "place": "BIGINT"},
        f"""SELECT {", ".join(BID)}, ts, extra, place FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
  WHERE place <= 10""",
        key=("auction", "place"),
    ),
    "q20": Query(
        (*_WHOLE_BID, *AUCTION),
        {
            **BID,
            "bid_ts": "BIGINT",
            "bid_extra": "STRING",
            **{name: kind for name, kind in AUCTION.items() if name != "id"},
            "auction_ts": "BIGINT",
            "auction_extra": "STRING",
        },
        f"""SELECT {", ".join(f"b.{name}" for name in BID)}, b.ts, b.extra,
    {", ".join(f"a.{name}" for name in AUCTION if name != "id")}, a.ts, a.extra
  FROM bid b JOIN (SELECT * FROM auction WHERE category = 10) a ON b.auction = a.id""",
    ),
}


def environment(jar: str, work: Path, state: str, *, commits: bool, options: dict[str, str]) -> Any:
    """A table environment with a cluster of its own."""
    os.environ.setdefault("JVM_ARGS", f"-Xmx{HEAP}")
    os.environ["FLINK_LOG_DIR"] = str(work / "log")
    (work / "log").mkdir()
    from pyflink.common import Configuration  # pyright: ignore[reportMissingImports]
    from pyflink.table import EnvironmentSettings, TableEnvironment  # pyright: ignore[reportMissingImports]

    configuration = Configuration()
    for name, value in {
        "pipeline.jars": Path(jar).as_uri(),
        "parallelism.default": str(PARALLELISM),
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": (work / "checkpoints").as_uri(),
        "execution.checkpointing.incremental": "true",
        "state.backend.type": state,
        "taskmanager.memory.managed.size": "1g",
        "taskmanager.numberOfTaskSlots": str(PARALLELISM),
        "io.tmp.dirs": str(work),
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": "0",
        "restart-strategy.type": "none",
        # Without a transactional sink nothing waits for the last checkpoint, which would only add a random part of the
        # interval to the time.
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled": "true" if commits else "false",
        "table.exec.source.idle-timeout": "0 ms",
        **options,
    }.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    return TableEnvironment.create(settings.build())


def declare(tables: Any, query: Query, topic: str, bootstrap: str, *, emit: str | None, work: Path) -> None:
    """The source, the views of each kind of event, the labels, and the sink."""
    columns = [f"`{name}` {TYPES[name]}" for name in query.columns]
    columns += ["kind STRING", "ts BIGINT", "rowtime AS TO_TIMESTAMP_LTZ(ts, 3)", "pt AS PROCTIME()"]
    if query.watermark:
        columns.append(f"WATERMARK FOR rowtime AS rowtime - INTERVAL '{WATERMARK_S}' SECOND")
    kafka = f"'properties.bootstrap.servers' = '{bootstrap}'"
    tables.execute_sql(f"""CREATE TEMPORARY TABLE event ({", ".join(columns)}) WITH ('connector' = 'kafka',
  'topic' = '{topic}', {kafka}, 'properties.group.id' = 'bench-{os.getpid()}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')""")
    for kind, own in KINDS.items():
        read = (name for name in query.columns if name in own or name == "extra")
        names = ", ".join(f"`{name}`" for name in (*read, "ts", "rowtime", "pt"))
        tables.execute_sql(f"CREATE TEMPORARY VIEW {kind} AS SELECT {names} FROM event WHERE kind = '{kind}'")
    if query.labels:
        declare_labels(tables, work / "labels.csv")
    result = ", ".join(f"`{name}` {kind}" for name, kind in query.result.items())
    if query.key:
        result += f", PRIMARY KEY ({', '.join(f'`{name}`' for name in query.key)}) NOT ENFORCED"
    if emit is None:
        sink = "'connector' = 'blackhole'"
    else:
        connector = "'upsert-kafka', 'key.format' = 'json'" if query.key else "'kafka'"
        sink = f"""'connector' = {connector}, 'topic' = '{emit}', {kafka}, 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'bench-{os.getpid()}',
  'properties.transaction.timeout.ms' = '600000'"""
    tables.execute_sql(f"CREATE TEMPORARY TABLE given ({result}) WITH ({sink})")


def declare_labels(tables: Any, file: Path) -> None:
    """The table of q13, each row valid from 1970 on."""
    file.write_text("".join(f"{k},label-{k},0\n" for k in range(LABELS)), encoding="utf-8")
    tables.execute_sql(f"""CREATE TEMPORARY TABLE labels (k BIGINT, label STRING, valid_ms BIGINT,
  valid_from AS TO_TIMESTAMP_LTZ(valid_ms, 3), WATERMARK FOR valid_from AS valid_from, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = '{file.as_uri()}', 'format' = 'csv')""")


def cpu_seconds() -> float:
    """The processor time of this process and those below it."""
    import psutil

    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def main(
    *,
    query: str,
    topic: str,
    bootstrap: str,
    jar: str,
    directory: str,
    events: int,
    runs: int = 1,
    emit: str | None = None,
    state: str = "hashmap",
    options: dict[str, str] | None = None,
) -> None:
    """Run a query so many times."""
    work = Path(tempfile.mkdtemp(prefix="flink-", dir=directory))
    try:
        tables = environment(jar, work, state, commits=emit is not None, options=options or {})
        declare(tables, QUERIES[query], topic, bootstrap, emit=emit, work=work)
        for _ in range(runs):
            used = cpu_seconds()
            result = tables.execute_sql(f"INSERT INTO given {QUERIES[query].sql}")
            result.wait(LONGEST_S * 1000)
            seconds = result.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000
            line = {"seconds": seconds, "events_per_second": round(events / seconds)}
            line |= {"cpu_seconds": cpu_seconds() - used, "load": round(os.getloadavg()[0], 2)}
            print(json.dumps(line), flush=True)
            time.sleep(0.5)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
