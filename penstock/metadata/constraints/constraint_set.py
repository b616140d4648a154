"""The constraints of one process: checked against the declared event types and reduced to two classes.

`ConstraintSet` is what a user declares and what a workflow yields. Everything that reasons works on its reduced form: pairs
`(a, b)` "no a after a b" and Horn clauses, each with the constraint it came from, so that a proof can name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from penstock.errors import InvalidConstraint, UnknownEventType
from penstock.metadata.constraints.clauses import AtMostOnce, Constraint, Exclusive, Horn, Never, Prior, Require, Terminal


@dataclass(frozen=True, slots=True)
class Order:
    """No event of type `first` comes strictly after one of type `second`."""

    first: str
    second: str
    source: Constraint


@dataclass(frozen=True, slots=True)
class Clause:
    """All of `body` in a trace need `head`; `head` None: they never occur together."""

    body: frozenset[str]
    head: str | None
    source: Constraint


@dataclass(frozen=True, slots=True)
class ConstraintSet:
    """Constraints over the traces that `key` distinguishes.

    Parameters
    ----------
    key
        Attributes that name a trace. Constraints speak of one trace, never across traces.
    event_types
        All declared types; their order numbers them, so append new ones at the end.
    constraints
        What holds in every complete trace.
    is_trusted
        False for hypotheses, say of a log: they are watched, and nothing is given up because of them.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive, terminal
    >>> rules = ConstraintSet(("order_id",), ("A", "B", "End"), (exclusive("A", "B"), terminal("End")))
    >>> [f"{order.first} <= {order.second}" for order in rules.orders()]
    ['A <= End', 'B <= End', 'End <= End']
    """

    key: tuple[str, ...]
    event_types: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    is_trusted: bool = True

    def __post_init__(self) -> None:
        if len(set(self.event_types)) < len(self.event_types):
            raise InvalidConstraint("an event type is declared twice in one set of constraints")
        known = set(self.event_types)
        for constraint in self.constraints:
            for name in constraint.event_types:
                if name not in known:
                    raise UnknownEventType("the process", "event type", name, self.event_types, str(constraint))

    def orders(self) -> tuple[Order, ...]:
        """The order constraints, sugar expanded; each pair once."""
        found: dict[tuple[str, str], Order] = {}
        for constraint in self.constraints:
            for first, second in _ordered_pairs(constraint, self.event_types):
                found.setdefault((first, second), Order(first, second, constraint))
        return tuple(found.values())

    def clauses(self) -> tuple[Clause, ...]:
        """The occurrence constraints, sugar expanded; each clause once."""
        found: dict[tuple[frozenset[str], str | None], Clause] = {}
        for constraint in self.constraints:
            for body, head in _occurrence_clauses(constraint):
                if head not in body:  # A -> A says nothing
                    found.setdefault((body, head), Clause(body, head, constraint))
        return tuple(found.values())

    def extended(self, event_types: Iterable[str]) -> ConstraintSet:
        """The same constraints with more declared types; the known ones keep their numbers.

        `terminal` speaks of all declared types, so it then forbids the new ones too.
        """
        new = tuple(dict.fromkeys(name for name in event_types if name not in self.event_types))
        return replace(self, event_types=self.event_types + new)

    def __str__(self) -> str:
        return "\n".join(str(constraint) for constraint in self.constraints)


def _ordered_pairs(constraint: Constraint, event_types: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    match constraint:
        case Prior(first, second):
            yield first, second
        case AtMostOnce(member):
            yield member, member
        case Terminal(member):
            yield from ((other, member) for other in event_types)
        case _:
            return


def _occurrence_clauses(constraint: Constraint) -> Iterator[tuple[frozenset[str], str | None]]:
    match constraint:
        case Exclusive(members):
            yield from ((frozenset(pair), None) for pair in combinations(members, 2))
        case Require(given, needed):
            yield frozenset((given,)), needed
        case Never(member):
            yield frozenset((member,)), None
        case Horn(body, head):
            yield frozenset(body), head
        case _:
            return
