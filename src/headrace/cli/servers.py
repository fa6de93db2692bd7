"""The servers of a command: Kafka, and where it is needed the database that an app captures from.

Those of the settings are used; without an address the embedded ones are found or started, and what was started ends
with the block. The settings inside name them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.cli import terminal
from headrace.parts.embedded import Parts
from headrace.settings import Settings


@contextmanager
def serving(settings: Settings, *, source: bool = False) -> Iterator[tuple[Parts, Settings]]:
    """Kafka, and with `source` the database to capture from: `source` or `postgres` of the settings, or embedded."""
    embedded = source and not (settings.source or settings.postgres)
    with Parts.start(settings, postgres=embedded, report=terminal.note) as parts:
        # Options for another broker are not for the embedded one.
        known: dict[str, object] = {"kafka": parts.kafka_options}
        if embedded:
            known["postgres"] = parts.postgres_url
        yield parts, settings.model_copy(update=known)
