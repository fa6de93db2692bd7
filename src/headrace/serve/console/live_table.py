"""A table whose rows change while they are looked at: searched, sorted, paused in the browser, pushed from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicegui.element import Element

HEIGHT = 420


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    number: bool = False
    dim: bool = False
    width: str | None = None
    title: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "number": self.number,
            "dim": self.dim,
            "width": self.width,
            "title": self.title,
        }


class LiveTable(Element, component="live_table.js"):
    """The newest `most` rows, one under each id; without `keyed` every row is new. `order` is the column sorted by."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        noun: str,
        most: int,
        keyed: bool,
        order: int | None = None,
        down: bool = False,
        height: int = HEIGHT,
    ) -> None:
        super().__init__()
        self._props.update(
            columns=[column.as_json() for column in columns],
            noun=noun,
            most=most,
            keyed=keyed,
            order=order,
            down_first=down,
            height=height,
        )

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns; the rows are to be put again."""
        self._props["columns"] = [column.as_json() for column in columns]
        self.update()
        self.run_method("reset")

    def put(self, changes: Sequence[tuple[str, Sequence[Any] | None]], *, mark: bool) -> None:
        """Put rows, or take those away that have no values; `mark` shows what changed."""
        if changes:
            self.run_method("put", [list(change) for change in changes], mark)

    def reset(self) -> None:
        """Take all rows away."""
        self.run_method("reset")
