"""What the state of a query depends on is compared at each start, as long as there is state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine import facts
from headrace.engine.facts import Facts
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import RunError
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.schema import Schema
from headrace.settings import Settings

WINDOW = {"operator": "window", "kind": "tumbling", "emit": "final", "aggregates": ["n = count() as bigint"]}
KNOWN = Facts("minutes", None, ["payments"], [WINDOW], tables={"cards": Schema.parse("id int")})
IDS = {"payments": "a"}


def begun(place: Path) -> str:
    (place / "offsets").mkdir(parents=True)
    (place / "offsets" / "0").write_text("v1\n{}\n{}")
    return str(place)


def test_what_fits_is_written_down(tmp_path: Path):
    place = begun(tmp_path)
    for _ in range(2):
        KNOWN.check(place)
        KNOWN.note(place, IDS)
    assert facts.columns(place) == {"cards": Schema.parse("id int")}


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"operators": [WINDOW | {"emit": "early"}]}, "emit of window was final, and is early"),
        ({"operators": [WINDOW | {"lateness_ms": 60}]}, "lateness_ms of window was none, and is 60"),
        (
            {"operators": [WINDOW | {"aggregates": ["n = count(id) as bigint"]}]},
            r"aggregates of window was n = count\(\) as bigint, and is n = count\(id\) as bigint",
        ),
        ({"operators": []}, "operators were window, and are none"),
        ({"operators": [WINDOW, WINDOW]}, "operators were window, and are window, window"),
        ({"topics": ["orders"]}, "topics were payments, and are orders"),
        ({"key": ("card",)}, "key was none, and is card"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_difference(tmp_path: Path, changed: dict[str, object], difference: str):
    place = begun(tmp_path)
    KNOWN.note(place, IDS)
    with pytest.raises(RunError, match=difference) as refused:
        dataclasses.replace(KNOWN, **changed).check(place)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "HR-307"
    assert "headrace reset app.py minutes" in refused.value.fix


def test_a_topic_that_was_made_anew_is_refused(tmp_path: Path):
    place = begun(tmp_path)
    KNOWN.note(place, IDS)
    with pytest.raises(RunError, match="was deleted and made anew") as refused:
        KNOWN.note(place, {"payments": "b"})
    assert refused.value.code == "HR-309"
    assert "headrace reset app.py minutes" in refused.value.fix


def test_before_the_first_batch_everything_may_change(tmp_path: Path):
    place = str(tmp_path)
    KNOWN.note(place, IDS)
    changed = dataclasses.replace(KNOWN, operators=[], topics=["orders"])
    changed.check(place)
    changed.note(place, {"orders": "b"})
    begun(tmp_path)
    changed.check(place)


def minutes(topic: str, emit: Literal["early", "final"], *, second: str | None = None) -> hr.App:
    app = hr.App("meaning")
    app.stream("readings", schema="n bigint, at timestamp", topic=topic, event_time="at", partitions=1)

    @app.stream(topic=f"{topic}.minutes")
    def per_minute(readings):
        return hr.window(readings, hr.tumbling("1 minute"), by=[], emit=emit, n=hr.count())

    if second is not None:

        @app.stream(topic=second)
        def beside(readings):
            return readings

    return app


def test_a_changed_meaning_is_refused_before_a_topic_is_made(
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
):
    name, second, connection = topic("readings"), topic("second"), Connection(bootstrap)
    settings = Settings.model_construct(directory=tmp_path)

    def start(app: hr.App) -> Run:
        return Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark)

    def refused_by_spark(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    # A query that never ran has nothing that a change could not fit.
    with monkeypatch.context() as patched:
        patched.setattr("headrace.engine.preparation.write", refused_by_spark)
        with pytest.raises(ZeroDivisionError):
            start(minutes(name, "early"))
    with Producer(connection) as producer:
        producer.send(name, {"n": 1, "at": "2026-01-01T00:00:00Z"})
    with start(minutes(name, "final")) as run:
        run.finish_input()
    with pytest.raises(RunError, match="emit of window was final, and is early") as refused:
        start(minutes(name, "early", second=second))
    assert refused.value.code == "HR-307"
    assert second not in topics.names(connection)
    with start(minutes(name, "final", second=second)):
        assert second in topics.names(connection)
