"""What was declared: inputs (`Source`) and functions (`Derived`), frozen the moment they are declared.

A node's topic is where its records are in the log. A derived node has one by name, whether or not the plan writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from headrace.errors import Location
from headrace.graph.connector import Connector
from headrace.log.schema import Schema
from headrace.names import FIRST_VERSION

DEFAULT_PARTITIONS = 2
DEFAULT_IDLE_MS = 30_000
DEFAULT_FUTURE_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Source:
    """An input: a stream of events, or a table.

    `schema` is None only for a captured table, whose columns are the database's. `event_time` and `id` of a stream and
    the `key` of a table are NOT NULL in the schema. With `sent` the event time is corrected by how much the clock that
    wrote it was off at `received`, or at the record's own time. With a `delay_share` the delay is adaptive, between
    `delay_least_ms` and `delay_ms`. A number where a timestamp is declared stands for `epoch_us` microseconds since
    1970, if that is not 0.
    """

    name: str
    kind: Literal["stream", "table"]
    topic: str
    schema: Schema | None
    event_time: str | None
    sent: str | None
    received: str | None
    delay_ms: int
    delay_share: float
    delay_least_ms: int
    idle_ms: int
    future_ms: int
    epoch_us: int
    id: str | None
    key: tuple[str, ...]
    partitions: int
    retention_ms: int | None
    connector: Connector | None
    where: Location


@dataclass(frozen=True)
class Derived:
    """A function of other nodes: its `inputs` are its parameter names. `pinned`: the user asked for a topic.

    `version` says which of the versions that were built of it is meant; what is declared is the first.
    """

    name: str
    kind: Literal["stream", "view"]
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    key: tuple[str, ...]
    topic: str
    pinned: bool
    partitions: int
    retention_ms: int | None
    where: Location
    version: str = FIRST_VERSION


Node = Source | Derived
