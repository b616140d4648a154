"""Plans as the model sees them: operators with times and selectivities, the rows that flow through them, and the paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import InvalidModel, suggestion
from penstock.qos.capacity.cycles import Station
from penstock.qos.capacity.figures import required
from penstock.workloads.query_graphs import SECOND_NS, QueryGraph


@dataclass(frozen=True, slots=True)
class PlanInput:
    """One input of an operator.

    Parameters
    ----------
    source
        A stream or an operator.
    service
        Seconds for a row.
    selectivity
        Rows out for a row in; joins may have more than 1.
    """

    source: str
    service: float
    selectivity: float = 1.0


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """An operator with its inputs.

    Parameters
    ----------
    setup
        Seconds before the first row whenever it gets the processor.
    kept_rows
        Rows that its windows hold.
    """

    id: str
    inputs: tuple[PlanInput, ...]
    setup: float = 0.0
    kept_rows: float = 0.0


@dataclass(frozen=True)
class ModelPlan:
    """Operators in topological order, with the rates of streams and the operators at which queries are answered.

    Examples
    --------
    >>> select = PlanOperator("a", (PlanInput("s", 1e-3, 0.5),))
    >>> join = PlanOperator("b", (PlanInput("a", 1e-3), PlanInput("t", 1e-3)))
    >>> plan = ModelPlan((select, join), {"s": 100.0, "t": 50.0}, {"q": "b"})
    >>> plan.rates_in["b"], plan.rate_out["b"], round(plan.load, 3)
    ((50.0, 50.0), 100.0, 0.2)
    """

    operators: tuple[PlanOperator, ...]
    rates: Mapping[str, float]
    queries: Mapping[str, str]
    _known: Mapping[str, PlanOperator] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {operator.id: operator for operator in self.operators})
        self._check()

    def _check(self) -> None:
        seen = set(self.rates)
        for stream, rate in self.rates.items():
            required(f"rate of stream '{stream}'", rate)
        for operator in self.operators:
            if operator.id in seen:
                raise InvalidModel(f"'{operator.id}' is there twice; give every operator and stream a name of its own")
            for number, port in enumerate(operator.inputs):
                where = f"input {number} of operator '{operator.id}'"
                if port.source not in seen:
                    raise InvalidModel(self._no_source(where, port.source, seen))
                required(f"service of {where}", port.service)
                required(f"selectivity of {where}", port.selectivity)
            required(f"setup of operator '{operator.id}'", operator.setup)
            seen.add(operator.id)
        read = {port.source for operator in self.operators for port in operator.inputs} | set(self.queries.values())
        for query, name in self.queries.items():
            if name not in self._known:
                raise InvalidModel(
                    f"query '{query}' is answered at operator '{name}', which is not there; {suggestion(name, self._known)}"
                )
        for operator in self.operators:
            if operator.id not in read:
                raise InvalidModel(f"nothing reads operator '{operator.id}'; let an operator or a query read it, or leave it out")

    def _no_source(self, where: str, source: str, seen: set[str]) -> str:
        if source in self._known:
            return f"{where} reads operator '{source}', which comes later; plans have no cycles: write it before what reads it"
        return f"{where} reads '{source}', which is neither a stream nor an operator; {suggestion(source, sorted(seen))}"

    @classmethod
    def from_sketch(cls, sketch: QueryGraph, rates: Mapping[str, float], setups: Mapping[str, float]) -> ModelPlan:
        """A plan of a query graph as simulations have it."""
        operators = tuple(
            PlanOperator(
                operator.id,
                tuple(PlanInput(port.source, port.row_ns / SECOND_NS, port.selectivity) for port in operator.ports),
                setups[operator.id],
            )
            for operator in sketch.operators
        )
        return cls(operators, rates, {query.id: query.operator for query in sketch.queries})

    def scaled(self, factor: float) -> ModelPlan:
        """The same with all rates so many times as high."""
        return ModelPlan(self.operators, {name: rate * factor for name, rate in self.rates.items()}, self.queries)

    def operator(self, name: str) -> PlanOperator:
        return self._known[name]

    def is_stream(self, name: str) -> bool:
        return name in self.rates

    @cached_property
    def rates_in(self) -> Mapping[str, tuple[float, ...]]:
        """Rows per second at each input of each operator."""
        return self._flow[0]

    @cached_property
    def rate_out(self) -> Mapping[str, float]:
        """Rows per second that streams and operators give to each of their readers."""
        return self._flow[1]

    @cached_property
    def _flow(self) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
        arriving, leaving = dict[str, tuple[float, ...]](), dict(self.rates)
        for operator in self.operators:
            rows = tuple(leaving[port.source] for port in operator.inputs)
            arriving[operator.id] = rows
            leaving[operator.id] = sum(rate * port.selectivity for rate, port in zip(rows, operator.inputs, strict=True))
        return arriving, leaving

    def input_load(self, operator: str, number: int) -> float:
        """Share of a processor that one input of an operator needs."""
        return self.rates_in[operator][number] * self._known[operator].inputs[number].service

    @cached_property
    def load(self) -> float:
        """Share of a processor that all operators need; a shared operator counts once."""
        return sum(self.input_load(operator.id, number) for operator in self.operators for number in range(len(operator.inputs)))

    @cached_property
    def stations(self) -> Mapping[str, Station]:
        """The operators as the processor sees them."""
        return {operator.id: self._station(operator) for operator in self.operators}

    def _station(self, operator: PlanOperator) -> Station:
        rows = self.rates_in[operator.id]
        total = sum(rows)
        shares = [rate / total for rate in rows] if total else [1 / len(rows)] * len(rows)
        mean = sum(share * port.service for share, port in zip(shares, operator.inputs, strict=True))
        second = sum(share * port.service**2 for share, port in zip(shares, operator.inputs, strict=True))
        is_external = any(self.is_stream(port.source) for port in operator.inputs)
        return Station(operator.id, total, mean, operator.setup, max(second, mean**2), is_external=is_external)

    @cached_property
    def simultaneous(self) -> float:
        """What rows of streams that feed several operators add to the second moment of work per second.

        A row brings work to all of these operators at once, with what it sets going behind them: by so much is the square of
        the sum more than the sum of the squares. 0 if every stream feeds one operator.
        """
        work: dict[tuple[str, int], float] = {}
        for operator in reversed(self.operators):
            behind = sum(work[place] for place in self.consumers[operator.id])
            for number, port in enumerate(operator.inputs):
                work[operator.id, number] = port.service + port.selectivity * behind
        brought = {stream: [work[place] for place in self.consumers[stream]] for stream in self.rates}
        return sum(
            rate * (sum(brought[stream]) ** 2 - sum(each**2 for each in brought[stream])) for stream, rate in self.rates.items()
        )

    @cached_property
    def consumers(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """(operator, input) pairs that read each stream or operator."""
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in (*self.rates, *self._known)}
        for operator in self.operators:
            for number, port in enumerate(operator.inputs):
                found[port.source].append((operator.id, number))
        return {name: tuple(places) for name, places in found.items()}

    def paths(self) -> Iterator[Path]:
        """Every way from a stream to the answers of a query; a join with itself has two."""
        for stream in self.rates:
            for place in self.consumers[stream]:
                yield from self._paths((place,), self.rates[stream])

    def _paths(self, behind: tuple[tuple[str, int], ...], rate: float) -> Iterator[Path]:
        name, number = behind[-1]
        leaving = rate * self._known[name].inputs[number].selectivity
        for query, answered in self.queries.items():
            if answered == name:
                is_shared = any(len(self.consumers[each]) > 1 for each, _ in behind)
                yield Path(query, behind, leaving, is_shared)
        for place in self.consumers[name]:
            yield from self._paths((*behind, place), leaving)


@dataclass(frozen=True, slots=True)
class Path:
    """Operators that a row visits, with the input at which it comes, from a stream to the answers of a query.

    Parameters
    ----------
    answers
        Rows per second that leave at its end.
    is_shared
        Whether other operators read what one of its operators makes.
    """

    query: str
    places: tuple[tuple[str, int], ...]
    answers: float
    is_shared: bool
