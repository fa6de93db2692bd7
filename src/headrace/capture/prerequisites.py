"""What the server and the role must have, each with the SQL to run where it is missing.

The role needs REPLICATION, and SELECT on the tables; to make the publication itself it needs CREATE on the database and
must own the tables. Everything that is missing is told at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from headrace.capture.database import translated
from headrace.capture.table import Captured
from headrace.errors import CaptureError

Connection = psycopg.Connection[tuple[Any, ...]]
OLDEST = 140000


def check(connection: Connection, slot: str, tables: Sequence[Captured]) -> None:
    """CaptureError with what is missing."""
    _version(connection)
    _level(connection)
    _room(connection, slot)
    _rights(connection, tables)


def _version(connection: Connection) -> None:
    if connection.info.server_version < OLDEST:
        raise CaptureError(
            "HR-601",
            "This PostgreSQL is too old to be captured.",
            found=f"version {connection.info.server_version // 10000}",
            fix="use PostgreSQL 14 or newer",
        )


def _level(connection: Connection) -> None:
    with translated("asking for wal_level"):
        row = connection.execute("SELECT current_setting('wal_level')").fetchone()
    if row is not None and row[0] != "logical":
        raise CaptureError(
            "HR-601",
            "The server does not log what capture needs.",
            found=f"wal_level = {row[0]}",
            fix="let an administrator run `ALTER SYSTEM SET wal_level = 'logical';` and restart the server",
        )


def _room(connection: Connection, slot: str) -> None:
    with translated("counting the slots"):
        row = connection.execute(
            "SELECT current_setting('max_replication_slots')::int, current_setting('max_wal_senders')::int,"
            " (SELECT count(*) FROM pg_replication_slots),"
            " (SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s),"
            " (SELECT count(*) FROM pg_stat_replication)",
            (slot,),
        ).fetchone()
    slots, senders, used, ours, sending = row or (1, 1, 0, 0, 0)
    if not ours and used >= slots:
        raise CaptureError(
            "HR-602",
            "The server has no room for a replication slot.",
            found=f"{used} slots, max_replication_slots = {slots}",
            fix=f"drop a slot that nobody needs (`headrace slot ls`), or run `ALTER SYSTEM SET max_replication_slots ="
            f" {slots + 10};` and restart the server",
        )
    if sending >= senders:
        raise CaptureError(
            "HR-602",
            "The server has no room for another reader of its log.",
            found=f"{sending} readers, max_wal_senders = {senders}",
            fix=f"run `ALTER SYSTEM SET max_wal_senders = {senders + 10};` and restart the server",
        )


def _rights(connection: Connection, tables: Sequence[Captured]) -> None:
    with translated("asking for rights"):
        row = connection.execute(
            "SELECT current_user::text, rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        role, replicates = row or ("", False)
        unread = [
            one
            for one in tables
            if (found := connection.execute(
                "SELECT has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
                (one.schema, one.relation),
            ).fetchone()) is not None and not found[0]
        ]  # fmt: skip
    statements = [] if replicates else [f'ALTER ROLE "{role}" REPLICATION;']
    for one in unread:
        statements.append(f'GRANT USAGE ON SCHEMA "{one.schema}" TO "{role}";')
        statements.append(f'GRANT SELECT ON {one.quoted} TO "{role}";')
    if statements:
        missing = ([] if replicates else ["REPLICATION"]) + [f"SELECT on {one.table}" for one in unread]
        raise CaptureError(
            "HR-603",
            f"The role `{role}` lacks rights that capture needs.",
            found=f"missing: {', '.join(missing)}",
            fix="let an administrator run: `" + " ".join(statements) + "`",
        )
