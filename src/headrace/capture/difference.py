"""What has changed in a table's columns, and whether that can be followed.

follow   nothing that was written becomes wrong: a column was dropped, or added and is null in every old row
read     old rows have values that the stream does not tell: a column with a default, a renamed one, or one whose
         values were computed anew; the table is followed, and read again while it is
pause    readers would misunderstand: a column looks otherwise in JSON, or the key or a declared column is gone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.capture.table import Captured, Found
from headrace.capture.value import Kind

Columns: TypeAlias = Sequence[tuple[str, int, int]]
"""Name, type and modifier of each column."""

# Types whose modifier only limits what can be stored: varchar and bit varying.
_LIMITED = {1043, 1562}


@dataclass(frozen=True)
class Difference:
    """`what` is a sentence about the columns."""

    verdict: Literal["same", "follow", "read", "pause"]
    what: str = ""


def difference(
    captured: Captured, before: Columns, after: Columns, kind: Callable[[int], Kind], found: Found | None
) -> Difference:
    """From what was written last to what the stream announces; `found` is the table as it is by now."""
    old = {name: (number, modifier) for name, number, modifier in before}
    new = {name: (number, modifier) for name, number, modifier in after}
    if not before or list(before) == list(after):
        return Difference("same")
    added = [name for name in new if name not in old]
    dropped = [name for name in old if name not in new]
    retyped = [name for name in new if name in old and new[name] != old[name]]
    missing = [name for name in (*captured.key, *(field.name for field in captured.columns)) if name in dropped]
    if missing:
        return Difference("pause", f"the app declares the column `{missing[0]}`, which was dropped or renamed")
    for name in retyped:
        was, is_ = kind(old[name][0]).form, kind(new[name][0]).form
        if was != is_:
            return Difference("pause", f"the column `{name}` was written as {was} and would be written as {is_}")
    told = [f"`{name}` was added" for name in added] + [f"`{name}` was dropped" for name in dropped]
    told += [f"`{name}` has another type" for name in retyped]
    computed = [name for name in retyped if new[name][0] != old[name][0] or new[name][0] not in _LIMITED]
    there = {column.name: column for column in found.columns} if found else {}
    filled = [name for name in added if dropped or name not in there or there[name].filled]
    verdict = "read" if computed or filled else "follow"
    return Difference(verdict, ", ".join(told) or "the columns stand in another order")
