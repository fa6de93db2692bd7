"""Which tables a SQL query reads, from its text alone.

A declaration knows nothing of Spark, so its parser is not at hand. What a query reads stands behind `FROM`, `JOIN`,
`TABLE` and the commas of a `FROM`; a name that the query itself defines with `WITH` is none of them, nor is a function
such as `range(10)`. Everything else of the text is passed over. A text that is no SQL gives something or nothing: Spark
refuses it when the query is planned, with the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |`(?P<quoted>(?:[^`]|``)+)`
    |(?P<word>[^\W\d]\w*)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_ENDS_FROM = {"WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "CLUSTER", "DISTRIBUTE"}
_ENDS_FROM |= {"SORT", "SELECT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL"}
# In the parentheses of these, FROM stands between arguments: extract(year FROM at).
_WITH_FROM = {"EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "OVERLAY", "POSITION"}
_STEPS = {"JOIN", ","}


@dataclass(frozen=True)
class _Token:
    """`text` in capitals where it may be a keyword; `name` where it may be a name."""

    text: str
    name: str | None = None


@dataclass
class _Depth:
    """What is known between two parentheses: whether a `FROM` is being read, and whether a table comes next."""

    of_arguments: bool = False
    in_from: bool = False
    expects: bool = False


def relations(sql: str) -> tuple[str, ...]:
    """The names of the tables, each once, in the order in which they first stand there."""
    tokens = list(_tokens(sql))
    own = {name.lower() for name in _defined(tokens)}
    found = dict.fromkeys(name for name in _read(tokens) if name.lower() not in own)
    return tuple(found)


def _tokens(sql: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(sql):
        if found["quoted"] is not None:
            yield _Token("", found["quoted"].replace("``", "`"))
        elif found["word"] is not None:
            yield _Token(found["word"].upper(), found["word"])
        elif found["text"] is not None:
            yield _Token("''")
        elif found["other"] is not None:
            yield _Token(found["other"])


def _defined(tokens: Sequence[_Token]) -> Iterator[str]:
    """The names that a `WITH` defines: those before `AS (`, with or without columns."""
    for number, token in enumerate(tokens):
        if token.name is None or number == 0 or tokens[number - 1].text not in ("WITH", "RECURSIVE", ","):
            continue
        after = number + 1
        if after < len(tokens) and tokens[after].text == "(":
            after = _behind(tokens, after)
        if [one.text for one in tokens[after : after + 2]] == ["AS", "("]:
            yield token.name


def _behind(tokens: Sequence[_Token], opening: int) -> int:
    """The place behind the parenthesis that belongs to this one."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number].text == "(") - (tokens[number].text == ")")
        if depth == 0:
            return number + 1
    return len(tokens)


def _read(tokens: Sequence[_Token]) -> Iterator[str]:
    depths = [_Depth()]
    before = _Token("")
    for number, token in enumerate(tokens):
        here, after = depths[-1], tokens[number + 1] if number + 1 < len(tokens) else _Token("")
        if token.text == "(":
            inside = _Depth(of_arguments=before.text in _WITH_FROM, in_from=here.expects, expects=here.expects)
            inside.expects |= before.text == "TABLE"
            here.expects = False
            depths.append(inside)
        elif token.text == ")" and len(depths) > 1:
            depths.pop()
        elif token.text == "FROM" and before.text != "DISTINCT" and not here.of_arguments:
            here.in_from = here.expects = True
        elif (token.text in _STEPS and here.in_from) or (token.text == "TABLE" and after.name is not None):
            here.expects = True
        elif here.expects and token.text not in ("LATERAL", "TABLE") and token.text not in _ENDS_FROM:
            here.expects = False
            if token.name is not None and token.text not in ("VALUES", "WITH") and after.text != "(":
                yield _dotted(tokens, number)
        elif token.text in _ENDS_FROM and not (token.text == "LATERAL" and here.expects):
            here.in_from = here.expects = False
        before = token


def _dotted(tokens: Sequence[_Token], number: int) -> str:
    """The whole name that begins here: `shop.orders` is one."""
    parts = [tokens[number].name or ""]
    while [one.text for one in tokens[number + 1 : number + 2]] == ["."] and number + 2 < len(tokens):
        number += 2
        parts.append(tokens[number].name or "")
    return ".".join(parts)
