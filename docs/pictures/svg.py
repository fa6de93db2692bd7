"""SVG by hand: a few shapes on a sheet, in colours that suit a light and a dark page.

What a shape looks like is the name of a style; the styles are at the top of the file that is written, so that a picture
can be read and changed as text. The same shapes always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Point = tuple[float, float]

# Style: properties for a light page, and what is different on a dark one.
_STYLES: dict[str, tuple[str, str]] = {
    "paper": ("fill:#fbfbfa;stroke:#e3e4e6", "fill:#16181c;stroke:#2c3036"),
    "ink": ("fill:#24292f", "fill:#e4e7eb"),
    "soft": ("fill:#646b75", "fill:#9aa3ae"),
    "heading": ("fill:#24292f;font-weight:600;font-size:15px", "fill:#e4e7eb"),
    "grid": ("stroke:#e3e5e8", "stroke:#2a2e34"),
    "axis": ("stroke:#9aa1ab", "stroke:#5b636e"),
    "shade": ("fill:#0f766e;fill-opacity:.07", "fill:#2dd4bf;fill-opacity:.08"),
    "band": ("fill:#3b6fb5;fill-opacity:.08", "fill:#7fb0f0;fill-opacity:.10"),
    "watermark": ("stroke:#0f766e;stroke-width:2.5;fill:none", "stroke:#2dd4bf"),
    "watermark-text": ("fill:#0f766e", "fill:#2dd4bf"),
    "counted": ("fill:#3b6fb5", "fill:#7fb0f0"),
    "counted-text": ("fill:#3b6fb5", "fill:#7fb0f0"),
    "correcting": ("fill:#b7791f", "fill:#e3b04b"),
    "correcting-text": ("fill:#8f5d12", "fill:#e3b04b"),
    "late": ("stroke:#c0362c;stroke-width:2.5;fill:none", "stroke:#f28b82"),
    "late-text": ("fill:#c0362c", "fill:#f28b82"),
    "put": ("fill:#3b6fb5;fill-opacity:.16;stroke:#3b6fb5", "fill:#7fb0f0;fill-opacity:.18;stroke:#7fb0f0"),
    "taken": ("fill:none;stroke:#9aa1ab;stroke-dasharray:4 3", "stroke:#6f7884"),
    "guide": ("stroke:#9aa1ab;stroke-dasharray:2 4", "stroke:#5b636e"),
}


class Picture:
    """A sheet; the title and the description are for those who do not see it."""

    def __init__(self, width: int, height: int, *, title: str, description: str) -> None:
        self._width, self._height = width, height
        self._title, self._description = title, description
        self._shapes: list[str] = []
        self._used: set[str] = set()
        self.box(0.5, 0.5, width - 1, height - 1, "paper", round_=6)

    def text(self, x: float, y: float, words: str, style: str = "ink", *, anchor: str = "start") -> None:
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._add(f'<text x="{_n(x)}" y="{_n(y)}"{at} class="{self._use(style)}">{escape(words, quote=False)}</text>')

    def line(self, points: Sequence[Point], style: str) -> None:
        joined = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(f'<polyline points="{joined}" fill="none" class="{self._use(style)}"/>')

    def area(self, points: Sequence[Point], style: str) -> None:
        joined = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(f'<polygon points="{joined}" class="{self._use(style)}"/>')

    def box(self, x: float, y: float, width: float, height: float, style: str, *, round_: float = 0) -> None:
        corner = f' rx="{_n(round_)}"' if round_ else ""
        size = f'width="{_n(width)}" height="{_n(height)}"'
        self._add(f'<rect x="{_n(x)}" y="{_n(y)}" {size}{corner} class="{self._use(style)}"/>')

    def dot(self, x: float, y: float, style: str, *, radius: float = 5) -> None:
        self._add(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="{self._use(style)}"/>')

    def diamond(self, x: float, y: float, style: str, *, radius: float = 6.5) -> None:
        self.area([(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)], style)

    def cross(self, x: float, y: float, style: str, *, radius: float = 5) -> None:
        r = radius
        drawn = f"M{_n(x - r)} {_n(y - r)}L{_n(x + r)} {_n(y + r)}M{_n(x - r)} {_n(y + r)}L{_n(x + r)} {_n(y - r)}"
        self._add(f'<path d="{drawn}" class="{self._use(style)}"/>')

    def written(self) -> str:
        """The file."""
        used = [style for style in _STYLES if style in self._used]
        light = "".join(f".{style}{{{_STYLES[style][0]}}}" for style in used)
        dark = "".join(f".{style}{{{_STYLES[style][1]}}}" for style in used)
        font = 'text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px}'
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
                f'<title id="title">{escape(self._title, quote=False)}</title>',
                f'<desc id="desc">{escape(self._description, quote=False)}</desc>',
                f"<style>{font}",
                light,
                f"@media (prefers-color-scheme:dark){{{dark}}}</style>",
                *self._shapes,
                "</svg>",
                "",
            ]
        )

    def _add(self, shape: str) -> None:
        self._shapes.append(shape)

    def _use(self, style: str) -> str:
        if style not in _STYLES:
            raise ValueError(f"there is no style `{style}`")
        self._used.add(style)
        return style


def _n(value: float) -> str:
    """A number with one digit at most."""
    return f"{round(value, 1):g}"
