"""Conditions that a program hands over as text, functions or filters, as conjuncts of a plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.errors import InvalidConfiguration, UnknownColumn
from penstock.expressions.nodes import Column, Expr, conjoin, conjuncts, rename
from penstock.expressions.parse import parse
from penstock.expressions.typing import BOOL, type_of
from penstock.expressions.user_functions import FunctionKind, UserFunction, applied
from penstock.model.order_hints import OrderHint
from penstock.model.schema import Schema
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.predicates import ExpressionPredicate, OnArrow, OnPandas, OnRows, Predicate
from penstock.plan.analysis.filtering import conjunction, is_orderable
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.filtering import AdaptiveFilter, Conjunct
from penstock.plan.rewrites.rebuild import filtered

#: A condition in SQL, a function of pandas series whose parameters are called like columns, or a filter.
Given: TypeAlias = str | Callable[..., Any] | Filter

_PLACE = "ps.filter"


def filtered_by(node: Node, given: Sequence[Given], hint: OrderHint | None) -> Node:
    """The rows of a node that meet all conditions: comparisons for Catalyst below, everything else in an adaptive order.

    A comparison that comes after something else stays with what it comes after.
    """
    if isinstance(given, str) or callable(given):
        raise InvalidConfiguration("the conditions are one thing; give a list of them", _PLACE)
    items = [item for number, each in enumerate(given) for item in _conjuncts(each, number, node.schema)]
    plain = [item for item in items if not is_orderable(item.condition) and not item.after and item.profilable]
    names = {item.name for item in plain}
    kept = [
        replace(item, after=tuple(name for name in item.after if name not in names)) for item in items if item.name not in names
    ]
    below = filtered(node, [item.condition for item in plain])
    if not kept:
        return below
    return AdaptiveFilter(below, conjoin([item.condition for item in kept]), hint, tuple(kept))


def _conjuncts(given: Any, number: int, schema: Schema) -> tuple[Conjunct, ...]:
    if isinstance(given, str):
        parts = conjuncts(_known(parse(given, f"condition {number + 1}"), schema))
        return conjunction([_checked(part, schema) for part in parts])
    if isinstance(given, Filter):
        return (_of_filter(given, schema),)
    if not callable(given):
        text = f"condition {number + 1} is a {type(given).__name__}; give SQL text, a function of pandas series, or a Filter"
        raise InvalidConfiguration(text, _PLACE)
    name = getattr(given, "__name__", type(given).__name__)
    shown = f"{name} {number + 1}" if name == "<lambda>" else name
    columns = tuple(inspect.signature(given).parameters)
    return (Conjunct(_call(shown, given, columns, FunctionKind.PANDAS, schema), shown),)


def _of_filter(given: Filter, schema: Schema) -> Conjunct:
    """What a filter declares; a predicate of another kind is called with the columns it reads as a record batch."""
    predicate = given.predicate
    if isinstance(predicate, ExpressionPredicate):
        condition = _known(predicate.compiled.expr, schema)
    else:
        columns = schema.names if predicate.columns is None else predicate.columns
        body, kind = _body(predicate, columns)
        condition = _call(given.name, body, columns, kind, schema)
    return Conjunct(condition, given.name, given.declared_cost, given.after, given.profilable)


def _body(predicate: Predicate, columns: tuple[str, ...]) -> tuple[Callable[..., Any], FunctionKind]:
    if isinstance(predicate, OnPandas):
        return predicate.function, FunctionKind.PANDAS
    if isinstance(predicate, OnRows):
        return predicate.function, FunctionKind.ROWS
    if isinstance(predicate, OnArrow) and predicate.columns is not None:
        return predicate.function, FunctionKind.ARROW

    def with_rows(*arrays: pa.Array) -> Any:
        return predicate(pa.RecordBatch.from_arrays(list(arrays), names=list(columns)))

    return with_rows, FunctionKind.ARROW


def _call(name: str, body: Callable[..., Any], columns: tuple[str, ...], kind: FunctionKind, schema: Schema) -> Expr:
    if not columns:
        raise InvalidConfiguration(f"'{name}' reads no column; call its parameters like the columns it reads", _PLACE)
    for column in columns:
        if column not in schema:
            raise UnknownColumn(f"the DataFrame, of which '{name}' reads columns,", column, schema.names, _PLACE)
    parameters = tuple((schema[column].name, schema[column].type) for column in columns)
    function = UserFunction(name, parameters, BOOL, f"given as {name}", kind, body=body)
    return applied(function, *(Column(column) for column, _ in parameters))


def _known(expr: Expr, schema: Schema) -> Expr:
    """Columns in the spelling of the schema."""
    return rename(expr, {name.lower(): name for name in schema.names} | {name: name for name in schema.names})


def _checked(condition: Expr, schema: Schema) -> Expr:
    kind = type_of(condition, schema)
    if kind not in (BOOL, pa.null()):
        raise InvalidConfiguration(f"'{condition}' is {kind}, not a condition", _PLACE)
    return condition
