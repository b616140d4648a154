"""An application as the planner sees it: operators with prices, where rows come in, and what queries are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.errors import InvalidModel, suggestion
from penstock.kernel.work import Place, WorkPlan
from penstock.qos.capacity.batch_costs import BatchCosts
from penstock.qos.capacity.figures import required

_SECOND_NS = 1e9


@dataclass(frozen=True, slots=True)
class Entrance:
    """A place at which rows of a stream reach operators.

    Parameters
    ----------
    share
        Of the rows of the stream that come here; a filter before the shuffle keeps the others away.
    """

    stream: str
    place: Place
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryParts:
    """What a query is made of.

    Parameters
    ----------
    operators
        All that its rows pass, shared or not.
    rounds
        Micro-batches that a row needs at least, as rows that need another key go round once more.
    """

    operators: tuple[str, ...]
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class StateSize:
    """Rows and bytes that an operator keeps, at the rates at which they were found."""

    rows: float
    bytes: float


@dataclass(frozen=True)
class PlannedApplication:
    """Everything that is known of an application and its costs.

    Parameters
    ----------
    work
        Operators with prices.
    rates
        Of streams, rows per second, as they are asked for; 0: nobody knows.
    state
        By operator.
    measured_rates
        At which costs and state were found; empty: at `rates`.
    most_rows
        Rows of a stream that a micro-batch takes at most, where its source limits them.
    estimated
        What is assumed because nothing is measured, in words.
    """

    name: str
    work: WorkPlan
    entrances: tuple[Entrance, ...]
    queries: Mapping[str, QueryParts]
    rates: Mapping[str, float]
    costs: BatchCosts
    state: Mapping[str, StateSize] = field(default_factory=dict)
    measured_rates: Mapping[str, float] = field(default_factory=dict)
    most_rows: Mapping[str, float] = field(default_factory=dict)
    estimated: tuple[str, ...] = ()

    def at(self, rates: Mapping[str, float]) -> PlannedApplication:
        """The same with other rates of some streams."""
        known = {name.lower(): name for name in self.rates}
        for name, rate in rates.items():
            if name.lower() not in known:
                raise InvalidModel(f"there is a rate for stream '{name}', which no query reads; {suggestion(name, self.rates)}")
            required(f"rate of stream '{name}'", rate)
        return replace(self, rates={**self.rates, **{known[name.lower()]: rate for name, rate in rates.items()}})

    def flow(self) -> Flow:
        """Rows through the operators.

        Raises
        ------
        InvalidModel
            When no stream has a rate.
        """
        if not any(self.rates.values()):
            stream = next(iter(self.rates), "s")
            raise InvalidModel(
                f"nobody knows how many rows of {', '.join(self.rates) or 'any stream'} come; give rates, such as --rate "
                f"{stream}=1000, or the checkpoint of a run"
            )
        return Flow(self, self.rates)

    def measured_flow(self) -> Flow:
        """Rows through the operators when costs were measured."""
        return Flow(self, self.measured_rates) if any(self.measured_rates.values()) else self.flow()


class Flow:
    """Rows per second at each place of an application, and what they cost.

    Parameters
    ----------
    rates
        Of its streams.
    """

    def __init__(self, application: PlannedApplication, rates: Mapping[str, float]) -> None:
        self.rate = sum(rates.values())
        self.arriving: dict[Place, float] = {}
        for entrance in application.entrances:
            rows = rates[entrance.stream] * entrance.share
            self.arriving[entrance.place] = self.arriving.get(entrance.place, 0.0) + rows
        self.leaving: dict[str, float] = {}
        #: Seconds of work per second, if a processor did it alone. What each call costs is part of what a micro-batch costs anyway.
        self.work: dict[str, float] = {}
        for operator in application.work.operators:
            rows_in = [self.arriving.get((operator.id, port), 0.0) for port in range(len(operator.prices))]
            self.leaving[operator.id] = sum(rate * price.selectivity for rate, price in zip(rows_in, operator.prices, strict=True))
            needed = sum(rate * price.row_ns for rate, price in zip(rows_in, operator.prices, strict=True))
            self.work[operator.id] = needed / _SECOND_NS
            for place in operator.consumers:
                self.arriving[place] = self.arriving.get(place, 0.0) + self.leaving[operator.id]

    @property
    def operators_row_s(self) -> float:
        """Seconds that all operators take for a row of the streams, if a processor did it alone."""
        return sum(self.work.values()) / self.rate if self.rate else 0.0
