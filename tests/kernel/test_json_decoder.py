"""The decoder against tables of records, and against a second decoder.

`Reference` below is the oracle: the same rules written a second time, on Python's json module, as plainly as possible.
The generated tests demand that both accept the same records with the same rows and refuse the same ones. Rows are
compared by their `repr`, which tells -0.0 from 0.0, True from 1 and 1.50 from 1.5, and finds NaN equal to itself.
"""

from __future__ import annotations

import json
import random
import re
import string
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

Decode = Callable[..., list[Any]]

SCALARS = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, c decimal(10,2), w decimal(38,18), "
    "u string, x binary, day date, at timestamp, local timestamp_ntz"
)


# The reference


class NoFit(Exception):
    """The record does not fit."""


@dataclass(frozen=True)
class Number:
    """A JSON number as it is written."""

    text: str


@dataclass(frozen=True)
class Object:
    """The fields of a JSON object as they are written, repeats included."""

    fields: list[tuple[str, Any]]


def reference(record: bytes, schema: StructType) -> dict[str, Any]:
    """The row of a record, or NoFit."""
    try:
        value = json.loads(
            record.decode("utf-8"),
            object_pairs_hook=Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        )
    except ValueError as error:
        raise NoFit(str(error)) from error
    if not all(_is_unicode(text) for text in _texts(value)):
        raise NoFit("half of a surrogate pair")
    return _read(schema, value)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case Object(fields):
            for name, item in fields:
                yield name
                yield from _texts(item)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _read(kind: DataType, value: Any) -> Any:  # noqa: PLR0911, PLR0912 - one case a type
    match kind, value:
        case BooleanType(), bool():
            return value
        case StringType(), str():
            return value
        case ByteType() | ShortType() | IntegerType() | LongType(), Number(text):
            return _whole(text, {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}[type(kind)])
        case DoubleType() | FloatType(), "NaN" | "Infinity" | "-Infinity":
            return float(value)
        case DoubleType(), Number(text):
            return _finite(float(text))
        case FloatType(), Number(text):
            return _finite(nearest_float(text))
        case DecimalType(), Number(text):
            return _decimal(text, kind.precision, kind.scale)
        case BinaryType(), str():
            return _base64(value)
        case DateType(), str():
            return _date(value)
        case TimestampType() | TimestampNTZType(), str():
            return _moment(value, zoned=isinstance(kind, TimestampType))
        case ArrayType(), list():
            return [_read_or_null(kind.elementType, item, kind.containsNull) for item in value]
        case MapType(), Object(fields):
            if len({name for name, _ in fields}) < len(fields):
                raise NoFit("a key twice")
            return {name: _read_or_null(kind.valueType, item, kind.valueContainsNull) for name, item in fields}
        case StructType(), Object(fields):
            return _struct(kind, fields)
    raise NoFit(f"{value} is no {kind}")


def _read_or_null(kind: DataType, value: Any, nullable: bool) -> Any:
    if value is not None:
        return _read(kind, value)
    if nullable:
        return None
    raise NoFit("null")


def _struct(kind: StructType, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in kind.fields:
        found = [value for name, value in fields if name == field.name]
        if len(found) > 1:
            raise NoFit("a field twice")
        row[field.name] = _read_or_null(field.dataType, found[0] if found else None, field.nullable)
    return row


def _whole(text: str, bits: int) -> int:
    if not re.fullmatch(r"-?\d+", text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise NoFit(text)
    return int(text)


def _finite(value: float) -> float:
    if value in (float("inf"), float("-inf")):
        raise NoFit("too big")
    return value


def nearest_float(text: str) -> float:
    """The single-precision number nearest to a decimal text, of two equally near ones the even one."""
    double = float(text)
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", abs(double)))
    except OverflowError:
        bits = 0x7F800000
    if bits > 0x7F800000 or abs(double) > 1e39:
        return double
    exact = abs(Fraction(text)) if abs(double) > 1e-60 else Fraction(0)
    # Twice the exponent's step above the greatest float stands for infinity, as rounding to nearest has it.
    values = {near: _float_value(near) for near in (bits - 1, bits, bits + 1) if 0 <= near <= 0x7F800000}
    best = min(values, key=lambda near: (abs(values[near] - exact), near & 1))
    (magnitude,) = struct.unpack("<f", struct.pack("<I", best))
    return -magnitude if text.startswith("-") else magnitude


def _float_value(bits: int) -> Fraction:
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    return Fraction(mantissa + (0x800000 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 150)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    value = Decimal(text)
    unscaled = Fraction(value) * 10**scale if abs(value.adjusted()) < 1000 else Fraction(1, 3)
    if len(text) > 100 or unscaled.denominator != 1 or abs(unscaled.numerator) >= 10**precision:
        raise NoFit(text)
    return Decimal(unscaled.numerator).scaleb(-scale)


def _base64(text: str) -> bytes:
    if not re.fullmatch(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?", text):
        raise NoFit("not base64")
    return b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def _date(text: str) -> date:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise NoFit(text)
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise NoFit(text) from error


def _moment(text: str, *, zoned: bool) -> datetime:
    """In UTC, without a zone."""
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?", text, re.ASCII
    )
    if found is None:
        raise NoFit(text)
    day, clock, fraction, utc, sign, hours, minutes = found.groups()
    if zoned != bool(utc or sign):
        raise NoFit(text)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if int(minutes or 0) > 59 or offset > timedelta(hours=18):
        raise NoFit(text)
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '').ljust(6, '0')[:6]}")
        return moment + offset if sign == "-" else moment - offset
    except (ValueError, OverflowError) as error:
        raise NoFit(text) from error
