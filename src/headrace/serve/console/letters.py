"""Records that could not be used and rows that came too late: why, where from, as they came; one or all put back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nicegui import ui
from starlette.requests import Request

from headrace import names
from headrace.errors import HeadraceError
from headrace.graph.node import Node
from headrace.log import dead
from headrace.log import topic as topics
from headrace.log.consumer import Record, read
from headrace.log.dead import DeadLetter
from headrace.log.position import Position
from headrace.serve.console import act, figure
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, button, link, text
from headrace.serve.console.frame import frame, refreshing
from headrace.serve.console.secret import masked_bytes

SHOWN = 100


@dataclass(frozen=True)
class Found:
    """What there is of one node: pending letters, and the newest late rows."""

    letters: tuple[DeadLetter, ...]
    pending: int
    late: tuple[Record, ...]


def page(backend: Backend, request: Request) -> None:
    """The page `/letters`: every stream that has some."""
    with frame(
        backend, request, "Letters", "/letters", about="records that could not be used, and rows that came too late"
    ):
        empty = text(
            "There are none: every record that came could be used, and came in time.", "hr-card hr-empty", "section"
        )
        places = {node.name: _node_card(backend, request, node) for node in backend.graph.nodes}

        def refresh() -> None:
            shown = [place.refresh() for place in places.values()]
            empty.set_visibility(not any(shown))

        refreshing(refresh)


def _node_card(backend: Backend, request: Request, node: Node) -> _Card:
    with box("hr-card", "section") as card:
        with box("", "header"):
            link(node.name, f"/node/{node.name}")
            note = text("", "hr-note")
            buttons = box("hr-row")
        body = box("hr-scroll")
    return _Card(backend, request, node, card, note, buttons, body)


class _Card:
    """The letters of one node, read again when its dead or late topic has grown."""

    def __init__(self, backend: Backend, request: Request, node: Node, *places: ui.element) -> None:
        self._backend = backend
        self._request = request
        self._node = node
        self._card, self._note, self._buttons, self._body = places
        self._ends: tuple[int, ...] | None = None
        self._reading = False
        self._client = ui.context.client

    def refresh(self) -> bool:
        """Whether there are any; what is new is read beside the page."""
        growth = [
            self._backend.observer.growth(name(self._node.topic)) for name in (names.dead_topic, names.late_topic)
        ]
        ends = tuple(one.records if one else 0 for one in growth)
        self._card.set_visibility(any(ends))
        if any(ends) and ends != self._ends and not self._reading:
            self._ends, self._reading = ends, True
            ui.timer(0, self._read, once=True)
        return any(ends)

    def again(self) -> None:
        """Read it again, whatever is known."""
        self._ends = None

    async def _read(self) -> None:
        try:
            found = await asyncio.to_thread(_found, self._backend, self._node)
        except HeadraceError as error:
            self._note.set_text(error.what)  # pyright: ignore[reportAttributeAccessIssue]
            self._ends = None
            return
        finally:
            self._reading = False
        with self._client:
            self._show(found)

    def _show(self, found: Found) -> None:
        words = [f"{figure.count(found.pending)} dead letter{'' if found.pending == 1 else 's'} to put back"]
        words = [] if found.late and not found.pending else words
        words += [f"the newest {len(found.late)} late rows"] if found.late else []
        self._note.set_text(", ".join(words))  # pyright: ignore[reportAttributeAccessIssue]
        self._buttons.clear()
        self._body.clear()
        secret = self._backend.secrets(self._node.name)
        with self._buttons:
            if found.pending:
                button(f"Put all {found.pending:,} back", lambda: self._replay(None, found.pending), "is-main")
        with self._body:
            if found.letters:
                self._letters(found.letters, secret)
            if found.late:
                self._late(found.late, secret)

    def _letters(self, letters: Sequence[DeadLetter], secret: frozenset[str]) -> None:
        with box("hr-table", "table", aria_label=f"Dead letters of {self._node.name}"):
            _head("came", "from", "query", "why", "record", "")
            with box("", "tbody"):
                for letter in letters:
                    with box("", "tr"):
                        text(_moment(letter.timestamp_ms), "hr-note", "td").style("white-space: nowrap")
                        text(f"{letter.source.partition}@{letter.source.offset}", "hr-mono", "td")
                        text(letter.query, tag="td")
                        text(letter.reason, tag="td").style("min-width: 180px")
                        _raw(masked_bytes(letter.raw, secret))
                        with box("n", "td"):
                            where = f"{letter.source.partition}@{letter.source.offset}"
                            button(
                                "Put back",
                                lambda position=letter.position: self._replay([position], 1),
                                label=f"Put the record of {where} back",
                            )

    def _late(self, late: Sequence[Record], secret: frozenset[str]) -> None:
        with box("hr-table", "table", aria_label=f"Late rows of {self._node.name}"):
            _head("came", "place", "late for", "row")
            with box("", "tbody"):
                for record in late:
                    with box("", "tr"):
                        text(_moment(record.timestamp_ms), "hr-note", "td").style("white-space: nowrap")
                        text(f"{record.partition}@{record.offset}", "hr-mono", "td")
                        ours = [h for h, _ in record.headers if h.startswith(names.HEADER_PREFIX)]
                        told = [f"{h.removeprefix(names.HEADER_PREFIX)} {record.header(h)}" for h in ours]
                        text(", ".join(told) or "its window was closed", "hr-note", "td")
                        _raw(masked_bytes(record.value, secret))

    def _replay(self, positions: list[Position] | None, count: int) -> None:
        topic = self._node.topic

        def do() -> str:
            report = dead.replay(self._backend.connection, topic, positions=positions)
            return f"{report.replayed:,} put back into {topic}, {report.pending:,} pending"

        many = "it" if count == 1 else "them"
        act.ask(
            self._backend,
            self._request,
            action="put back",
            of=topic if positions is None else str(positions[0]),
            title=f"Put {count:,} dead letter{'' if count == 1 else 's'} back into {topic}?",
            about=f"The raw record{' goes' if count == 1 else 's go'} into the topic once more, and the app reads "
            f"{many} again. What still does not fit becomes a dead letter again.",
            do=do,
            after=self.again,
        )


def _found(backend: Backend, node: Node) -> Found:
    there = backend.observer.topics.growth
    has_letters, has_late = names.dead_topic(node.topic) in there, names.late_topic(node.topic) in there
    return Found(
        tuple(dead.dead_letters(backend.connection, node.topic, pending_only=True, limit=SHOWN)) if has_letters else (),
        dead.pending(backend.connection, node.topic) if has_letters else 0,
        _newest(backend, names.late_topic(node.topic)) if has_late else (),
    )


def _newest(backend: Backend, topic: str) -> tuple[Record, ...]:
    partitions = topics.describe_partitions(backend.connection, topic)
    ends = topics.ends(backend.connection, topic)
    start = {one.partition: max(one.first, ends[one.partition] - SHOWN // len(partitions)) for one in partitions}
    records = [record for record in read(backend.connection, topic, start=start) if record.value is not None]
    return tuple(sorted(records, key=lambda record: -record.timestamp_ms)[:SHOWN])


def _head(*names: str) -> None:
    with box("", "thead"), box("", "tr"):
        for name in names:
            text(name, tag="th", scope="col")


def _raw(content: str) -> None:
    text(content[:500] + ("…" if len(content) > 500 else ""), "hr-mono", "td").style(
        "overflow-wrap: anywhere; min-width: 260px"
    )


def _moment(milliseconds: int | None) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000):%m-%d %H:%M:%S}" if milliseconds else "–"
