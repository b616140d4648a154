"""Types of what conditions and measures read of a match, and the columns of its output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from penstock.errors import UnknownColumn
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import Reference
from penstock.expressions.match_output import (
    BRANCH,
    EVENT_NUMBER,
    MATCH_COUNT,
    MATCH_END,
    MATCH_ID,
    MATCH_START,
    VARIABLE,
    MatchOutput,
    RowsPerMatch,
    measured,
)
from penstock.expressions.nodes import Column, Expr, columns_of, transform
from penstock.expressions.typing import LONG, type_of
from penstock.model.event_patterns import Atom, Lists
from penstock.model.schema import Field, Schema


def reference_schema(refs: tuple[Reference, ...], schema: Schema) -> Schema:
    """The types references have over events of `schema`."""
    return Schema(tuple(Field(str(ref), _kind(ref, schema)) for ref in refs), schema.owner)


def _kind(ref: Reference, schema: Schema) -> pa.DataType:
    if ref.function == "count" and not ref.attribute:
        return LONG
    if ref.attribute not in schema:
        raise UnknownColumn(schema.owner, ref.attribute, schema.names)
    if not ref.function:
        return schema[ref.attribute].type
    return result_type(AggregateCall(ref.function, Column(ref.attribute)), schema)


def spelled(expr: Expr, query: EventQuery, schema: Schema) -> Expr:
    """The expression with attributes as the schema spells them.

    Raises
    ------
    UnknownColumn
        It reads an attribute that events do not have.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> from penstock.model.event_patterns import seq
    >>> query = EventQuery(seq("A", "B"), within=5)
    >>> str(spelled(parse("A.PRICE < 3"), query, Schema.of(price=pa.int64())))
    'A.price < 3'
    """
    return transform(expr, lambda column: _spelled(column, query, schema))


def _spelled(column: Column, query: EventQuery, schema: Schema) -> Column:
    ref = measured(column.name, query)
    if ref is None or not ref.attribute:
        return column
    if ref.attribute not in schema:
        raise UnknownColumn(schema.owner, ref.attribute, schema.names, column.place)
    return replace(column, name=str(replace(ref, attribute=schema[ref.attribute].name)))


def measure_scope(query: EventQuery, output: MatchOutput, schema: Schema, time_type: pa.DataType) -> Schema:
    """Everything the measures of an output read; the output must be resolved."""
    names = sorted({name for _, expr in output.measures for name in columns_of(expr)})
    refs = tuple(ref for name in names if (ref := measured(name, query)) is not None)
    keys = tuple(schema[name] for name in query.key)
    own = own_fields(query, time_type)
    return Schema((*keys, *own, *reference_schema(refs, schema)), "the match")


def own_fields(query: EventQuery, time_type: pa.DataType) -> tuple[Field, ...]:
    """What belongs to a match and not to its events."""
    times = (Field(MATCH_START, time_type), Field(MATCH_END, time_type))
    counted = (Field(MATCH_COUNT, pa.int64()),) if query.lists is Lists.COLLAPSE else ()
    return (*times, Field(MATCH_ID, pa.int64()), Field(BRANCH, pa.int64()), *counted)


def output_schema(query: EventQuery, output: MatchOutput, schema: Schema, time_type: pa.DataType) -> Schema:
    """Columns of the rows that show a match; the output must be resolved.

    Examples
    --------
    >>> from penstock.model.event_patterns import seq
    >>> events = Schema.of(type=pa.string(), id=pa.int64())
    >>> output_schema(EventQuery(seq("A", "B"), ("id",), within=5), MatchOutput(), events, pa.int64()).names
    ('id', 'match_start', 'match_end', 'match_id', 'branch', 'A', 'B')
    """
    scope = measure_scope(query, output, schema, time_type)
    shown = schema.select(output.columns or schema.names)
    keys = [Field(item.name, item.type) for item in schema.select(query.key)]
    measures = [Field(name, type_of(expr, scope)) for name, expr in output.measures]
    if output.rows is RowsPerMatch.ALL:
        own = [item for item in shown if item.name not in query.key]
        marks = [Field(MATCH_ID, pa.int64()), Field(VARIABLE, pa.string()), Field(EVENT_NUMBER, pa.int64())]
        return Schema((*keys, *marks, *own, *measures), "the match")
    if measures:
        return Schema((*(key for key in keys if key.name not in {item.name for item in measures}), *measures), "the match")
    variables = [_variable(leaf, output, schema) for leaf in query.atoms]
    return Schema((*keys, *own_fields(query, time_type), *variables), "the match")


def _variable(leaf: Atom, output: MatchOutput, schema: Schema) -> Field:
    shown = schema.select(output.columns_of(leaf.variable) or schema.names)
    struct = pa.struct([pa.field(item.name, item.type) for item in shown])
    return Field(leaf.variable, pa.list_(struct) if leaf.is_repeated else struct)


def columns_shown(query: EventQuery, output: MatchOutput, schema: Schema) -> tuple[str, ...]:
    """Columns of events that the output needs, in the order of the schema."""
    wanted = {*query.key, *_attributes((expr for _, expr in output.measures), query)}
    if output.rows is RowsPerMatch.ALL:
        wanted |= set(output.columns or schema.names)
    elif not output.measures:
        wanted |= {name for leaf in query.atoms for name in output.columns_of(leaf.variable) or schema.names}
    return _in_order(wanted, schema)


def columns_read(query: EventQuery, output: MatchOutput, schema: Schema) -> tuple[str, ...]:
    """Columns of events that the query or its output needs, in the order of the schema."""
    named = (query.type_column, query.position_column, query.id_column)
    return _in_order({*named, *_attributes(query.conditions, query), *columns_shown(query, output, schema)}, schema)


def _attributes(exprs: Iterable[Expr], query: EventQuery) -> set[str]:
    names = {name for expr in exprs for name in columns_of(expr)}
    return {ref.attribute for name in names if (ref := measured(name, query)) is not None}


def _in_order(names: Iterable[str], schema: Schema) -> tuple[str, ...]:
    lowered = {name.lower() for name in names}
    return tuple(name for name in schema.names if name.lower() in lowered)
