"""A fresh start: what the embedded servers and the queries of a directory hold is removed.

That is the data of the embedded Kafka and PostgreSQL, the checkpoints and the progress, of every app in the directory:
they share the servers. Nothing is removed while one of these servers runs, nor when the settings name a server or a
place for checkpoints: what is there is not of this directory alone (HR-351). Addresses, the token and the logs stay.

A removal that was interrupted is done to its end by the next one: the checkpoints go last, so a run in between says
that its topics are gone.
"""

from __future__ import annotations

import shutil

from headrace.errors import RunError
from headrace.parts import kafka, part, postgres
from headrace.parts.embedded import Parts
from headrace.settings import Settings

_KEPT = ("checkpoints", "runs")


def held(settings: Settings) -> list[str]:
    """What will be removed, a line each; nothing where there is nothing. RunError where it is refused."""
    _refuse(settings)
    lines: list[str] = []
    for name, what in ((kafka.NAME, "all topics"), (postgres.NAME, "all tables")):
        lines += [f"{what} of the embedded {name}: {place}" for place in Parts.data(settings, name)]
    for name, what in zip(_KEPT, ("the checkpoints", "the progress"), strict=True):
        place = settings.state / name
        if place.is_dir():
            apps = sorted(one.name for one in place.iterdir() if one.is_dir())
            lines.append(f"{what} of {', '.join(apps) or 'no app'}: {place}")
    return lines


def remove(settings: Settings) -> None:
    """Remove it; RunError where it is refused, and then nothing is."""
    _refuse(settings)
    for name in (kafka.NAME, postgres.NAME):
        Parts.erase(settings, name)
    for name in reversed(_KEPT):
        shutil.rmtree(settings.state / name, ignore_errors=True)


def _refuse(settings: Settings) -> None:
    given = {name: getattr(settings, name) for name in ("bootstrap", "postgres", "source", "checkpoints")}
    if named := [name for name, value in given.items() if value]:
        raise RunError(
            "HR-351",
            "A fresh start removes what the embedded servers hold, and the settings name others, which may be shared.",
            found=f"{', '.join(f'`{one}`' for one in named)} in the settings, the environment or the command",
            fix="leave them out, or begin again there by yourself: `headrace reset` for a query, and what your servers"
            " have for topics and tables",
        )
    for name in (kafka.NAME, postgres.NAME):
        record = part.read(settings.state / name)
        if record is None or not record.server.alive:
            continue
        owner = record.owner
        raise RunError(
            "HR-351",
            f"A fresh start removes what the embedded {name} holds, and it runs.",
            found=f"process {record.server.pid}" + (f", which process {owner.pid} has started" if owner else ""),
            fix=f"stop process {owner.pid} first" if owner else "stop it first: `headrace parts down`",
        )
