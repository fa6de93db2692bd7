"""Every error Headrace raises on purpose.

HeadraceError
├── DeclarationError   HR-0xx  a declaration, or a call of an operator, cannot be run; raised before its query starts
├── PartError          HR-1xx  Java, jars, the embedded Kafka or PostgreSQL, or the settings
├── LogError           HR-2xx  the log: topics, records, offsets, dead letters
├── RunError           HR-3xx  a run: the engine, its queries, checkpoints and the cluster
├── FollowError        HR-40x  a follower: its place in the log, its store, its receiver
├── ServeError         HR-5xx  the HTTP API: what was asked, who asked, and how far a view is
└── CaptureError       HR-6xx  capture: the source database, its slot, and what is captured from it

An error carries a code, what happened, where it was declared (file:line), the value that was found and how to fix it.
`headrace explain HR-014` prints the page of a code from `explain/`.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Location:
    """A line of the user's code."""

    file: str
    line: int

    @property
    def source(self) -> str:
        """The text of the line, or an empty string when the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip()

    def __str__(self) -> str:
        path, here = Path(self.file), Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else path
        return f"{path}:{self.line}"


class HeadraceError(Exception):
    """The base of all of them; `str()` is the whole message, ready to be shown to a person."""

    def __init__(
        self, code: str, what: str, *, where: Location | None = None, found: object | None = None, fix: str
    ) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.where = where
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        lines = [f"{self.code}  {title(self.code)}", "", f"  {self.what}"]
        if self.where is not None:
            lines += ["", f"  at {self.where}"]
            if self.where.source:
                lines += [f"      {self.where.line} | {self.where.source}"]
        if self.found is not None:
            lines += ["", f"  found: {self.found}"]
        lines += ["", f"  fix: {self.fix}", f"  more: headrace explain {self.code}"]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same, for `--json` output and the console."""
        return {
            "code": self.code,
            "title": title(self.code),
            "what": self.what,
            "where": str(self.where) if self.where else None,
            "found": None if self.found is None else str(self.found),
            "fix": self.fix,
        }


class DeclarationError(HeadraceError):
    """What was declared cannot be run."""


class DeclarationErrors(DeclarationError):  # noqa: N818
    """Several declaration errors, found together; each is in `errors`, and the first one gives the code."""

    def __init__(self, errors: Sequence[DeclarationError]) -> None:
        first = errors[0]
        super().__init__(first.code, first.what, where=first.where, found=first.found, fix=first.fix)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n\n".join(str(error) for error in self.errors)


class PartError(HeadraceError):
    """Java, a jar, an embedded server or the settings."""


class LogError(HeadraceError):
    """The log."""


class RunError(HeadraceError):
    """A run of the engine."""


class RunErrors(RunError):  # noqa: N818
    """Several errors of any kind that were found together; each is in `errors`, and the first one gives the code."""

    def __init__(self, errors: Sequence[HeadraceError]) -> None:
        first = errors[0]
        super().__init__(first.code, first.what, where=first.where, found=first.found, fix=first.fix)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n\n".join(str(error) for error in self.errors)


def together(errors: Sequence[HeadraceError]) -> HeadraceError:
    """One or more errors as one."""
    return errors[0] if len(errors) == 1 else RunErrors(errors)


class FollowError(HeadraceError):
    """A follower that cannot go on by itself."""


class ServeError(HeadraceError):
    """A request that cannot be answered; `more` stands beside the rest in the answer."""

    def __init__(
        self, code: str, what: str, *, found: object | None = None, fix: str, more: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(code, what, found=found, fix=fix)
        self.more = more or {}


class CaptureError(HeadraceError):
    """A capture that cannot go on by itself, or a table of it."""


def explanation(code: str) -> str | None:
    """The page of a code, as Markdown; None when there is no such code."""
    page = files("headrace") / "explain" / f"{code}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def codes() -> list[str]:
    """Every code that has a page, in order."""
    pages = (files("headrace") / "explain").iterdir()
    return sorted(page.name.removesuffix(".md") for page in pages if page.name.endswith(".md"))


def title(code: str) -> str:
    """The first line of the page of a code: `# HR-014: the title`."""
    page = explanation(code)
    return page.splitlines()[0].partition(": ")[2] if page else ""
