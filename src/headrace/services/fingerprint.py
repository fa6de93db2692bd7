"""Whether two declarations mean the same, though their file was saved in between.

A fingerprint holds what is declared and the code of the functions, with what they refer to in the app and the modules
beside it; lines and comments do not count. What cannot be compared is never the same as anything, also not as itself:
then something is restarted that need not be, and nothing goes on that must not.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from headrace.app import App, Declared
from headrace.errors import Location

_PLAIN = (str, bytes, int, float, bool, complex, type(None), type(...), Path)


def fingerprint(value: Any, beside: Path) -> object:
    """That of a declaration, or of several; the modules in the directory `beside` are the app's own."""
    return _Fingerprints(beside.resolve()).of(value)


class _Fingerprints:
    def __init__(self, beside: Path) -> None:
        self._beside = beside
        self._seen: set[int] = set()

    def of(self, value: Any) -> object:
        if isinstance(value, Location):
            return "somewhere"
        if isinstance(value, _PLAIN):
            return type(value).__name__, value
        if isinstance(value, tuple | list | set | frozenset | Mapping):
            return type(value).__name__, self._of_many(value)
        if isinstance(value, App | Declared):
            return "declared", value.name if isinstance(value, App) else value.__name__
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = tuple((one.name, self.of(getattr(value, one.name))) for one in dataclasses.fields(value))
            return type(value).__qualname__, fields
        return self._of_code(value)

    def _of_many(self, values: Any) -> object:
        if isinstance(values, Mapping):
            return tuple((self.of(key), self.of(one)) for key, one in values.items())
        found = (self.of(one) for one in values)
        return frozenset(found) if isinstance(values, set | frozenset) else tuple(found)

    def _of_code(self, value: Any) -> object:
        if isinstance(value, ModuleType):
            return "module", value.__name__, self._text(getattr(value, "__file__", None))
        if isinstance(value, FunctionType):
            return self._function(value) if self._is_own(value.__code__.co_filename) else _name(value)
        if callable(value) and not self._is_own(_file(value)):
            return _name(value)
        return object()

    def _function(self, function: Callable[..., Any]) -> object:
        unwrapped = inspect.unwrap(function)
        if not isinstance(unwrapped, FunctionType):
            return self.of(unwrapped)
        if id(unwrapped) in self._seen:
            return "again", unwrapped.__qualname__
        self._seen.add(id(unwrapped))
        code = unwrapped.__code__
        known = unwrapped.__globals__
        used = sorted({name for one in _codes(code) for name in one.co_names if name in known})
        cells = tuple(_content(cell) for cell in unwrapped.__closure__ or ())
        return (
            "function",
            self._code(code),
            self.of(unwrapped.__defaults__ or ()),
            self.of(unwrapped.__kwdefaults__ or {}),
            self.of(cells),
            tuple((name, self.of(known[name])) for name in used),
        )

    def _code(self, code: CodeType) -> object:
        """What it does, without its name, its file and its lines; the text of its documentation is no part of it."""
        constants = tuple(self._code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
        if constants and isinstance(code.co_consts[0], str) and code.co_flags & _HAS_DOCSTRING:
            constants = constants[1:]
        return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable, constants

    def _text(self, file: str | None) -> object:
        """What is in a module of the app's own."""
        try:
            return Path(file).read_bytes() if file is not None and self._is_own(file) else None
        except OSError:
            return object()

    def _is_own(self, file: str | None) -> bool:
        path = Path(file).resolve() if file else None
        return path is not None and path.is_relative_to(self._beside) and "site-packages" not in path.parts


_HAS_DOCSTRING = 0x4000000  # CO_HAS_DOCSTRING of Python 3.13; before it, a documentation that changed restarts a query


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _file(value: Any) -> str | None:
    try:
        return inspect.getfile(value if isinstance(value, type) else type(value))
    except (TypeError, OSError):
        return None


def _name(value: Any) -> object:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return ("named", module, name) if name else object()
