"""The decoder against tables of records, and against a second decoder.

`Reference` below is the oracle: the same rules written a second time, on Python's json module, as plainly as possible.
The generated tests demand that both accept the same records with the same rows and refuse the same ones.
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
_INFINITY = 0x7F800000

SCALARS = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, c decimal(10,2), w decimal(38,18), "
    "z decimal(3,3), u string, x binary, day date, at timestamp, local timestamp_ntz"
)


def shown(value: Any) -> str:
    """A row for comparing: tells -0.0 from 0.0 and True from 1, and finds NaN equal to itself and 1.50 to 1.5."""
    return json.dumps(value, sort_keys=True, default=lambda v: repr(Fraction(v) if isinstance(v, Decimal) else v))


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
    if abs(double) > 1e39:
        return float("inf")
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", abs(double)))
    except OverflowError:
        bits = _INFINITY
    # The way over the double may have rounded twice, so its neighbours are candidates too.
    candidates = {near: _float_value(near) for near in (bits - 1, bits, bits + 1) if 0 <= near <= _INFINITY}
    exact = abs(Fraction(text)) if abs(double) > 1e-60 else Fraction(0)
    nearest = min(candidates, key=lambda near: (abs(candidates[near] - exact), near & 1))
    (magnitude,) = struct.unpack("<f", struct.pack("<I", nearest))
    return -magnitude if text.startswith("-") else magnitude


def _float_value(bits: int) -> Fraction:
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    return Fraction(mantissa + (0x800000 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 150)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    digits, _, exponent = text.lower().partition("e")
    zero = Decimal(digits) == 0
    if len(text) > 100 or (not zero and abs(int(exponent or 0)) > 200):
        raise NoFit(text)
    unscaled = Fraction(0) if zero else Fraction(text) * 10**scale
    if unscaled.denominator != 1 or abs(unscaled.numerator) >= 10**precision:
        raise NoFit(text)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled.numerator)))), -scale))


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
        r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?",
        text,
        re.ASCII,
    )
    if found is None:
        raise NoFit(text)
    *clock, fraction, utc, sign, hours, minutes = found.groups()
    if zoned != bool(utc or sign):
        raise NoFit(text)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if int(minutes or 0) > 59 or offset > timedelta(hours=18):
        raise NoFit(text)
    try:
        year, month, day, hour, minute, second = map(int, clock)
        moment = datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")[:6]))
        return moment + offset if sign == "-" else moment - offset
    except (ValueError, OverflowError) as error:
        raise NoFit(text) from error


# Tables


def column(fates: Sequence[Any], name: str) -> list[Any]:
    """What each record has in a column; its reason when it was refused."""
    return [fate[name] if isinstance(fate, dict) else fate.reason for fate in fates]


def agree(decode: Decode, field: str, accepted: dict[str, Any], refused: Sequence[str]) -> None:
    """Each JSON text is that value of the field, or is refused."""
    texts = [*accepted, *refused]
    fates = decode([f'{{"{field}": {text}}}' for text in texts], SCALARS)
    found = column(fates, field)
    right = [
        *(shown(value) == shown(wanted) for value, wanted in zip(found, accepted.values(), strict=False)),
        *(not isinstance(fate, dict) for fate in fates[len(accepted) :]),
    ]
    assert [(text, value) for text, value, fine in zip(texts, found, right, strict=True) if not fine] == []


# One row a kind of case reads better than one line a case.
# fmt: off

REALS = {'"NaN"': float("nan"), '"Infinity"': float("inf"), '"-Infinity"': float("-inf"), r'"\u004eaN"': float("nan"),
         "null": None}
NO_NUMBERS = ["01", "-01", "00", "-", "--1", "+1", "1.", ".5", "1.e5", "1e", "1e+", "1_0", "0x10", "1f", "NaN",
              "Infinity", "-Infinity", '""', '"5"', '"nan"', '"inf"', '"+Infinity"', "true", "[]", "[5]", "{}"]
MOMENTS = ["2026-03-01T12:34:56", "1970-01-01T00:00:00", "1969-12-31T23:59:59", "2024-02-29T23:59:59",
           "2000-02-29T00:00:00", "1900-02-28T00:00:00", "1582-10-10T00:00:00", "2026-03-29T02:30:00",
           "0001-01-01T00:00:00", "9999-12-31T23:59:59"]
NO_MOMENTS = [
    "2026-00-01T00:00:00", "2026-13-01T00:00:00", "2026-01-00T00:00:00", "2026-04-31T00:00:00", "2023-02-29T00:00:00",
    "1900-02-29T00:00:00", "2026-03-01T24:00:00", "2026-03-01T12:60:00", "2026-03-01T12:00:60", "2026-03-01T23:59:60",
    "0000-12-31T23:59:59", "10000-01-01T00:00:00", "+2026-03-01T00:00:00", "-001-01-01T00:00:00", "2026-3-1T00:00:00",
    "2026-03-01t12:00:00", "2026-03-01", "2026-03-01T12:00", "2026-03-01T12", "20260301T120000", "2026-03-01T120000",
    "2026-03-01T12:00:00.", "2026-03-01T12:00:00,5", "2026-03-01T12:00:00.1234567890", "2026-03-01T12:00:00.12x", "",
    " ", "now", "2026-03-01_12:00:00", "2026/03/01T12:00:00", "2026-03-01  12:00:00", "2026-03-01T-1:00:00",
    " 2026-03-01T12:00:00", "2026-03-01T12:00:00.-5", "2026-03-01T12:0a:00", "٢٠٢٦-03-01T12:00:00",
    "2026-03-01T12:00:0",
]


def test_boolean(decode: Decode) -> None:
    agree(decode, "b", {"true": True, "false": False, "null": None}, ["1", "0", '"true"', "[]", "{}", "-1"])


@pytest.mark.parametrize(("field", "bits"), [("t", 8), ("s", 16), ("i", 32), ("l", 64)])
def test_whole_numbers(decode: Decode, field: str, bits: int) -> None:
    most, least = 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
    too_big = [most + 1, least - 1, most * 10, least * 10, 2**bits, 2**bits + 5, -(2**bits), 2**64, 2**64 + 1, 10**30,
               -(10**30)]
    not_whole = ["1.0", "1.5", "1e3", "1E0", "0.0", "-0.0", "1.0e", '"NaN"', "9" * 5000]
    agree(decode, field, {str(n): n for n in (0, 7, -7, most, least)} | {"-0": 0, "null": None},
          [*map(str, too_big), *not_whole, *NO_NUMBERS])


def test_doubles(decode: Decode) -> None:
    texts = [
        "0", "-0", "0.0", "-0.0", "0e5", "-0e-5", "0.000", "5", "-5", "1.5", "1e3", "1E+3", "1e-3", "123456789012345",
        "1234567890123456", "9007199254740993", "0.1", "0.30000000000000004", "2.2250738585072011e-308", "5e-324",
        "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "-1e-400",
        "1.7976931348623157e308", "123456789012345e22", "1.7976931348623158e308", "1." + "0" * 400 + "1",
        "0." + "0" * 400 + "1", "1" + "0" * 308, "0.0000000000000000000001", "0.00000000000000000000001",
        "9007199254740992.5", "9007199254740993." + "0" * 50, "9007199254740993." + "0" * 50 + "1",
    ]
    too_big = ["1e309", "-1e309", "1.7976931348623159e308", "1" + "0" * 309, "1e99999999999"]
    agree(decode, "d", {text: float(text) for text in texts} | REALS, [*too_big, *NO_NUMBERS])


def test_floats(decode: Decode) -> None:
    texts = [
        "0", "-0.0", "1.5", "0.1", "16777217", "3.4028234663852886e38", "3.40282356e38", "3.4028235677973362e38",
        "1e-45", "1.4e-45", "7e-46", "7.1e-46", "1e-60", "-1e-400", "1.17549435e-38", "8388608.5",
    ]
    # Rounding these to a double first gives a tie, and then the wrong side of it.
    ties = [
        "1.00000005960464477540", "1.0000000596046447753906250000000000000001", "16777217.00000000001",
        "1.00000017881393432617187499", "3.4028235677973366e38",
        "340282356779733661637539395458142568447.999999999999999",
    ]
    too_big = ["340282356779733661637539395458142568448", "3.4028235677973367e38", "3.5e38", "-3.5e38", "1e39", "1e309"]
    agree(decode, "f", {text: nearest_float(text) for text in texts + ties} | REALS, [*too_big, *NO_NUMBERS])


def test_decimals(decode: Decode) -> None:
    values = {
        "0": "0.00", "1": "1.00", "-1": "-1.00", "1.5": "1.50", "12345678.90": "12345678.90",
        "99999999.99": "99999999.99", "-99999999.99": "-99999999.99", "1.500": "1.50", "1.5" + "0" * 30: "1.50",
        "-0.0": "0.00", "15e-1": "1.50", "1.5E+3": "1500.00", "1e7": "10000000.00", "100e-4": "0.01", "0.000": "0.00",
        "0e500": "0.00", "0e-5000": "0.00", "0.00e9999999999": "0.00", "-0e-99999999999999999999": "0.00",
    }
    agree(decode, "c", {text: Decimal(value) for text, value in values.items()} | {"null": None}, [
        "0.001", "1.505", "100000000", "99999999.995", "-100000000", "1e8", "1e-3", "1e999", "1e-999", "1e5000",
        "1e2147483647", "1e-2147483647", "1e2147483648", "1e-2147483649", "1e9999999999", "1e99999999999",
        "-1e-99999999999", "9" * 90, "0." + "1" * 90, "9" * 5000, '"1.50"', '"NaN"', *NO_NUMBERS,
    ])


def test_wide_decimals(decode: Decode) -> None:
    widest = "9" * 20 + "." + "9" * 18
    exact = {text: Decimal(text) for text in (widest, "-" + widest, "0.000000000000000001")}
    agree(decode, "w", exact, ["1" + "0" * 20, "0." + "0" * 18 + "1", widest + "1"])


def test_decimals_without_whole_digits(decode: Decode) -> None:
    texts = ["0", "0.0", "-0", "0e9", "0.999", "-0.999", "0.5", "0.5000", "1e-3", "0.01e1"]
    agree(decode, "z", {text: Decimal(text) for text in texts}, ["1", "1.0", "-1", "1e0", "0.9999", "0.0001", "10e-1"])


def test_strings(decode: Decode) -> None:
    long = "x" * 70_000
    agree(decode, "u", {
        '""': "", '"plain"': "plain", '"null"': "null", "null": None, f'"{long}"': long, '"\x7f"': "\x7f",
        r'"\"\\\/\b\f\n\r\t"': '"\\/\b\f\n\r\t', r'"\u0041\u00e9\u20AC\u0000"': "Aé€\0", '"é€😀"': "é€😀",
        r'"😀\n"': "😀\n", r'"\ud83d\ude00"': "😀", r'"a\uD83D\uDE00b"': "a😀b", r'"\ud83d\ude00\ud83d\ude00"': "😀😀",
        r'"\\ud800"': r"\ud800", '"\u2028\u2029\ufeff\uffff"': "\u2028\u2029\ufeff\uffff",
    }, ["5", "-1.5e3", "true", "[]", '["a"]', "{}", "'a'", "a"])


def test_what_is_no_text_is_refused_wherever_it_stands(decode: Decode) -> None:
    bad = [
        r'"\x"', r'"\u12"', r'"\u12g4"', r'"\u 123"', r'"\u+123"', r'"\U0041"', r'"\'"', '"\\', '"\\"', '"open', '"',
        '"a\nb"', '"\x00"', '"\x1f"', '"tab\t"', '"\\\n"', '"\\\x00"', '"\\é"', '"\\u00é9"', r'"\u٠٠٤١"', r'"\ud800"',
        r'"\udc00"', r'"\ude00\ud83d"', r'"\ud83dx\ude00"', r'"\ud83d\n"', r'"\ud83d\ud83d\ude00"', r'"\ud83d\u0041"',
        r'"\ud83d\\ude00"', r'"\uDBFF"', r'"😀\ude00"', r'"\ud83d\ud"',
    ]
    places = ['{"u":%s}', '{"other":%s}', '{"other":[{"deep":%s}]}', '{%s:1}', '{"other":{%s:1}}', '{"m":{%s:"v"}}']
    records = [place.replace("%s", text) for place in places for text in bad]
    fates = decode(records, "u string, m map<string,string>")
    assert [record for record, fate in zip(records, fates, strict=True) if isinstance(fate, dict)] == []


def test_invalid_utf8_is_refused_wherever_it_stands(decode: Decode) -> None:
    bad = [
        b"\xff", b"\xfe", b"\xc3", b"\x80", b"a\xe9b", b"\xc0\xaf", b"\xc1\x81", b"\xe0\x80\xaf", b"\xed\xa0\x80",
        b"\xe2\x82", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf0\x9f\x98", b"\xf0\x80\x80\xaf", b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ]
    places = [b'{"u":"%s"}', b'{"other":"%s"}', b'{"%s":1}', b'{"u":"\xc3\xa9%s"}', b'{"other":[{"%s":1}]}',
              b'%s{"u":""}']
    fates = decode([place % text for place in places for text in bad], "u string")
    assert set(column(fates, "u")) == {"invalid UTF-8"}


def test_dates(decode: Decode) -> None:
    days = ["2026-03-01", "1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29", "2000-02-29", "1600-02-29",
            "0004-02-29"]
    escaped = {r'"2026\u002d03-01"': date(2026, 3, 1), r'"\u0032026-03-01"': date(2026, 3, 1)}
    agree(decode, "day", {f'"{day}"': date.fromisoformat(day) for day in days} | escaped | {"null": None}, [
        '"2023-02-29"', '"1900-02-29"', '"2100-02-29"', '"2026-04-31"', '"2026-13-01"', '"2026-00-10"', '"2026-01-00"',
        '"0000-01-01"', '"-0001-01-01"', '"+10000-01-01"', '"10000-01-01"', '"2026-1-1"', '"20260301"', '"2026-03"',
        '"2026-03-01T00:00:00Z"', '"2026-03-01 "', '" 2026-03-01"', '""', '"2026/03/01"', '"today"', '"2026-03-01Z"',
        "20260301", "20000", "true", "[]", "{}", '"٢٠٢٦-٠٣-٠١"', r'"2026-03-01\u0000"', r'"2026-03\n-01"',
    ])


def test_timestamps(decode: Decode) -> None:
    fractions = ["", ".5", ".05", ".123", ".123456", ".1234567", ".123456789", ".999999999", ".000000001", ".000001"]
    zones = ["Z", "+00:00", "-00:00", "+01:00", "-0130", "+14", "+1800", "-18:00", "+05:45"]
    texts = [
        *(f"{moment}{fraction}Z" for moment in MOMENTS for fraction in fractions),
        *(f"{moment}{zone}" for moment in MOMENTS[:-2] for zone in zones),
        "0001-01-01T01:00:00+01:00", "9999-12-31T22:59:59.999999-01:00", "2026-03-01 12:00:00Z",
        "2026-03-01 12:00:00.5+01",
    ]
    escaped = {r'"2026-03-01T12:00:00\u002B01:00"': datetime(2026, 3, 1, 11)}
    no_zones = ["+1", "+", "-", "+01:", "+01:0", "+01:000", "+010", "+01:60", "+19:00", "+18:01", "-24:00", "+0a:00",
                "+01:0a", "z", "ZZ", "Z ", " Z", "UTC", "+01:00Z", "[Europe/Berlin]", "Z[UTC]", "+01:00:00", "+01:00 ",
                "+-1:00", "±01:00"]
    agree(decode, "at", {f'"{text}"': _moment(text, zoned=True) for text in texts} | escaped | {"null": None}, [
        *(f'"{text}Z"' for text in NO_MOMENTS), *(f'"2026-03-01T12:00:00{zone}"' for zone in no_zones),
        '"0001-01-01T00:00:00+00:01"', '"9999-12-31T23:59:59-00:01"', '"2026-03-01T12:00:00"',
        '"2026-03-01 12:00:00.123"', "1772366400", "1772366400000", "1.5", "true", "[]", "{}", '"1772366400"',
        '"2026-03-01Z"', r'"2026-03-01\n12:00:00Z"',
    ])


def test_a_timestamp_without_a_zone_says_what_to_do(decode: Decode) -> None:
    (fate,) = decode(['{"at": "2026-03-01T12:00:00"}'], SCALARS)
    assert fate.reason == (
        'field `at`: the timestamp "2026-03-01T12:00:00" has no time zone; '
        "end it with Z or an offset, or declare timestamp_ntz"
    )


def test_timestamps_without_zone(decode: Decode) -> None:
    texts = [f"{moment}{fraction}" for moment in MOMENTS for fraction in ("", ".1", ".123456", ".123456789")]
    zoned = [f'"{MOMENTS[0]}{zone}"' for zone in ("Z", "+01:00", "-00", " ", ".")]
    agree(decode, "local", {f'"{text}"': _moment(text, zoned=False) for text in texts} | {"null": None},
          [*(f'"{text}"' for text in NO_MOMENTS), *zoned, "0"])


def test_binary(decode: Decode) -> None:
    every = bytes(range(256))
    # Some writers escape the slash (PHP) or the equals sign (Gson) in every string.
    escaped = {r'"\/\/\/\/"': b"\xff\xff\xff", r'"AP8\u003d"': b"\x00\xff"}
    agree(decode, "x", {
        '""': b"", '"AP8="': b"\x00\xff", '"AP8"': b"\x00\xff", '"QQ=="': b"A", '"QQ"': b"A",
        '"////"': b"\xff\xff\xff", "null": None, f'"{b64encode(every).decode()}"': every, **escaped,
    }, [
        '"A"', '"AAAAA"', '"="', '"===="', '"A==="', '"QQ="', '"AP8=="', '"AAAA="', '"QQ==QQ=="', '"QQ== "', '" QQ=="',
        '"AP_-"', '"AP8=é"', r'"QUJD\nREVG"', '"é"', '"????"', '"QQÿÿ"', r'"QQ\u00ff\u00ff"', "5", "true", "[0]", "[]",
        "{}",
    ])


def test_missing_and_null_fields(decode: Decode) -> None:
    ddl = ("a int NOT NULL, b string, s struct<x: int NOT NULL, y: int>, "
           "r struct<z: int> NOT NULL, n array<int> NOT NULL")
    row = {"a": 1, "b": None, "s": None, "r": {"z": None}, "n": []}
    good = {
        '{"a":1,"r":{},"n":[]}': row,
        '{"a":1,"r":{},"n":[],"b":null,"s":null}': row,
        '{"a":1,"r":{},"n":[],"s":{"x":5}}': row | {"s": {"x": 5, "y": None}},
        '{"a":1,"r":{},"n":[],"s":{"x":5,"y":null,"z":6}}': row | {"s": {"x": 5, "y": None}},
    }
    bad = {
        "{}": "field `a` is missing",
        '{"r":{},"n":[]}': "field `a` is missing",
        '{"A":1,"r":{},"n":[]}': "field `a` is missing",
        '{"a":null,"r":{},"n":[]}': "field `a` is null",
        '{"a":1,"n":[]}': "field `r` is missing",
        '{"a":1,"r":null,"n":[]}': "field `r` is null",
        '{"a":1,"r":{}}': "field `n` is missing",
        '{"a":1,"r":{},"n":null}': "field `n` is null",
        '{"a":1,"r":{},"n":[],"s":{}}': "field `s.x` is missing",
        '{"a":1,"r":{},"n":[],"s":{"x":null}}': "field `s.x` is null",
    }
    table(decode, ddl, good, bad)


def test_nesting(decode: Decode) -> None:
    ddl = ("a array<array<int>>, m map<string,map<string,double>>, "
           "s struct<t: array<struct<k: string NOT NULL, v: map<string,int>>>>")
    empty = {"a": None, "m": None, "s": None}
    good = {
        '{"a": []}': {"a": []},
        '{"a": [[], null, [1, null, -2]]}': {"a": [[], None, [1, None, -2]]},
        '{"a":[ [ ] , [ 1 , 2 ] ]}': {"a": [[], [1, 2]]},
        '{"m": {}}': {"m": {}},
        r'{"m": {"": {"x": 1, "y": null}, "é": null, "\u0061": {}}}': {"m": {"": {"x": 1.0, "y": None}, "é": None,
        "a": {}}},
        '{"s": {}}': {"s": {"t": None}},
        '{"s": {"t": [null, {"k": "x"}, {"v": {"1": 1}, "k": ""}]}}':
            {"s": {"t": [None, {"k": "x", "v": None}, {"k": "", "v": {"1": 1}}]}},
    }
    bad = {
        '{"a": {}}': "field `a`: expected array<array<int>>, found an object",
        '{"a": [1]}': "field `a[0]`: expected array<int>, found the number 1",
        '{"a": [[], [1, "2"]]}': "field `a[1][1]`: expected int, found a string",
        '{"a": [[1,]]}': "field `a[0][1]`: expected int, found `]`",
        '{"a": [[,1]]}': "field `a[0][0]`: expected int, found `,`",
        '{"a": [[1 2]]}': "expected `,` or `]` at byte 10, found the number 2",
        '{"a": [[1}]}': "expected `,` or `]` at byte 9, found `}`",
        '{"m": []}': "field `m`: expected map<string,map<string,double>>, found an array",
        '{"m": {"k": {"j": "x"}}}': "field `m[k][j]`: expected double, found a string",
        '{"m": {"k": {}, "k": {}}}': "field `m`: the key `k` occurs twice",
        r'{"m": {"k": {}, "\u006b": null}}': "field `m`: the key `k` occurs twice",
        '{"m": {1: {}}}': "expected a key in quotes at byte 7, found the number 1",
        '{"m": {"k": {},}}': "expected a key in quotes at byte 15, found `}`",
        '{"m": {"k" {}}}': "expected `:` at byte 11, found an object",
        '{"s": []}': "field `s`: expected struct<t:array<struct<k:string,v:map<string,int>>>>, found an array",
        '{"s": {"t": [{"k": "x"}, {}]}}': "field `s.t[1].k` is missing",
        '{"s": {"t": [{"k": "x", "v": {"y": 1.5}}]}}': "field `s.t[0].v[y]`: expected int, found the number 1.5",
        '{"s": {"t": [{"k": "x", "k": "y"}]}}': "field `s.t[0].k` occurs twice",
        '{"s": {"t": null}, "s": null}': "field `s` occurs twice",
    }
    table(decode, ddl, {text: empty | row for text, row in good.items()}, bad)


def table(decode: Decode, ddl: str, good: dict[str, Any], bad: dict[Any, str]) -> None:
    """The row of each good record, and the reason of each bad one."""
    fates = decode([*good, *bad], ddl)
    assert fates[: len(good)] == list(good.values())
    assert dict(zip(bad, (getattr(fate, "reason", fate) for fate in fates[len(good) :]), strict=True)) == bad


def test_what_is_not_one_object(decode: Decode) -> None:
    good = ['{"i":1}', ' \t\r\n{"i":1}\n', '{ "i" : 1 }', '{"i":1,"other":1,"other":2}', '{"I":"x","i":1}']
    bad = {
        None: "the record has no value",
        b"": "the value is empty",
        b" \n\t\r ": "the value is blank",
        b"null": "expected an object, found null",
        b"[]": "expected an object, found an array",
        b'"i"': "expected an object, found a string",
        b"5": "expected an object, found the number 5",
        b"true": "expected an object, found a boolean",
        b"\xef\xbb\xbf{}": "expected an object, found byte 0xef",
        b"\x00{}": "expected an object, found byte 0x0",
        b"\x0b{}": "expected an object, found byte 0xb",
        b"{} x": "text after the object at byte 3",
        b'{"i":1}{"i":2}': "text after the object at byte 7",
        b'{"i":1},': "text after the object at byte 7",
        b"{}}": "text after the object at byte 2",
        b"{}\x00": "text after the object at byte 2",
        b"{}\xc2\xa0": "text after the object at byte 2",
        b"{}//": "text after the object at byte 2",
        b"{i:1}": "expected a field name in quotes at byte 1, found `i`",
        b"{'i':1}": "expected a field name in quotes at byte 1, found `'`",
        b"{,}": "expected a field name in quotes at byte 1, found `,`",
        b'{"i":1,}': "expected a field name in quotes at byte 7, found `}`",
        b'{"i":1 "l":2}': "expected `,` or `}` at byte 7, found a string",
        b'{"i" 1}': "expected `:` at byte 5, found the number 1",
        b'{"i":}': "field `i`: expected int, found `}`",
        b'{"i":1]': "expected `,` or `}` at byte 6, found `]`",
        b'{"i":nul}': "expected a value at byte 5, found null",
        b'{"i":1/**/}': "expected `,` or `}` at byte 6, found `/`",
        b'{"i":1,"i":1}': "field `i` occurs twice",
        b'{"i":null,"i":1}': "field `i` occurs twice",
        rb'{"i":1,"\u0069":1}': "field `i` occurs twice",
    }
    table(decode, "i int, l bigint", {text: {"i": 1, "l": None} for text in good}, bad)


def test_what_is_skipped_must_be_json(decode: Decode) -> None:
    good = ["1", "-1.5e+3", "0", '""', r'"\u0041"', "null", "true", "false", "[]", "{}", '[[],{},[{"a":[]}]]',
            "[1 , 2]", '{"a":1,"a":2}', '{ "a" : { } , "b" : [ ] }', "1e999", "123456789012345678901234567890",
            '{"i":"not this one"}']
    bad = ["01", "1.", ".5", "1e", "1e+", "-", "+1", "--1", "NaN", "Infinity", "nul", "tru", "True", "nulll",
           "truefalse", "[1,]", "[,1]", "[1 2]", "[", "]", "[1}", "[}", '{"a"}', '{"a":}', '{"a":1,}', "{,}", "{1:1}",
           '{"a" 1}', '{"a"', '{"a":1]', "{]", '{"a":1 "b":2}', "'a'", ",", "1 1", "[[1]", '{"a":[1}', '[{"a":1]',
           "0x1", "1_000", "undefined"]
    places = ['{"i":5,"other":%s}', '{"other":%s,"i":5}', '{"i":5,"other":{"k":[%s]}}', '{"other":[{"k":%s},0],"i":5}']
    accepted, refused = ([place % text for place in places for text in texts] for texts in (good, bad))
    found = column(decode([*accepted, *refused], "i int"), "i")
    assert found[: len(accepted)] == [5] * len(accepted)
    assert [text for text, value in zip(refused, found[len(accepted) :], strict=True) if value == 5] == []


# fmt: on


def brackets(rng: random.Random, depth: int, kinds: str) -> tuple[str, str]:
    """What opens `depth` arrays and objects, and what closes them."""
    opened = rng.choices(kinds, k=depth)
    start = "".join("[" if kind == "[" else '{"k":' for kind in opened).removesuffix('"k":')
    return start, "".join("]" if kind == "[" else "}" for kind in reversed(opened))


def test_depth_of_what_is_skipped(decode: Decode, rng: random.Random) -> None:
    def other(start: str, stop: str) -> str:
        return f'{{"other":{start}{stop},"i":5}}'

    depths = [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 400, 499, 500]
    good = [other(*brackets(rng, depth, kinds)) for depth in depths for kinds in ("[", "{", "[{", "[{")]
    good.append(other("[", ",".join(["[" * 70 + "]" * 70, '{"k":' * 70 + "1" + "}" * 70] * 5) + "]"))
    start, stop = brackets(rng, 400, "[{")
    swapped = {"]": "}", "}": "]"}
    wrong = [other(start, stop[:i] + swapped[stop[i]] + stop[i + 1 :]) for i in range(len(stop))]
    deep = [other(*brackets(rng, depth, kinds)) for depth in (501, 1000, 100_000) for kinds in ("[", "{", "[{")]
    deep.append(other("[" * 100_000, ""))
    found = column(decode([*good, *wrong, *deep], "i int"), "i")
    assert found[: len(good)] == [5] * len(good)
    assert 5 not in found[len(good) :]
    assert {reason.split(" at ")[0] for reason in found[-len(deep) :]} == {"nested deeper than 500 levels"}


def test_every_prefix_of_a_document_is_refused(decode: Decode) -> None:
    ddl = (
        f"{SCALARS}, n int, a array<array<int>>, m map<string,map<string,double>>, "
        "o struct<k:string,t:array<struct<z:boolean>>>"
    )
    inner = (
        r'"u":"a\"\\é😀\u00e9\ud83d\ude00","b":true,"n":null,"i":-12,"d":-1.5e+30,"c":10.25,"f":0.5,"x":"AP8=",'
        r'"day":"2026-03-01","at":"2026-03-01T12:00:00.5+01:00","local":"2026-03-01 12:00:00",'
        r'"a":[[1,null],[],[-3]],"m":{"k":{"x":1.5},"l":null},"o":{"k":"v","t":[{"z":false},{}]}'
    )
    record = f'{{{inner}, "other" : {{{inner}}}, "\\u0061more": [{{{inner}}}, 0 ] }}'.encode()
    whole, *prefixes = decode([record, *(record[:end] for end in range(len(record)))], ddl)
    assert whole["o"] == {"k": "v", "t": [{"z": False}, {"z": None}]}
    assert [record[:end] for end, fate in enumerate(prefixes) if isinstance(fate, dict)] == []


def test_field_names(decode: Decode) -> None:
    names = ["a", "é😀", "a.b", 'a"b', "a\\b", " ` ", " "]
    ddl = ", ".join(f"`{name.replace('`', '``')}` int" for name in names)
    spelt = {
        text: name
        for name in names
        for text in (
            json.dumps(name),
            json.dumps(name, ensure_ascii=False),
            '"' + "".join(f"\\u{high:02X}{low:02x}" for high, low in batched_pairs(name.encode("utf-16-be"))) + '"',
        )
    }
    fates = decode([f"{{{text}:7}}" for text in spelt], ddl)
    assert [[name for name in names if fate[name] == 7] for fate in fates] == [[name] for name in spelt.values()]


def batched_pairs(raw: bytes) -> Iterator[tuple[int, int]]:
    return zip(raw[::2], raw[1::2], strict=True)


@pytest.mark.parametrize("columns", [64, 65, 200])
def test_many_columns(decode: Decode, columns: int) -> None:
    names = [f"c{i}" for i in range(columns)]
    required = {"c0", "c63", names[-1]}
    row = {name: i for i, name in enumerate(names)}
    good = [row, row | {"c1": None, "c62": None}]
    mirrored = json.dumps(dict(reversed(row.items())))
    twice = [json.dumps(row)[:-1] + f',"{name}":1}}' for name in names]
    without = [json.dumps({k: v for k, v in row.items() if k != name}) for name in sorted(required)]
    fates = decode(
        [*map(json.dumps, good), mirrored, *twice, *without],
        ", ".join(f"{name} int{' NOT NULL' if name in required else ''}" for name in names),
    )
    assert fates[:3] == [*good, row]
    assert column(fates[3:], "c0") == [
        *(f"field `{name}` occurs twice" for name in names),
        *(f"field `{name}` is missing" for name in sorted(required)),
    ]


def test_five_megabytes(decode: Decode) -> None:
    text = 'é"\\\n' * 500_000
    numbers = list(range(300_000))
    record = json.dumps({"skipped": [text], "u": text, "a": numbers}, ensure_ascii=False)
    assert len(record) > 5_000_000
    (fate,) = decode([record], "u string, a array<int>")
    assert fate == {"u": text, "a": numbers}


def test_reasons_are_short(decode: Decode) -> None:
    long = "9" * 1_000_001
    records = [f'{{"{field}":"{long}"}}' for field in ("i", "day", "at", "local", "d", "x")]
    records += [f'{{"{field}":{long}}}' for field in ("i", "l", "f", "d", "c", "u")]
    records += [f'{{"m":{{"{long}":1,"{long}":1}}}}', f'{{"m":{{"{long}":"x"}}}}']
    reasons = column(decode(records, f"{SCALARS}, m map<string,int>"), "u")
    assert [reason for reason in reasons if not 10 < len(reason) < 200] == []


# Generated records


def number_text(rng: random.Random) -> str:  # noqa: PLR0911 - one case a kind
    """A JSON number: short and long, tiny and huge, near a tie between two doubles or two floats."""
    match rng.randrange(7):
        case 0:
            return str(rng.randrange(-(10 ** rng.randrange(1, 40)), 10**20))
        case 1:
            return repr(_double(rng))
        case 2:
            return f"{_double(rng):.{rng.randrange(14, 40)}e}"
        case 3:
            return f"{rng.uniform(-1e6, 1e6):.{rng.randrange(0, 12)}f}"
        case 4:
            digits = "".join(rng.choices(string.digits, k=rng.randrange(1, 45)))
            return f"{rng.choice(['', '-'])}{rng.randrange(10)}.{digits}{rng.choice('eE')}{rng.randrange(-330, 310)}"
        case 5:
            low = abs(_double(rng))
            tie = (Fraction(low) + Fraction(struct.unpack("<d", struct.pack("<q", _bits(low) + 1))[0])) / 2
            return _written(tie, rng.choice(["", "", "0" * 20 + "1"]))
        case _:
            bits = rng.randrange(0x7F7FFFFF)
            return _written((_float_value(bits) + _float_value(bits + 1)) / 2, rng.choice(["", "0" * 30 + "1"]))


def _double(rng: random.Random) -> float:
    while True:
        exponent = rng.choice([0, 1, rng.randrange(2047), rng.randrange(1000, 1100), rng.randrange(890, 1150)])
        bits = rng.getrandbits(1) << 63 | exponent << 52 | rng.getrandbits(52)
        (value,) = struct.unpack("<d", struct.pack("<Q", bits))
        if abs(value) < 1e308:
            return value


def _bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _written(value: Fraction, more: str) -> str:
    """A binary fraction with all its digits, and some more behind them."""
    shift = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**shift).rjust(shift + 1, "0")
    return f"{digits[: len(digits) - shift]}.{digits[len(digits) - shift :]}{more or '0'}"


def test_numbers_are_those_nearest_to_their_text(decode: Decode, rng: random.Random, deep: int) -> None:
    schema = StructType([StructField("d", DoubleType()), StructField("f", FloatType())])
    texts = [number_text(rng) for _ in range(1500 * deep)]
    records = [f'{{"{name}":{text}}}'.encode() for text in texts for name in "df"]
    compare(records, decode(records, "d double, f float"), schema)


def some_type(rng: random.Random, depth: int = 3) -> DataType:
    simple: list[DataType] = [
        *(BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType()),
        *(StringType(), BinaryType(), DateType(), TimestampType(), TimestampNTZType()),
    ]
    precision = rng.randint(1, 38)
    simple.append(DecimalType(precision, rng.randint(0, precision)))
    kind = rng.randrange(10) if depth else 9
    if kind == 0:
        return ArrayType(some_type(rng, depth - 1))
    if kind == 1:
        return MapType(StringType(), some_type(rng, depth - 1))
    return some_struct(rng, depth - 1) if kind == 2 else rng.choice(simple)


def some_struct(rng: random.Random, depth: int = 3) -> StructType:
    plain = [f"f{i}" for i in range(9)]
    names = rng.sample([*plain, "é", "a b", "a.b", 'q"q', "back\\slash", "😀", "`", "SELECT"], rng.randint(1, 8))
    return StructType([StructField(name, some_type(rng, depth), rng.random() < 0.7) for name in names])


def ddl_of(kind: DataType, *, top: bool = True) -> str:
    match kind:
        case StructType():
            fields = (
                f"`{f.name.replace('`', '``')}`{' ' if top else ': '}{ddl_of(f.dataType, top=False)}"
                f"{'' if f.nullable else ' NOT NULL'}"
                for f in kind.fields
            )
            return ", ".join(fields) if top else f"struct<{', '.join(fields)}>"
        case ArrayType():
            return f"array<{ddl_of(kind.elementType, top=False)}>"
        case MapType():
            return f"map<string,{ddl_of(kind.valueType, top=False)}>"
    return kind.simpleString()


class Writer:
    """Random values that fit a type: as JSON text, and as what they must be decoded to."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def value(self, kind: DataType) -> tuple[str, Any]:  # noqa: PLR0911 - one case a type
        rng = self.rng
        match kind:
            case StructType():
                return self.struct(kind)
            case ArrayType():
                items = [self.or_null(kind.elementType, kind.containsNull) for _ in range(rng.randrange(4))]
                return self.brackets("[]", [text for text, _ in items]), [value for _, value in items]
            case MapType():
                fields = {
                    self.word(): self.or_null(kind.valueType, kind.valueContainsNull) for _ in range(rng.randrange(4))
                }
                texts = [self.pair(name, text) for name, (text, _) in fields.items()]
                return self.brackets("{}", texts), {name: value for name, (_, value) in fields.items()}
            case StringType():
                word = self.word()
                return self.quoted(word), word
            case BinaryType():
                raw = rng.randbytes(rng.randrange(9))
                return self.quoted(b64encode(raw).decode()), raw
            case BooleanType():
                return rng.choice([("true", True), ("false", False)])
            case DateType():
                day = date.fromordinal(rng.randint(1, date.max.toordinal()))
                return self.quoted(day.isoformat()), day
            case TimestampType() | TimestampNTZType():
                return self.moment(zoned=isinstance(kind, TimestampType))
        return self.number(kind)

    def or_null(self, kind: DataType, nullable: bool) -> tuple[str, Any]:
        return ("null", None) if nullable and self.rng.random() < 0.15 else self.value(kind)

    def struct(self, kind: StructType) -> tuple[str, dict[str, Any]]:
        row: dict[str, Any] = {}
        texts: list[str] = []
        for field in kind.fields:
            row[field.name] = None
            if not field.nullable or self.rng.random() < 0.8:
                text, row[field.name] = self.or_null(field.dataType, field.nullable)
                texts.append(self.pair(field.name, text))
        texts += [self.pair(f"unknown{self.word()}", self.anything()) for _ in range(self.rng.choice([0, 0, 1, 2]))]
        self.rng.shuffle(texts)
        return self.brackets("{}", texts), row

    def anything(self, depth: int = 3) -> str:
        match self.rng.randrange(8 if depth else 5):
            case 0 | 1:
                return self.quoted(self.word())
            case 2:
                return self.rng.choice(["null", "true", "false"])
            case 3 | 4:
                return number_text(self.rng)
            case 5:
                return self.brackets("[]", [self.anything(depth - 1) for _ in range(self.rng.randrange(4))])
        fields = [self.pair(self.word(), self.anything(depth - 1)) for _ in range(self.rng.randrange(4))]
        return self.brackets("{}", fields)

    def number(self, kind: DataType) -> tuple[str, Any]:
        match kind:
            case DecimalType():
                digits = self.rng.randrange(10 ** self.rng.randint(1, kind.precision))
                exact = Decimal(
                    (self.rng.getrandbits(1) and int(digits > 0), tuple(map(int, str(digits))), -kind.scale)
                )
                return self.rng.choice([f"{exact:f}", str(exact), f"{exact:f}{'' if kind.scale == 0 else '00'}"]), exact
            case FloatType() | DoubleType() if self.rng.random() < 0.1:
                word = self.rng.choice(["NaN", "Infinity", "-Infinity"])
                return self.quoted(word), float(word)
            case DoubleType():
                value = _double(self.rng)
                return repr(value), value
            case FloatType():
                (value,) = struct.unpack("<f", struct.pack("<I", self.rng.randrange(0x7F800000)))
                return repr(value), value
        bits = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}[type(kind)]
        value = self.rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) >> self.rng.randrange(bits)
        return str(value), value

    def moment(self, *, zoned: bool) -> tuple[str, datetime]:
        """With a fraction of any length, and in a random zone."""
        moment = datetime(2, 1, 1) + timedelta(microseconds=self.rng.randrange(9997 * 365 * 86_400 * 10**6))
        digits = self.rng.randrange(7)
        moment = moment.replace(microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))
        minutes = self.rng.choice([None, self.rng.randint(-1080, 1080)]) if zoned else None
        shown = moment + timedelta(minutes=minutes or 0)
        fraction = f".{shown.microsecond:06d}"[: digits + 1] if digits else ""
        text = shown.isoformat(self.rng.choice("T "), "seconds") + fraction
        if zoned and minutes is None:
            text += "Z"
        elif minutes is not None:
            colon = self.rng.choice([":", ""])
            text += f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"
        return self.quoted(text), moment

    def word(self) -> str:
        alphabet = self.rng.choice(
            ["abc", 'ab"\\/\n\t\0\x1f', "aé€😀\u2028\x7f", "".join(map(chr, range(0x20, 0x250)))]
        )
        return "".join(self.rng.choices(alphabet, k=self.rng.randrange(12)))

    def quoted(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.rng.random() < 0.5)

    def pair(self, name: str, text: str) -> str:
        return f"{self.quoted(name)}{self.space()}:{self.space()}{text}"

    def brackets(self, pair: str, items: Sequence[str]) -> str:
        inner = ",".join(f"{self.space()}{item}{self.space()}" for item in items)
        return f"{pair[0]}{inner or self.space()}{pair[1]}"

    def space(self) -> str:
        return "".join(self.rng.choices(" \t\r\n", k=self.rng.choice([0, 0, 0, 1, 3])))


def compare(records: Sequence[bytes], fates: Sequence[Any], schema: StructType) -> None:
    """The decoder and the reference accept the same records with the same rows."""
    for record, fate in zip(records, fates, strict=True):
        try:
            expected: Any = reference(record, schema)
        except NoFit as reason:
            expected = reason
        assert isinstance(fate, dict) != isinstance(expected, NoFit), f"{record!r}: {expected!r}, but {fate}"
        if isinstance(fate, dict):
            assert shown(fate) == shown(expected), record


def test_what_fits_is_decoded(decode: Decode, rng: random.Random, deep: int) -> None:
    for _ in range(5 * deep):
        schema = some_struct(rng)
        write = Writer(rng)
        made = [write.struct(schema) for _ in range(400)]
        records = [text.encode() for text, _ in made]
        fates = decode(records, ddl_of(schema))
        for record, fate, (_, row) in zip(records, fates, made, strict=True):
            assert isinstance(fate, dict), f"{record!r} does not fit {ddl_of(schema)}: {fate.reason}"
            assert shown(fate) == shown(row), record
        compare(records, fates, schema)


def mutated(rng: random.Random, record: bytes) -> bytes:
    raw = bytearray(record)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(raw) + 1)
        few = at + rng.randint(1, 4)
        match rng.randrange(8):
            case 0:
                raw[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                raw[at : at + 1] = bytes([(raw[at] if at < len(raw) else 0) ^ 1 << rng.randrange(8)])
            case 2:
                del raw[at:few]
            case 3:
                raw[at:at] = rng.choice(
                    [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"0", b"-", b".", b"e9", b" "]
                )
            case 4:
                raw[at:at] = rng.choice(
                    [b"null", b"true", b"\\u00e9", b"\\ud800", b"\xc3\xa9", b"\xff", b'"f0":1,', b"1e5"]
                )
            case 5:
                raw[at:at] = raw[at:few]
            case 6:
                # A digit for a digit keeps the syntax and moves the value over its borders.
                digits = [i for i, c in enumerate(raw) if chr(c).isdigit()] or [at]
                at = rng.choice(digits)
                raw[at : at + 1] = rng.choice(string.digits).encode()
            case _:
                if rng.random() < 0.2:
                    del raw[at:]
    return bytes(raw)


def test_broken_records_have_the_same_fate_as_in_the_reference(decode: Decode, rng: random.Random, deep: int) -> None:
    for _ in range(2 * deep):
        schema = some_struct(rng)
        write = Writer(rng)
        records = [mutated(rng, write.struct(schema)[0].encode()) for _ in range(2000)]
        compare(records, decode(records, ddl_of(schema)), schema)
