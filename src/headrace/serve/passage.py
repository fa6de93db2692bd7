"""Whether a view has passed the position of a write, so that the writer can read what came of it (read your writes).

A write into an input goes through the queries upstream of the view, one after the other. A query has passed a position
when its consumer group has committed beyond it, because its results are written by then. The end of its output at that
moment is what the next query downstream has to pass. At last the table must have passed the end of the view's own
topic. So the answer waits for a little more than what was written, never for less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import duration, names
from headrace.errors import LogError, ServeError
from headrace.log.position import Position
from headrace.serve.broker import Broker, Place
from headrace.serve.view import View
from headrace.serve.view_table import ViewTable

WAIT_S = 5.0
LONGEST_S = 30.0
MOST_POSITIONS = 1000
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25


@dataclass(frozen=True)
class Step:
    """One thing that has to pass places: a query, or the table."""

    what: str
    wanted: Mapping[Place, int]
    at: Mapping[Place, int]

    @property
    def passed(self) -> bool:
        return all(self.at.get(place, 0) >= offset for place, offset in self.wanted.items())

    def as_json(self) -> dict[str, Any]:
        places = [
            {"topic": topic, "partition": partition, "wanted": offset, "at": self.at.get((topic, partition))}
            for (topic, partition), offset in sorted(self.wanted.items())
        ]
        return {"step": self.what, "passed": self.passed, "places": places}


class Passage:
    """Waits for views to pass positions."""

    def __init__(self, broker: Broker, table: ViewTable) -> None:
        self._broker = broker
        self._table = table

    async def wait(self, view: View, positions: Sequence[Position], seconds: float) -> None:
        """Return when the view has passed the positions; ServeError with how far it is when it takes longer."""
        deadline = time.monotonic() + seconds
        wanted = _wanted(view, positions)
        steps: list[Step] = []
        try:
            for query, output, inputs in view.entry.path:
                needed = {place: offset for place, offset in wanted.items() if place[0] in inputs}
                if needed:
                    group = names.group(view.entry.app, query)
                    await self._until(
                        deadline,
                        steps,
                        f"query {query}",
                        needed,
                        lambda g=group, n=needed: self._broker.committed(g, n),
                    )
                    for partition, end in (await self._broker.ends(output)).items():
                        wanted[output, partition] = max(end, wanted.get((output, partition), 0))
            needed = {place: offset for place, offset in wanted.items() if place[0] == view.topic}
            await self._until(deadline, steps, f"table {view.follower}", needed, lambda: self._held(view))
        except TimeoutError:
            raise ServeError(
                "HR-509",
                f"The view `{view.name}` has not passed the position within {seconds:g} seconds.",
                found=f"{steps[-1].what} has yet to pass it",
                fix="ask again, or wait longer with wait=; where a step does not move, look whether `headrace run` and "
                "`headrace follow` are running",
                more={"steps": [step.as_json() for step in steps]},
            ) from None

    async def _until(
        self,
        deadline: float,
        steps: list[Step],
        what: str,
        wanted: Mapping[Place, int],
        look: Callable[[], Awaitable[Mapping[Place, int]]],
    ) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            step = Step(what, wanted, await look())
            steps[:] = [one for one in steps if one.what != what] + [step]
            if step.passed:
                return
            if time.monotonic() + pause > deadline:
                raise TimeoutError
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _held(self, view: View) -> Mapping[Place, int]:
        held = await self._table.held(view)
        return {(view.topic, partition): offset for partition, offset in held.offsets.items()}


def parse(text: str) -> list[Position]:
    """The positions of `at_least`, with commas in between."""
    try:
        found = [Position.parse(one.strip()) for one in text.split(",")]
    except LogError as error:
        raise ServeError(
            "HR-507",
            "`at_least` does not say the position of a record.",
            found=str(error.found)[:200],
            fix="give what producing returned: topic[partition]@offset, several with commas in between",
        ) from None
    if len(found) > MOST_POSITIONS:
        raise ServeError(
            "HR-507", "`at_least` has too many positions.", found=len(found), fix=f"at most {MOST_POSITIONS}"
        )
    return found


def seconds(text: str | None) -> float:
    """How long to wait: `wait=2`, `wait=500ms`."""
    if text is None:
        return WAIT_S
    try:
        found = float(text) if text.replace(".", "", 1).isdigit() and text.isascii() else duration.parse(text) / 1000
    except ValueError:
        found = -1.0
    if not 0 <= found <= LONGEST_S:
        raise ServeError(
            "HR-505",
            "`wait` is not a time that can be waited for.",
            found=f"wait={text[:200]}",
            fix=f"write seconds, such as wait=5, from 0 to {LONGEST_S:g}",
        )
    return found


def _wanted(view: View, positions: Sequence[Position]) -> dict[Place, int]:
    on_the_way = {view.topic}
    for _, output, inputs in view.entry.path:
        on_the_way |= {output, *inputs}
    wanted: dict[Place, int] = {}
    for position in positions:
        if position.topic not in on_the_way:
            raise ServeError(
                "HR-508",
                f"The view `{view.name}` does not come from the topic `{position.topic}`, so it never passes this.",
                found=str(position),
                fix=f"give a position in one of {', '.join(sorted(on_the_way))}",
            )
        place = position.topic, position.partition
        wanted[place] = max(wanted.get(place, 0), position.offset + 1)
    return wanted
