"""A changed declaration is built beside the old one, the difference is exact, and the switch goes there and back."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine import checkpoint, version
from headrace.engine.mode import Mode
from headrace.engine.replay import Built, build
from headrace.engine.run import Run
from headrace.engine.version import Versions
from headrace.errors import HeadraceError, RunError
from headrace.log import catalogue
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import committed, read
from headrace.log.producer import Producer
from headrace.names import FIRST_VERSION, group
from headrace.settings import Settings
from headrace.testing.driver import forget_last_commit

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id string, card string, amount double, at timestamp"
OLD, NEW = "amount >= 0", "amount >= 2 and card <> 'c'"


class Shop:
    """An app of its own: `declared(where)` is its code in one state, `run` runs it until all is worked off."""

    def __init__(self, name: str, spark: SparkSession, bootstrap: str, home: Path) -> None:
        self.name = name
        self.spark = spark
        self.bootstrap = bootstrap
        self.connection = Connection(bootstrap)
        self.settings = Settings.load(home)

    def declared(self, where: str) -> hr.App:
        app = hr.App(self.name)
        topic = f"{self.name}.payments"
        app.stream("payments", schema=SCHEMA, event_time="at", id="id", topic=topic, partitions=2)

        if where == OLD:

            @app.view(key="card", topic=f"{self.name}.totals")
            def totals(payments):
                return hr.window(payments, hr.global_(every=1), by="card", spent=hr.sum("amount"))

            @app.stream(topic=f"{self.name}.large")
            def large(payments):
                return payments.where("amount > 20").select("id", "amount")

        else:

            @app.view(key="card", topic=f"{self.name}.totals")
            def totals(payments):
                return hr.window(payments.where(NEW), hr.global_(every=1), by="card", spent=hr.sum("amount"))

            @app.stream(topic=f"{self.name}.large")
            def large(payments):
                return payments.where("amount > 25").select("id", "amount")

        return app

    def push(self, events: list[dict[str, Any]]) -> None:
        with Producer(self.connection) as producer:
            for event in events:
                producer.send(f"{self.name}.payments", event, key=event["id"])

    def run(self, where: str, only: str = "totals") -> None:
        """Run the current version of a query with this code, until it has read everything."""
        given: dict[str, Any] = {"settings": self.settings, "bootstrap": self.bootstrap, "spark": self.spark}
        with Run.start(self.declared(where), mode=Mode.EXACT, only=[only], **given) as run:
            run.finish_input()

    def replay(self, where: str, name: str = "totals", chosen: str = "v2", **options: Any) -> Built:
        given: dict[str, Any] = {"settings": self.settings, "bootstrap": self.bootstrap, "spark": self.spark}
        return build(self.declared(where).graph(), name, chosen, **given, **options)

    def versions(self, name: str = "totals") -> Versions:
        return Versions.of(self.declared(OLD).graph(), name, self.connection)

    def promote(self, chosen: str, name: str = "totals") -> None:
        version.promote(self.versions(name), chosen, self.connection, self.settings)

    def drop(self, chosen: str, name: str = "totals") -> None:
        version.drop(self.versions(name), chosen, self.connection, self.settings, also=lambda _: None)

    def view(self, topic: str) -> dict[str, Any]:
        """The rows of a view by what the topic of a version says: card to sum."""
        rows: dict[str, Any] = {}
        for record in read(self.connection, f"{self.name}.{topic}"):
            row = json.loads(record.value or b"{}")
            rows[(record.key or b"").decode()] = row.get("spent")
        return {card: spent for card, spent in rows.items() if spent is not None}


@pytest.fixture
def shop(topic: Callable[[str], str], spark: SparkSession, bootstrap: str, tmp_path: Path) -> Shop:
    return Shop(topic("shop"), spark, bootstrap, tmp_path)


@pytest.fixture
def dice(seed: int) -> random.Random:
    return random.Random(seed)


def payments(dice: random.Random, count: int, since: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "id": f"p{n}",
            "card": dice.choice("abcde"),
            "amount": dice.randrange(60) / 2,
            "at": START + timedelta(seconds=n),
        }
        for n in range(since, since + count)
    ]


def sums(events: list[dict[str, Any]], new: bool) -> dict[str, float]:
    """What the view holds, computed here."""
    found: dict[str, float] = {}
    for event in events:
        if not new or (event["amount"] >= 2 and event["card"] != "c"):
            found[event["card"]] = found.get(event["card"], 0) + event["amount"]
    return found


def counts(built: Built) -> dict[str, int]:
    return {what: getattr(built.difference, what) for what in ("same", "added", "removed", "changed")}


def expected(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, int]:
    both = old.keys() & new.keys()
    return {
        "same": sum(old[card] == new[card] for card in both),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(old[card] != new[card] for card in both),
    }


def refused(code: str, call: Callable[[], object]) -> HeadraceError:
    with pytest.raises(HeadraceError, match=code) as caught:
        call()
    return caught.value


def test_there_and_back(shop: Shop, dice: random.Random):
    """The whole way of a view: replay, difference, switch, the next run, and the old one again."""
    events = payments(dice, 60)
    shop.run(OLD)
    shop.push(events)
    shop.run(OLD)

    built = shop.replay(NEW)
    assert counts(built) == expected(sums(events, False), sums(events, True))
    assert {one.key for one in built.difference.samples if one.what == "removed"} == {"c"}
    assert built.behind == {FIRST_VERSION: 0, "v2": 0}
    assert shop.view("totals") == sums(events, False), "the old one is as it was"
    assert shop.view("totals.v2") == sums(events, True)
    assert catalogue.views(shop.connection, shop.name)["totals"].topic == f"{shop.name}.totals"

    # What comes before the switch is of the old one; the new one reads it when it is called again.
    more = payments(dice, 30, since=60)
    shop.push(more)
    assert shop.replay(NEW).behind == {FIRST_VERSION: 30, "v2": 0}
    assert shop.view("totals.v2") == sums(events + more, True)

    shop.promote("v2")
    current = catalogue.views(shop.connection, shop.name)["totals"]
    assert (current.version, current.topic) == ("v2", f"{shop.name}.totals.v2")
    assert [query for query, *_ in current.path] == ["totals.v2"], "who waits for a position asks its group"

    yet_more = payments(dice, 30, since=90)
    shop.push(yet_more)
    shop.run(NEW)
    everything = events + more + yet_more
    assert shop.view("totals.v2") == sums(everything, True)
    assert shop.view("totals") == sums(events, False), "nobody writes to the old one"
    read_so_far = committed(shop.connection, group(shop.name, "totals.v2"), [f"{shop.name}.payments"])
    assert sum(read_so_far.values()) == 120

    shop.promote(FIRST_VERSION)
    assert catalogue.views(shop.connection, shop.name)["totals"].topic == f"{shop.name}.totals"
    shop.run(OLD)
    assert shop.view("totals") == sums(everything, False), "it goes on where it was"
    assert shop.view("totals.v2") == sums(everything, True)

    shop.drop("v2")
    assert list(shop.versions().there) == [FIRST_VERSION]
    assert [one for one in topics.names(shop.connection) if one.startswith(f"{shop.name}.totals.v2")] == []
    assert topics.group_offsets(shop.connection, group(shop.name, "totals.v2")) == {}
    refused("HR-321", lambda: shop.promote("v2"))


def test_a_stream_is_compared_row_by_row(shop: Shop, dice: random.Random):
    events = payments(dice, 60)
    shop.run(OLD, "large")
    shop.push(events)
    shop.run(OLD, "large")
    built = shop.replay(NEW, "large", samples=1000)
    old = {event["id"] for event in events if event["amount"] > 20}
    new = {event["id"] for event in events if event["amount"] > 25}
    assert counts(built) == {"same": len(new), "added": 0, "removed": len(old - new), "changed": 0}
    assert {one.old["id"] for one in built.difference.samples if one.old} == old - new
    shop.promote("v2", "large")
    shop.push([{"id": "last", "card": "a", "amount": 30.0, "at": START + timedelta(hours=1)}])
    shop.run(NEW, "large")
    ids = [json.loads(record.value or b"")["id"] for record in read(shop.connection, f"{shop.name}.large.v2")]
    assert sorted(ids) == sorted([*new, "last"]), "each once"
    assert catalogue.views(shop.connection, shop.name) == {}, "a stream is no view"


def test_a_replay_that_was_cut_off_goes_on_and_doubles_nothing(shop: Shop, dice: random.Random):
    """What a kill between the sink's commit and Spark's leaves behind, of a version that is not built yet."""
    events = payments(dice, 60)
    shop.run(OLD, "large")
    shop.push(events)
    shop.replay(NEW, "large")
    place = checkpoint.local(checkpoint.location(shop.settings, shop.name, "large.v2"))
    assert place is not None
    forget_last_commit(place)
    found = shop.versions("large").there["v2"]
    catalogue.record(shop.connection, replace(found, built=False))
    assert refused("HR-323", lambda: shop.promote("v2", "large")).what.endswith("it is not built yet.")
    assert shop.versions("large").current == FIRST_VERSION

    shop.replay(NEW, "large")
    new = sorted(event["id"] for event in events if event["amount"] > 25)
    ids = [json.loads(record.value or b"")["id"] for record in read(shop.connection, f"{shop.name}.large.v2")]
    assert sorted(ids) == new
    # With other code, or from elsewhere, it does not go on; asked to, it begins again.
    assert "function was changed" in str(refused("HR-322", lambda: shop.replay(OLD, "large")))
    refused("HR-322", lambda: shop.replay(NEW, "large", start=f"{shop.name}.payments[0]@1"))
    before = topics.identities(shop.connection, [f"{shop.name}.large.v2"])
    assert shop.replay(OLD, "large", again=True).difference.removed == 0
    assert topics.identities(shop.connection, [f"{shop.name}.large.v2"]) != before


def test_a_version_that_is_half_gone_does_not_go_on(shop: Shop, dice: random.Random):
    shop.run(OLD, "large")
    shop.push(payments(dice, 10))
    shop.replay(NEW, "large")

    def killed(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        version.drop(shop.versions("large"), "v2", shop.connection, shop.settings, also=killed)
    refused("HR-323", lambda: shop.promote("v2", "large"))
    assert "half taken away" in str(refused("HR-322", lambda: shop.replay(NEW, "large")))
    shop.drop("v2", "large")
    assert list(shop.versions("large").there) == [FIRST_VERSION]


def test_history_from_a_place_on(shop: Shop, dice: random.Random):
    events = payments(dice, 40)
    shop.run(OLD, "large")
    shop.push(events)
    name = f"{shop.name}.payments"
    early = list(read(shop.connection, name))
    middle = datetime.now(UTC) + timedelta(milliseconds=1)
    late = [{"id": f"late{n}", "card": "a", "amount": 30.0, "at": START + timedelta(minutes=n)} for n in range(10)]
    with Producer(shop.connection) as producer:
        for event in late:
            producer.send(name, event, key=event["id"], timestamp=middle + timedelta(seconds=1))

    def ids(chosen: str) -> list[str]:
        found = read(shop.connection, f"{shop.name}.large.{chosen}")
        return sorted(json.loads(record.value or b"")["id"] for record in found)

    shop.replay(NEW, "large", "at_a_time", start=middle.isoformat())
    assert ids("at_a_time") == [f"late{n}" for n in range(10)]
    skipped = {record.offset for record in early if record.partition == 0 and record.offset < 5}
    shop.replay(NEW, "large", "at_an_offset", start=f"{name}[0]@5")
    kept = [
        json.loads(record.value or b"")
        for record in read(shop.connection, name)
        if record.partition == 1 or record.offset not in skipped
    ]
    assert ids("at_an_offset") == sorted(one["id"] for one in kept if one["amount"] > 25)

    for start in ("yesterday", "2026-01-01T00:00:00", "7", f"{name}[0]@1000000", f"{name}[7]@0", "other[0]@0", "@"):
        error = refused("HR-326", lambda start=start: shop.replay(NEW, "large", "v9", start=start))
        assert error.found == start
    assert "v9" not in shop.versions("large").there


def test_what_is_refused(shop: Shop):
    shop.run(OLD)
    for name in ("first", "late", "dead", "V2", "v.2", "v-2", "", "v" * 21, "ü"):
        refused("HR-320", lambda name=name: shop.replay(NEW, chosen=name))
    topics.ensure(shop.connection, [topics.Topic(f"{shop.name}.totals.mine")])
    refused("HR-320", lambda: shop.replay(NEW, chosen="mine"))
    refused("HR-311", lambda: shop.replay(NEW, "nobody"))
    refused("HR-321", lambda: shop.promote("v2"))
    refused("HR-325", lambda: shop.drop(FIRST_VERSION))
    assert list(shop.versions().there) == [FIRST_VERSION]


def test_a_version_that_runs_is_neither_switched_nor_taken_away(shop: Shop, dice: random.Random):
    shop.run(OLD)
    shop.push(payments(dice, 10))
    shop.replay(NEW)
    given: dict[str, Any] = {"settings": shop.settings, "bootstrap": shop.bootstrap, "spark": shop.spark}
    with Run.start(shop.declared(OLD), mode=Mode.EXACT, only=["totals"], **given) as run:
        assert str(os.getpid()) in str(refused("HR-324", lambda: shop.promote("v2")).found)
        assert shop.versions().current == FIRST_VERSION
        run.finish_input()
    shop.promote("v2")
    with Run.start(shop.declared(NEW), mode=Mode.EXACT, only=["totals"], **given) as run:
        assert run.queries == ("totals.v2",)
        refused("HR-324", lambda: shop.promote(FIRST_VERSION))
    refused("HR-325", lambda: shop.replay(NEW))
    refused("HR-325", lambda: shop.drop("v2"))


def test_a_run_that_was_overtaken_does_not_start(shop: Shop):
    graph = shop.declared(OLD).graph()
    assert version.overtaken(graph, graph) is None
    error = version.overtaken(graph, graph.in_versions({"totals": "v2"}))
    assert isinstance(error, RunError)
    assert (error.code, "v2 is current" in str(error.found)) == ("HR-328", True)


def test_layout_and_comments_are_no_change(shop: Shop):
    def code(where: str) -> str | None:
        versions = Versions(shop.declared(where).graph(), shop.declared(where).graph().derived[0], catalogue.Entries())
        return version.code(versions.query(FIRST_VERSION)[1])

    assert code(OLD) == code(OLD)
    assert code(OLD) != code(NEW)
    assert code(OLD) is not None
