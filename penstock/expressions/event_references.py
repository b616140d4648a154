"""How a condition names the events of a match.

Conditions of event queries are ordinary expressions whose columns are references: `a.price` of a single event, `a[1]`,
`a[i]`, `a[i-1]`, `a[last]` of a repeated one, `count(a)`, `sum(a.price)` over all its events and `sum(a[..i-1].price)` over
those before the current one.

Examples
--------
>>> reference("a[i-1].price")
Reference(variable='a', attribute='price', at=<At.PREVIOUS: 'i-1'>, function='')
>>> str(reference("avg(a[..i-1].price)"))
'avg(a[..i-1].price)'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from penstock.errors import InvalidEventPattern, Place
from penstock.expressions.nodes import Expr, columns_of

#: Aggregates over the events of a repeated variable.
FUNCTIONS = ("count", "sum", "avg", "min", "max")


class At(StrEnum):
    """Which event, or which events, of a variable."""

    ONLY = ""
    FIRST = "1"
    CURRENT = "i"
    PREVIOUS = "i-1"
    LAST = "last"
    #: All events before the current one; with a function only.
    BEFORE = "..i-1"


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute of an event of a match, or an aggregate over the events of a repeated variable."""

    variable: str
    attribute: str
    at: At = At.ONLY
    function: str = ""

    @property
    def is_iterated(self) -> bool:
        """Whether the value depends on a current event, one per event of the list."""
        return self.at in (At.CURRENT, At.PREVIOUS, At.BEFORE)

    @property
    def needs_previous(self) -> bool:
        return self.at in (At.PREVIOUS, At.BEFORE)

    def __str__(self) -> str:
        inner = self.variable + (f"[{self.at}]" if self.at else "") + (f".{self.attribute}" if self.attribute else "")
        return f"{self.function}({inner})" if self.function else inner


_NAME = r"(?P<variable>\w+)(?:\[(?P<at>1|i|i-1|last|\.\.i-1)\])?(?:\.(?P<attribute>.+))?"
_PLAIN = re.compile(_NAME + r"$", re.IGNORECASE)
_AGGREGATE = re.compile(rf"(?P<function>{'|'.join(FUNCTIONS)})\({_NAME}\)$", re.IGNORECASE)


def reference(name: str, place: Place | None = None) -> Reference:
    """Read the name of a column as a reference.

    Raises
    ------
    InvalidEventPattern
        It names no variable, or no attribute where one is needed.
    """
    aggregate = _AGGREGATE.match(name)
    found = aggregate or _PLAIN.match(name)
    if not found:
        raise InvalidEventPattern(f"'{name}' does not name an attribute of an event; write variable.attribute", place)
    function = aggregate["function"].lower() if aggregate else ""
    result = Reference(found["variable"], found["attribute"] or "", At((found["at"] or "").lower()), function)
    if not result.attribute and function != "count":
        raise InvalidEventPattern(f"'{name}' names no attribute; write variable.attribute", place)
    if (result.at is At.BEFORE and not function) or (function and result.at not in (At.ONLY, At.BEFORE)):
        raise InvalidEventPattern(f"'{name}' mixes one event and several; aggregates take v.x or v[..i-1].x", place)
    return result


def references_of(expr: Expr) -> tuple[Reference, ...]:
    """All references of a condition, in the order of their names."""
    return tuple(reference(name) for name in sorted(columns_of(expr)))
