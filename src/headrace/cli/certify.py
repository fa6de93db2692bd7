"""`certify`: an app is killed again and again, and its outputs are held against the batch answer."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson

if TYPE_CHECKING:
    from headrace.testing.certificate import Certificate


def certify(
    app: AppFile,
    *,
    kills: Annotated[int, typer.Option(min=0, help="How often something is killed.")] = 20,
    seed: Annotated[
        int | None, typer.Option(help="What the events and kills are drawn with.", show_default="drawn anew, and shown")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=10_000, help="Events a second for each stream.")] = 100.0,
    as_json: AsJson = False,
) -> None:
    """Prove that an app in exact mode loses, doubles and changes nothing while its processes are killed."""
    from headrace.testing.certificate import certify as certified

    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    terminal.note(f"seed {chosen}; the app runs in a directory of its own, with a Kafka of its own")
    certificate = certified(app.resolve(), kills=kills, seed=chosen, rate=rate, report=terminal.note)
    if as_json:
        terminal.out_json(asdict(certificate) | {"holds": certificate.holds})
    else:
        _show(certificate)
    if not certificate.holds:
        raise typer.Exit(1)


def _show(certificate: Certificate) -> None:
    rows = [(one.output, one.rows, one.lost, one.duplicated, one.wrong) for one in certificate.verdicts]
    terminal.out(terminal.columns(rows, ("output", "rows", "lost", "duplicated", "wrong")))
    killed = ", ".join(f"{what} {times}" for what, times in sorted(certificate.kills.items())) or "none"
    terminal.out(f"{certificate.events:,} events, seed {certificate.seed}; kills: {killed}")
    for one in certificate.verdicts:
        for example in one.examples:
            terminal.out(f"{one.output}: {example}")
