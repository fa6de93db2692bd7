"""What a live query has not only read, but worked off and written.

A live batch lasts minutes and reports nothing before it ends. So a wave is sent through the query again and again: note
what has been read; operator by operator, mark the rows sent from now on and wait until all older ones were taken; then
wait until the log has acknowledged every record written before. What was noted at the beginning is then in the log, or
came to nothing.

Tasks notice a mark, and are noticed, within a pause: at once on this machine, after a second on a cluster. Rows that
were lost with a failed task are read again, so counting begins where the query was started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from headrace.engine import offsets
from headrace.kernel.bridge import Gauge

PAUSE_S = 0.1
PAUSE_ON_CLUSTER_S = 1.0


class Wave:
    """The waves of one start of a query, through its operators in the order of the plan.

    `turn` marks what is sent to an operator from now on, with the number that it returns.
    """

    def __init__(
        self,
        query: str,
        operators: Sequence[str],
        gauges: Sequence[Gauge],
        turn: Callable[[str], int],
        *,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._query = query
        self._operators = operators
        self._gauges = gauges
        self._turn = turn
        self._pause_s = pause_s
        self._clock = clock
        self._lost = {name: self._missing(name) for name in operators}
        self._before = {(gauge.of, gauge.partition): gauge.rows for gauge in self._mine()}
        self._course = self._waves()

    def step(self, gauges: Sequence[Gauge]) -> dict[tuple[str, int], int] | None:
        """Go on as far as the gauges say; the offsets that a wave began with when it is through, else None."""
        self._gauges = gauges
        return next(self._course)

    def _waves(self) -> Iterator[dict[tuple[str, int], int] | None]:
        while True:
            noted = offsets.read_so_far(self._reading(), self._query)
            yield from self._pause()
            for name in self._operators:
                old = 1 - self._turn(name)
                yield from self._pause()
                while self._missing(name)[old] > self._lost[name][old]:
                    yield None
            at_ms = self._clock() * 1000
            yield from self._pause()
            while any(gauge.unwritten_ms is not None and gauge.unwritten_ms <= at_ms for gauge in self._mine()):
                yield None
            yield noted

    def _pause(self) -> Iterator[None]:
        until = self._clock() + self._pause_s
        while self._clock() < until:
            yield None

    def _reading(self) -> list[Gauge]:
        """The gauges of what was read since this start: the others tell where the one before has been."""
        return [gauge for gauge in self._mine() if gauge.rows > self._before.get((gauge.of, gauge.partition), -1)]

    def _mine(self) -> list[Gauge]:
        return [gauge for gauge in self._gauges if gauge.query == self._query]

    def _missing(self, operator: str) -> tuple[int, int]:
        """Rows of either number that were sent to the operator and not taken."""
        mine = [gauge for gauge in self._mine() if gauge.of == operator]
        first, second = (sum(gauge.sent[number] - gauge.taken[number] for gauge in mine) for number in (0, 1))
        return first, second
