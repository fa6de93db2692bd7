"""The servers an app runs on: Kafka, and PostgreSQL where it is needed.

For each, an address in the settings is used as it is, and only checked; without one the embedded part is found or
started in the state directory. Parts that were started here end with the `with` block, and in any case with this
process, however it ends. Detached ones live until `Parts.down`. A start that fails stops what it had started.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from headrace.errors import PartError
from headrace.parts import address, kafka, part, postgres
from headrace.parts.jars import Report
from headrace.parts.lock import locked
from headrace.parts.part import Part
from headrace.settings import Settings


@dataclass(frozen=True)
class PartStatus:
    """One server: `owner` is the process it ends with, None if it lives until `headrace parts down`."""

    name: str
    embedded: bool
    running: bool
    address: str | None = None
    pid: int | None = None
    owner: int | None = None
    data: Path | None = None


@dataclass(frozen=True)
class Parts:
    """Servers that answer; `kafka_options` are the client options that belong to `bootstrap`."""

    kafka_address: str | None
    kafka_options: dict[str, str]
    postgres_address: str | None
    started: tuple[Part, ...]

    @classmethod
    def start(
        cls,
        settings: Settings,
        *,
        kafka: bool = True,
        postgres: bool = False,
        detached: bool = False,
        report: Report = lambda line: None,
    ) -> Parts:
        """Use, find or start what is asked for; returns when it answers."""
        with _stopping_on_error() as started:
            bootstrap = _kafka(settings, started, report, detached=detached) if kafka else None
            url = _postgres(settings, started, report, detached=detached) if postgres else None
            options = settings.kafka if settings.bootstrap else {}
            return cls(bootstrap, dict(options), url, tuple(started))

    @classmethod
    def down(cls, settings: Settings) -> list[str]:
        """Stop the embedded parts that were left to themselves and give their names; refuses one that an app owns."""
        stopped: list[str] = []
        for name in (postgres.NAME, kafka.NAME):
            directory = settings.state / name
            if not (directory / part.RECORD).exists():
                continue
            with locked(directory / "start.lock"):
                record = part.find(directory)
                if record is None:
                    continue
                if record.owner is not None:
                    raise PartError(
                        "HR-114",
                        f"The embedded {name} belongs to a process that runs, and ends with it.",
                        found=f"owner pid {record.owner.pid}, server pid {record.server.pid}",
                        fix=f"stop process {record.owner.pid}",
                    )
                part.end(directory, record)
                stopped.append(name)
        return stopped

    @classmethod
    def data(cls, settings: Settings, name: str) -> list[Path]:
        """Where an embedded part keeps its data, if there is any."""
        directory = settings.state / name
        elsewhere = postgres.elsewhere(directory) if name == postgres.NAME else None
        found = [elsewhere] if elsewhere else []
        return [*found, directory / "data"] if (directory / "data").is_dir() else found

    @classmethod
    def erase(cls, settings: Settings, name: str) -> None:
        """Remove what an embedded part holds, which does not run; it is started again at its old ports."""
        directory = settings.state / name
        if not directory.is_dir():
            return
        with locked(directory / "start.lock"):
            if part.find(directory) is not None:
                raise PartError(
                    "HR-114",
                    f"The embedded {name} runs, and what it holds is not removed.",
                    found=directory,
                    fix="stop it first",
                )
            if name == postgres.NAME and (elsewhere := postgres.elsewhere(directory)):
                shutil.rmtree(elsewhere, ignore_errors=True)
            for one in directory.iterdir():
                if one.is_dir():
                    shutil.rmtree(one)
                elif one.name not in ("start.lock", "ports"):
                    one.unlink()

    @classmethod
    def status(cls, settings: Settings) -> list[PartStatus]:
        """Kafka and PostgreSQL, whether they run or not; starts nothing and stops nothing."""
        return [
            _status_at(kafka.NAME, settings.bootstrap, settings)
            if settings.bootstrap
            else _status(kafka.NAME, settings),
            _status_at(postgres.NAME, address.describe_postgres(settings.postgres), settings)
            if settings.postgres
            else _status(postgres.NAME, settings),
        ]

    @property
    def bootstrap(self) -> str:
        """The address of Kafka, as clients take it."""
        if self.kafka_address is None:
            raise RuntimeError("these parts were started without Kafka")
        return self.kafka_address

    @property
    def postgres_url(self) -> str:
        """The address of PostgreSQL; holds the password."""
        if self.postgres_address is None:
            raise RuntimeError("these parts were started without PostgreSQL")
        return self.postgres_address

    def stop(self) -> None:
        """End what was started here; what was found or is detached lives on."""
        for running in reversed(self.started):
            running.stop()

    def __enter__(self) -> Parts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextmanager
def _stopping_on_error() -> Iterator[list[Part]]:
    started: list[Part] = []
    with ExitStack() as stack:
        stack.callback(lambda: [running.stop() for running in reversed(started)])
        yield started
        stack.pop_all()


def _kafka(settings: Settings, started: list[Part], report: Report, *, detached: bool) -> str:
    if settings.bootstrap:
        address.require_kafka(settings.bootstrap, settings.kafka)
        return settings.bootstrap
    started.append(kafka.obtain(settings.state, report, detached=detached))
    return started[-1].address


def _postgres(settings: Settings, started: list[Part], report: Report, *, detached: bool) -> str:
    if settings.postgres:
        address.require_postgres(settings.postgres)
        return settings.postgres
    started.append(postgres.obtain(settings.state, report, detached=detached))
    return postgres.url(started[-1].directory, started[-1].address)


def _status(name: str, settings: Settings) -> PartStatus:
    record = part.read(settings.state / name)
    if record is None or not record.server.alive:
        return PartStatus(name, embedded=True, running=False)
    owner = record.owner.pid if record.owner else None
    return PartStatus(name, True, True, record.address, record.server.pid, owner, Path(record.data))


def _status_at(name: str, shown: str, settings: Settings) -> PartStatus:
    try:
        if name == kafka.NAME:
            address.require_kafka(shown, settings.kafka, seconds=3)
        else:
            address.require_postgres(settings.postgres or "", seconds=3)
    except PartError:
        return PartStatus(name, embedded=False, running=False, address=shown)
    return PartStatus(name, embedded=False, running=True, address=shown)
