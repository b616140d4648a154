"""A query with two joins of three streams, whose load doubles now and then, under fixed strategies and under the optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from penstock.experiments.contracts import Settings, statements
from penstock.experiments.parallel import side_by_side
from penstock.model.qos import Expectation, Measure, Priority, QoSGraph, QoSSpecification
from penstock.qos.optimizer.decision_table import PUBLISHED, DecisionTable
from penstock.runners.simulated.optimizing import Optimizing
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.runners.simulated.trace import Trace
from penstock.workloads.arrivals import RateSchedule
from penstock.workloads.poisson import Poisson
from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph, QuerySketch

STATEMENTS = statements(Path(__file__).parent)

#: Strategies that the publication compares, as they are called in figures.
LABELS: Mapping[str, str] = {"path_capacity": "PC", "simple_segment": "SS", "segment": "Segment", "": "optimiser"}
FIXED = ("path_capacity", "simple_segment", "segment")
#: The optimiser begins with the strategy that is worst for latency, and chooses among the three.
WORST, CHOICE = "segment", DecisionTable(PUBLISHED.ranks, FIXED)
QUERY = "q"

#: Rows that are served together, and in a quick look; what a decision costs; and what the query needs of the processor at the
#: rates in `RATES`.
_PAGE_ROWS, _QUICK_PAGE_ROWS, _DECISION_NS, _LOAD = 100, 400, 1_000_000, 0.5
RATES = {"s1": 2000.0, "s2": 1800.0, "s3": 2200.0}
#: A burst begins so many seconds after the one before has ended, brings so many times as much, and lasts so long.
_QUIET_S, _TIMES, _BURST_S = 40.0, 2.2, 20.0


def _operator(name: str, *ports: tuple[str, float, float, int]) -> OperatorSketch:
    return OperatorSketch(name, name.rstrip("12345"), tuple(PortSketch(*port) for port in ports))


@cache
def query() -> QueryGraph:
    """Eight operators: three selections, a join, a selection, a join, a selection, and the select list."""
    operators = (
        _operator("select1", ("s1", 20, 0.3, 100)),
        _operator("select2", ("s2", 20, 0.3, 100)),
        _operator("select3", ("s3", 20, 0.3, 100)),
        _operator("join1", ("select1", 100, 0.9, 100), ("select2", 100, 0.9, 100)),
        _operator("select4", ("join1", 20, 0.3, 180)),
        _operator("join2", ("select4", 600, 0.9, 180), ("select3", 60, 0.9, 100)),
        _operator("select5", ("join2", 20, 0.5, 260)),
        _operator("project", ("select5", 40, 1.0, 260)),
    )
    total = sum(RATES.values())
    shares = {stream: rate / total for stream, rate in RATES.items()}
    return QueryGraph(operators, (QuerySketch(QUERY, "project"),), shares, {}).costing(_LOAD, RATES)


def traffic(seconds: float, seed: int, page_rows: int) -> Traffic:
    changes = [(0.0, 1.0)]
    while changes[-1][0] < seconds:
        burst = changes[-1][0] + _QUIET_S
        changes += [(burst, _TIMES), (burst + _BURST_S, 1.0)]
    times = {
        stream: Poisson(RateSchedule(rate / page_rows, tuple(changes)), 10 * seed + at).times(seconds)
        for at, (stream, rate) in enumerate(RATES.items())
    }
    return Traffic.of(times, page_rows)


def promise(measure: Measure, priority: Priority, *pieces: Sequence[float]) -> Expectation:
    return Expectation(measure, QoSGraph.of(*pieces), priority)


def settled(moment: float) -> float:
    """When the queues of the burst that goes on at a moment are gone: in the middle of the quiet time behind it."""
    period = _QUIET_S + _BURST_S
    return (moment // period + 1) * period + _QUIET_S / 2


def length_s(settings: Settings) -> float:
    """Three bursts; two for a quick look."""
    return (2 if settings.is_quick else 3) * (_QUIET_S + _BURST_S)


@dataclass(frozen=True, slots=True)
class Task:
    """One strategy on one stream; without a name it is the optimiser."""

    contract: QoSSpecification
    strategy: str
    seed: int
    seconds: float
    page_rows: int


@dataclass(frozen=True)
class Outcome:
    """What became of one stream.

    Parameters
    ----------
    looks
        When each was, what was measured of every promise, in their order, and the strategy behind it.
    broken_s
        For how long each promise was not kept.
    latency_s, came_s
        Of all answers, and when what they are made of came.
    """

    looks: tuple[tuple[float, tuple[float, ...], str], ...]
    broken_s: tuple[float, ...]
    latency_s: tuple[float, ...]
    came_s: tuple[float, ...]

    @property
    def switches(self) -> list[tuple[float, str]]:
        """When another strategy was chosen, and which."""
        found, current = [], WORST
        for at, _, strategy in self.looks:
            if strategy != current:
                found.append((at, strategy))
            current = strategy
        return found

    def latency_after(self, moment: float) -> float:
        """Mean over what came behind a moment."""
        chosen = np.array(self.came_s) >= moment
        return float(np.array(self.latency_s)[chosen].mean())

    @property
    def mean_latency(self) -> float:
        return float(np.mean(self.latency_s))

    def measured(self, at: int, start: float = 0.0, stop: float = np.inf) -> list[float]:
        """One promise, look by look."""
        return [values[at] for moment, values, _ in self.looks if start <= moment < stop]


def outcome(task: Task) -> Outcome:
    optimizing = Optimizing({QUERY: task.contract}, CHOICE, decides=not task.strategy)
    strategy = task.strategy or WORST
    run = Simulation(
        query(),
        traffic(task.seconds, task.seed, task.page_rows),
        strategy,
        {"oldest_every": 0},
        _DECISION_NS,
        optimizing=optimizing,
    ).run()
    return _seen(run, task.contract, strategy, task.seconds)


def _seen(run: Trace, contract: QoSSpecification, strategy: str, seconds: float) -> Outcome:
    looks, broken = [], [0.0] * len(contract.expectations)
    for look in run.looks:
        if look.at_s > seconds:
            break
        values = []
        for at, expectation in enumerate(contract.expectations):
            mine = [item for item in look.promises if item.measure is expectation.measure]
            values.append(mine[0].measured if mine else 0.0)
            broken[at] = mine[0].broken_s if mine else broken[at]
        strategy = look.decision.strategy if look.decision is not None else strategy
        looks.append((look.at_s, tuple(values), strategy))
    # Answers come by the thousand; of each page one tells enough.
    chosen = slice(None, None, 10)
    return Outcome(tuple(looks), tuple(broken), tuple(run.latency_s[chosen]), tuple(run.ts_us[chosen] / 1e6))


@cache
def runs(contract: QoSSpecification, settings: Settings) -> dict[str, list[Outcome]]:
    """By strategy, the streams in order."""
    seeds, names = settings.seed_numbers(), (*FIXED, "")
    page_rows = _QUICK_PAGE_ROWS if settings.is_quick else _PAGE_ROWS
    tasks = [Task(contract, name, seed, length_s(settings), page_rows) for name in names for seed in seeds]
    found = side_by_side(outcome, tasks, settings)
    return {name: found[at * len(seeds) : (at + 1) * len(seeds)] for at, name in enumerate(names)}
