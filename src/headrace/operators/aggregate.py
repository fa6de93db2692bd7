"""Aggregates: what `window` and `sliding` compute over the rows of a group.

    hr.window(orders, hr.tumbling("1 hour"), by="shop", n=hr.count(), spent=hr.sum("price * pieces"),
              best=hr.max_by("id", "price"), refused=hr.count(where="state = 'refused'"))

**Meaning.** `column`, `by` and `where` are SQL expressions over the columns of the input. Rows for which `where` is not
true do not count, and nulls are skipped, as in SQL: over nothing a count is 0, `collect` and `approx_top_k` are empty
and everything else is null. `-0.0` is `0.0`, and NaN is larger than every number and equal to itself.

**Ties.** The result does not depend on the order of the rows. Where several rows could give it, the event time and then
the value decide: `first` takes the smallest value at the earliest time, `last` the largest value at the latest time,
`min_by` and `max_by` the smallest value (null is smaller than every value), `collect` sorts by time and then value,
`approx_top_k` by count, largest first, and then item.

**Numbers.** The sum of whole numbers is a bigint, of decimals a decimal with ten more digits (38 at most), and one that
does not fit is an error, never a wrong number. The sum and the mean of floating-point numbers are doubles; their last
digits depend on the order in which they were added.

**Error.** The `approx_` aggregates and `count_min` are sketches in a stream, each with the bound that its function
names, and exact in batch. A sketch has a fixed size, however many rows it has seen.

**State.** A number or one value for most; `collect` keeps up to `most` values, `count_distinct` every distinct value.

**Limits.** In batch the values of `collect`, `max_by`, `approx_quantile` and `approx_top_k` are gathered in memory, one
group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F  # noqa: N812
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import COLUMN_PREFIX
from headrace.operators import expression
from headrace.operators.keys import is_bytewise

INPUT_PREFIX = f"{COLUMN_PREFIX}in_"

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_REAL = (FloatType, DoubleType)
_TEXTABLE = (*_WHOLE, *_REAL, DecimalType, BooleanType, StringType, DateType, TimestampType, TimestampNTZType)
_PLAIN = (*_TEXTABLE, BinaryType)
_RESULTS = {
    "avg": DoubleType(),
    "count_distinct": LongType(),
    "approx_distinct": LongType(),
    "approx_quantile": DoubleType(),
    "approx_top_k": ArrayType(StructType().add("item", StringType()).add("count", LongType())),
    "count_min": MapType(StringType(), LongType()),
}
_INPUTS = {
    "avg": DoubleType(),
    "approx_quantile": DoubleType(),
    "approx_top_k": StringType(),
    "count_min": StringType(),
}
_ROUNDING = 1e7
_LEAST_LONG, _GREATEST_LONG = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Aggregate:
    """An aggregate as it was declared; `options` are those of its kind."""

    kind: str
    column: str | None = None
    by: str | None = None
    where: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


# What the user writes


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """How many rows there are, or how many in which `column` is not null."""
    return _declared("count", None if isinstance(column, str) and column == "*" else column, where=where)


def sum(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001
    """The sum of a number."""
    return _declared("sum", column, where=where)


def min(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001
    """The smallest value."""
    return _declared("min", column, where=where)


def max(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001
    """The largest value."""
    return _declared("max", column, where=where)


def avg(column: str, *, where: str | None = None) -> Aggregate:
    """The mean of a number, as a double; a decimal is converted by hand."""
    return _declared("avg", column, where=where)


def first(column: str, *, where: str | None = None) -> Aggregate:
    """The value with the earliest event time."""
    return _declared("first", column, where=where)


def last(column: str, *, where: str | None = None) -> Aggregate:
    """The value with the latest event time."""
    return _declared("last", column, where=where)


def min_by(column: str, by: str, *, ties: int | None = None, where: str | None = None) -> Aggregate:
    """The value of `column` in the row with the smallest `by`; rows in which `by` is null do not count.

    With `ties` an array of the values of all such rows, in order, of which the first `ties` are kept. The column may be
    a struct, such as `struct(id, price)`.
    """
    return _declared("min_by", column, by=by, where=where, **_ties("min_by", ties))


def max_by(column: str, by: str, *, ties: int | None = None, where: str | None = None) -> Aggregate:
    """The value of `column` in the row with the largest `by`; the rest as for `min_by`."""
    return _declared("max_by", column, by=by, where=where, **_ties("max_by", ties))


def _ties(kind: str, ties: int | None) -> dict[str, int]:
    if ties is None:
        return {}
    _whole(kind, "ties", ties, 1, 1_000_000)
    return {"ties": ties}


def collect(column: str, *, most: int = 100, where: str | None = None) -> Aggregate:
    """The first `most` values by event time, as an array in that order."""
    _whole("collect", "most", most, 1, 1_000_000)
    return _declared("collect", column, where=where, most=most)


def count_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """How many different values there are, exactly; every one of them is kept in the state."""
    return _declared("count_distinct", column, where=where)


def approx_distinct(column: str, *, lg_k: int = 12, where: str | None = None) -> Aggregate:
    """How many different values there are, by a HyperLogLog sketch of 2^`lg_k` bytes.

    The relative standard error is 1.04 / sqrt(2^`lg_k`) for a large number: 1.6 % with 12, 0.8 % with 14.
    """
    _whole("approx_distinct", "lg_k", lg_k, 4, 21)
    return _declared("approx_distinct", column, where=where, lg_k=lg_k)


def approx_quantile(column: str, q: float, *, k: int = 200, where: str | None = None) -> Aggregate:
    """The smallest value that at least the fraction `q` of the values do not exceed, as a double, by a KLL sketch.

    The rank of the answer is within 1.33 % of `q` with `k` 200, in 99 % of the cases; the error falls about as 1 / `k`.
    Up to `k` values the answer is exact. NaN is skipped.
    """
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
        raise _out_of_range("approx_quantile", "q", q, "a fraction from 0 to 1, such as 0.99")
    _whole("approx_quantile", "k", k, 8, 65_535)
    return _declared("approx_quantile", column, where=where, q=float(q), k=k)


def approx_top_k(column: str, k: int, *, capacity: int = 1024, where: str | None = None) -> Aggregate:
    """The `k` most frequent values, as text, with their counts, by a frequent-items sketch.

    A count is never too low and at most 3.5 / `capacity` of all the rows too high (0.34 % with 1024); a value that is
    left out was not more frequent than that above the last. Up to 0.75 × `capacity` different values it is exact.
    """
    _whole("approx_top_k", "capacity", capacity, 8, 1 << 20)
    if capacity & (capacity - 1):
        raise _out_of_range("approx_top_k", "capacity", capacity, "a power of two, such as 1024")
    _whole("approx_top_k", "k", k, 1, capacity * 3 // 4)
    return _declared("approx_top_k", column, where=where, k=k, capacity=capacity)


def count_min(
    column: str, of: Sequence[str | int], *, error: float = 0.01, confidence: float = 0.99, where: str | None = None
) -> Aggregate:
    """How often each of the values `of` stands in `column`, as a map of text to count, by a count-min sketch.

    A count is at most `error` of all the rows too high, with a probability of `confidence`, and never too low. Values
    are compared as text, as `cast(… as string)` writes them.
    """
    for option, value in (("error", error), ("confidence", confidence)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0001 <= value <= 0.9999:
            raise _out_of_range("count_min", option, value, "a fraction from 0.0001 to 0.9999, such as 0.01")
    values = [of] if isinstance(of, str) or not isinstance(of, Sequence) else list(of)
    if not all(isinstance(value, str | int) for value in values):
        raise _out_of_range("count_min", "of", values, "a list of texts or whole numbers")
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    if not 1 <= len(texts) <= 1000 or len(set(texts)) < len(texts):
        raise _out_of_range("count_min", "of", values, "between 1 and 1,000 different values")
    return _declared("count_min", column, where=where, of=texts, error=float(error), confidence=float(confidence))


def _declared(
    kind: str, column: str | None, *, by: str | None = None, where: str | None = None, **options: Any
) -> Aggregate:
    for option, text in (("column", column), ("by", by), ("where", where)):
        if text is not None and not isinstance(text, str):
            raise DeclarationError(
                "HR-033", f"The `{option}` of `{kind}` is not text.", where=calling().at(option),
                found=f"{type(text).__name__} {text}", fix='write a SQL expression, such as `"price * 2"`',
            )  # fmt: skip
    return Aggregate(kind, column, by, where, options)


def _whole(kind: str, option: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _out_of_range(kind, option, value, f"a whole number from {least} to {most}")


def _out_of_range(kind: str, option: str, value: object, wanted: str) -> DeclarationError:
    return DeclarationError(
        "HR-035", f"`{kind}` cannot use its `{option}`.", where=calling().at(option), found=value,
        fix=f"give it {wanted}",
    )  # fmt: skip


# The aggregates of an operator over known rows


@dataclass(frozen=True)
class Bound:
    """An aggregate over rows of a known schema; `input` and `by` are numbers of input columns, or -1. `taken_back`
    says that rows may go again."""

    name: str
    aggregate: Aggregate
    type: DataType
    input: int = -1
    input_type: DataType | None = None
    by: int = -1
    by_type: DataType | None = None

    taken_back: bool = False

    def told(self) -> dict[str, Any]:
        """What the kernel is told."""
        return {
            "name": self.name,
            "kind": self.aggregate.kind,
            "input": self.input,
            "by": self.by,
            **dict(zip(("type", "input_type", "by_type"), self._types(), strict=True)),
            "taken_back": self.taken_back,
            **self.aggregate.options,
        }

    def described(self) -> str:
        """The aggregate as it was declared, with the types that are kept of it."""
        one = self.aggregate
        given = [text for text in (one.column, one.by) if text is not None]
        given += [f"{name}={value}" for name, value in sorted(one.options.items())]
        where = "" if one.where is None else f" where {one.where}"
        types = " ".join(kind for kind in self._types() if kind is not None)
        return f"{self.name} = {one.kind}({', '.join(given)}){where} as {types}"

    def _types(self) -> list[str | None]:
        return [kind.simpleString() if kind else None for kind in (self.type, self.input_type, self.by_type)]


@dataclass
class Inputs:
    """The input columns of the aggregates of an operator: each distinct expression once."""

    columns: list[Column] = field(default_factory=list)
    _known: dict[tuple[str, str | None, str], int] = field(default_factory=dict)

    def add(self, text: str, where: str | None, value: Column, type: DataType) -> int:  # noqa: A002
        """The number of the input `text where where` as a `type`; `value` computes it."""
        key = (text, where, type.simpleString())
        if key not in self._known:
            self._known[key] = len(self.columns)
            given = value if where is None else F.when(F.expr(where), value)
            self.columns.append(given.alias(f"{INPUT_PREFIX}{len(self.columns)}"))
        return self._known[key]


def bind(
    rows: DataFrame, aggregates: Mapping[str, Any], operator: str, taken: Sequence[str]
) -> tuple[list[Bound], DataFrame]:
    """The aggregates with their types, and the rows with their input columns; the names `taken` cannot be used."""
    return bound_to(rows, _checked(aggregates, operator, taken), operator)


def bound_to(rows: DataFrame, declared: Mapping[str, Aggregate], operator: str) -> tuple[list[Bound], DataFrame]:
    """The same of aggregates under any names."""
    texts = [
        (name, option, text)
        for name, one in declared.items()
        for option, text in (("column", one.column), ("by", one.by), ("where", one.where))
        if text is not None
    ]
    types = expression.types(rows, texts, operator)
    inputs = Inputs()
    bound = [_bound(name, one, types, inputs, operator) for name, one in declared.items()]
    return bound, rows.select("*", *inputs.columns)


def _checked(aggregates: Mapping[str, Any], operator: str, taken: Sequence[str]) -> dict[str, Aggregate]:
    if not aggregates:
        raise DeclarationError(
            "HR-037", f"`{operator}` has nothing to compute.", where=calling().where,
            fix="name an aggregate, such as `n=hr.count()`",
        )  # fmt: skip
    names = {name.lower() for name in taken}
    for name, one in aggregates.items():
        if not isinstance(one, Aggregate):
            raise DeclarationError(
                "HR-037", f"`{name}` of `{operator}` is neither an option nor an aggregate.", where=calling().at(name),
                found=f"{type(one).__name__} {one}", fix="use Headrace's aggregates, such as `hr.count()`",
            )  # fmt: skip
        if name.lower() in names or name.startswith(COLUMN_PREFIX):
            raise DeclarationError(
                "HR-036", f"`{operator}` cannot call an aggregate `{name}`: its result has that column already.",
                where=calling().at(name), found=", ".join(taken), fix="choose another name",
            )  # fmt: skip
        names.add(name.lower())
    return dict(aggregates)


def refuse_options(operator: str, **options: object) -> None:
    """An aggregate may not have the name of an option of its operator."""
    for name, value in options.items():
        if isinstance(value, Aggregate):
            raise DeclarationError(
                "HR-036", f"`{name}` is an option of `{operator}`, so an aggregate cannot have that name.",
                where=calling().at(name), fix="choose another name",
            )  # fmt: skip


def _bound(name: str, one: Aggregate, types: Mapping[str, DataType], inputs: Inputs, operator: str) -> Bound:
    if one.where is not None and not isinstance(types[one.where], BooleanType):
        raise _unusable(name, operator, one.where, types[one.where], "write a condition, such as `price > 10`")
    if one.column is None:
        if one.where is None:
            return Bound(name, one, LongType())
        number = inputs.add("1", one.where, F.lit(1), IntegerType())
        return Bound(name, one, LongType(), number, IntegerType())
    found = types[one.column]
    _check_type(name, one, found, operator)
    type_, input_type = _result(one, found)
    number = inputs.add(one.column, one.where, _value(one.kind, one.column, found, input_type), input_type)
    if one.by is None:
        return Bound(name, one, type_, number, input_type)
    by_type = types[one.by]
    if not _is(by_type, _PLAIN):
        raise _unusable(name, operator, one.by, by_type, "compare plain values, such as numbers, texts or times")
    by = inputs.add(one.by, one.where, _value(one.kind, one.by, by_type, by_type), by_type)
    return Bound(name, one, type_, number, input_type, by, by_type)


def _check_type(name: str, one: Aggregate, found: DataType, operator: str) -> None:
    text = one.column or ""
    if one.kind in ("sum", "avg", "approx_quantile"):
        if not _is(found, (*_WHOLE, *_REAL, DecimalType)):
            raise _unusable(name, operator, text, found, f"give it a number, such as `cast({text} as double)`")
        if one.kind == "avg" and isinstance(found, DecimalType):
            raise _unusable(name, operator, text, found, f"the mean is a double: write `cast({text} as double)`")
    elif one.kind in ("approx_top_k", "count_min"):
        if not _is(found, _TEXTABLE):
            raise _unusable(name, operator, text, found, "give it a value that has a text, or make one of it")
    elif one.kind in ("min_by", "max_by") and isinstance(found, StructType):
        for part in found.fields:
            if not _is(part.dataType, _PLAIN):
                raise _unusable(name, operator, text, found, f"leave out `{part.name}`, which is not a plain value")
    elif one.kind != "count" and not _is(found, _PLAIN):
        raise _unusable(name, operator, text, found, f"take a plain value out of it, or `to_json({text})`")


def _result(one: Aggregate, found: DataType) -> tuple[DataType, DataType]:
    """The types of the result and of the input of an aggregate whose column is a `found`."""
    kind = one.kind
    if kind == "sum":
        return _total(found), _total(found)
    if kind == "count":
        return LongType(), found if _is(found, _PLAIN) else IntegerType()
    if kind == "collect" or "ties" in one.options:
        return ArrayType(found), found
    return _RESULTS.get(kind, found), _INPUTS.get(kind, found)


def _total(found: DataType) -> DataType:
    if isinstance(found, DecimalType):
        return DecimalType(38 if found.precision > 28 else found.precision + 10, found.scale)
    return DoubleType() if isinstance(found, _REAL) else LongType()


def _value(kind: str, text: str, found: DataType, wanted: DataType) -> Column:
    """The input of an aggregate: one zero, and the wanted type."""
    value = F.expr(text)
    if isinstance(found, _REAL):
        value = F.when(value == 0, F.lit(0.0).cast(found)).otherwise(value)
    if kind == "count" and not _is(found, _PLAIN):
        return F.when(value.isNotNull(), F.lit(1))
    return value if found == wanted else value.cast(wanted)


def _is(found: DataType, types: tuple[type[DataType], ...]) -> bool:
    return is_bytewise(found) and isinstance(found, types)


def _unusable(name: str, operator: str, text: str, found: DataType, fix: str) -> DeclarationError:
    return DeclarationError(
        "HR-034", f"`{name}` of `{operator}` cannot use `{text}`.", where=calling().at(name),
        found=found.simpleString(), fix=fix,
    )  # fmt: skip


# The batch twins


@dataclass(frozen=True)
class _Group:
    """What the batch twin of an aggregate is made of; `window` is None for a group-by."""

    bound: Bound
    value: Column
    by: Column
    time: Column
    window: WindowSpec | None

    def over(self, column: Column) -> Column:
        return column if self.window is None else column.over(self.window)

    def option(self, name: str) -> Any:
        return self.bound.aggregate.options[name]


def batch(bound: Bound, time: Column, window: WindowSpec | None = None) -> Column:
    """An aggregate of static rows that have the input columns: over a group, or for each row over `window`."""
    value = F.lit(1) if bound.input < 0 else F.col(f"{INPUT_PREFIX}{bound.input}")
    by = value if bound.by < 0 else F.col(f"{INPUT_PREFIX}{bound.by}")
    result = _TWINS[bound.aggregate.kind](_Group(bound, value, by, time, window))
    return result.cast(bound.type).alias(bound.name)


def _sum(group: _Group) -> Column:
    if isinstance(group.bound.type, DoubleType):
        return group.over(F.sum(group.value))
    if isinstance(group.bound.type, LongType):  # it may become too large on the way
        total = group.over(F.sum(group.value.cast("decimal(28, 0)")))
        lost = (total < _LEAST_LONG) | (total > _GREATEST_LONG)
    else:
        total = group.over(F.try_sum(group.value))
        lost = total.isNull() & (group.over(F.count(group.value)) > 0)
    what = f"the aggregate {group.bound.name} does not fit {group.bound.type.simpleString()}"
    return F.when(lost, F.raise_error(F.lit(f"{what}; sum a wider type, such as a decimal"))).otherwise(total)


def _timed(group: _Group) -> Column:
    """A value with its event time, by which it sorts; null, and so skipped, where the value is."""
    return F.when(group.value.isNotNull(), F.struct(group.time.alias("key"), group.value.alias("value")))


def _ranked(group: _Group) -> Column:
    """A value with its `by`, by which it sorts; null, and so skipped, where `by` is."""
    return F.when(group.by.isNotNull(), F.struct(group.by.alias("key"), group.value.alias("value")))


def _min_by(group: _Group) -> Column:
    if "ties" in group.bound.aggregate.options:
        return _tied(group, F.min)
    return group.over(F.min(_ranked(group))).getField("value")


def _tied(group: _Group, extreme: Callable[[Column], Column]) -> Column:
    """The values of the rows with the extreme `by`, in order, nulls first."""

    def tied(entries: Column) -> Column:
        pick = F.array_min if extreme is F.min else F.array_max
        key = pick(entries).getField("key")
        equal = _let(key, lambda best: F.filter(entries, lambda entry: entry.getField("key") == best))
        first = F.slice(F.array_sort(equal), 1, group.option("ties"))
        return F.when(F.size(entries) > 0, F.transform(first, lambda entry: entry.getField("value")))

    return _let(group.over(F.collect_list(_ranked(group))), tied)


def _max_by(group: _Group) -> Column:
    if "ties" in group.bound.aggregate.options:
        return _tied(group, F.max)

    def best(entries: Column) -> Column:
        key = F.array_max(entries).getField("key")
        return _let(key, lambda top: F.array_min(F.filter(entries, lambda entry: entry.getField("key") == top)))

    return _let(group.over(F.collect_list(_ranked(group))), best).getField("value")


def _collect(group: _Group) -> Column:
    ordered = F.array_sort(group.over(F.collect_list(_timed(group))))
    return F.transform(F.slice(ordered, 1, group.option("most")), lambda entry: entry.getField("value"))


def _distinct(group: _Group) -> Column:
    if group.window is None:
        return F.count_distinct(group.value)
    return F.size(group.over(F.collect_set(group.value)))


def _quantile(group: _Group) -> Column:
    """The value whose rank, from 1 to n, is q × n rounded up; as DataSketches does, q × n is taken to seven digits."""

    def ranked(ordered: Column) -> Column:
        rank = F.ceil(F.floor(F.size(ordered) * F.lit(group.option("q")) * _ROUNDING + 0.5) / _ROUNDING)
        return F.get(ordered, (F.greatest(rank, F.lit(1)) - 1).cast("int"))

    numbers = F.when(~F.isnan(group.value), group.value)
    return _let(F.array_sort(group.over(F.collect_list(numbers))), ranked)


def _top(group: _Group) -> Column:
    """The most frequent values: the lengths of the runs of equal values in sorted order."""

    def runs(ordered: Column) -> Column:
        size = F.size(ordered)
        places = F.when(size > 0, F.sequence(F.lit(0), size - 1)).otherwise(F.array().cast("array<int>"))
        starts = F.filter(places, lambda i: ~F.get(ordered, i).eqNullSafe(F.get(ordered, i - 1)))

        def counted(start: Column) -> Column:
            def run(begin: Column, number: Column) -> Column:
                length = F.coalesce(F.get(start, number + 1), size) - begin
                return F.struct((-length).alias("less"), F.get(ordered, begin).alias("item"))

            return F.transform(start, run)

        return _let(starts, counted)

    def answer(run: Column) -> Column:
        return F.struct(run.getField("item").alias("item"), (-run.getField("less")).cast("long").alias("count"))

    ordered = F.array_sort(group.over(F.collect_list(group.value)))
    return F.transform(F.slice(F.array_sort(_let(ordered, runs)), 1, group.option("k")), answer)


def _counts(group: _Group) -> Column:
    counts = ((F.lit(text), group.over(F.count(F.when(group.value == text, 1)))) for text in group.option("of"))
    return F.create_map(*(part for pair in counts for part in pair))


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a value that is computed once."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


_TWINS: dict[str, Callable[[_Group], Column]] = {
    "count": lambda group: group.over(F.count(group.value)),
    "sum": _sum,
    "avg": lambda group: group.over(F.avg(group.value)),
    "min": lambda group: group.over(F.min(group.value)),
    "max": lambda group: group.over(F.max(group.value)),
    "first": lambda group: group.over(F.min(_timed(group))).getField("value"),
    "last": lambda group: group.over(F.max(_timed(group))).getField("value"),
    "min_by": _min_by,
    "max_by": _max_by,
    "collect": _collect,
    "count_distinct": _distinct,
    "approx_distinct": _distinct,
    "approx_quantile": _quantile,
    "approx_top_k": _top,
    "count_min": _counts,
}
