"""The offsets that a live query has completed: read, processed, and with every result in the log.

A live batch lasts minutes and reports nothing before it ends. So the query is followed in rounds:

1. note which offsets have been read;
2. operator by operator, from upstream to downstream: mark the rows that are sent to it from now on, and wait until it
   has taken all rows with the old mark;
3. wait until the log has acknowledged every record that was written before this step.

The offsets of step 1 are then completed: their results are in the log, or they have none.

The tasks see a new mark, and their counts are seen here, after a pause: at once on this machine, after a second on a
cluster. Rows that were lost with a failed task are read again, so counting begins where the query was started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from headrace.engine import offsets
from headrace.kernel.bridge import Gauge

PAUSE_S = 0.1
PAUSE_ON_CLUSTER_S = 1.0


class CompletedOffsets:
    """Those of one start of a query, with its operators in the order of the plan.

    `mark` changes the mark of the rows that are sent to an operator from now on, and returns it: 0 or 1.
    """

    def __init__(
        self,
        query: str,
        operators: Sequence[str],
        gauges: Sequence[Gauge],
        mark: Callable[[str], int],
        *,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._query = query
        self._operators = operators
        self._gauges = gauges
        self._mark = mark
        self._pause_s = pause_s
        self._clock = clock
        self._lost = {name: self._missing(name) for name in operators}
        self._before = {(gauge.of, gauge.partition): gauge.rows for gauge in self._mine()}
        self._steps = self._rounds()

    def step(self, gauges: Sequence[Gauge]) -> dict[tuple[str, int], int] | None:
        """Go on as far as the gauges allow; the completed offsets at the end of a round, else None."""
        self._gauges = gauges
        return next(self._steps)

    def _rounds(self) -> Iterator[dict[tuple[str, int], int] | None]:
        while True:
            noted = offsets.read_so_far(self._reading(), self._query)
            yield from self._pause()
            for name in self._operators:
                old = 1 - self._mark(name)
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
        """The gauges of what was read since this start; the others are of an earlier start."""
        return [gauge for gauge in self._mine() if gauge.rows > self._before.get((gauge.of, gauge.partition), -1)]

    def _mine(self) -> list[Gauge]:
        return [gauge for gauge in self._gauges if gauge.query == self._query]

    def _missing(self, operator: str) -> tuple[int, int]:
        """How many rows were sent to the operator and not taken, by their mark."""
        mine = [gauge for gauge in self._mine() if gauge.of == operator]
        first, second = (sum(gauge.sent[mark] - gauge.taken[mark] for gauge in mine) for mark in (0, 1))
        return first, second
