"""What a row that enters a shard sets going: the operators behind its entrance, with how much of it reaches each of them.

Every strategy that reckons ahead starts from here. An operator that several inputs reach is part of several trees, with the
prices of the port on which it is reached; one that an input reaches on two ways stands twice in its tree, for reckoning only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.kernel.work import PlannedOperator, Price, WorkPlan


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a tree.

    Parameters
    ----------
    reach
        Rows that come here for a row that enters the tree.
    depth
        Steps in front of this one.
    answers
        Queries whose answers leave here.
    """

    operator: str
    port: int
    price: Price
    reach: float
    depth: int
    answers: tuple[str, ...]
    children: tuple[Step, ...]

    @property
    def time_ns(self) -> float:
        """Spent here for a row that enters the tree."""
        return self.reach * self.price.share_ns

    @property
    def memory(self) -> float:
        """Bytes that wait here for a row that enters the tree, until they are served."""
        return self.reach * self.price.row_bytes

    @property
    def released(self) -> float:
        """Bytes that are free once they are served; negative where each of several consumers gets its own copy of much."""
        return self.memory - sum(child.memory for child in self.children)

    @property
    def rows_out(self) -> float:
        """Made here of a row that enters the tree."""
        return self.reach * self.price.selectivity

    def walk(self) -> Iterator[Step]:
        """This step and all behind it, each before those behind itself."""
        yield self
        for child in self.children:
            yield from child.walk()


def trees(plan: WorkPlan) -> list[Step]:
    """A tree for every entrance, in the order of the plan. Nothing is reckoned behind an operator that lets nothing pass."""
    operators = {operator.id: operator for operator in plan.operators}
    return [_step(operators, operator, port, 1, 0) for operator in plan.operators for port in operator.entrances]


def _step(operators: dict[str, PlannedOperator], operator: PlannedOperator, port: int, reach: float, depth: int) -> Step:
    price = operator.prices[port]
    leaving = reach * price.selectivity
    children = tuple(
        _step(operators, operators[name], number, leaving, depth + 1)
        for name, number in operator.consumers
        if leaving > 0 and name in operators
    )
    return Step(operator.id, port, price, reach, depth, operator.answers, children)
