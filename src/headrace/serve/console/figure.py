"""Numbers as people read them, and small lines of them."""

from __future__ import annotations

from collections.abc import Sequence

_THOUSANDS = ((999_500_000, 1e9, "B"), (999_500, 1e6, "M"), (10_000, 1e3, "k"))
_BYTES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))
_WIDTH, _HEIGHT = 100, 30


def count(value: float) -> str:
    """`1,234`, `12.3k`, `4.56M`."""
    for least, one, unit in _THOUSANDS:
        if abs(value) >= least:
            return f"{value / one:.3g}{unit}" if abs(value / one) < 999.5 else f"{value / one:,.0f}{unit}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Records a second: `1,240/s`, `0.4/s`."""
    if value is None:
        return "–"
    return f"{value:.1f}/s" if 0 < value < 10 else f"{count(value)}/s"


def milliseconds(value: float | None) -> str:
    """`4.2 ms`, `120 ms`, `3.4 s`, `2m`."""
    if value is None:
        return "–"
    if value < 1000:
        return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"
    return f"{value / 1000:.1f} s" if value < 120_000 else f"{value / 60_000:.0f} min"


def size(value: float | None) -> str:
    """Bytes: `3.4 MB`."""
    if value is None:
        return "–"
    for unit_size, unit in _BYTES:
        if value >= unit_size:
            return f"{value / unit_size:.3g} {unit}"
    return f"{value:.0f} B"


def spark(values: Sequence[float]) -> str:
    """A line of the values as SVG; the scale begins at zero."""
    if len(values) < 2:
        return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true"></svg>'
    top = max(*values, 1e-9)
    step = _WIDTH / (len(values) - 1)
    places = [f"{i * step:.1f},{_HEIGHT - 2 - (_HEIGHT - 5) * value / top:.1f}" for i, value in enumerate(values)]
    line = "M" + "L".join(places)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="a" d="{line}L{_WIDTH},{_HEIGHT}L0,{_HEIGHT}Z"/><path class="l" d="{line}"/></svg>'
    )
