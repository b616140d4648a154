"""How an application on Spark would do: latency, load, memory, the highest rate, and what ends first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import inf, isfinite

from penstock.errors import InvalidModel
from penstock.model.qos import Measure, QoSSpecification
from penstock.qos.capacity.application import Flow, PlannedApplication
from penstock.qos.capacity.figures import required
from penstock.qos.capacity.gated_server import GatedServer, highest_rate

#: A figure that rests on estimates must be better than its bound by this part, or the bound counts as in danger.
_MARGIN = 0.2
_HALVINGS = 60
#: Where nothing else ends, nobody wants to know more.
_FAR = 1e9
#: Nobody has more.
_MOST_CORES = 4096
#: Load from which on bursts make latency much longer than it is with rows at random.
_SENSITIVE = 0.85
#: Times the rates up to which a curve goes where nothing ends.
_FARTHEST_DRAWN = 20.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the application would run on.

    Parameters
    ----------
    cores
        Each has a shard.
    trigger_s
        Time between micro-batches; 0: as soon as possible.
    memory_bytes
        For state and queues; None: no limit is known.
    kept_back
        Share of the processors that other work needs.
    """

    cores: int
    trigger_s: float = 0.0
    memory_bytes: float | None = None
    kept_back: float = 0.0

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise InvalidModel(f"{self.cores} cores run nothing; give at least 1")
        required("trigger_s", self.trigger_s)
        if not 0 <= required("kept_back", self.kept_back) < 1:
            raise InvalidModel(f"'kept_back' is {self.kept_back!r}; a share of the processor below 1 must be left for queries")


class Outcome(StrEnum):
    """What becomes of a bound."""

    MEETS = "meets"
    #: Met, but by less than estimates may be wrong.
    UNCERTAIN = "uncertain"
    VIOLATES = "violates"
    #: More rows come than can be processed.
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bound of a query's contract and what is predicted.

    Parameters
    ----------
    predicted
        None where too much comes for a prediction.
    up_to
        Times the rates that were asked for at which the bound breaks; infinite: never.
    """

    query: str
    what: str
    outcome: Outcome
    predicted: float | None
    bound: float
    up_to: float


@dataclass(frozen=True, slots=True)
class QueryPrediction:
    """How a query would do; latencies are None where too much comes."""

    query: str
    latency_s: float | None
    latency_p95_s: float | None
    rows_in: float
    answers: float
    state_bytes: float | None


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that ends when rates grow.

    Parameters
    ----------
    factor
        Times the rates that were asked for.
    """

    what: str
    factor: float


@dataclass(frozen=True)
class CapacityPlan:
    """An application at some rates on some machine.

    Parameters
    ----------
    contracts
        What queries ask for, by name.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price, WorkPlan
    >>> from penstock.qos.capacity.application import Entrance, QueryParts
    >>> from penstock.qos.capacity.batch_costs import BatchCosts
    >>> work = WorkPlan((PlannedOperator("Project1", (Price(row_ns=10_000),), entrances=(0,), answers=("q",)),))
    >>> app = PlannedApplication(
    ...     "app", work, (Entrance("s", ("Project1", 0)),), {"q": QueryParts(("Project1",))}, {"s": 10_000.0},
    ...     BatchCosts(0.2, 25e-6, cores=2))
    >>> plan = CapacityPlan(app, Machine(cores=2))
    >>> round(plan.load, 3), round(plan.highest_factor, 3), round(plan.queries[0].latency_s, 3)
    (0.25, 4.0, 0.4)
    """

    application: PlannedApplication
    machine: Machine
    contracts: Mapping[str, QoSSpecification] = field(default_factory=dict)

    @cached_property
    def flow(self) -> Flow:
        return self.application.flow()

    @property
    def rate(self) -> float:
        """Rows of all streams per second."""
        return sum(self.application.rates.values())

    @cached_property
    def row_s(self) -> float:
        """Time that a row adds to a micro-batch, on average over streams."""
        costs = self.application.costs
        # What is not work of operators, reading and writing for the most part, was measured with all of the cores too.
        around = max(costs.row_s * costs.cores - self._measured_flow.operators_row_s, 0.0)
        return (around + self.flow.operators_row_s) / self.machine.cores

    @cached_property
    def _measured_flow(self) -> Flow:
        return self.application.measured_flow()

    @property
    def load(self) -> float:
        """Share of the time that rows need; what micro-batches cost by themselves comes on top."""
        return self.rate * self.row_s

    @cached_property
    def most_rows(self) -> float | None:
        """Rows that a micro-batch takes at most, over all streams, as long as their rates keep their proportions."""
        rates = self.application.rates
        limits = [most / rates[stream] for stream, most in self.application.most_rows.items() if rates.get(stream)]
        return min(limits) * self.rate if limits else None

    @cached_property
    def highest_factor(self) -> float:
        """Times these rates at which the backlog begins to grow without end."""
        return self._highest_rate / self.rate if self.rate else inf

    @property
    def _highest_rate(self) -> float:
        row_s = self.row_s / (1 - self.machine.kept_back)
        return highest_rate(self.application.costs.fixed_s, row_s, self.machine.trigger_s, self.most_rows)

    @property
    def is_overloaded(self) -> bool:
        return self.highest_factor <= 1

    @property
    def is_sensitive_to_bursts(self) -> bool:
        """Whether the load is so high that the predicted latency holds only for streams without bursts."""
        return _SENSITIVE < self.load < 1 and not self.is_overloaded

    @property
    def shed(self) -> float:
        """Share of the rows that would have to be dropped; 0 where all can be processed."""
        return max(1 - self.highest_factor, 0.0)

    def server(self, factor: float = 1.0) -> GatedServer | None:
        """The micro-batches at so many times these rates; None where too much comes."""
        if factor >= self.highest_factor:
            return None
        costs, machine = self.application.costs, self.machine
        return GatedServer(
            self.rate * factor,
            costs.fixed_s,
            self.row_s / (1 - machine.kept_back),
            machine.trigger_s,
            self.most_rows,
            costs.deviation_s,
        )

    def latency(self, query: str, factor: float = 1.0, share: float | None = None) -> float | None:
        """Mean latency of a query, or the one that a share of its answers does not exceed; None where too much comes."""
        server = self.server(factor)
        if server is None:
            return None
        # Rows for another round come with the next micro-batch.
        later = (self.application.queries[query].rounds - 1) * server.cycle_s
        return later + (server.latency_s if share is None else server.quantile(share))

    def state_bytes(self, query: str, factor: float = 1.0) -> float | None:
        """State of a query; None where nothing is known of it. State of windows grows with the rate."""
        known = [
            self.application.state[name] for name in self.application.queries[query].operators if name in self.application.state
        ]
        return sum(size.bytes for size in known) * self._growth * factor if known else None

    @cached_property
    def _growth(self) -> float:
        """Times the rates at which state was measured."""
        return self.rate / self._measured_flow.rate if self._measured_flow.rate else 1.0

    def memory_bytes(self, factor: float = 1.0) -> float | None:
        """State of all operators and the rows of a micro-batch; None where too much comes."""
        server = self.server(factor)
        if server is None:
            return None
        state = sum(size.bytes for size in self.application.state.values()) * self._growth * factor
        return state + server.rows * self._row_bytes

    @cached_property
    def _row_bytes(self) -> float:
        """Of rows where they enter, on average."""
        prices = {operator.id: operator.prices for operator in self.application.work.operators}
        places = {(entrance.place[0], entrance.place[1]) for entrance in self.application.entrances}
        bytes_s = sum(self.flow.arriving[name, port] * prices[name][port].row_bytes for name, port in places if name in prices)
        return bytes_s / self.rate if self.rate else 0.0

    @cached_property
    def queries(self) -> tuple[QueryPrediction, ...]:
        """Every query at these rates."""
        return tuple(self._query(name) for name in self.application.queries)

    def _query(self, name: str) -> QueryPrediction:
        mine = [each for each in self.application.entrances if each.place[0] in self.application.queries[name].operators]
        # A stream that several operators of a query read counts once.
        shares = {stream: max(each.share for each in mine if each.stream == stream) for stream in {each.stream for each in mine}}
        entering = sum(self.application.rates[stream] * share for stream, share in shares.items())
        answers = sum(self.flow.leaving[each.id] for each in self.application.work.operators if name in each.answers)
        return QueryPrediction(name, self.latency(name), self.latency(name, share=0.95), entering, answers, self.state_bytes(name))

    def operator_loads(self) -> list[tuple[str, float]]:
        """Share of all cores that each operator needs, the greatest first."""
        found = [(name, seconds / self.machine.cores) for name, seconds in self.flow.work.items()]
        return sorted(found, key=lambda item: -item[1])

    @property
    def estimated(self) -> tuple[str, ...]:
        """What is not measured, in words."""
        costs = self.application.costs
        told = [*self.application.estimated, *costs.estimated]
        if costs.cores != self.machine.cores and not costs.estimated:
            told.append(f"how well {self.machine.cores} cores share the work that was measured on {costs.cores}")
        server = self.server()
        if server is not None and costs.most_rows and server.rows > 2 * costs.most_rows:
            told.append(f"micro-batches of {server.rows:,.0f} rows; the largest that was measured had {costs.most_rows:,.0f}")
        return tuple(told)

    # -- bounds --------------------------------------------------------------------------------------------------------

    def verdicts(self) -> tuple[Verdict, ...]:
        """Every bound of every contract."""
        return tuple(verdict for query, contract in self.contracts.items() for verdict in self._verdicts(query, contract))

    def _verdicts(self, query: str, contract: QoSSpecification) -> Iterator[Verdict]:
        for expectation in contract.expectations:
            corners = [y for piece in expectation.graph.intervals for y in (piece.y1, piece.y2)]
            if expectation.measure is Measure.LATENCY:
                yield self._verdict(query, "mean latency", min(corners), lambda factor: self.latency(query, factor))
            elif expectation.measure is Measure.MEMORY:
                yield self._verdict(query, "memory", min(corners), self._waiting_bytes)
            else:
                yield self._least(query, "throughput", max(corners))
        if contract.max_latency is not None:
            yield self._verdict(query, "latency of 95 %", contract.max_latency, lambda factor: self.latency(query, factor, 0.95))

    def _waiting_bytes(self, factor: float) -> float | None:
        """Rows that wait for their micro-batch or are in it; state is not meant."""
        server = self.server(factor)
        return None if server is None else server.rows * self._row_bytes

    def _verdict(self, query: str, what: str, bound: float, at: Callable[[float], float | None]) -> Verdict:
        predicted, up_to = at(1.0), self._breaks_at(bound, at)
        if predicted is None:
            return Verdict(query, what, Outcome.OVERLOADED, None, bound, up_to)
        margin = 1 + _MARGIN if self.estimated else 1.0
        outcome = Outcome.VIOLATES if predicted > bound else Outcome.UNCERTAIN if predicted * margin > bound else Outcome.MEETS
        return Verdict(query, what, outcome, predicted, bound, up_to)

    def _least(self, query: str, what: str, bound: float) -> Verdict:
        """A bound from below: what is processed makes answers, however much more comes."""
        predicted = next(found.answers for found in self.queries if found.query == query) * min(1.0, self.highest_factor)
        outcome = Outcome.MEETS if predicted >= bound else Outcome.VIOLATES
        return Verdict(query, what, outcome, predicted, bound, inf)

    def _breaks_at(self, bound: float, at: Callable[[float], float | None]) -> float:
        """Times the rates at which something exceeds a bound; it never falls while all rates grow together."""
        return first_above(bound, at, min(self.highest_factor, _FAR))

    def limits(self) -> list[Limit]:
        """What ends when all rates grow together, the first one first."""
        rows = "rows that a micro-batch may take" if self._is_limited_by_rows else "processor"
        found = [Limit(rows, self.highest_factor)]
        if self.machine.memory_bytes is not None:
            found.append(Limit("memory", self._breaks_at(self.machine.memory_bytes, self.memory_bytes)))
        found += [Limit(f"{each.what} of '{each.query}'", each.up_to) for each in self.verdicts() if isfinite(each.up_to)]
        return sorted(found, key=lambda limit: limit.factor)

    @property
    def _is_limited_by_rows(self) -> bool:
        return self.rate * self.highest_factor * self.row_s < (1 - self.machine.kept_back) * (1 - 1e-9)

    @property
    def first_query(self) -> str:
        return next(iter(self.application.queries))

    def cores_needed(self) -> int | None:
        """The least number of cores with which all rows are processed and no bound is violated; None: no number suffices."""
        enough = 1
        while not self._suffices(enough):
            enough *= 2
            if enough > _MOST_CORES:
                return None
        low = enough // 2
        while enough - low > 1:
            middle = (low + enough) // 2
            low, enough = (low, middle) if self._suffices(middle) else (middle, enough)
        return enough

    def _suffices(self, cores: int) -> bool:
        other = CapacityPlan(self.application, replace(self.machine, cores=cores), self.contracts)
        bad = (Outcome.VIOLATES, Outcome.OVERLOADED)
        return not other.is_overloaded and not any(verdict.outcome in bad for verdict in other.verdicts())

    def curve(self, points: int = 60, share: float | None = None) -> list[tuple[float, float]]:
        """Rate, and latency of the first query as `latency` has it, up to just below the highest rate."""
        top = min(self.highest_factor, _FARTHEST_DRAWN)
        factors = (top * (number + 1) / (points + 1) for number in range(points))
        found = ((factor, self.latency(self.first_query, factor, share)) for factor in factors)
        return [(self.rate * factor, latency) for factor, latency in found if latency is not None]


def first_above(bound: float, at: Callable[[float], float | None], top: float) -> float:
    """Where a function that never falls first exceeds a bound, between 0 and the point from which on it has no value.

    Examples
    --------
    >>> round(first_above(2.0, lambda x: 1 / (1 - x) if x < 1 else None, 1.0), 6)
    0.5
    """
    low, high = 0.0, top
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = at(middle)
        low, high = (low, middle) if found is None or found > bound else (middle, high)
    return (low + high) / 2
