"""Named, ordered, typed attributes of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from penstock.errors import InvalidDeclaration, UnknownColumn

#: The type of every event-time attribute that holds clock time: as Spark hands timestamps to Arrow.
TIMESTAMP = pa.timestamp("us", tz="UTC")

#: SQL type names a stream may declare. `int` is 32 bit and `bigint`/`long` 64 bit, as in Spark.
SQL_TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "binary": pa.binary(),
}


#: The word an author knows each type by.
_WORDS = {kind: word.upper() for word, kind in reversed(SQL_TYPES.items())} | {pa.int32(): "INT", pa.int64(): "BIGINT"}
_WORDS[pa.string()] = "STRING"


def is_numeric(kind: pa.DataType) -> bool:
    """Whether values of a type are integers or floating-point numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def sql_type(kind: pa.DataType) -> str:
    """A type in the words of SQL; messages never speak of Arrow's.

    Examples
    --------
    >>> sql_type(pa.int64()), sql_type(TIMESTAMP), sql_type(pa.list_(pa.float64())), sql_type(pa.struct({"a": pa.int32()}))
    ('BIGINT', 'TIMESTAMP', 'ARRAY<DOUBLE>', 'STRUCT<a: INT>')
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{item.name}: {sql_type(item.type)}' for item in kind)}>"
    if pa.types.is_null(kind):
        return "VOID"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _WORDS.get(kind, "TIMESTAMP" if pa.types.is_timestamp(kind) else str(kind).upper())


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute. Any Arrow type may be carried; only those of `SQL_TYPES` can be declared in text."""

    name: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """Attributes by name and by position; names are compared without case, as Spark does.

    Examples
    --------
    >>> schema = Schema.of(item_id=pa.int64(), price=pa.float64())
    >>> schema.index("PRICE"), schema.names
    (1, ('item_id', 'price'))
    """

    fields: tuple[Field, ...]
    owner: str = field(default="the schema", compare=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for item in self.fields:
            if item.name.lower() in seen:
                raise InvalidDeclaration(f"column '{item.name}' is declared twice (names are compared without case)", self.owner)
            seen.add(item.name.lower())

    @classmethod
    def of(cls, **types: pa.DataType) -> Schema:
        return cls(tuple(Field(name, kind) for name, kind in types.items()))

    @classmethod
    def from_arrow(cls, schema: pa.Schema, owner: str = "the schema") -> Schema:
        return cls(tuple(Field(item.name, item.type, item.nullable) for item in schema), owner)

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(item.name, item.type, item.nullable) for item in self.fields])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.fields)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {item.name.lower(): position for position, item in enumerate(self.fields)}

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._positions

    def index(self, name: str) -> int:
        """Position of `name`; raises `UnknownColumn` with the nearest name."""
        try:
            return self._positions[name.lower()]
        except KeyError:
            raise UnknownColumn(self.owner, name, self.names) from None

    def __getitem__(self, name: str) -> Field:
        return self.fields[self.index(name)]

    def select(self, names: Iterable[str]) -> Schema:
        return Schema(tuple(self[name] for name in names), self.owner)

    def named(self, owner: str) -> Schema:
        """The same attributes, known under another name in messages."""
        return Schema(self.fields, owner)
