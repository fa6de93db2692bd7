"""In which order rows come, how many, and where the last page ended.

Rows are ordered by the columns of `order` (`-` before a name turns it round) and then by the key, so that the order is
always total. Null is above every value, as in PostgreSQL. `after` is the `next` of the page before: it holds the values
of its last row, so that pages neither skip nor repeat rows that stay where they are, however the view changes.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import ServeError
from headrace.serve.column import Column
from headrace.serve.filter import unknown_column
from headrace.serve.statement import Sql

LIMIT = 100
MOST = 10_000


@dataclass(frozen=True)
class Page:
    """`order` holds each column with whether it runs downwards; `after` the values of the row that it begins after."""

    order: tuple[tuple[Column, bool], ...]
    limit: int = LIMIT
    after: tuple[Any, ...] | None = None

    def order_by(self) -> str:
        return ", ".join(f"{column.ordered} {'DESC' if down else 'ASC'}" for column, down in self.order)

    def where(self) -> Sql:
        """The rows behind `after`: equal in the first columns, and then further on in the next."""
        if self.after is None:
            return Sql("true")
        ways: list[Sql] = []
        for i, (column, down) in enumerate(self.order):
            further = _further(column, down, self.after[i])
            if further is not None:
                same = [_same(self.order[j][0], self.after[j]) for j in range(i)]
                ways.append(Sql("(") + Sql.join(" AND ", [*same, further]) + Sql(")"))
        return Sql("(") + Sql.join(" OR ", ways) + Sql(")") if ways else Sql("false")

    def next(self, row: str) -> str:
        """The text of `after` for the page behind a row of JSON."""
        # Numbers keep their digits as text.
        values = json.loads(row, parse_float=str, parse_int=str)
        told = [_told(values.get(column.name)) for column, _ in self.order]
        return urlsafe_b64encode(json.dumps([_names(self.order), told]).encode()).decode().rstrip("=")


def parse(
    columns: Sequence[Column], key: Sequence[Column], order: str | None, limit: str | None, after: str | None
) -> Page:
    """The page that the parameters mean; ServeError names the one that is wrong."""
    chosen = [_ordered(columns, text) for text in (order.split(",") if order else [])]
    named = {column.name for column, _ in chosen}
    if len(named) != len(chosen):
        raise _wrong("order", "A column stands twice in `order`.", order, "name each column once")
    total = (*chosen, *((column, False) for column in key if column.name not in named))
    page = Page(total, _limit(limit))
    return page if after is None else Page(total, page.limit, _after(page, after))


def _ordered(columns: Sequence[Column], text: str) -> tuple[Column, bool]:
    name = text.removeprefix("-")
    column = next((one for one in columns if one.name == name), None)
    if column is None:
        raise unknown_column(columns, name, ())
    if not column.comparable:
        raise _wrong(
            "order", f"Rows cannot be ordered by `{name}`, which is {column.type}.", text, "use another column"
        )
    return column, text.startswith("-")


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST and len(text) < 9):
        raise _wrong("limit", "`limit` is not a number of rows.", text, f"a number from 1 to {MOST:,}; `after` goes on")
    return int(text)


def _after(page: Page, text: str) -> tuple[Any, ...]:
    try:
        names, told = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if names == _names(page.order):
            pairs = zip(page.order, told, strict=True)
            return tuple(None if one is None else column.parse(one) for (column, _), one in pairs)
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise _wrong(
        "after",
        "`after` is not where a page of this order ended.",
        text,
        "give the `next` of the page before, with the same `order`",
    ) from None


def _names(order: Sequence[tuple[Column, bool]]) -> list[str]:
    return [f"{'-' if down else ''}{column.name}" for column, down in order]


def _told(value: Any) -> str | None:
    return json.dumps(value) if isinstance(value, bool) else value


def _further(column: Column, down: bool, value: Any) -> Sql | None:
    if value is None:
        return Sql(f"{column.place} IS NOT NULL") if down else None
    beyond = Sql(f"{column.ordered} {'<' if down else '>'} ") + column.bound(value)
    return beyond if down or not column.nullable else Sql("(") + beyond + Sql(f" OR {column.place} IS NULL)")


def _same(column: Column, value: Any) -> Sql:
    return Sql(f"{column.place} IS NULL") if value is None else Sql(f"{column.place} = ") + column.bound(value)


def _wrong(name: str, what: str, found: str | None, fix: str) -> ServeError:
    return ServeError("HR-505", what, found=f"{name}={(found or '')[:200]}", fix=fix)
