"""Charts that go on: options for ECharts, and the pushing of new points.

Colours work on light and dark. Values are drawn on a canvas, so text in them does nothing. A line with one point is
drawn as a dot, and an axis of time shows at least `SHORTEST_MS`. (ECharts alone would draw nothing, over two days.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

SHORTEST_MS = 5 * 60_000
COLOURS = ("#1497ad", "#c27c2c", "#5b7fd6", "#8a63d2", "#2f9e62", "#c2558a", "#7a8794")
_TEXT = "#718290"
_GRID = "rgba(125, 142, 156, .18)"


def options(
    series: Sequence[dict[str, Any]], *, time: bool = True, legend: bool = False, unit: str = ""
) -> dict[str, Any]:
    """A chart over time, or over categories."""
    axis = {
        "axisLine": {"lineStyle": {"color": _GRID}},
        "axisLabel": {"color": _TEXT, "fontSize": 11, "hideOverlap": True},
    }
    return {
        "animation": False,
        "color": list(COLOURS),
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 8, "right": 14, "top": 34 if legend else 12, "bottom": 4, "containLabel": True},
        "legend": {"show": legend, "top": 0, "left": 4, "icon": "roundRect", "itemWidth": 12, "itemHeight": 4}
        | {"textStyle": {"color": _TEXT, "fontSize": 12}},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "xAxis": {"type": "time" if time else "category", **axis, "axisTick": {"show": False}},
        "yAxis": {
            "type": "value",
            "min": 0,
            **axis,
            "splitLine": {"lineStyle": {"color": _GRID}},
            "splitNumber": 4,
            "axisLabel": {**axis["axisLabel"], "formatter": f"{{value}}{unit}"},
        },
        "series": list(series),
    }


def line(name: str, *, area: bool = False, colour: str | None = None, dashed: bool = False) -> dict[str, Any]:
    """A line of a chart, yet without points."""
    made: dict[str, Any] = {"name": name, "type": "line", "lineStyle": {"width": 2}, **data(())}
    made |= {"symbol": "circle", "symbolSize": 7}
    if dashed:
        made["lineStyle"]["type"] = "dashed"
    if colour:
        made["itemStyle"] = {"color": colour}
    if area:
        made["areaStyle"] = {"opacity": 0.12}
    return made


def chart(made: dict[str, Any], label: str) -> ui.echart:
    """The chart on the page."""
    return ui.echart(made).classes("hr-chart").props(f'role="img" aria-label="{label}"')


def points(shown: ui.echart, *series: Sequence[tuple[float, float | None]]) -> None:
    """Show these points: pairs of seconds since 1970 and a value."""
    lines = [data([(round(at * 1000), value) for at, value in one]) for one in series]
    start = axis_start([place for line in lines for place, _ in line["data"]])
    shown.run_chart_method("setOption", {"xAxis": {"min": start}, "series": lines})


def data(points: Sequence[tuple[Any, float | None]]) -> dict[str, Any]:
    """The points of a line: joined when there are several, a dot when there is one."""
    return {"data": [[place, value] for place, value in points], "showSymbol": len(points) == 1}


def axis_start(times: Sequence[int]) -> int | None:
    """Where an axis with these times (in milliseconds) begins; None when that is open."""
    return min(*times, max(times) - SHORTEST_MS) if times else None
