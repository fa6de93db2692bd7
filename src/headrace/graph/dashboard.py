"""Dashboards: charts over views, declared beside them and drawn by the console.

    traffic = app.dashboard("traffic", title="Live traffic")
    traffic.number(views_per_minute, value="views", title="Views", combine="sum")
    traffic.line(views_per_minute, x="window_start", y="views", combine="sum")
    traffic.top(views_per_minute, label="url", value="views", n=10)

A chart is a definition: nothing is read when it is declared. It shows the rows that its view has at that moment, and
changes with them. Rows that share their x, label or group are combined: added up, counted, their largest, smallest or
mean value, or the last one that came. Which columns a view has is known when its query has run, so a column that it
does not have is told on the chart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.call import calling
from headrace.errors import Location
from headrace.graph.declared import AnyDeclared
from headrace.graph.options import Element

Kind = Literal["line", "bar", "top", "number", "points"]
Combine = Literal["sum", "count", "max", "min", "mean", "last"]
Width = Literal["small", "half", "wide"]


@dataclass(frozen=True)
class Chart:
    """One chart: `columns` maps its parts (x, y, by, label, value, lat, lon) to columns of the view `of`."""

    kind: Kind
    of: str
    title: str
    columns: tuple[tuple[str, str], ...]
    combine: Combine
    limit: int
    width: Width
    where: Location

    def column(self, part: str) -> str | None:
        """The column of a part; None where it has none."""
        return dict(self.columns).get(part)


@dataclass(frozen=True)
class Dashboard:
    """Charts in the order in which they were declared."""

    name: str
    title: str
    charts: tuple[Chart, ...]
    where: Location


class Board:
    """A dashboard that is being declared; made by `app.dashboard`."""

    def __init__(self, name: str, title: str, where: Location, view: Callable[[object, Element], str]) -> None:
        self._name = name
        self._title = title
        self._where = where
        self._view = view
        self._charts: list[Chart] = []

    @property
    def definition(self) -> Dashboard:
        """What was declared so far."""
        return Dashboard(self._name, self._title, tuple(self._charts), self._where)

    def number(
        self,
        view: AnyDeclared,
        *,
        value: str,
        title: str | None = None,
        combine: Combine = "sum",
        width: Width = "small",
    ) -> None:
        """One large number: the values of all rows, combined."""
        self._add("number", view, title or value, {"value": value}, combine=combine, limit=1, width=width)

    def line(
        self,
        view: AnyDeclared,
        *,
        x: str,
        y: str,
        by: str | None = None,
        title: str | None = None,
        combine: Combine = "sum",
        n: int = 120,
        width: Width = "wide",
    ) -> None:
        """A line over `x`, most often a time; one line for each value of `by`. The last `n` places are shown."""
        self._add(
            "line", view, title or f"{y} by {x}", {"x": x, "y": y, "by": by}, combine=combine, limit=n, width=width
        )

    def bar(
        self,
        view: AnyDeclared,
        *,
        x: str,
        y: str,
        title: str | None = None,
        combine: Combine = "sum",
        n: int = 30,
        width: Width = "half",
    ) -> None:
        """A bar for each `x`; the last `n` of them in their order."""
        self._add("bar", view, title or f"{y} by {x}", {"x": x, "y": y}, combine=combine, limit=n, width=width)

    def top(
        self,
        view: AnyDeclared,
        *,
        label: str,
        value: str,
        n: int = 10,
        title: str | None = None,
        combine: Combine = "sum",
        width: Width = "half",
    ) -> None:
        """The `n` labels with the largest values, the largest first."""
        self._add(
            "top",
            view,
            title or f"Top {n} {label}",
            {"label": label, "value": value},
            combine=combine,
            limit=n,
            width=width,
        )

    def points(
        self,
        view: AnyDeclared,
        *,
        lat: str,
        lon: str,
        label: str | None = None,
        value: str | None = None,
        title: str | None = None,
        n: int = 1000,
        width: Width = "half",
    ) -> None:
        """A map of points at `lat` and `lon` in degrees; `value` makes them larger. The last `n` are shown."""
        columns = {"lat": lat, "lon": lon, "label": label, "value": value}
        self._add("points", view, title or "Map", columns, combine="last", limit=n, width=width)

    def _add(
        self,
        kind: Kind,
        view: object,
        title: str,
        columns: dict[str, str | None],
        *,
        combine: Combine,
        limit: int,
        width: Width,
    ) -> None:
        call = calling()
        element = Element(f"the chart `{title}`", call)
        given = (("combine", combine, get_args(Combine)), ("width", width, get_args(Width)))
        for option, value, known in given:
            if value not in known:
                element.mistake(
                    "HR-546",
                    f"`{option}` of {element.label} must be one of {', '.join(known)}.",
                    found=f"{option}={value!r}",
                    fix=f'write `{option}="{known[0]}"`, or leave it out',
                    option=option,
                )
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            element.mistake(
                "HR-546",
                f"`n` of {element.label} must be a whole number from 1.",
                found=f"n={limit!r}",
                fix="write how many are shown, such as `n=10`",
                option="n",
            )
        for part, column in columns.items():
            if column is not None and (not isinstance(column, str) or not column):
                element.mistake(
                    "HR-546",
                    f"`{part}` of {element.label} must name a column of its view.",
                    found=f"{part}={column!r}",
                    fix=f'write the name of the column as text, such as `{part}="views"`',
                    option=part,
                )
        named = tuple((part, str(column)) for part, column in columns.items() if column is not None)
        self._charts.append(Chart(kind, self._view(view, element), title, named, combine, limit, width, call.where))
