"""The form of what long-running commands tell: the one place that configures structlog.

On a terminal an event is a line with the time and the level, made harmless as all text is (terminal.py). Elsewhere it
is a JSON object on one line, for programs that gather logs. `HEADRACE_LOG` is `text` or `json` where that is not what
is wanted. Everything goes to standard error; an error of Headrace is told whole, in JSON by its fields.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import Any, Literal

import structlog
import typer
from structlog.typing import EventDict, WrappedLogger

from headrace.cli import terminal
from headrace.errors import HeadraceError

VARIABLE = "HEADRACE_LOG"
Form = Literal["text", "json"]
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[1;31m", "critical": "\x1b[1;31m"}
_PLAIN = "\x1b[0m"
_WIDEST_LEVEL = len("warning")


def configure() -> None:
    """Let what is told from here on have the form that fits standard error, or that of the variable."""
    form = os.environ.get(VARIABLE) or ("text" if sys.stderr.isatty() else "json")
    if form not in ("text", "json"):
        raise typer.BadParameter(f"{VARIABLE} is `text` or `json`, and not `{form}`")
    structlog.configure(
        processors=[structlog.processors.add_log_level, _as_text if form == "text" else _as_json],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=_StandardError,
        cache_logger_on_first_use=False,
    )


def _as_text(logger: WrappedLogger, name: str, event: EventDict) -> str:
    level, error, text = event["level"], event.pop("error", None), str(event["event"])
    if isinstance(error, HeadraceError):
        text = str(error)
    told = terminal.safe(text, keep="\n").rstrip("\n").replace("\n", "\n    ")
    colour = _COLOURS.get(level) if _has_colours() else None
    shown = f"{colour}{level}{_PLAIN}" if colour else level
    return f"{datetime.now():%H:%M:%S} {shown}{' ' * (_WIDEST_LEVEL - len(level))} {told}"


def _as_json(logger: WrappedLogger, name: str, event: EventDict) -> str:
    error = event.pop("error", None)
    told: dict[str, Any] = {"at": _moment(), "level": event.pop("level"), **event}
    if isinstance(error, HeadraceError):
        errors = getattr(error, "errors", (error,))
        told["errors"] = [one.as_dict() for one in errors]
    return json.dumps(told, default=str, separators=(",", ":")).replace("\x7f", "\\u007f")


def _has_colours() -> bool:
    return "NO_COLOR" not in os.environ and sys.stderr.isatty()


def _moment() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


class _StandardError:
    """Writes to the standard error of the moment: what is drawn on a terminal may stand in front of it for a while."""

    def __init__(self, *args: object) -> None:
        pass

    def msg(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    info = warning = error = critical = msg
