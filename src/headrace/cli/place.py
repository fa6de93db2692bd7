"""Where a command works: whose settings hold, which app is meant, and which Kafka is talked to.

The settings are those beside the app, or of the current directory where no app is named; `--directory` names another.
Kafka is the one that the settings name, or the embedded one that runs in that directory. Nothing is started here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli import argument
from headrace.errors import RunError
from headrace.log.connection import Connection
from headrace.parts import kafka, part
from headrace.services import loading
from headrace.settings import Settings

AppFile = argument.AppFile
AsJson = argument.AsJson
load_app = loading.load_app
Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-C",
        exists=True,
        envvar="HEADRACE_DIRECTORY",
        show_default="the current one",
        help="The directory of the app (or the app itself) whose settings and parts are used.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="The address of Kafka, instead of that of the settings.", show_default=False
    ),
]
HERE = Path()


def settings_at(place: Path, **given: Any) -> Settings:
    """The settings of a directory, or beside an app; `given` options win."""
    return Settings.load(place if place.is_dir() else place.parent, **given)


@dataclass(frozen=True)
class Kafka:
    """The Kafka that the options --directory and --bootstrap mean."""

    directory: Path
    bootstrap: str | None

    def connection(self, beside: Path | None = None) -> Connection:
        """How to reach it; the settings are those beside an app, if one is named."""
        return connection_at(beside or self.directory, self.bootstrap)


def with_kafka(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take --directory and --bootstrap, which it is given together as its argument `kafka`."""

    @functools.wraps(command)
    def called(directory: Path, bootstrap: str | None, **others: Any) -> None:
        command(kafka=Kafka(directory, bootstrap), **others)

    options = [
        inspect.Parameter("directory", inspect.Parameter.KEYWORD_ONLY, default=HERE, annotation=Directory),
        inspect.Parameter("bootstrap", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Bootstrap),
    ]
    own = inspect.signature(command, eval_str=True)
    taken = [one for name, mine in own.parameters.items() for one in (options if name == "kafka" else [mine])]
    called.__signature__ = own.replace(parameters=taken)  # pyright: ignore[reportAttributeAccessIssue]
    return called


def connection_at(place: Path, bootstrap: str | None) -> Connection:
    """How to reach the Kafka in use; RunError when there is none."""
    settings = settings_at(place, bootstrap=bootstrap)
    if settings.bootstrap:
        return Connection.of(settings, settings.bootstrap)
    running = part.read(settings.state / kafka.NAME)
    if running is None or not running.server.alive:
        raise RunError(
            "HR-340",
            "The command reads or writes topics, and there is no Kafka that it could use.",
            found=f"no `bootstrap` in the settings, and no embedded Kafka that runs in {settings.directory}",
            fix="start one with `headrace parts up`; or name the app's directory with --directory, or the address with"
            " --bootstrap or HEADRACE_BOOTSTRAP",
        )
    return Connection(running.address)
