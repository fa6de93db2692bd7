"""What happens to a mistake that is visible at the declaration itself.

Called from plain Python (a notebook, a test) a declaration raises at once. While a file is loaded the mistakes are
gathered instead, so that one `headrace check` shows all of them; the declaration then goes on with a harmless value,
and `App.graph()` refuses to give a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.errors import DeclarationError

_gathered: ContextVar[list[DeclarationError] | None] = ContextVar("gathered", default=None)


def report(error: DeclarationError) -> None:
    """Raise the error, or keep it when mistakes are being gathered."""
    gathered = _gathered.get()
    if gathered is None:
        raise error
    gathered.append(error)


@contextmanager
def gathering() -> Iterator[list[DeclarationError]]:
    """Keep the mistakes made inside, in order."""
    mistakes: list[DeclarationError] = []
    token = _gathered.set(mistakes)
    try:
        yield mistakes
    finally:
        _gathered.reset(token)
