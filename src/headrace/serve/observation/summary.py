"""How each query and follower is doing, in one line, and all of them in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.health import Health

FOLLOW = "follow"
_UP = ("keeping-up", "held-back", "behind", "starting")
_BAD = ("failed", "lost", "still")


@dataclass(frozen=True)
class Summary:
    """A query or follower in numbers; rates are records a second, latencies milliseconds (p50 and p99)."""

    name: str
    mode: str
    health: Health
    per_second: float
    out_per_second: float | None
    latency: tuple[float, float] | None
    behind: int
    dead: int
    late: int
    rows: int

    @property
    def is_up(self) -> bool:
        """Whether it runs and the log answers it."""
        return self.health.word in _UP


def overall(summaries: Sequence[Summary], *, away: bool) -> Health:
    """All of them in one sentence; `away` tells whether the log does not answer."""
    if away:
        return Health("waiting", "the log does not answer")
    if not summaries:
        return Health("stopped", "nothing has run yet")
    troubled = [one for one in summaries if one.health.word not in ("keeping-up", "stopped")]
    if troubled:
        worst = max(troubled, key=lambda one: one.health.word in _BAD)
        more = f", and {len(troubled) - 1} more" if len(troubled) > 1 else ""
        return Health(worst.health.word, f"{worst.name}: {worst.health.sentence}{more}")
    if all(one.health.word == "stopped" for one in summaries):
        return Health("stopped", "stopped")
    return Health("keeping-up", "everything keeps up")
