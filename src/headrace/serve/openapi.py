"""The description of the API in OpenAPI 3.1: one path for each view, with its columns."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from headrace.serve import page, passage
from headrace.serve.filter import OPERATORS
from headrace.serve.view import View

_PROBLEM = {
    "type": "object",
    "required": ["status", "code", "title", "what", "fix"],
    "properties": {
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "such as HR-503; `headrace explain HR-503` says more"},
        "title": {"type": "string"},
        "what": {"type": "string"},
        "found": {"type": ["string", "null"]},
        "fix": {"type": "string"},
    },
}
_POSITION = {"type": "string", "description": "how far this is: the `from` of a subscription"}


def describe(app: str, views: Sequence[View]) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, Any] = {
        "/views": {"get": _operation("list_views", "The views", {"type": "object"}, [])},
    }
    for view in views:
        paths |= _paths(view)
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Views of {app}", "version": version("headrace")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM} | {view.name: _row(view) for view in views},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _paths(view: View) -> dict[str, Any]:
    row = {"$ref": f"#/components/schemas/{view.name}"}
    rows = {
        "type": "object",
        "required": ["rows", "next", "position"],
        "properties": {
            "rows": {"type": "array", "items": row},
            "next": {"type": ["string", "null"], "description": "the `after` of the next page"},
            "position": _POSITION,
        },
    }
    one = {
        "type": "object",
        "required": ["row", "position"],
        "properties": {"row": row, "position": _POSITION},
    }
    keys = [
        {
            "name": column.name,
            "in": "path",
            "required": True,
            "schema": column.json_schema,
        }
        for column in view.key
    ]
    base = f"/views/{view.name}"
    filters = [_filter(column.name, column.json_schema, column.type) for column in view.columns if column.comparable]
    listed = [
        *filters,
        _parameter("order", "columns with commas in between, `-` before one turns it round", {"type": "string"}),
        _parameter(
            "limit", "rows a page", {"type": "integer", "minimum": 1, "maximum": page.MOST, "default": page.LIMIT}
        ),
        _parameter("after", "the `next` of the page before", {"type": "string"}),
        *_waiting(),
    ]
    followed = [
        *filters,
        _parameter("from", "the id of the last event that was read", {"type": "string"}),
        {"name": "Last-Event-ID", "in": "header", "description": "the same", "schema": {"type": "string"}},
        *_waiting(),
    ]
    events = _operation(f"follow_{view.name}", f"The changes of {view.name}, as server-sent events", {}, followed)
    events["responses"]["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    single = f"{base}/{'/'.join(f'{{{column.name}}}' for column in view.key)}"
    return {
        base: {"get": _operation(f"list_{view.name}", f"Rows of {view.name}", rows, listed)},
        f"{base}/changes": {"get": events},
        single: {"get": _operation(f"get_{view.name}", f"One row of {view.name}", one, [*keys, *_waiting()])},
    }


def _row(view: View) -> dict[str, Any]:
    properties = {column.name: _nullable(column.json_schema, column.nullable) for column in view.columns}
    return {"type": "object", "required": [column.name for column in view.columns], "properties": properties}


def _nullable(schema: dict[str, Any], nullable: bool) -> dict[str, Any]:
    if not nullable:
        return schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema | {"type": [*kinds, "null"]}


def _filter(name: str, schema: dict[str, Any], kind: str) -> dict[str, Any]:
    signs = ", ".join(f"{name}.{sign}" for sign in OPERATORS if sign != "prefix" or kind == "string")
    return _parameter(name, f"rows with this value; also {signs}", schema)


def _waiting() -> list[dict[str, Any]]:
    return [
        _parameter(
            "at_least", "wait until the view has passed this position, topic[partition]@offset", {"type": "string"}
        ),
        _parameter("wait", f"seconds to wait for it, at most {passage.LONGEST_S:g}", {"type": "number"}),
    ]


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _operation(name: str, summary: str, schema: dict[str, Any], parameters: list[dict[str, Any]]) -> dict[str, Any]:
    refused = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": summary, "content": {"application/json": {"schema": schema}}},
            "default": {"description": "what went wrong, and what to do", "content": refused},
        },
    }
