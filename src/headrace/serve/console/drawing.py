"""The lineage as a drawing: which boxes there are, and where they and the lines between them stand.

From left to right: databases that are captured, inputs, functions, views, followers. A box stands one column to the
right of the last box it reads. Lines that pass a column keep a place free in it, so that they run between boxes and
not through them. Within a column the order follows the neighbours (the barycentre, swept to and fro), which leaves few
crossings; then boxes move towards their neighbours as far as the order allows. The same graph always gives the same
drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace import names
from headrace.graph.graph import Graph, inputs_of
from headrace.graph.node import Derived, Source
from headrace.graph.plan import is_topic

WIDTH, HEIGHT = 196, 70
GAP_X, GAP_Y = 92, 18
MARGIN = 24
_PASSING = 14
_SWEEPS = 12


@dataclass(frozen=True)
class Box:
    """Something in the flow; `topic` where its records are, `path` its page in the console, `query` what writes it."""

    id: str
    kind: str
    title: str
    word: str
    topic: str | None = None
    path: str | None = None
    query: str | None = None
    follower: str | None = None


@dataclass(frozen=True)
class Line:
    """A flow from one box to another; `fused` ones are inside a query, and no topic."""

    start: str
    end: str
    fused: bool = False


@dataclass(frozen=True)
class Drawing:
    """Boxes with their left upper corners, lines as SVG paths, and where the number of a line stands."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    places: Mapping[str, tuple[float, float]]
    paths: tuple[str, ...]
    labels: tuple[tuple[float, float], ...]
    width: float
    height: float


def flow(graph: Graph) -> tuple[list[Box], list[Line]]:
    """The boxes and lines of a graph."""
    boxes: list[Box] = []
    lines: list[Line] = []
    for node in graph.topological():
        if isinstance(node, Source):
            if node.connector is not None:
                outside = str(node.connector)
                capture = f"{node.name}.{names.CAPTURE}"
                of, system = node.connector.of, node.connector.system
                boxes.append(Box(outside, "outside", of, system, path=f"/queries/{capture}", query=capture))
                lines.append(Line(outside, node.name))
            kind = "source" if node.kind == "stream" else "table"
            boxes.append(Box(node.name, kind, node.name, f"input {node.kind}", node.topic, f"/node/{node.name}"))
            continue
        written = is_topic(graph, node)
        kind = node.kind if written else "stream fused"
        topic = node.topic if written else None
        word = node.kind if written else "step"
        query = names.versioned(node.name, node.version) if written else None
        boxes.append(Box(node.name, kind, node.name, word, topic, f"/node/{node.name}", query))
        lines += [Line(name, node.name, _is_fused(graph, name)) for name in inputs_of(node)]
        followers = [names.TABLE_FOLLOWER] if node.kind == "view" else []
        followers += [one.to.name for one in graph.followers(node.name)]
        for name in followers:
            of = f"{node.name}.{name}"
            word = "PostgreSQL table" if name == names.TABLE_FOLLOWER else "webhook"
            title = node.name if name == names.TABLE_FOLLOWER else name
            boxes.append(Box(of, "follower", title, word, path=f"/queries/{of}", follower=of))
            lines.append(Line(node.name, of))
    return boxes, lines


def draw(boxes: Sequence[Box], lines: Sequence[Line]) -> Drawing:
    """Where everything stands."""
    columns, routes = _columns(boxes, lines)
    steps = [(a, b) for route in routes for a, b in pairwise(route)]
    _order(columns, steps)
    middles = _middles(columns, steps)
    column = {one: number for number, listed in enumerate(columns) for one in listed}
    left = {one: MARGIN + column[one] * (WIDTH + GAP_X) for one in column}
    top = min((middles[one] - _height(one) / 2 for one in middles), default=0.0)
    middles = {one: middle - top + MARGIN for one, middle in middles.items()}
    real = [box.id for box in boxes]
    paths, labels = [], []
    for route in routes:
        points = [(left[route[0]] + WIDTH, middles[route[0]])]
        for one in route[1:-1]:
            points += [(left[one], middles[one]), (left[one] + WIDTH, middles[one])]
        points.append((left[route[-1]], middles[route[-1]]))
        paths.append(_path(points))
        (ax, ay), (bx, by) = points[0], points[1]
        labels.append(((ax + bx) / 2, (ay + by) / 2))
    return Drawing(
        tuple(boxes),
        tuple(lines),
        {one: (left[one], middles[one] - HEIGHT / 2) for one in real},
        tuple(paths),
        tuple(labels),
        max((left[one] + WIDTH for one in real), default=0.0) + MARGIN,
        max((middles[one] + _height(one) / 2 for one in middles), default=0.0) + MARGIN,
    )


def _is_fused(graph: Graph, name: str) -> bool:
    node = graph.node(name)
    return isinstance(node, Derived) and not is_topic(graph, node)


def _columns(boxes: Sequence[Box], lines: Sequence[Line]) -> tuple[list[list[str]], list[list[str]]]:
    """The boxes of each column with the places that are kept free, and of each line the places it goes through."""
    into: dict[str, list[str]] = {box.id: [] for box in boxes}
    for line in lines:
        into[line.end].append(line.start)
    column: dict[str, int] = {}
    for box in boxes:  # every box comes after those it reads
        column[box.id] = max((column[one] + 1 for one in into[box.id]), default=0)
    if any(box.kind == "outside" for box in boxes):
        for box in boxes:
            if box.kind in ("source", "table") and not into[box.id]:
                column[box.id] = 1
        for box in boxes:
            if into[box.id]:
                column[box.id] = max(column[one] + 1 for one in into[box.id])
    columns: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for box in boxes:
        columns[column[box.id]].append(box.id)
    routes = []
    for number, line in enumerate(lines):
        between = [f"\t{number}.{at}" for at in range(column[line.start] + 1, column[line.end])]
        for at, free in enumerate(between, column[line.start] + 1):
            columns[at].append(free)
        routes.append([line.start, *between, line.end])
    return columns, routes


def _order(columns: list[list[str]], steps: Sequence[tuple[str, str]]) -> None:
    before, after = _neighbours(steps)
    for sweep in range(_SWEEPS):
        there = sweep % 2 == 0
        order = range(1, len(columns)) if there else range(len(columns) - 2, -1, -1)
        for number in order:
            other = columns[number - 1 if there else number + 1]
            place = {one: at for at, one in enumerate(other)}
            beside = before if there else after
            own = {one: at for at, one in enumerate(columns[number])}
            means = {one: _mean(beside.get(one, ()), place, own[one]) for one in own}
            columns[number].sort(key=means.__getitem__)


def _mean(near: Sequence[str], place: Mapping[str, int], own: float) -> float:
    found = [place[one] for one in near if one in place]
    return sum(found) / len(found) if found else own


def _middles(columns: Sequence[Sequence[str]], steps: Sequence[tuple[str, str]]) -> dict[str, float]:
    before, after = _neighbours(steps)
    middles: dict[str, float] = {}
    for listed in columns:
        at = 0.0
        for one in listed:
            middles[one] = at + _height(one) / 2
            at += _height(one) + GAP_Y
        for one in listed:
            middles[one] -= at / 2
    for sweep in range(_SWEEPS):
        for listed in columns if sweep % 2 == 0 else reversed(columns):
            wanted = []
            for one in listed:
                near = [*before.get(one, ()), *after.get(one, ())]
                wanted.append(sum(middles[other] for other in near) / len(near) if near else middles[one])
            for one, middle in zip(listed, _apart(listed, wanted), strict=True):
                middles[one] = middle
    return middles


def _apart(listed: Sequence[str], wanted: Sequence[float]) -> list[float]:
    """The wanted middles, moved as little as keeps the order and the gaps: half from above, half from below."""
    down, up = list(wanted), list(wanted)
    gaps = [(_height(a) + _height(b)) / 2 + GAP_Y for a, b in pairwise(listed)]
    for i, gap in enumerate(gaps, 1):
        down[i] = max(down[i], down[i - 1] + gap)
    for i in range(len(gaps) - 1, -1, -1):
        up[i] = min(up[i], up[i + 1] - gaps[i])
    return [(a + b) / 2 for a, b in zip(down, up, strict=True)]


def _neighbours(steps: Sequence[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for a, b in steps:
        before.setdefault(b, []).append(a)
        after.setdefault(a, []).append(b)
    return before, after


def _height(one: str) -> int:
    return _PASSING if one.startswith("\t") else HEIGHT


def _path(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    text = f"M{x:.0f},{y:.1f}"
    for number, (nx, ny) in enumerate(rest):
        if number % 2 == 0:
            middle = (x + nx) / 2
            text += f"C{middle:.0f},{y:.1f} {middle:.0f},{ny:.1f} {nx:.0f},{ny:.1f}"
        else:
            text += f"L{nx:.0f},{ny:.1f}"
        x, y = nx, ny
    return text
