"""The servers of a service: Kafka, and where it is needed a PostgreSQL, to capture from or to keep tables in.

Those of the settings are used; without an address the embedded ones are found or started, and what was started ends
with the block. The settings inside name them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict

from headrace import refusal
from headrace.errors import PartError
from headrace.parts import address
from headrace.parts.embedded import Parts
from headrace.settings import Settings

log = structlog.get_logger()


@contextmanager
def serving(
    settings: Settings, *, source: bool = False, tables: bool = False, report: Callable[[str], None] | None = None
) -> Iterator[tuple[Parts, Settings]]:
    """Kafka; with `source` the database to capture from, which is `source` or `postgres` of the settings, or embedded;
    with `tables` the one that keeps tables, which is `postgres` of the settings, or embedded."""
    embedded = needs_postgres(settings, source=source, tables=tables)
    with Parts.start(settings, postgres=embedded, report=report or log.info) as parts:
        # Options for another broker are not for the embedded one.
        known: dict[str, object] = {"kafka": parts.kafka_options}
        if embedded:
            known["postgres"] = parts.postgres_url
        yield parts, settings.model_copy(update=known)


def needs_postgres(settings: Settings, *, source: bool, tables: bool) -> bool:
    """Whether there has to be an embedded PostgreSQL."""
    return not settings.postgres and (tables or (source and not settings.source))


def look(url: str, who: str) -> None:
    """An address that cannot be read is an error; a server that is away is told of, and waited for. One that refuses us
    is left to those who would use it: their error names it."""
    try:
        address.require_postgres(url, seconds=3)
    except PartError as error:
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise error from None
        cause = error.__context__
        if not isinstance(cause, psycopg.OperationalError) or not refusal.refuses(url, cause):
            log.warning(f"{error.what} {who} for it.")
