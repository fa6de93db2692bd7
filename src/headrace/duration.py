"""Durations as people write them: `5 seconds`, `1 minute`, `1h 30m`, `250ms`.

A duration is a positive whole number of milliseconds. Months and years are refused: they have no fixed length.
"""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "ms": 1, "millisecond": 1,
    "s": 1_000, "sec": 1_000, "second": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000,
    "d": 86_400_000, "day": 86_400_000,
    "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip
_TERM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?\s*[a-z]+\s*)+")
LONGEST_MS = 36_500 * 86_400_000


def parse(text: str | timedelta) -> int:
    """Milliseconds of a duration; ValueError says what is wrong with it."""
    if isinstance(text, timedelta):
        return _checked(text / timedelta(milliseconds=1), text)
    lowered = text.strip().lower() if isinstance(text, str) else ""
    if not _WHOLE.fullmatch(lowered):
        raise ValueError(f"`{text}` is not a duration; write a number and a unit, such as `5 seconds` or `1h 30m`")
    total = 0.0
    for amount, unit in _TERM.findall(lowered):
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if factor is None:
            raise ValueError(f"`{unit}` is not a unit of time; use ms, seconds, minutes, hours, days or weeks")
        total += float(amount) * factor
    return _checked(total, text)


def _checked(milliseconds: float, text: object) -> int:
    if not 0 <= milliseconds <= LONGEST_MS:
        raise ValueError(f"`{text}` is not between 0 and 100 years")
    if milliseconds != int(milliseconds):
        raise ValueError(f"`{text}` is not a whole number of milliseconds")
    return int(milliseconds)


def describe(milliseconds: int) -> str:
    """The shortest exact text: `describe(90_000)` is `1m 30s`."""
    if milliseconds == 0:
        return "0s"
    terms: list[str] = []
    for unit in ("d", "h", "m", "s", "ms"):
        amount, milliseconds = divmod(milliseconds, _UNITS[unit])
        if amount:
            terms.append(f"{amount}{unit}")
    return " ".join(terms)
