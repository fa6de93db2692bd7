"""`certify`: an app is killed again and again, and its outputs are held against the batch answer.

SIGTERM and Ctrl-C end it with all that it has started.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson
from headrace.engine.mode import Mode
from headrace.services.stop import signals

if TYPE_CHECKING:
    from headrace.testing.certificate import Certificate


class Tried(StrEnum):
    """The mode that an app is certified in; mixed: each start draws one."""

    EXACT = "exact"
    LIVE = "live"
    MIXED = "mixed"


def certify(
    app: AppFile,
    *,
    mode: Annotated[
        Tried, typer.Option(help="exact, live, or mixed: each start of the app is in one or the other.")
    ] = Tried.EXACT,
    kills: Annotated[int, typer.Option(min=0, help="How often something is killed, stopped or put back.")] = 20,
    seed: Annotated[
        int | None, typer.Option(help="What events and faults are drawn with.", show_default="drawn anew, and shown")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=10_000, help="Events a second for each stream.")] = 100.0,
    no_chains: Annotated[bool, typer.Option("--no-chains", help="Add no readers behind what the app has.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove that an app loses, doubles and changes nothing while its processes are stopped and killed."""
    from headrace.testing.certificate import certify as certified

    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    terminal.note(f"seed {chosen}; the app runs in a directory of its own, with a Kafka of its own")
    modes = (Mode.EXACT, Mode.LIVE) if mode is Tried.MIXED else (Mode(mode),)
    with signals(_interrupted):
        certificate = certified(
            app.resolve(),
            modes=modes,
            kills=kills,
            seed=chosen,
            rate=rate,
            chains=not no_chains,
            report=terminal.note,
        )
    if as_json:
        terminal.out_json(asdict(certificate) | {"holds": certificate.holds})
    else:
        _show(certificate)
    if not certificate.holds:
        raise typer.Exit(1)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(certificate: Certificate) -> None:
    rows = [(one.output, one.rows, one.lost, one.duplicated, one.wrong) for one in certificate.verdicts]
    terminal.out(terminal.columns(rows, ("output", "rows", "lost", "duplicated", "wrong")))
    terminal.out(f"{certificate.events:,} events, seed {certificate.seed}")
    for what, times in (
        ("starts", certificate.starts),
        ("faults", certificate.kills),
        ("refused as it should be", certificate.refused),
    ):
        terminal.out(f"{what}: {', '.join(f'{name} {n}' for name, n in sorted(times.items())) or 'none'}")
    terminal.out(f"added behind the app: {', '.join(certificate.added) or 'nothing'}")
    for one in certificate.verdicts:
        for example in one.examples:
            terminal.out(f"{one.output}: {example}")
