"""Fields that the console does not show: those declared `secret=`, also where a result carries them on by their name.

A masked value does not leave the server. A record that cannot be read as fields may hold a secret anywhere, so it is
not shown at all where its stream has secret fields.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.graph.graph import Graph, inputs_of

MASK = "••••••"
HIDDEN = "hidden: this stream has secret fields, and the record is not readable as fields"


def secrets(graph: Graph) -> dict[str, frozenset[str]]:
    """The secret fields of each node: its own, and those of what it reads."""
    found: dict[str, frozenset[str]] = {}
    for node in graph.topological():
        found[node.name] = frozenset(node.secret).union(*(found.get(name, ()) for name in inputs_of(node)))
    return found


def masked(name: str, value: Any, secret: frozenset[str]) -> Any:
    """A value as it is shown: scalars as they are, nested ones as JSON text."""
    if value is None:
        return None
    if name in secret:
        return MASK
    if secret and name.startswith("("):
        return HIDDEN
    if isinstance(value, dict | list):
        return json.dumps(_within(value, secret), ensure_ascii=False)
    return value


def masked_bytes(raw: bytes | None, secret: frozenset[str]) -> str:
    """Raw bytes as text, with secret fields masked."""
    if raw is None:
        return "(no value)"
    text = raw.decode("utf-8", "backslashreplace")
    if not secret:
        return text
    try:
        found = json.loads(raw)
    except (ValueError, UnicodeDecodeError):
        return HIDDEN
    return json.dumps(_within(found, secret), ensure_ascii=False)


def _within(value: Any, secret: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            name: MASK if name in secret and one is not None else _within(one, secret) for name, one in value.items()
        }
    return [_within(one, secret) for one in value] if isinstance(value, list) else value
