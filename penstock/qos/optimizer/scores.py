"""Which strategy suits best what is violated, without giving up what is more important."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.model.qos import Expectation, Measure, Priority
from penstock.qos.optimizer.decision_table import DecisionTable

#: Scores that differ by less are equal: they are sums of a few products.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """A measure of one query, as it is and as its contract expects it.

    Parameters
    ----------
    at
        Seconds since the start of the query.
    lookahead
        A violation is one of what is expected so many seconds later: a change needs as long to have an effect.
    importance
        Of the query among others.
    """

    query: str
    expectation: Expectation
    measured: float
    at: float = 0.0
    lookahead: float = 0.0
    importance: float = 1.0

    @property
    def key(self) -> tuple[str, Measure]:
        return self.query, self.expectation.measure

    @property
    def priority(self) -> Priority:
        return self.expectation.priority

    @property
    def is_violated(self) -> bool:
        return self.expectation.is_violated(self.measured, self.at, self.lookahead)

    @property
    def expected(self) -> float:
        """Now, without looking ahead."""
        return self.expectation.graph.expected(self.at)

    @property
    def margin(self) -> float:
        """By which part a satisfied measure is better than expected, from 0 to 1."""
        expected, measured = self.expected, self.measured
        if self.expectation.measure is Measure.THROUGHPUT:
            found = (measured - expected) / measured if measured else 0.0
        else:
            found = (expected - measured) / expected if expected else 0.0
        return min(max(found, 0.0), 1.0)

    @property
    def reduced_weight(self) -> float:
        """What a satisfied measure counts beside violated ones of lower classes: the better it is, the less."""
        weight = self.priority.weight
        return weight - self.margin * (weight - self.priority.next_weight)


@dataclass(frozen=True, slots=True)
class Considered:
    """What counts for a score."""

    measure: Measure
    weight: float


def considered(violated: Iterable[Observation], satisfied: Iterable[Observation]) -> list[Considered]:
    """Violated measures of one class, and satisfied ones of higher classes with what is left of their weight."""
    lower = [Considered(item.expectation.measure, item.importance * item.priority.weight) for item in violated]
    higher = [Considered(item.expectation.measure, item.importance * item.reduced_weight) for item in satisfied]
    return [*lower, *higher]


def score(table: DecisionTable, strategy: str, items: Iterable[Considered]) -> float:
    """How well a strategy serves all of them.

    References
    ----------
    [chakravarthy2009] Formulas 10.1 to 10.3.
    """
    return sum(item.weight * table.share(item.measure, strategy) for item in items)


def best(table: DecisionTable, current: str, items: Sequence[Considered]) -> str:
    """The strategy with the highest score; of equal ones the current, then the better one for what weighs most."""
    scores = {strategy: score(table, strategy, items) for strategy in table.strategies}
    highest = max(scores.values())
    equal = [strategy for strategy, found in scores.items() if highest - found < _CLOSE]
    if current in equal:
        return current
    heaviest = max(items, key=lambda item: item.weight)  # the first of several
    return max(equal, key=lambda strategy: table.share(heaviest.measure, strategy))


def is_better(table: DecisionTable, strategy: str, other: str, items: Sequence[Considered]) -> bool:
    return score(table, strategy, items) > score(table, other, items) + _CLOSE
