from __future__ import annotations

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from headrace import names
from headrace.errors import LogError
from headrace.log import catalogue
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer


@pytest.fixture
def view(connection: Connection) -> View:
    """A view of an app that no other test has."""
    return View(
        app=f"app_{uuid4().hex[:8]}",
        view="per_minute",
        topic="per_minute",
        schema="url string NOT NULL, window_start timestamp NOT NULL, n bigint",
        key=("url", "window_start"),
        path=(("clean", "clean", ("pageviews",)), ("per_minute", "per_minute", ("clean", "users"))),
    )


def written(connection: Connection, view: View) -> list[bytes | None]:
    return [record.value for record in read(connection, names.CATALOGUE_TOPIC) if record.key == view.id.encode()]


def test_what_is_published_is_found(connection: Connection, view: View) -> None:
    other = replace(view, app=f"{view.app}x", view="other")
    assert catalogue.publish(connection, view, other) == [view, other]
    assert catalogue.views(connection, view.app) == {"per_minute": view}
    assert catalogue.views(connection)[f"{other.app}/other"] == other
    assert catalogue.views(connection, "nobody") == {}


def test_the_record_is_as_others_read_it(connection: Connection, view: View) -> None:
    catalogue.publish(connection, view)
    (value,) = written(connection, view)
    assert json.loads(value or b"") == {
        "app": view.app,
        "view": "per_minute",
        "topic": "per_minute",
        "schema": view.schema,
        "key": ["url", "window_start"],
        "version": "first",
        "kind": "view",
        "path": [["clean", "clean", ["pageviews"]], ["per_minute", "per_minute", ["clean", "users"]]],
    }


def test_only_what_differs_is_written(connection: Connection, view: View) -> None:
    catalogue.publish(connection, view)
    assert catalogue.publish(connection, view) == []
    assert len(written(connection, view)) == 1
    later = replace(view, version="v2", topic="per_minute.v2")
    assert catalogue.publish(connection, later) == [later]
    assert catalogue.views(connection, view.app) == {"per_minute": later}


def test_a_view_is_taken_away(connection: Connection, view: View) -> None:
    catalogue.publish(connection, view)
    with Producer(connection) as producer:
        producer.send(names.CATALOGUE_TOPIC, None, key=view.id)
    assert catalogue.views(connection, view.app) == {}
    assert catalogue.publish(connection, view) == [view]
    assert catalogue.views(connection, view.app) == {"per_minute": view}


def test_fields_that_are_not_known_are_passed_over(connection: Connection, view: View) -> None:
    catalogue.ensure(connection)
    with Producer(connection) as producer:
        more = {**json.loads(view.encoded()), "colour": "blue"}
        producer.send(names.CATALOGUE_TOPIC, json.dumps(more), key=view.id)
    assert catalogue.views(connection, view.app) == {"per_minute": view}


@pytest.mark.parametrize("value", ["{", "[]", "{}", "null", '"text"', "wrong key", "wrong path"])
def test_a_record_that_describes_no_view(connection: Connection, view: View, value: str) -> None:
    if value.startswith("wrong"):
        value = json.dumps({**json.loads(view.encoded()), value.removeprefix("wrong "): "url"})
    catalogue.ensure(connection)
    with Producer(connection) as producer:
        producer.send(names.CATALOGUE_TOPIC, value, key=view.id)
    try:
        with pytest.raises(LogError, match="HR-237") as caught:
            catalogue.views(connection, view.app)
        assert view.id in str(caught.value)
        assert catalogue.views(connection, "nobody") == {}, "it is no concern of another app"
    finally:
        with Producer(connection) as producer:
            producer.send(names.CATALOGUE_TOPIC, None, key=view.id)
