"""Every reserved name: columns, topics, groups, headers, paths.

A user's column may not begin with `COLUMN_PREFIX`, nor a table's, or a stream's that is text, be `CHANGE`, which says
what becomes of a row. A declared name may not end in a reserved suffix or hold a character that a Kafka topic, a
directory and a Python parameter cannot all hold.
"""

from __future__ import annotations

import hashlib
import re

COLUMN_PREFIX = "__hr_"
CHANGE = "change"
DEAD_SUFFIX = ".dead"
LATE_SUFFIX = ".late"
STATE_DIRECTORY = ".headrace"
SETTINGS_FILE = "headrace.toml"
CATALOGUE_TOPIC = "headrace.catalogue"
FIRST_VERSION = "first"
TABLE_FOLLOWER = "postgres"
CAPTURE = "capture"
LONGEST_SLOT = 63

HEADER_PREFIX = "headrace."
HEADER_TOPIC = "headrace.topic"
HEADER_PARTITION = "headrace.partition"
HEADER_OFFSET = "headrace.offset"
HEADER_TIMESTAMP = "headrace.timestamp"
HEADER_REASON = "headrace.reason"
HEADER_QUERY = "headrace.query"
HEADER_ID = "headrace.id"
HEADER_BATCH = "headrace.batch"
HEADER_REPLAYED = "headrace.replayed"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_SINK = re.compile(r"headrace\.\w+\.\w+(\.[a-z0-9_]+)?\.sink\.[\w.~-]+")
_VERSION = re.compile(r"[a-z0-9_]{1,20}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_name(name: str) -> bool:
    """Whether an app, stream, table or view may have this name (it is also a Python parameter)."""
    return _NAME.fullmatch(name) is not None


def is_topic(name: str) -> bool:
    """Whether Kafka takes this topic name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_version(name: str) -> bool:
    """Whether a version can have this name: its topic is `<topic>.<name>`, and some such topics are something else."""
    taken = {suffix.removeprefix(".") for suffix in (DEAD_SUFFIX, LATE_SUFFIX)}
    return _VERSION.fullmatch(name) is not None and name != FIRST_VERSION and name not in taken


def versioned(name: str, version: str) -> str:
    """What a topic or a query is called in this version; the first one has the name itself."""
    return name if version == FIRST_VERSION else f"{name}.{version}"


def dead_topic(topic: str) -> str:
    """Where records that do not fit their schema go."""
    return topic + DEAD_SUFFIX


def late_topic(topic: str) -> str:
    """Where rows go that came after their window was closed."""
    return topic + LATE_SUFFIX


def group(app: str, query: str) -> str:
    """The consumer group under which a query's consumed offsets can be seen."""
    return f"headrace.{app}.{query}"


def sink(app: str, query: str) -> str:
    """What the transactions of a query are named after: the transactional id and the consumer group of each task begin
    with it."""
    return f"headrace.{app}.{query}.sink"


def follow_group(follower: str) -> str:
    """The consumer group of a follower, where one whose store keeps no positions has them."""
    return f"headrace.follow.{follower}"


def is_sink(group: str) -> bool:
    """Whether the offsets of a group are the batches that a task has written, and no places in a topic."""
    return _SINK.fullmatch(group) is not None


def capture(app: str) -> str:
    """The topic where the capture of an app remembers, and the name of its Kafka transactions."""
    return f"headrace.{app}.capture"


def slot(app: str) -> str:
    """The replication slot of an app, and its publication. PostgreSQL takes small letters only, and 63 bytes."""
    name = f"headrace_{app.lower()}"
    if name == f"headrace_{app}" and len(name) <= LONGEST_SLOT:
        return name
    return f"{name[: LONGEST_SLOT - 9]}_{hashlib.sha256(app.encode()).hexdigest()[:8]}"


def captured_topic(app: str, table: str) -> str:
    """The topic of a captured table `schema.table`, as Debezium would name it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{app}.{table}")


def replay_group(topic: str) -> str:
    """The consumer group that remembers which dead letters were put back."""
    return f"headrace.replay.{topic}"
