"""Strategies over virtual time: operators that only count rows, one machine, the kernel's own queues.

It judges strategies as the literature does, without operators, data or threads: rows arrive at given times, a pick is served
for at most a quantum, and what comes out waits at the next operators. Rows stand for parts of tuples where tuples have parts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from penstock.kernel.contracts import HearsArrivals, Policy
from penstock.kernel.work import Choice, Item, PlannedOperator, WaitingWork, WorkPlan
from penstock.testing.scheduling import UNIT_NS, rows

#: Batches are never changed, so one of each kind is enough.
_rows = lru_cache(maxsize=256)(rows)


class Arrival(NamedTuple):
    """Rows from outside."""

    at_ns: int
    operator: str
    rows: int
    port: int = 0
    ts: int = 0


class Answered(NamedTuple):
    """Rows that have left."""

    at_ns: int
    query: str
    rows: int
    since_ns: int

    @property
    def latency_ns(self) -> int:
        return self.at_ns - self.since_ns


class Served(NamedTuple):
    """What was done, beginning at a time."""

    at_ns: int
    operator: str
    rows: int


@dataclass
class Simulation:
    """Run a strategy.

    Parameters
    ----------
    quantum_ns
        A pick is served for so long; at least one row of it is.
    decision_ns
        What it costs to turn to another object: what `object_of` makes of the policy and its choice.

    Examples
    --------
    >>> from penstock.qos.scheduling.fifo import Fifo
    >>> from penstock.testing.scheduling import line, per_unit, plan_of
    >>> simulation = Simulation(Fifo(), plan_of(*line("q", per_unit(1.0))))
    >>> simulation.run([Arrival(0, "q1", 1), Arrival(0, "q1", 1)])
    >>> [answered.latency_ns // UNIT_NS for answered in simulation.answered]
    [1, 2]
    """

    policy: Policy
    plan: WorkPlan
    quantum_ns: int = UNIT_NS
    decision_ns: int = 0
    object_of: Callable[[Policy, Choice], Hashable] = lambda _, choice: choice.operator
    #: How often it turned to another object.
    decisions: int = 0
    served: list[Served] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    #: Bytes, with what is in service, whenever they have changed; of one time the last counts.
    memory: dict[int, int] = field(default_factory=dict)
    #: The same without what is in service.
    waiting_memory: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.policy.plan(self.plan)
        self.work = WaitingWork(self.plan)
        self._operators = {operator.id: operator for operator in self.plan.operators}
        self._selectivities = {
            (operator.id, port): Fraction(price.selectivity).limit_denominator(10_000)
            for operator in self.plan.operators
            for port, price in enumerate(operator.prices)
        }
        #: Parts of rows that each port has not yet let out.
        self._parts: dict[tuple[str, int], Fraction] = {}
        self._arrived = 0
        self._object: Hashable = None

    def run(self, arrivals: Iterable[Arrival]) -> None:
        """Let all rows arrive and leave."""
        coming = sorted(arrivals, key=lambda arrival: arrival.at_ns)[::-1]
        while coming or self.work.waiting:
            if not self.work.waiting:
                self.work.now_ns = max(self.work.now_ns, coming[-1].at_ns)
            self._arrive(coming, self.work.now_ns)
            choice = self.policy.pick(self.work)
            assert choice is not None, "something waits and nothing is picked"
            self._serve(choice, coming)

    def _arrive(self, coming: list[Arrival], until_ns: int, in_service: int = 0) -> None:
        while coming and coming[-1].at_ns <= until_ns:
            arrival = coming.pop()
            item = Item(arrival.port, _rows(arrival.rows, arrival.ts), arrival.at_ns, self._arrived)
            self._arrived += 1
            if isinstance(self.policy, HearsArrivals):
                self.policy.on_arrival(arrival.operator, item, arrival.at_ns)
            self.work.add(arrival.operator, item)
            self._note(arrival.at_ns, in_service)

    def _serve(self, choice: Choice, coming: list[Arrival]) -> None:
        operator = self._operators[choice.operator]
        price = operator.prices[self.work.waiting[choice.operator].items[choice.position].port]
        item = self.work.take(choice, max(int(self.quantum_ns / price.row_ns), 1) if price.row_ns else None)
        size = price.row_bytes * item.rows
        self._note(self.work.now_ns, size)
        turned_to = self.object_of(self.policy, choice)
        switched = turned_to != self._object
        self._object = turned_to
        self.decisions += switched
        self.served.append(Served(self.work.now_ns, operator.id, item.rows))
        end_ns = self.work.now_ns + price.of(item.rows) + self.decision_ns * switched
        self._arrive(coming, end_ns - 1, size)
        self.work.now_ns = end_ns
        self._leave(operator, item)
        self._note(end_ns, 0)

    def _leave(self, operator: PlannedOperator, item: Item) -> None:
        place = operator.id, item.port
        parts = self._parts.get(place, Fraction()) + item.rows * self._selectivities[place]
        made = int(parts)
        self._parts[place] = parts - made
        if made:
            self.answered += [Answered(self.work.now_ns, query, made, item.since_ns) for query in operator.answers]
            for consumer, port in operator.consumers:
                self.work.add(consumer, Item(port, _rows(made, 0), item.since_ns, item.number))

    def _note(self, at_ns: int, in_service: int) -> None:
        self.memory[at_ns] = self.work.memory + in_service
        self.waiting_memory[at_ns] = self.work.memory

    @property
    def peak(self) -> int:
        return max(self.memory.values())

    def memory_at(self, at_ns: int) -> int:
        """Bytes right after what happened at a time."""
        known = [time for time in self.memory if time <= at_ns]
        return self.memory[max(known)] if known else 0
