"""Latency and queues of a whole plan whose operators take turns on one processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import InvalidModel, suggestion
from penstock.qos.capacity.cycles import Cycle, Station, cycle_of, exhaustive_wait, gated_wait
from penstock.qos.capacity.plans import ModelPlan, Path, PlanInput, PlanOperator


def push_up(plan: ModelPlan) -> tuple[str, ...]:
    """Turns by which rows go up through their query as soon as possible: each operator directly behind its last child.

    Examples
    --------
    >>> from penstock.qos.capacity.plans import PlanInput
    >>> def select(name, source):
    ...     return PlanOperator(name, (PlanInput(source, 1e-3),))
    >>> operators = (select("a", "s"), select("b", "s"), select("c", "a"), select("d", "b"))
    >>> push_up(ModelPlan(operators, {"s": 1.0}, {"p": "c", "q": "d"}))
    ('a', 'c', 'b', 'd')
    """
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found and not plan.is_stream(name):
            for port in plan.operator(name).inputs:
                visit(port.source)
            found[name] = None

    for root in plan.queries.values():
        visit(root)
    return tuple(found)


@dataclass(frozen=True)
class PolledPlan:
    """A plan with the turns in which its operators run.

    Parameters
    ----------
    turns
        Operators in the order of one cycle; one that is there several times is visited as often.
    is_exhaustive
        Whether operators that streams feed serve until nothing waits; else what waited when their turn came.
    is_refined
        Whether waits count with the cycle that rows feel, which is longer than the mean one; else with the mean one, as published.
        Turns that visit an operator several times are always reckoned with the mean cycle.
    kept_back
        Share of the processor that other work needs.

    Notes
    -----
    Differs from the source where a row waits behind rows of its own child: they come spread over the child's service, not all at
    once, and rows of children that ran before are in front of it.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Sections 5.4.2 to 5.4.5.
    """

    plan: ModelPlan
    turns: tuple[str, ...]
    is_exhaustive: bool = False
    is_refined: bool = True
    kept_back: float = 0.0
    is_light_corrected: bool = True

    def __post_init__(self) -> None:
        known = self.plan.stations
        for name in self.turns:
            if name not in known:
                raise InvalidModel(f"operator '{name}' has a turn and is not in the plan; {suggestion(name, known)}")
        for name in known:
            if name not in self.turns:
                raise InvalidModel(f"operator '{name}' has no turn; name it among the turns of a cycle at least once")

    @cached_property
    def stations(self) -> Mapping[str, Station]:
        return {
            name: Station(name, each.rate, each.service, each.setup, each.service_second, self.turns.count(name), each.is_external)
            for name, each in self.plan.stations.items()
        }

    @cached_property
    def cycle(self) -> Cycle:
        """Raises `Overloaded` if more work comes than can be done."""
        return cycle_of(list(self.stations.values()), self.kept_back, self.is_light_corrected, self.plan.simultaneous)

    @property
    def is_once_each(self) -> bool:
        return len(self.turns) == len(self.stations)

    @cached_property
    def _felt(self) -> float:
        if not (self.is_refined and self.is_once_each):
            return self.cycle.seconds
        return self.cycle.felt_exhaustive if self.is_exhaustive else self.cycle.felt_gated

    def wait(self, operator: str, number: int = 0) -> float:
        """Mean time in the queue of rows that come at one input of an operator."""
        station, port = self.stations[operator], self.plan.operator(operator).inputs[number]
        if not self.plan.is_stream(port.source):
            return self._inner_wait(operator, number)
        length = self._felt if self.is_once_each else self.cycle.seconds / station.visits
        return (exhaustive_wait if self.is_exhaustive else gated_wait)(station, length)

    def _inner_wait(self, operator: str, number: int) -> float:
        """Rows that come from another operator wait for its batch, for what runs in between, and for rows in front of them."""
        mine, port = self.plan.operator(operator), self.plan.operator(operator).inputs[number]
        child, station = self.stations[port.source], self.stations[operator]
        runs = child.visits / station.visits
        length = self._felt if self.is_once_each else self.cycle.seconds / child.visits
        rows_in, rows_out = child.rate * length, self.plan.rate_out[port.source] * length
        ahead = sum(
            self.plan.rate_out[each.source] * self._per_run(each.source, operator, length) * each.service
            for each in self._before(mine, number)
        )
        between = station.setup + sum(
            each.setup + each.load * self._felt / each.visits for each in self._between(port.source, operator)
        )
        late_runs = (runs - 1) / 2 * self.cycle.seconds / child.visits
        if self.is_refined and self.is_once_each:
            own, spread = rows_out / 2, rows_in / 2
        else:  # a row does not wait for itself
            own = max((runs * rows_out - 1) / 2, 0.0)
            spread = max((rows_in - rows_in / rows_out) / 2, 0.0) if rows_out else 0.0
        return ahead + own * port.service + spread * child.service + late_runs + between

    def _per_run(self, child: str, operator: str, length: float) -> float:
        """Seconds of a child's rows that one run of an operator gets."""
        return length if self.is_once_each else self.cycle.seconds / self.stations[operator].visits

    def _before(self, operator: PlanOperator, number: int) -> Iterator[PlanInput]:
        """Inputs whose children run earlier, so that their rows are in front of those of this input."""
        mine = self._distance(operator.inputs[number].source, operator.id)
        for other, port in enumerate(operator.inputs):
            if other != number and not self.plan.is_stream(port.source) and self._distance(port.source, operator.id) > mine:
                yield port

    def _distance(self, child: str, operator: str) -> int:
        """Turns from the last run of a child to the last run of an operator in the cycle."""
        at = len(self.turns) - 1 - self.turns[::-1].index(operator)
        return next(back for back in range(1, len(self.turns) + 1) if self.turns[at - back] == child)

    def _between(self, child: str, operator: str) -> Iterator[Station]:
        at = len(self.turns) - 1 - self.turns[::-1].index(operator)
        return (self.stations[self.turns[at - back]] for back in range(1, self._distance(child, operator)))

    def path_latency(self, path: Path) -> float:
        """Mean time from the arrival of a row to the answer, along a path."""
        return sum(self.wait(name, number) + self.plan.operator(name).inputs[number].service for name, number in path.places)

    @cached_property
    def latencies(self) -> Mapping[str, float | None]:
        """Mean latency of the answers of each query; None: none are expected."""
        found: dict[str, list[tuple[float, float]]] = {query: [] for query in self.plan.queries}
        for path in self.plan.paths():
            if path.answers > 0:
                found[path.query].append((path.answers, self.path_latency(path)))
        return {
            query: sum(rate * latency for rate, latency in parts) / sum(rate for rate, _ in parts) if parts else None
            for query, parts in found.items()
        }

    def mean_latency(self, queries: Sequence[str] = ()) -> float:
        """Mean latency of all answers of some queries; none named: of all."""
        parts = [(self.plan.rate_out[self.plan.queries[query]], self.latencies[query]) for query in queries or self.plan.queries]
        known = [(rate, latency) for rate, latency in parts if latency is not None]
        return sum(rate * latency for rate, latency in known) / sum(rate for rate, _ in known)

    def queued(self, operator: str) -> float:
        """Mean rows that wait in front of an operator (Little's law)."""
        rates = self.plan.rates_in[operator]
        return sum(rate * self.wait(operator, number) for number, rate in enumerate(rates) if rate)

    @property
    def memory_rows(self) -> float:
        """Mean rows in queues, in service and in windows."""
        return sum(self.stations[each.id].load + self.queued(each.id) + each.kept_rows for each in self.plan.operators)
