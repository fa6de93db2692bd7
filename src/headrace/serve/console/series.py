"""What a chart shows of the rows of its view: combined by x, label or group, ordered and cut to its limit.

Plain functions of rows, so that a chart means the same wherever it is drawn. A row that lacks a column of the chart, or
has no number where one is needed, is left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.graph.dashboard import Chart, Combine

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """The points of each series by its name, in order; how many rows were left out, and which columns are not there."""

    series: Mapping[str, Sequence[tuple[Any, float]]]
    left_out: int
    missing: tuple[str, ...]


def shown(chart: Chart, rows: Iterable[Row]) -> Shown:
    """What the chart shows of these rows."""
    x, y = {"line": ("x", "y"), "bar": ("x", "y"), "top": ("label", "value")}.get(chart.kind, ("", "value"))
    by = chart.column("by")
    groups: dict[str, dict[Any, list[float]]] = {}
    left_out, known, seen = 0, set[str](), False
    for row in rows:
        seen = True
        known.update(row)
        place = row.get(chart.column(x) or "") if x else ""
        value = 1.0 if chart.combine == "count" else _number(row.get(chart.column(y) or ""))
        if place is None or value is None or (by and row.get(by) is None):
            left_out += 1
            continue
        groups.setdefault(str(row[by]) if by else "", {}).setdefault(_place(place), []).append(value)
    combined = {
        name: [(place, combine(chart.combine, values)) for place, values in places.items()]
        for name, places in sorted(groups.items())
    }
    missing = tuple(column for _, column in chart.columns if column not in known) if seen else ()
    return Shown({name: _cut(chart, points) for name, points in combined.items()}, left_out, missing)


def combine(how: Combine, values: Sequence[float]) -> float:
    """Several values as one."""
    if how in ("sum", "count"):
        return math.fsum(values)
    if how == "mean":
        return math.fsum(values) / len(values)
    return {"max": max, "min": min}[how](values) if how != "last" else values[-1]


def places(chart: Chart, rows: Iterable[Row]) -> tuple[list[tuple[float, float, str, float]], int]:
    """The points of a map (longitude, latitude, label, value), the newest last, and how many rows have none."""
    found, left_out = [], 0
    label, size = chart.column("label"), chart.column("value")
    for row in rows:
        lat, lon = _number(row.get(chart.column("lat") or "")), _number(row.get(chart.column("lon") or ""))
        if lat is None or lon is None or not (-90 <= lat <= 90 and -180 <= lon <= 180):
            left_out += 1
            continue
        value = _number(row.get(size)) if size else None
        found.append((lon, lat, str(row.get(label, "")) if label else "", value or 0.0))
    return found[-chart.limit :], left_out


def is_time(points: Sequence[tuple[Any, float]]) -> bool:
    """Whether the places of these points are times."""
    return bool(points) and all(isinstance(place, datetime) for place, _ in points)


def _cut(chart: Chart, points: list[tuple[Any, float]]) -> list[tuple[Any, float]]:
    if chart.kind == "top":
        return sorted(points, key=lambda one: (-one[1], str(one[0])))[: chart.limit]
    try:
        points.sort(key=lambda one: one[0])
    except TypeError:
        points.sort(key=lambda one: str(one[0]))
    return points[-chart.limit :]


def _place(value: Any) -> Any:
    """A place as it is ordered: a time where it is one, a number, else text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, str) and len(value) >= 10 and value[4:5] == "-":
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return value
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
