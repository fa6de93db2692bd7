"""The options of a declaration, read one by one: each function gives the value, or reports what is wrong with it.

When mistakes are being gathered (see mistakes.py) a function that reports goes on to return a harmless value.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace import duration, names
from headrace.call import Call
from headrace.errors import DeclarationError, Location
from headrace.graph.adaptive import Adaptive
from headrace.graph.clock_correction import ClockCorrection
from headrace.graph.mistakes import report
from headrace.graph.node import DEFAULT_PARTITIONS
from headrace.graph.statement import Statement, of_file
from headrace.log.schema import Schema, SchemaError

_NO_KEYS = ("float", "double", "array<", "map<", "struct<")


@dataclass(frozen=True)
class Element:
    """What is being declared, in the words of an error: «stream `transactions`»."""

    label: str
    call: Call

    def mistake(
        self, code: str, what: str, *, fix: str, found: object = None, option: str = "", where: Location | None = None
    ) -> None:
        """Report a mistake in this declaration, at the line of the option when one is named."""
        report(DeclarationError(code, what, where=where or self.call.at(option), found=found, fix=fix))


def name(kind: str, given: object, call: Call) -> str:
    """The name of an app, stream, table or view."""
    if isinstance(given, str) and names.is_name(given):
        return given
    plain = re.sub(r"\W+", "_", given, flags=re.ASCII).strip("_")[:100] if isinstance(given, str) else ""
    if not names.is_name(plain):
        plain = f"my_{kind}" if not plain else f"{kind}_{plain}"[:100]
    keep = f', and keep the Kafka topic with `topic="{given}"`' if kind != "app" and names.is_topic(str(given)) else ""
    article = "an" if kind == "app" else "a"
    Element(kind, call).mistake(
        "HR-001",
        f"The name of {article} {kind} must be letters, digits and `_`, begin with a letter and be at most 100 long.",
        found=_text(given),
        fix=f"call it `{plain}`{keep}",
    )
    return plain


def schema(element: Element, given: object) -> Schema | None:
    """The columns; None when they cannot be read."""
    if isinstance(given, Schema):
        read = given
    elif isinstance(given, str):
        try:
            read = Schema.parse(given)
        except SchemaError as error:
            element.mistake(
                "HR-002",
                f"The schema of {element.label} cannot be read: {error.reason}.",
                found=_pointed(given, error.position),
                fix=error.hint,
                option="schema",
            )
            return None
    else:
        element.mistake(
            "HR-002",
            f"The schema of {element.label} is not text.",
            found=repr(given),
            fix='write it as text, such as `schema="id string, amount double"`',
            option="schema",
        )
        return None
    for column in read.names:
        if column.lower().startswith(names.COLUMN_PREFIX):
            element.mistake(
                "HR-004",
                f"Column `{column}` of {element.label} begins with `{names.COLUMN_PREFIX}`, "
                "which is kept for Headrace's own columns.",
                found=f"`{column}`",
                fix=f"rename the column, for instance to `{column[len(names.COLUMN_PREFIX) :] or 'column'}`",
                option="schema",
            )
    return read


def refuse_sign(element: Element, schema: Schema | None, *, of: str | None = None) -> None:
    """No column may be taken for the sign of a table's row; with `of` only one of that type is."""
    for field in schema.fields if schema else ():
        if field.name.lower() == names.CHANGE and of in (None, field.type):
            element.mistake(
                "HR-004",
                f"Column `{field.name}` of {element.label} has the name of the one that says what becomes of a row.",
                found=schema.ddl if schema else None,
                fix="leave it out of the schema, and it is not read; or rename it where the records are written",
                option="schema",
            )


def column(element: Element, option: str, given: object, schema: Schema | None) -> str | None:
    """The name of a column of the schema; when there is no schema to look into, the name as it is."""
    if given is None:
        return None
    if schema is None or (isinstance(given, str) and schema.field(given)):
        return str(given)
    close = difflib.get_close_matches(str(given).lower(), [name.lower() for name in schema.names], n=1)
    meant = next((name for name in schema.names if close and name.lower() == close[0]), None)
    listed = ", ".join(f"`{name}`" for name in schema.names)
    element.mistake(
        "HR-006",
        f"`{option}` of {element.label} must be one of its columns: {listed}.",
        found=f"{option}={_text(given)}",
        fix=f"did you mean `{option}={_text(meant)}`?" if meant else "name one of the columns, or add it to the schema",
        option=option,
    )
    return str(given)


def required(schema: Schema | None, *columns: str | None) -> Schema | None:
    """The schema with those of the columns that it has NOT NULL."""
    return schema and schema.require(*(column for column in columns if column and schema.field(column)))


def event_time(element: Element, given: object, schema: Schema | None) -> str | None:
    """The column that holds the time of an event."""
    if isinstance(given, ClockCorrection):
        given = given.occurred
    return _timestamp(element, given, schema)


def correction(element: Element, given: object, schema: Schema | None) -> tuple[str | None, str | None]:
    """The columns that say when a device sent an event and when it was received, if its clock is corrected."""
    if not isinstance(given, ClockCorrection):
        return None, None
    return _timestamp(element, given.sent, schema), _timestamp(element, given.received, schema)


def _timestamp(element: Element, given: object, schema: Schema | None) -> str | None:
    named = column(element, "event_time", given, schema)
    field = schema.field(named) if schema and named else None
    if field is None or field.type == "timestamp":
        return named
    element.mistake(
        "HR-007",
        f"The event time of {element.label} must be a `timestamp`, and column `{field.name}` is a `{field.type}`.",
        found=f"{field.name} {field.type}",
        fix=f"declare the column as `{field.name} timestamp` and send ISO-8601 text, such as `2025-01-31T12:00:00Z`; "
        "or name another column",
        option="event_time",
    )
    return named


def key(element: Element, given: object, schema: Schema | None) -> tuple[str, ...]:
    """One column or several."""
    return _columns(element, "key", "HR-013", given, schema)


def row_key(element: Element, given: object, schema: Schema | None) -> tuple[str, ...]:
    """The columns that tell the rows of a table or view apart: of exact, plain types, and not the sign of a row."""
    columns = key(element, given, schema)
    for one in columns:
        field = schema.field(one) if schema else None
        if one.lower() == names.CHANGE:
            element.mistake(
                "HR-013",
                f"`{one}` cannot be in the key of {element.label}: it says what becomes of a row.",
                found=f"key={given!r}",
                fix="name the columns that make a row unique",
                option="key",
            )
        elif field is not None and field.type.startswith(_NO_KEYS):
            element.mistake(
                "HR-013",
                f"`{one}` cannot be in the key of {element.label}: values of its type cannot be told apart exactly.",
                found=f"{one} {field.type}",
                fix="name columns of exact, plain types: a string, a whole number, a decimal, a date or a timestamp",
                option="key",
            )
    return columns


def secret(element: Element, given: object, schema: Schema | None) -> tuple[str, ...]:
    """The columns that the console does not show."""
    return _columns(element, "secret", "HR-547", given, schema)


def _columns(element: Element, option: str, code: str, given: object, schema: Schema | None) -> tuple[str, ...]:
    columns: tuple[object, ...] = ()
    if isinstance(given, str):
        columns = (given,)
    elif isinstance(given, list | tuple):
        columns = tuple(given)
    if given is not None and (
        not columns or not all(isinstance(one, str) and one for one in columns) or len(set(columns)) < len(columns)
    ):
        element.mistake(
            code,
            f"The {option} of {element.label} must be a column or a list of different columns.",
            found=f"{option}={given!r}",
            fix=f'write `{option}="card"` or `{option}=["url", "window_start"]`',
            option=option,
        )
        return (str(given),)
    for one in columns:
        column(element, option, one, schema)
    return tuple(str(one) for one in columns)


def milliseconds(element: Element, option: str, given: object, *, least: int = 0, default: int | None = None) -> int:
    """A duration; the default, or else `least`, when none is given or it cannot be read."""
    if given is None and default is not None:
        return default
    harmless, example = (least, "7 days" if least else "5 seconds") if default is None else (default, "30 seconds")
    read, reason = least, ""
    if not isinstance(given, str | timedelta):
        reason = f"`{given!r}` has no unit"
    else:
        try:
            read = duration.parse(given)
        except ValueError as error:
            reason = str(error)
    if read < least:
        reason = f"it must be longer than `{given}`"
    if not reason:
        return read
    element.mistake(
        "HR-005",
        f"`{option}` of {element.label} cannot be used: {reason}.",
        found=f"{option}={_text(given)}",
        fix=f"write a number and a unit, such as {_example(option, example)} or {_example(option, '1h 30m')}",
        option=option,
    )
    return harmless


def delay(element: Element, given: object) -> tuple[int, float, int]:
    """The delay, or the upper bound of an adaptive one; the share that it covers, or 0; the lower bound."""
    if not isinstance(given, Adaptive):
        return milliseconds(element, "delay", given), 0.0, 0
    least, most = (milliseconds(element, "delay", one) for one in (given.least, given.most))
    share = given.share
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1 or least > most:
        element.mistake(
            "HR-026",
            f"The adaptive delay of {element.label} needs a share between 0 and 1, and `least` not above `most`.",
            found=f"adaptive({given.share!r}, least={_text(given.least)}, most={_text(given.most)})",
            fix='write it like `delay=hr.adaptive(0.99, least="1 second", most="5 minutes")`',
            option="delay",
        )
        return most, 0.0, 0
    return most, float(share), least


_EPOCHS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}


def epoch(element: Element, given: object) -> int:
    """How many microseconds a number stands for where a timestamp is declared; 0 when numbers are none."""
    if given is None:
        return 0
    if isinstance(given, str) and given in _EPOCHS:
        return _EPOCHS[given]
    element.mistake(
        "HR-025",
        f"`epoch` of {element.label} must say what timestamps that are numbers count since 1970.",
        found=f"epoch={_text(given)}",
        fix="write "
        + " or ".join(f'`epoch="{word}"`' for word in _EPOCHS)
        + "; or leave it out and send ISO-8601 text",
        option="epoch",
    )
    return 0


def retention(element: Element, given: object) -> int | None:
    """How long the topic keeps records; None leaves it to the broker."""
    return None if given is None else milliseconds(element, "retention", given, least=1)


def partitions(element: Element, given: object) -> int:
    """How many partitions the topic has at least."""
    if given is None:
        return DEFAULT_PARTITIONS
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return given
    element.mistake(
        "HR-008",
        f"`partitions` of {element.label} must be a whole number, 1 or more.",
        found=f"partitions={_text(given)}",
        fix=f"write `partitions=4`, or leave it out to have {DEFAULT_PARTITIONS}",
        option="partitions",
    )
    return DEFAULT_PARTITIONS


def topic(element: Element, given: object, name: str) -> str:
    """The Kafka topic, which has the node's name unless another is given."""
    if given is None:
        return name
    if isinstance(given, str) and names.is_topic(given) and names.is_topic(names.dead_topic(given)):
        return given
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", str(given)).strip("-.")[:200]
    element.mistake(
        "HR-009",
        f"Kafka does not take this name for the topic of {element.label}: a topic is letters, digits, `.`, `_` and "
        f"`-`, at most {249 - len(names.DEAD_SUFFIX)} of them.",
        found=f"topic={_text(given)}",
        fix=f"leave `topic` out to use `{name}`, or write it as Kafka takes it: {_example('topic', plain or name)}",
        option="topic",
    )
    return name


def inputs(element: Element, function: Callable[..., Any], name: str, where: Location) -> tuple[str, ...]:
    """The parameters of a declared function, which are the names of its inputs."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        element.mistake(
            "HR-010",
            f"The function of {element.label} must be a plain one that returns a DataFrame.",
            found="an `async def`" if inspect.iscoroutinefunction(function) else "a function with `yield`",
            fix="write it with `def` and `return`",
            where=where,
        )
    parameters = tuple(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            element.mistake(
                "HR-010",
                f"The parameters of {element.label} name its inputs, so each must be a plain parameter.",
                found=f"`{parameter}`",
                fix=f"write one parameter for each input, such as `def {name}(transactions, cards)`",
                where=where,
            )
        elif not _is_input(parameter):
            element.mistake(
                "HR-010",
                f"The parameters of {element.label} name its inputs, and an input cannot have a default value.",
                found=f"`{parameter}`",
                fix=f"make `{parameter.name}` a constant above the function, or remove the default if it is an input",
                where=where,
            )
    if not parameters:
        element.mistake(
            "HR-010",
            f"The function of {element.label} has no parameters, so it reads nothing.",
            found=f"`def {name}()`",
            fix="name what it reads as its parameters: the names of declared streams, tables and views",
            where=where,
        )
    return tuple(parameter.name for parameter in parameters if _is_input(parameter))


def statement(element: Element, given: object) -> tuple[Statement, dict[str, Any]]:
    """The SQL of a view, from its text or its file, and the options that the file begins with."""
    nothing = Statement("", element.call.where), dict[str, Any]()
    if not isinstance(given, str) or not given.strip():
        element.mistake(
            "HR-062",
            f"{element.label.capitalize()} has no query.",
            found=f"sql={given!r}",
            fix='write `app.view("totals", key="card", sql="SELECT …")`, or name a file that ends in `.sql`;'
            " a function is declared with `@app.view(key=…)` above it",
            option="sql",
        )
        return nothing
    made, described = Statement(given, element.call.at("sql")), dict[str, Any]()
    if given.endswith(".sql") and "\n" not in given:
        file = Path(element.call.file).parent / given
        try:
            made, described = of_file(file, file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            element.mistake(
                "HR-062",
                f"The file of {element.label} cannot be read: {getattr(error, 'strerror', None) or error}.",
                found=str(file),
                fix="correct the path, which is looked for beside the app; the file is UTF-8",
                option="sql",
            )
            return nothing
    if not made.inputs:
        element.mistake(
            "HR-062",
            f"The query of {element.label} reads nothing.",
            found=(made.text.strip().splitlines() or ["an empty file"])[0],
            fix="name what it reads in its FROM: declared streams, tables and views",
            where=made.where,
        )
    return made, described


def _is_input(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (
        parameter.default is parameter.empty or parameter.default is None
    )


def _pointed(text: str, position: int) -> str:
    """The line of the text with the position, marked below; the mark stands right after `found: ` in the error."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    lead = len(line) - len(line.lstrip())
    return f"{line.strip()}\n{' ' * (len('  found: ') + max(0, position - start - lead))}^"


def _example(option: str, value: str) -> str:
    return f'`{option}="{value}"`'


def _text(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
