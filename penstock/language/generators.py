"""Meaning of `PUNCTUATE …` clauses of a stream."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from penstock.errors import InvalidDeclaration, Place, SyntaxMistake, UnknownColumn, UnknownStream
from penstock.expressions.literals import shortened
from penstock.expressions.nodes import to_text
from penstock.expressions.parse import from_sqlglot
from penstock.language.resolve import check_condition, named
from penstock.language.syntax import GeneratorText, Text, Word
from penstock.model.declarations import EndOfLife, Generator, GeneratorKind, StreamDeclaration
from penstock.model.elements import FOREVER
from penstock.model.schema import Schema, sql_type
from penstock.plan.catalog import Catalog


def generator(clause: GeneratorText, schema: Schema, text: Text) -> Generator:
    """The generator a clause declares; whether the stream of AFTER fits is seen by `check_references`."""
    column = _column(schema, clause.column)
    if clause.condition is not None:
        return Generator(GeneratorKind.WHEN, column, condition=_condition(clause.condition, schema, text))
    if clause.stream is not None and clause.time is not None:
        key = clause.key.text if clause.key else column
        return Generator(GeneratorKind.AFTER, column, reference=EndOfLife(clause.stream.text, clause.time.text, key))
    assert clause.rows is not None
    return Generator(GeneratorKind(clause.kind.text.lower()), column, rows=row_count(clause.rows))


def row_count(word: Word) -> int:
    """A number of rows, 1 or more."""
    if not word.text.isdecimal() or not 1 <= int(word.text) < FOREVER:
        raise SyntaxMistake(f"'{shortened(word.text)}' is no number of rows; write 1 or more", word.place)
    return int(word.text)


def _column(schema: Schema, name: Word) -> str:
    if name.text not in schema:
        raise UnknownColumn(schema.owner, name.text, schema.names, name.place)
    return schema[name.text].name


def _condition(node: exp.Expr, schema: Schema, text: Text) -> str:
    """The condition as text in the declared spelling of the columns; it must be one."""
    tree = node.copy()
    for column in list(tree.find_all(exp.Column)):
        place = text.place_of(column.this)
        if column.table:
            raise SyntaxMistake(f"a rule looks at rows of its own stream; write '{column.name}' without '{column.table}.'", place)
        if column.name not in schema:
            raise UnknownColumn(schema.owner, column.name, schema.names, place)
        spelled = named(schema[column.name].name, column)
        if column is tree:
            tree = spelled
        else:
            column.replace(spelled)
    expression = from_sqlglot(tree, text.source, text.sql)
    check_condition(expression, schema)
    return to_text(expression)


def check_references(catalog: Catalog, clauses: dict[str, list[GeneratorText]]) -> None:
    """Raise if an AFTER names a stream or column that does not exist or does not fit."""
    for stream in catalog.streams.values():
        for declared, clause in zip(stream.generators, clauses.get(stream.name.lower(), []), strict=True):
            if declared.reference is not None and clause.stream is not None:
                _check_reference(stream, declared, catalog, clause)


def _check_reference(stream: StreamDeclaration, declared: Generator, catalog: Catalog, clause: GeneratorText) -> None:
    end_of_life = declared.reference
    assert end_of_life is not None
    assert clause.stream is not None
    assert clause.time is not None
    reference = catalog.streams.get(end_of_life.stream.lower())
    if reference is None:
        raise UnknownStream(end_of_life.stream, [known.name for known in catalog.streams.values()], clause.stream.place)
    key_place = clause.key.place if clause.key else clause.stream.place
    for name, place in ((end_of_life.time, clause.time.place), (end_of_life.key, key_place)):
        if name not in reference.schema:
            raise UnknownColumn(reference.schema.owner, name, reference.schema.names, place)
    _same(reference.schema[end_of_life.time].type, stream.schema[stream.timestamp].type, "event time", clause.time.place)
    _same(reference.schema[end_of_life.key].type, stream.schema[declared.column].type, f"'{declared.column}'", key_place)


def _same(found: pa.DataType, wanted: pa.DataType, what: str, place: Place) -> None:
    alike = found == wanted or (pa.types.is_integer(found) and pa.types.is_integer(wanted))
    if not alike:
        raise InvalidDeclaration(
            f"it is {sql_type(found)}, and {what} of the stream is {sql_type(wanted)}; both must have one type", place
        )
