"""The type that holds the values of two, for the words of an error.

One whole number is wider than the other, a decimal may be wider than both, and everything has a text.
"""

from __future__ import annotations

from pyspark.sql.types import ByteType, DataType, DecimalType, IntegerType, LongType, ShortType, StringType

_WHOLE: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_MOST_DIGITS = 38


def common_type(one: DataType, other: DataType) -> DataType | None:
    """The type that holds every value of both without loss; None where it is not known."""
    digits = _digits(one), _digits(other)
    if digits[0] and digits[1]:
        before, after = max(digits[0][0], digits[1][0]), max(digits[0][1], digits[1][1])
        if not isinstance(one, DecimalType) and not isinstance(other, DecimalType):
            return one if digits[0] > digits[1] else other
        return DecimalType(before + after, after) if before + after <= _MOST_DIGITS else None
    return next((known for known in (one, other) if known == StringType()), None)


def _digits(found: DataType) -> tuple[int, int] | None:
    """How many digits a number has before and after the point."""
    if isinstance(found, DecimalType):
        return found.precision - found.scale, found.scale
    return next(((digits, 0) for whole, digits in _WHOLE.items() if isinstance(found, whole)), None)
