"""The columns of a record, written as Spark's DDL and read without Spark.

`Schema.parse("id string NOT NULL, amount decimal(10,2), tags array<string>")` gives frozen fields whose types are
canonical: lower case, one name a type (`long` is `bigint`), no spaces. `Schema.ddl` is text that parses to an equal
schema, here and in Spark.

Types: boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp,
timestamp_ntz, array<…>, map<string,…>, struct<…>. A map's key is a string because records are JSON objects. `NOT NULL`
stands after a column or a struct field; `COMMENT '…'` is accepted and dropped. Names that are not plain words stand in
back-quotes. Two columns may not differ only in case, because Spark takes them for the same one.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace

_ALIASES = {
    "boolean": "boolean",
    "tinyint": "tinyint", "byte": "tinyint",
    "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int",
    "bigint": "bigint", "long": "bigint",
    "float": "float", "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp", "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}  # fmt: skip
_DECIMALS = ("decimal", "dec", "numeric")
_TYPES = (*dict.fromkeys(_ALIASES.values()), "decimal", "array", "map", "struct")
# What people bring along from other systems, and what it is called here.
_FOREIGN = {
    "text": "string", "varchar": "string", "char": "string", "str": "string", "uuid": "string", "json": "string",
    "jsonb": "string", "enum": "string",
    "bool": "boolean", "bytes": "binary", "bytea": "binary", "blob": "binary",
    "datetime": "timestamp", "timestamptz": "timestamp", "time": "timestamp", "instant": "timestamp",
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint64": "decimal(20,0)",
    "float32": "float", "float64": "double", "number": "double", "money": "decimal(19,4)",
    "list": "array<…>", "dict": "map<string,…>", "object": "struct<…>", "record": "struct<…>",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<space>(?:\s|--[^\n]*)+)|(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>\d+)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[<>(),:])"
)
_FORM = "a schema is `name type, name type, …`, such as `id string NOT NULL, amount double`"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SchemaError(ValueError):
    """A schema that cannot be read: `reason`, what to do about it, and the offset of the first wrong character."""

    def __init__(self, reason: str, hint: str, position: int) -> None:
        super().__init__(f"{reason} at character {position + 1}; {hint}")
        self.reason = reason
        self.hint = hint
        self.position = position


@dataclass(frozen=True)
class Field:
    """One column; `type` is canonical."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """Columns in order."""

    fields: tuple[Field, ...]

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Read DDL; SchemaError (a ValueError) says where it is wrong and what was expected."""
        return cls(_Parser(text).schema())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def ddl(self) -> str:
        return ", ".join(
            f"{_quoted(field.name)} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in self.fields
        )

    def field(self, name: str) -> Field | None:
        """The column with exactly this name."""
        return next((field for field in self.fields if field.name == name), None)

    def require(self, *names: str) -> Schema:
        """The same schema with these columns NOT NULL; KeyError when one is not a column."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise KeyError(missing[0])
        return Schema(
            tuple(replace(field, nullable=field.nullable and field.name not in names) for field in self.fields)
        )


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


class _Parser:
    """Recursive descent over the tokens of one text; the last token is always `end`."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._index = 0

    def schema(self) -> tuple[Field, ...]:
        if self._next.kind == "end":
            raise self._wrong("expected columns, found nothing")
        fields = self._fields(within="the schema", colon=False)
        if self._next.kind != "end":
            raise self._wrong(
                f"expected a comma or the end after column `{fields[-1].name}`, found `{self._next.text}`"
            )
        return fields

    def _fields(self, *, within: str, colon: bool) -> tuple[Field, ...]:
        fields = [self._field(within=within, colon=colon)]
        while self._take(","):
            start = self._next
            field = self._field(within=within, colon=colon)
            if field.name.lower() in (other.name.lower() for other in fields):
                raise self._wrong(
                    f"`{field.name}` stands twice in {within}",
                    "rename one of the two; upper and lower case are the same",
                    start,
                )
            fields.append(field)
        return tuple(fields)

    def _field(self, *, within: str, colon: bool) -> Field:
        name = self._name(within)
        if self._next.text == ":":
            if not colon:
                raise self._wrong(
                    f"found `:` after column `{name}`", "write a space between a column and its type, not `:`"
                )
            self._index += 1
        kind = self._type(name)
        nullable = True
        if self._take("not"):
            if not self._take("null"):
                raise self._wrong(f"expected NULL after NOT in column `{name}`, found {self._shown}")
            nullable = False
        if self._take("comment"):
            if self._next.kind != "text":
                raise self._wrong(f"expected a text in quotes after COMMENT in column `{name}`, found {self._shown}")
            self._index += 1
        if self._next.kind in ("word", "quoted"):
            raise self._wrong(
                f"expected a comma, NOT NULL or the end after column `{name}`, found {self._shown}",
                f"is a comma missing before {self._shown}?",
            )
        return Field(name, kind, nullable)

    def _name(self, within: str) -> str:
        token = self._next
        if token.kind == "quoted":
            self._index += 1
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            raise self._wrong(
                f"expected the name of a column in {within}, found {self._shown}",
                "name the column or remove the comma; a name that is not a plain word stands in back-quotes",
            )
        self._index += 1
        return token.text

    def _type(self, column: str) -> str:
        token = self._next
        if token.kind != "word":
            raise self._wrong(f"expected the type of column `{column}`, found {self._shown}")
        self._index += 1
        word = token.text.lower()
        if word in _ALIASES:
            return _ALIASES[word]
        if word in _DECIMALS:
            return self._decimal(column)
        if word == "array":
            self._expect("<", "array")
            element = self._type(column)
            self._expect(">", "array")
            return f"array<{element}>"
        if word == "map":
            return self._map(column)
        if word == "struct":
            self._expect("<", "struct")
            fields = self._fields(within=f"the struct in column `{column}`", colon=True)
            self._expect(">", "struct")
            return f"struct<{','.join(_member(field) for field in fields)}>"
        raise self._wrong(f"column `{column}`: `{token.text}` is not a type", _suggestion(word), token)

    def _map(self, column: str) -> str:
        self._expect("<", "map")
        start = self._next
        if self._type(column) != "string":
            raise self._wrong(
                f"column `{column}`: the key of a map is `{start.text}`",
                "a map has keys of type `string`, as JSON has",
                start,
            )
        self._expect(",", "map")
        value = self._type(column)
        self._expect(">", "map")
        return f"map<string,{value}>"

    def _decimal(self, column: str) -> str:
        if not self._take("("):
            return "decimal(10,0)"
        start = self._next
        precision = self._number()
        scale = self._number() if self._take(",") else 0
        self._expect(")", "decimal")
        if not (1 <= precision <= 38 and scale <= precision):
            raise self._wrong(
                f"column `{column}`: there is no decimal({precision},{scale})",
                "write decimal(p,s) with p from 1 to 38 digits, s of them after the point",
                start,
            )
        return f"decimal({precision},{scale})"

    def _number(self) -> int:
        if self._next.kind != "number":
            raise self._wrong(f"expected a whole number in decimal(p,s), found {self._shown}")
        self._index += 1
        return int(self._tokens[self._index - 1].text)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._index]

    @property
    def _shown(self) -> str:
        return "the end" if self._next.kind == "end" else f"`{self._next.text}`"

    def _take(self, text: str) -> bool:
        found = self._next.kind in ("word", "sign") and self._next.text.lower() == text
        self._index += found
        return found

    def _expect(self, sign: str, owner: str) -> None:
        if not self._take(sign):
            example = {
                "decimal": "decimal(10,2)",
                "array": "array<string>",
                "map": "map<string,double>",
                "struct": "struct<a:int,b:string>",
            }[owner]
            raise self._wrong(f"expected `{sign}` in {owner}, found {self._shown}", f"write it like `{example}`")

    def _wrong(self, reason: str, hint: str = _FORM, token: _Token | None = None) -> SchemaError:
        return SchemaError(reason, hint, (token or self._next).position)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SchemaError(
                f"found `{text[position]}`", "a name that is not a plain word stands in back-quotes", position
            )
        if match.lastgroup != "space":
            tokens.append(_Token(match.lastgroup or "", match.group(), position))
        position = match.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _suggestion(word: str) -> str:
    if word in _FOREIGN:
        return f"write `{_FOREIGN[word]}` instead of `{word}`"
    close = difflib.get_close_matches(word, (*_ALIASES, *_TYPES), n=1)
    return f"did you mean `{close[0]}`?" if close else f"the types are {', '.join(_TYPES)}"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _member(field: Field) -> str:
    return f"{_quoted(field.name)}:{field.type}{'' if field.nullable else ' not null'}"
