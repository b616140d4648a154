"""The filters of a conjunction, what their author declares of them, and the arrangement that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import InvalidConfiguration, suggestion
from penstock.operators.filtering.contract import Order, arranged
from penstock.operators.filtering.predicates import Predicate
from penstock.operators.filtering.settings import MOST_FILTERS, refuse_unless
from penstock.operators.filtering.window import UInt64s

_PLACE = "configuration of an adaptive filter"


@dataclass(frozen=True)
class Filter:
    """One predicate of a conjunction.

    Each filter sees a subset of the rows that varies with the order, and profiling shows it rejected rows too. A filter that
    counts, remembers or calls out must therefore say so.

    Parameters
    ----------
    name
        Unique within the conjunction.
    predicate
        What is evaluated.
    declared_cost
        Time per row in any unit, the same for all filters that declare it; replaces measuring.
    after
        Names of filters that guard this one: it is never asked about a row they reject, nor moved before them. With guards
        the greedy order's promise of at most 4 times the optimum is void.
    profilable
        False: it is asked only about rows that reach it, and stands behind all others.
    is_deterministic
        False is refused: such a filter does not commute with others.

    Examples
    --------
    >>> from penstock.operators.filtering.predicates import OnPandas
    >>> Filter("long", OnPandas(lambda x: x.str.len() > 100, ("text",)), declared_cost=5.0).after
    ()
    """

    name: str
    predicate: Predicate
    declared_cost: float | None = None
    after: tuple[str, ...] = ()
    profilable: bool = True
    is_deterministic: bool = True

    def __post_init__(self) -> None:
        cost = self.declared_cost
        refuse_unless(cost is None or cost >= 0, "declared_cost", cost, f"not be negative (filter '{self.name}')")
        refuse_unless(
            self.is_deterministic, "is_deterministic", False,
            f"be true: filter '{self.name}' would see rows that vary with the order; apply it behind the adaptive filter",
        )  # fmt: skip


@dataclass(frozen=True)
class Arrangement:
    """Which filters a policy may order, and what stands behind them.

    The policy numbers the free filters from 0, in the order in which they were declared. Filters that may not be profiled,
    and those they guard, form a tail in declared order.
    """

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        if len(self.filters) > MOST_FILTERS:
            text = f"{len(self.filters)} filters; an adaptive filter orders at most {MOST_FILTERS}, combine some of them by AND"
            raise InvalidConfiguration(text, _PLACE)
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        refuse_unless(not twice, "names", twice, "be different")
        for item in self.filters:
            for guard in item.after:
                if guard not in names or guard == item.name:
                    raise InvalidConfiguration(f"filter '{item.name}' comes after '{guard}'; {suggestion(guard, names)}", _PLACE)
        arranged(range(len(names)), self.guards)  # refuses circles

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.filters)

    @cached_property
    def guards(self) -> UInt64s:
        """For each filter the filters that must precede it, as bits."""
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([sum(1 << place[guard] for guard in set(item.after)) for item in self.filters], np.uint64)

    @cached_property
    def tail(self) -> Order:
        """Filters that are not ordered: those that may not be profiled, and what they guard."""
        last = sum(1 << number for number, item in enumerate(self.filters) if not item.profilable)
        while True:
            wider = last | sum(1 << number for number in range(len(self.filters)) if int(self.guards[number]) & last)
            if wider == last:
                break
            last = wider
        chosen = [number for number in range(len(self.filters)) if last >> number & 1]
        inside = np.array([int(guards) & last for guards in self.guards], np.uint64)
        return _in_order(chosen, inside)

    @cached_property
    def free(self) -> Order:
        """Filters a policy orders, by its numbers."""
        return tuple(number for number in range(len(self.filters)) if number not in self.tail)

    @cached_property
    def free_guards(self) -> UInt64s:
        """Guards among the free filters, in the policy's numbers."""
        place = {number: 1 << own for own, number in enumerate(self.free)}
        own_guards = [[place[other] for other in self.free if int(self.guards[number]) >> other & 1] for number in self.free]
        return np.array([sum(bits) for bits in own_guards], np.uint64)

    @cached_property
    def written(self) -> Order:
        """All filters in the order that decides what fails: as declared, but for guards, and with the tail last."""
        return self.whole(arranged(range(len(self.free)), self.free_guards))

    def whole(self, order: Sequence[int]) -> Order:
        """All filters by position, when the policy has chosen `order`."""
        return (*(self.free[number] for number in order), *self.tail)

    def started(self, order: Sequence[str]) -> Order:
        """The policy's order that the names of all filters give; the tail stays where it is."""
        unknown = sorted(set(order) ^ set(self.names))
        refuse_unless(not unknown and len(order) == len(self.names), "order", list(order), "name each filter once")
        place = {self.names[number]: own for own, number in enumerate(self.free)}
        return tuple(place[name] for name in order if name in place)


def _in_order(chosen: Sequence[int], guards: UInt64s) -> Order:
    """The chosen filters as declared, each behind those among them that guard it."""
    left, done, found = list(chosen), 0, []
    while left:
        ready = next(number for number in left if not int(guards[number]) & ~done)
        found.append(ready)
        left.remove(ready)
        done |= 1 << ready
    return tuple(found)
