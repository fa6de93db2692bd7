"""A SQL query that was declared as a view, in the place of a function.

It is called as a function of its inputs is, and then is what a user's function would be that returns
`hr.sql(text, orders=orders)`: with static DataFrames it gives the batch answer. That name is asked for when it is
called, since a declaration knows nothing of Spark.

A file of SQL may begin with its options, one a line, in comments:

    -- key: country, day
    -- partitions: 4
    SELECT country, day, count(*) AS orders FROM …
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.errors import DeclarationError, Location
from headrace.graph.relations import relations

OPTIONS = ("key", "topic", "partitions", "retention", "secret")
_OPTION = re.compile(rf"--\s*({'|'.join(OPTIONS)})\s*:\s*(.*?)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """`where` is the line on which the text begins."""

    text: str
    where: Location

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of what it reads."""
        return relations(self.text)

    def at(self, line: int) -> Location:
        """The place of a line of the text, where it stands in its file as it is; else where the text begins."""
        lines = self.text.splitlines()
        place = Location(self.where.file, self.where.line + line - 1)
        there = 0 < line <= len(lines) and bool(lines[line - 1].strip()) and lines[line - 1].strip() in place.source
        return place if there else self.where

    def __call__(self, *frames: Any) -> Any:
        """Its rows, over its inputs in their order."""
        sql = import_module(__name__.partition(".")[0]).sql
        try:
            return sql(self.text, **dict(zip(self.inputs, frames, strict=True)))
        except DeclarationError as error:  # no line of the user's is on the stack
            raise DeclarationError(error.code, error.what, where=self.where, found=error.found, fix=error.fix) from None


def of_file(file: Path, text: str) -> tuple[Statement, dict[str, Any]]:
    """The query in the text of a file, and the options in the comments that it begins with."""
    options: dict[str, Any] = {}
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("--")), len(lines))
    for line in lines[:first]:
        if found := _OPTION.match(line.strip()):
            options[found[1].lower()] = _value(found[1].lower(), found[2])
    return Statement("\n".join(lines[first:]), Location(str(file), first + 1)), options


def _value(option: str, text: str) -> str | int | list[str]:
    if option in ("key", "secret"):
        return [one.strip() for one in text.split(",")]
    return int(text) if option == "partitions" and text.isdecimal() else text
