"""A database with an app that captures from it: what the tests of capture share.

Each stage has a database of its own in the run's PostgreSQL, and an app of its own, so slot and topics are its own too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace import names
from headrace.capture import slot
from headrace.capture.capture import Capture
from headrace.capture.order import Order
from headrace.capture.table import Captured
from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read

PATIENCE_S = 120


class Stage:
    """A database, an app, and the topics of its tables."""

    def __init__(self, server: str, bootstrap: str, directory: Path) -> None:
        self.app = f"shop{uuid.uuid4().hex[:10]}"
        self.bootstrap = bootstrap
        self.connection = Connection(bootstrap)
        self.directory = directory
        self.log = directory / "capture.log"
        self._server = server
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.app)))
        self.url = make_conninfo(server, dbname=self.app)
        self.database = self.connect()

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        found = self.database.execute(statement, arguments or None)  # pyright: ignore[reportArgumentType,reportCallIssue]
        return found.fetchall() if found.description else []

    def close(self) -> None:
        self.database.close()
        with psycopg.connect(self._server, autocommit=True) as connection:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                there = slot.find(connection, names.slot(self.app))
                if there is None:
                    break
                if there.reader is None:
                    slot.drop(connection, there.name)
                    break
                connection.execute("SELECT pg_terminate_backend(%s)", (there.reader,))
                time.sleep(0.1)
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.app)))

    # Capture

    def table(self, name: str, *key: str, schema: str = "public", **given: Any) -> Captured:
        table = f"{schema}.{name}"
        return Captured(name, table, names.captured_topic(self.app, table), key or ("id",), 2, **given)

    def topic(self, table: str, schema: str = "public") -> str:
        return names.captured_topic(self.app, f"{schema}.{table}")

    @contextmanager
    def capturing(self, *tables: Captured, **given: Any) -> Iterator[Running]:
        """Capture in a thread of this process."""
        running = Running(self, tables, **given)
        try:
            yield running
        finally:
            running.stop()

    def declare(self, text: str) -> Path:
        """Write the app."""
        file = self.directory / "app.py"
        file.write_text(f'import headrace as hr\n\napp = hr.App("{self.app}")\n{text}\n')
        return file

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Capture as a process of its own."""
        command = [sys.executable, "-c", "from headrace.cli import main; main()", "capture", "app.py", *arguments]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
        return subprocess.Popen(
            command,
            cwd=self.directory,
            env=inherited | {"HEADRACE_BOOTSTRAP": self.bootstrap, "HEADRACE_SOURCE": self.url},
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
        )

    def left_slot(self, name: str = "") -> str:
        """The slot of the app, or of another reader, as soon as the server has seen that its reader is gone."""
        name = name or names.slot(self.app)
        eventually(lambda: (there := slot.find(self.database, name)) is None or there.reader is None)
        return name

    # What came out

    def records(self, table: str) -> list[Record]:
        """Everything that a reader of committed records sees; nothing while the topic is not there."""
        try:
            return list(read(self.connection, self.topic(table)))
        except LogError as error:
            if error.code != "HR-205":
                raise
            return []

    def changes(self, table: str) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self.records(table) if record.value is not None]

    def rebuilt(self, table: str) -> dict[str, dict[str, Any]]:
        """The table that the topic holds, by key."""
        rows: dict[str, dict[str, Any]] = {}
        for record in self.records(table):
            key = (record.key or b"").decode()
            after = json.loads(record.value)["after"] if record.value is not None else None
            if after is None:
                rows.pop(key, None)
            else:
                rows[key] = after
        return rows

    def source(self, table: str, *key: str) -> dict[str, dict[str, Any]]:
        """The table that the database holds, by key, of columns that JSON knows."""
        rows = self.execute(f'SELECT to_jsonb(t) FROM "{table}" t')
        return {json.dumps({name: row[name] for name in key or ("id",)}, separators=(",", ":")): row for (row,) in rows}

    def wait_until_equal(self, table: str, *key: str) -> None:
        eventually(lambda: self.rebuilt(table) == self.source(table, *key), lambda: self._difference(table, *key))

    def _difference(self, table: str, *key: str) -> str:
        ours, theirs = self.rebuilt(table), self.source(table, *key)
        wrong = {k: (ours.get(k), theirs.get(k)) for k in {*ours, *theirs} if ours.get(k) != theirs.get(k)}
        log = self.log.read_text() if self.log.exists() else ""
        return f"{len(wrong)} rows differ (topic, table): {dict(list(wrong.items())[:5])}\n{log[-3000:]}"


class Running:
    """A capture in a thread."""

    def __init__(self, stage: Stage, tables: Sequence[Captured], *, limit: int | None = None, **given: Any) -> None:
        order = Order(stage.app, stage.url, stage.connection, tuple(tables), limit)
        self.lines: list[str] = []
        self.capture = Capture(order, told=self.lines.append, **given)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.capture.run, args=(self._stop,), daemon=True)
        self._thread.start()

    def wait_until_read(self) -> None:
        """Until the first reading of all tables is over."""
        eventually(
            lambda: (
                self.capture.status.state == "running"
                and all(not one.reading or one.paused for one in self.capture.status.tables)
            ),
            lambda: f"{self.capture.status} {self.lines}",
        )

    def wait_for(self, state: str) -> None:
        eventually(lambda: self.capture.status.state == state, lambda: f"{self.capture.status} {self.lines}")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def eventually(
    condition: Callable[[], bool], told: Callable[[], str] = lambda: "", seconds: float = PATIENCE_S
) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, told()
        time.sleep(0.05)
