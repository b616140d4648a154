"""`CREATE STREAM` to a stream declaration."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import InvalidDeclaration, SyntaxMistake, UnknownColumn
from penstock.language.generators import generator, row_count
from penstock.language.quality_clauses import validity
from penstock.language.syntax import ColumnText, StreamStatement, Word, expected
from penstock.language.windows import length
from penstock.model.declarations import (
    MOST_PARTITIONS,
    Constraint,
    ConstraintKind,
    EmbeddedPunctuations,
    RowPolicy,
    Source,
    StreamDeclaration,
)
from penstock.model.schema import SQL_TYPES, TIMESTAMP, Field, Schema, sql_type

#: The column that holds arrival time when a stream declares no timestamp.
ARRIVAL = "ts"
_POLICIES = {
    "QUARANTINE": RowPolicy.QUARANTINE,
    "SKIP": RowPolicy.QUARANTINE,
    "ERROR": RowPolicy.ERROR,
    "TRUST": RowPolicy.TRUST,
}


def declare(statement: StreamStatement) -> StreamDeclaration:
    """The declaration a statement makes.

    Without `USING` the source is empty: rows are handed in by the program. Without `WATERMARK` event time is the time
    of arrival, in a column `ts` that the runner adds.
    """
    columns = {}
    for column in statement.columns:
        if column.name.text.lower() in columns:
            text = f"column '{column.name.text}' is declared twice (names are compared without case); rename one of them"
            raise InvalidDeclaration(text, column.name.place)
        columns[column.name.text.lower()] = _field(column)
    timestamp, disorder = _event_time(statement, columns)
    owner = f"stream '{statement.name.text}'"
    schema = Schema(tuple(columns.values()), owner)
    partition, position = _positions(statement, schema)
    using = statement.using
    return StreamDeclaration(
        name=statement.name.text,
        schema=schema,
        source=Source(using.name.text.lower(), using.options) if using else Source(""),
        timestamp=timestamp,
        disorder=disorder,
        constraints=tuple(
            Constraint(ConstraintKind(kind.text.lower()), _column(schema, name), row_count(within) if within else 0)
            for kind, name, within in statement.constraints
        ),
        punctuations=_punctuations(statement, schema),
        on_late=_policy(statement, "LATE ROWS", RowPolicy.QUARANTINE),
        on_bad=_policy(statement, "BAD ROWS", RowPolicy.QUARANTINE),
        on_violation=_policy(statement, "VIOLATION", RowPolicy.ERROR),
        partition_column=partition,
        position_column=position,
        partitions=_partition_count(statement),
        idle_us=_idle(statement),
        validity=validity(statement.validity, bool(pa.types.is_timestamp(schema[timestamp].type))),
        arrival_time=statement.watermark is None,
        generators=tuple(generator(clause, schema, statement.text) for clause in statement.generators),
    )


def _field(column: ColumnText) -> Field:
    return Field(column.name.text, type_named(column.type, "as the type of a column"), column.nullable)


def type_named(word: Word, context: str) -> pa.DataType:
    """The type a word stands for."""
    kind = SQL_TYPES.get(word.text.lower())
    if kind is None:
        raise SyntaxMistake(expected(word.text, list(SQL_TYPES), context), word.place)
    return kind


def _column(schema: Schema, name: Word) -> str:
    """The name as declared, or an error at the word."""
    if name.text not in schema:
        raise UnknownColumn(schema.owner, name.text, schema.names, name.place)
    return schema[name.text].name


def _event_time(statement: StreamStatement, columns: dict[str, Field]) -> tuple[str, int]:
    """The timestamp column and the disorder bound; adds the arrival column where the statement names none."""
    mark = statement.watermark
    if mark is None:
        if ARRIVAL in columns:
            text = (
                f"is '{ARRIVAL}' the event time? Write WATERMARK {ARRIVAL} DELAY OF …, or rename it: "
                f"without WATERMARK a column '{ARRIVAL}' with the time of arrival is added"
            )
            raise InvalidDeclaration(text, next(c.name.place for c in statement.columns if c.name.text.lower() == ARRIVAL))
        columns[ARRIVAL] = Field(ARRIVAL, TIMESTAMP, nullable=False)
        return ARRIVAL, 0
    name = _column(Schema(tuple(columns.values()), f"stream '{statement.name.text}'"), mark.column)
    kind = columns[name.lower()].type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        text = f"the timestamp column '{name}' is {sql_type(kind)}; it must be a timestamp or an integer attribute that grows"
        raise InvalidDeclaration(text, mark.column.place)
    disorder = length(mark.delay, bool(pa.types.is_timestamp(kind)))
    if disorder < 0:
        raise InvalidDeclaration("a delay cannot be negative; write 0 for streams in order", mark.delay.place)
    return name, disorder


def _punctuations(statement: StreamStatement, schema: Schema) -> EmbeddedPunctuations | None:
    if statement.punctuations is None:
        if word := statement.policies.get("BAD PUNCTUATION"):
            text = "ON BAD PUNCTUATION says nothing without punctuations; add PUNCTUATIONS FROM column"
            raise InvalidDeclaration(text, word.place)
        return None
    column = _column(schema, statement.punctuations)
    if not pa.types.is_string(schema[column].type):
        text = f"punctuations are JSON text; column '{column}' is {sql_type(schema[column].type)}, declare it STRING"
        raise InvalidDeclaration(text, statement.punctuations.place)
    on_bad = _policy(statement, "BAD PUNCTUATION", RowPolicy.QUARANTINE)
    closed = tuple(_column(schema, name) for name in statement.punctuations_on)
    return EmbeddedPunctuations(column, statement.punctuations_global, on_bad, closed)


def _positions(statement: StreamStatement, schema: Schema) -> tuple[str, str]:
    if statement.partition is None:
        return "", ""
    partition, position = statement.partition
    return _column(schema, partition), _column(schema, position) if position else ""


def _partition_count(statement: StreamStatement) -> int:
    word = statement.partitions
    if word is None:
        return 0
    if not word.text.isdigit() or not 1 <= int(word.text) <= MOST_PARTITIONS:
        raise InvalidDeclaration(f"{word.text} is no number of partitions; write 1 to {MOST_PARTITIONS:,}", word.place)
    return int(word.text)


def _idle(statement: StreamStatement) -> int | None:
    """How long partitions are waited for, by the clock on the wall, whatever event time is counted in."""
    if statement.idle is None:
        return None
    for number, unit in statement.idle.parts:
        if unit is None:
            text = f"how long partitions are waited for is measured by the clock; write for example {number.text} SECONDS"
            raise InvalidDeclaration(text, number.place)
    idle = length(statement.idle, clock=True)
    if idle <= 0:
        raise InvalidDeclaration(
            "a time without rows is longer than 0; write for example IDLE AFTER INTERVAL 10 SECONDS", statement.idle.place
        )
    return idle


def _policy(statement: StreamStatement, subject: str, default: RowPolicy) -> RowPolicy:
    word = statement.policies.get(subject)
    return _POLICIES[word.text] if word else default
