"""Calls of aggregate functions: what is computed per group, as opposed to per row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import InvalidPlan, TypeMistake
from penstock.expressions.nodes import TYPE_NAMES, Column, Expr
from penstock.expressions.typing import DOUBLE, INTEGERS, LONG, NULL, NUMBERS, place_of, type_name, type_of
from penstock.model.schema import Schema

#: Functions by the names Penstock uses, with the other names Spark knows them by.
AGGREGATES: dict[str, tuple[str, ...]] = {
    "count": (),
    "sum": (),
    "min": (),
    "max": (),
    "avg": ("mean",),
    "stddev": ("stddev_samp", "std"),
    "stddev_pop": (),
    "var_samp": ("variance",),
    "var_pop": (),
    "max_by": (),
    "min_by": (),
}
#: Aggregates that take the value of one row: the one whose order is greatest or least.
CHOOSING = ("max_by", "min_by")
_CANONICAL = {name: function for function, others in AGGREGATES.items() for name in (function, *others)}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a group-by.

    Parameters
    ----------
    function
        A name of `AGGREGATES`; synonyms are replaced.
    argument
        What is aggregated; None for `count(*)`. Rows where it is NULL do not count.
    distinct
        Whether equal values count once (`count` only).
    name
        The column that holds the result; by default what `default_name` gives.
    order
        For `CHOOSING`: what decides, the first column before the second. Rows where the first is NULL do not count, the
        argument itself may be NULL. Of equal rows the greatest argument is taken (`min_by`: the least), so that the
        result depends on the rows alone.

    Examples
    --------
    >>> from penstock.expressions.nodes import Column
    >>> AggregateCall("mean", Column("price")).name
    'avg(price)'
    >>> AggregateCall("max_by", Column("bidder"), order=(Column("price"),)).name
    'max_by(bidder, price)'
    """

    function: str
    argument: Expr | None = None
    distinct: bool = False
    name: str = ""
    order: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        function = _CANONICAL.get(self.function.lower())
        if function is None:
            raise InvalidPlan(f"there is no aggregate '{self.function}'; there are {', '.join(AGGREGATES)}")
        object.__setattr__(self, "function", function)
        if self.argument is None and (function != "count" or self.distinct):
            raise InvalidPlan(f"the aggregate '{function}' needs an argument")
        if self.distinct and function != "count":
            raise InvalidPlan(f"DISTINCT is known in count only, not in '{function}'", self._place())
        if bool(self.order) != (function in CHOOSING):
            raise InvalidPlan(f"'{function}' takes {'a value and what orders it' if function in CHOOSING else 'one argument'}")
        if not self.name:
            object.__setattr__(self, "name", str(self))

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """Every expression that is computed per row."""
        return () if self.argument is None else (self.argument, *self.order)

    def _place(self) -> str | None:
        place = place_of(self.argument) if self.argument else None
        return str(place) if place else None

    def computes_same_as(self, other: AggregateCall) -> bool:
        """Whether both give the same value for every group, under whatever name."""
        mine = (self.function, self.argument, self.distinct, self.order)
        return mine == (other.function, other.argument, other.distinct, other.order)

    def __str__(self) -> str:
        return default_name(self.function, self.argument, self.distinct, self.order)


def column_of(call: AggregateCall, calls: list[AggregateCall]) -> Column:
    """The column that holds the aggregate; it is added to `calls` unless they compute it already."""
    for known in calls:
        if known.computes_same_as(call):
            return Column(known.name)
    # Columns are compared without case, texts inside an argument are not: such a pair needs two names.
    taken = {known.name.lower() for known in calls}
    name, number_of_twin = call.name, 2
    while name.lower() in taken:
        name, number_of_twin = f"{call.name}#{number_of_twin}", number_of_twin + 1
    calls.append(replace(call, name=name))
    return Column(name)


def default_name(function: str, argument: Expr | None, distinct: bool = False, order: tuple[Expr, ...] = ()) -> str:
    """How Spark would name the column: `count(*)`, `sum(price)`, `count(DISTINCT bidder)`, `max_by(bidder, price)`."""
    inner = "*" if argument is None else str(argument)
    if order:
        columns = ", ".join(map(str, order))
        inner += f", struct({columns})" if len(order) > 1 else f", {columns}"
    return f"{function}({'DISTINCT ' if distinct else ''}{inner})"


def result_type(call: AggregateCall, schema: Schema) -> pa.DataType:
    """The type of the aggregate over rows of `schema`.

    Sums of integers are bigint, sums of floats, averages and deviations double, extremes and chosen values what they are taken of.
    """
    kind = NULL if call.argument is None else type_of(call.argument, schema)
    if call.function == "count":
        return LONG
    if call.function in ("min", "max"):
        if kind not in TYPE_NAMES:
            raise _mistake(call, kind, "values that can be compared")
        return kind
    if call.function in CHOOSING:
        for part in call.order:
            if type_of(part, schema) not in TYPE_NAMES:
                raise _mistake(call, type_of(part, schema), "an order of values that can be compared")
        return kind
    if kind not in NUMBERS and kind != NULL:
        raise _mistake(call, kind, "numbers")
    return LONG if call.function == "sum" and kind in INTEGERS else DOUBLE


def _mistake(call: AggregateCall, kind: pa.DataType, wanted: str) -> TypeMistake:
    place = place_of(call.argument) if call.argument else None
    return TypeMistake(f"'{call}' takes {wanted}, not {type_name(kind)}", place)
