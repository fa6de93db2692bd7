"""How the demo looks: on a terminal a screen in its place, elsewhere a line a second; at the end a summary."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from generate import Tally
from observe import RECENT_S, SHOWN, WARM_UP_S, Alert, Latency, Observer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from headrace.engine.progress import Progress


@dataclass(frozen=True)
class Moment:
    """The demo at one moment; the rates are a second's, `latency` and `alerts` of the last seconds."""

    sent: int
    sent_rate: float
    out: int
    out_rate: float
    removed: int | None
    dead: int
    latency: Latency | None
    alerts: tuple[Alert, ...]

    @property
    def counts(self) -> list[str]:
        """In words."""
        return [
            f"in {self.sent:,} ({self.sent_rate:.0f}/s)",
            f"alerts {self.out:,} ({self.out_rate:.0f}/s)",
            f"duplicates removed {'…' if self.removed is None else format(self.removed, ',')}",
            f"dead letters {self.dead:,}",
        ]

    @property
    def delay(self) -> str:
        """The latency in words."""
        if self.latency is not None:
            return f"{self.latency} (last {RECENT_S:.0f} s)"
        return "not yet" if self.out else "waiting for the first alert"


class Rates:
    """Counts a second over the last seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int, int]] = deque()

    def moment(self, tally: Tally, observer: Observer, queries: Sequence[Progress]) -> Moment:
        """The demo now."""
        seen, removed = observer.seen, observer.removed(queries)
        now, sent, out = time.monotonic(), tally.records, len(seen.rules) + seen.repeated
        self._counts.append((now, sent, out))
        while self._counts[0][0] < now - RECENT_S:
            self._counts.popleft()
        then, sent_then, out_then = self._counts[0]
        passed = max(now - then, 1e-9)
        alerts = tuple(seen.recent.copy())
        recent = [one.milliseconds for one in alerts if one.milliseconds is not None and one.moment >= now - RECENT_S]
        return Moment(
            sent=sent,
            sent_rate=(sent - sent_then) / passed,
            out=out,
            out_rate=(out - out_then) / passed,
            removed=removed,
            dead=len(seen.dead),
            latency=Latency.of(recent),
            alerts=alerts[-SHOWN:],
        )


@contextmanager
def screen() -> Generator[Callable[[Moment], None]]:
    """A function that shows a moment."""
    console = Console()
    if not console.is_terminal:
        yield lambda moment: print(", ".join([*moment.counts, f"latency {moment.delay}"]), flush=True)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda moment: live.update(_laid_out(moment), refresh=True)


def _laid_out(moment: Moment) -> Group:
    right = Column("amount", justify="right"), Column("latency", justify="right")
    table = Table("transaction", "card", right[0], "rule", right[1])
    for alert in reversed(moment.alerts):
        taken = "" if alert.milliseconds is None else f"{alert.milliseconds:.1f} ms"
        table.add_row(*map(Text, (alert.id, alert.card, f"{alert.amount:,.2f}", alert.rule, taken)))
    head = Text("   ".join(moment.counts), style="bold")
    return Group(head, Text(f"latency {moment.delay}"), table, Text("Ctrl-C ends the demo", style="dim"))


def summary(tally: Tally, observer: Observer, queries: Sequence[Progress], first: float | None) -> str:
    """What went in, what came out, and whether it is what it must be; `first` is when the first alert came."""
    seen, removed, before = observer.seen, observer.removed(queries), observer.before
    out = len(seen.rules) + seen.repeated
    faults = ", ".join(f"{count:,} {fault}" for fault, count in sorted(tally.faults.items()))
    verdict = f"missing {len(seen.missing)}, wrong {len(seen.wrong)}"
    latency = Latency.of(seen.settled)
    since = f"sent {WARM_UP_S:.0f} s after the first alert or later"
    rows = [
        ("in", str(tally)),
        ("out", f"{out:,} records, of which {seen.repeated:,} repeated"),
        ("alerts", f"{len(seen.rules):,} of {len(tally.alerts):,}: {verdict}"),
        ("duplicates removed", f"{'unknown' if removed is None else format(removed, ',')} of {tally.copies:,}"),
        ("dead letters", f"{len(seen.dead):,} of {tally.malformed:,}" + (f" ({faults})" if faults else "")),
        ("latency", f"{latency} ({latency.alerts:,} alerts of transactions {since})" if latency else f"none {since}"),
        ("first alert", "none" if first is None else f"{first:.1f} s after the command"),
    ]
    if before and before.records:
        rows.append(("read again", f"{before.records:,} records of earlier runs, which are in no count above"))
    return "\n".join(f"{name:<20}{text}" for name, text in rows)
