"""What the benches print, and the records they read; nothing is measured here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from bench.latency import percentile
from bench.records import COPY_REACH, auction_events, distinct, transactions
from bench.result import Result, print_result, print_table

from bench import capture, decode, dedupe, delivery, joins, latency, windows

ROOT = Path(__file__).parent.parent


def printed(result: Result, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    print_result(result)
    told = capsys.readouterr()
    assert told.out.endswith("\n")
    assert told.out.count("\n") == 1
    assert told.err == ""
    return json.loads(told.out)


# Results


def test_a_rate_is_printed_beside_its_peer(capsys: pytest.CaptureFixture[str]):
    result = Result(
        case="decode", mode="batch", events=10, events_per_second=300, peer="from_json", peer_events_per_second=150,
        ratio=2.0, goal=1.5, goal_events_per_second=300, load=0.5, stolen=0.2,
    )  # fmt: skip
    assert printed(result, capsys) == {
        "case": "decode",
        "mode": "batch",
        "events": 10,
        "events_per_second": 300,
        "peer": "from_json",
        "peer_events_per_second": 150,
        "ratio": 2.0,
        "goal": 1.5,
        "goal_events_per_second": 300,
        "load": 0.5,
        "stolen": 0.2,
        "met": True,
    }


def test_a_latency_is_printed_with_what_was_lost(capsys: pytest.CaptureFixture[str]):
    result = Result(
        case="dedupe", mode="live", events=10, p50_ms=4.1, p95_ms=9.0, p99_ms=151.0, goal_p50_ms=12, goal_p99_ms=150,
        lost=0, duplicates=0, live_batch="2 minutes",
    )  # fmt: skip
    line = printed(result, capsys)
    assert line["met"] is False
    assert line["lost"] == line["duplicates"] == 0
    assert isinstance(line["load"], float)
    assert "ratio" not in line


@pytest.mark.parametrize(
    ("figures", "met"),
    [
        ({}, None),
        ({"p50_ms": 5.0, "goal_p50_ms": 5.0}, True),
        ({"p50_ms": 5.1, "goal_p50_ms": 5.0}, False),
        ({"goal_p50_ms": 5.0}, False),
        ({"events_per_second": 99, "goal_events_per_second": 100}, False),
        ({"events_per_second": 100, "goal_events_per_second": 100, "ratio": 1.4, "goal": 1.5}, False),
    ],
)
def test_a_goal_is_met_when_every_bound_holds(figures: dict[str, float], met: bool | None):
    assert Result(case="c", mode="m", events=1, **figures).met is met  # pyright: ignore[reportArgumentType]


def test_the_table_is_for_people_and_holds_what_applies(capsys: pytest.CaptureFixture[str]):
    live = Result(case="dedupe", mode="live", events=11_400, p50_ms=4.1, lost=0, goal_p50_ms=12)
    exact = Result(case="dedupe", mode="exact", events=11_400, p50_ms=310.0, lost=0)
    print_table([live, exact], "200 events/s")
    told = capsys.readouterr()
    assert told.out == ""
    for text in ("live", "exact", "p50_ms", "4.1", "310.0", "11,400", "yes", "200 events/s"):
        assert text in told.err
    assert "peer" not in told.err


@pytest.mark.parametrize(
    ("values", "part", "found"),
    [([], 0.5, None), ([1], 0.99, 1), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.99, 99), (range(1, 101), 1, 100)],
)
def test_a_percentile_is_one_of_the_values(values: list[float], part: float, found: float | None):
    assert percentile(values, part) == found


@pytest.mark.parametrize("bench", [latency, decode, dedupe, windows, joins, delivery, capture])
def test_every_bench_has_a_short_run(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [bench.__name__, "--help"])
    with pytest.raises(SystemExit, match="0"):
        bench.main()
    told = capsys.readouterr().out
    assert f"python -m {bench.__name__}" in told
    assert "--quick" in told


def test_make_finds_the_benches_and_nothing_else():
    files = (ROOT / "bench").glob("*.py")
    found = {file.stem for file in files if "__main__" in file.read_text(encoding="utf-8")}
    assert found == {"latency", "decode", "dedupe", "windows", "joins", "delivery", "capture"}


# Records


def test_auction_events_have_nexmarks_shape():
    fields = {
        "person": "kind ts id name email card city state extra",
        "auction": "kind ts id item descr initial_bid reserve expires seller category extra",
        "bid": "kind ts auction bidder price channel url extra",
    }
    records = list(auction_events(5_000))
    assert 264 <= sum(map(len, records)) / len(records) <= 284
    kinds = []
    for n, event in enumerate(map(json.loads, records)):
        assert " ".join(event) == fields[event["kind"]]
        assert event["ts"] == json.loads(records[0])["ts"] + n // 10
        kinds.append(event["kind"])
    assert kinds == (["person"] + ["auction"] * 3 + ["bid"] * 46) * 100


def test_the_same_seed_gives_the_same_records():
    assert list(auction_events(500)) == list(auction_events(1_000))[:500]
    assert list(transactions(500)) == list(transactions(1_000))[:500]
    assert list(auction_events(500, seed=2)) != list(auction_events(500))


def test_one_transaction_in_twenty_is_a_copy_of_a_recent_one():
    records = list(transactions(5_000))
    assert len(set(records)) == len({json.loads(record)["id"] for record in records}) == distinct(5_000) == 4_750
    for n, record in enumerate(records):
        if n % 20 == 19:
            assert record in records[max(0, n - COPY_REACH) : n]
