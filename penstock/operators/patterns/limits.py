"""What conditions on a finished list say of each of its events: an upper bound stops a list from growing.

`count(a) <= 2` can be judged only when the list is finished, but no list of three events ever becomes one of two. Under
skip-till-any-match, where every part of a list is tried, that is the difference between a few runs and `2^k`. The other strategies
take what fits, and a list that becomes too long there is no match rather than a shorter one: nothing is concluded for them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import At, Reference, reference
from penstock.expressions.intervals import Interval, implied
from penstock.expressions.nodes import Call, Column, Expr, Literal
from penstock.model.event_patterns import Lists, Strategy
from penstock.model.schema import Schema


def growth_limits(query: EventQuery, schema: Schema) -> Iterator[Expr]:
    """Conditions that follow for every event of a list; each match meets them anyway.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> from penstock.model.event_patterns import atom, seq
    >>> query = EventQuery(seq(atom("A", "a", "+"), "B"), within=9, conditions=(parse("`count(a)` BETWEEN 2 AND 4"),))
    >>> [str(limit).replace("`", "") for limit in growth_limits(query, Schema.of(x=pa.int64()))]
    ['count(a[..i-1]) <= 3L']
    """
    if query.strategy is not Strategy.ANY or query.lists is Lists.COLLAPSE:
        return
    for condition in query.conditions:
        for name, interval in implied(condition).items():
            found = reference(name)
            limit = _limit(found, interval, schema) if found.function and found.at is At.ONLY else None
            if limit is not None:
                yield limit


def _limit(found: Reference, interval: Interval, schema: Schema) -> Expr | None:
    if found.function == "count":
        return _count_limit(found, interval)
    if found.function == "max" and interval.hi is not None:
        return _own_limit(found, "<=" if interval.hi_inclusive else "<", interval.hi, schema)
    if found.function == "min" and interval.lo is not None:
        return _own_limit(found, ">=" if interval.lo_inclusive else ">", interval.lo, schema)
    return None  # a sum may fall again, and an average may do anything


def _count_limit(found: Reference, interval: Interval) -> Expr | None:
    if interval.hi is None or (isinstance(interval.hi, float) and not math.isfinite(interval.hi)):
        return None
    most = math.floor(interval.hi)
    if most == interval.hi and not interval.hi_inclusive:
        most -= 1
    has_room = Call("<=", (Column(str(replace(found, at=At.BEFORE))), Literal(most - 1, pa.int64())))
    return Call("or", (has_room, Call("is_null", (_current(found),)))) if found.attribute else has_room


def _own_limit(found: Reference, relation: str, value: Any, schema: Schema) -> Expr | None:
    """No event is beyond the greatest, or least; NULL is neither."""
    kind = _literal_type(value, schema[found.attribute].type)
    if kind is None:
        return None
    own = _current(found)
    return Call("or", (Call("is_null", (own,)), Call(relation, (own, Literal(value, kind)))))


def _current(found: Reference) -> Column:
    return Column(str(Reference(found.variable, found.attribute, At.CURRENT)))


def _literal_type(value: Any, column: pa.DataType) -> pa.DataType | None:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, int):
        return column if pa.types.is_timestamp(column) else pa.int64()
    for kind, found in ((float, pa.float64()), (str, pa.string()), (dt.date, pa.date32())):
        if isinstance(value, kind):
            return found
    return None
