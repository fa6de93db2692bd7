"""SQL expressions over the columns of an operator's input, as its options and its aggregates are given them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign

_STAR = re.compile(r"[(,]\s*(?:[\w`]+\s*\.\s*)?\*")  # all columns, as an argument


def read(rows: DataFrame, text: object, operator: str, option: str) -> tuple[Column, DataType]:
    """A plain SQL expression over the rows that another option of an operator is, and its type."""
    if not isinstance(text, str):
        raise DeclarationError(
            "HR-033", f"The `{option}` of `{operator}` is not text.", where=calling().at(option),
            found=f"{option}={text!r}", fix=f'write a SQL expression, such as `{option}="price * 2"`',
        )  # fmt: skip
    return F.expr(text), types(rows, [(None, option, text)], operator)[text]


def types(rows: DataFrame, texts: Sequence[tuple[str | None, str, str]], operator: str) -> dict[str, DataType]:
    """The type of each expression, which belongs to an aggregate of that name, or to none.

    Spark sees it inside an aggregate, where only plain expressions are allowed, and without the sign of a row: what is
    computed with it when a row comes is not what would be taken back when it goes.
    """
    distinct = list(dict.fromkeys(text for _, _, text in texts))
    if not distinct:
        return {}
    plain = rows.drop(CHANGE) if sign.is_table(rows) else rows
    try:
        if plain is rows or not any(map(_STAR.search, distinct)):
            return _analysed(plain, distinct)
    except (AnalysisException, ParseException):
        pass
    found: dict[str, DataType] = {}
    for name, option, text in texts:
        place, what = name or option, f"its `{option}`" if name is None else f"the {option} of `{name}`"
        try:
            found |= _analysed(plain, [text])
        except (AnalysisException, ParseException) as error:
            if plain is not rows and _is_read(rows, text):
                raise _with_sign(operator, what, text, place) from None
            unknown = (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")
            raise DeclarationError(
                "HR-033",
                f"`{operator}` cannot read {what}, `{text}`"
                + (": its input does not have such a column." if unknown else "."),
                where=calling().at(place),
                found=", ".join(plain.columns) if unknown else str(error).strip().splitlines()[0],
                fix="name one of the columns found" if unknown else "write a plain SQL expression over the columns",
            ) from None
        if plain is not rows and _STAR.search(text):
            raise _with_sign(operator, what, text, place)
    return found


def _analysed(rows: DataFrame, texts: Sequence[str]) -> dict[str, DataType]:
    columns = [F.first(F.expr(text)).alias(f"{COLUMN_PREFIX}{n}") for n, text in enumerate(texts)]
    return dict(zip(texts, (f.dataType for f in rows.groupBy().agg(*columns).schema.fields), strict=True))


def _is_read(rows: DataFrame, text: str) -> bool:
    try:
        return bool(_analysed(rows, [text]))
    except (AnalysisException, ParseException):
        return False


def _with_sign(operator: str, what: str, text: str, place: str) -> DeclarationError:
    return DeclarationError(
        "HR-033", f"`{operator}` cannot use `{CHANGE}` in {what}: it says what becomes of a row, and one that goes "
        "would be taken for another than the one that came.", where=calling().at(place), found=text,
        fix="use other columns, by their names: a row that is taken back is taken out by itself",
    )  # fmt: skip
