"""Queries with weights over bursty streams whose rows go stale, served by strategies that schedule arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import log2
from pathlib import Path
from typing import Any

import numpy as np

from penstock.experiments.contracts import Floats, Panel, Series, Settings, statements
from penstock.experiments.measures import spread_of
from penstock.experiments.parallel import side_by_side
from penstock.model.batch import Int64s
from penstock.qos.scheduling.batching import Batching, FixedInterval, FixedLength, IntelligentBatching
from penstock.runners.simulated.open_batches import MakeBatching
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.workloads.arrivals import MICROS
from penstock.workloads.b_model import BModel
from penstock.workloads.query_graphs import QueryGraph
from penstock.workloads.query_sets import random_graph

STATEMENTS = statements(Path(__file__).parent)

#: Strategies as they are called in figures.
LABELS: Mapping[str, str] = {
    "round_robin": "RR",
    "basic": "Basic",
    "profit": "OptProfit",
    "basic_deadline": "Basic+DD",
    "deadline": "OptProfit+DD",
    "basic_profit_deadline": "Basic+PD",
    "profit_deadline": "OptProfit+PD",
}

#: Each strategy that looks at operators one by one, and the one that looks at all that an arrival sets going.
PAIRS = (("basic", "profit"), ("basic_deadline", "deadline"), ("basic_profit_deadline", "profit_deadline"))
#: All but the baseline.
JOBS = tuple(name for name in LABELS if name != "round_robin")

#: Of valuing one new job; n of them take n log n times as long.
VALUING_US = 20.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Queries, their streams, and how these are cut into batches.

    Parameters
    ----------
    queries, operators
        Of the graph; a query for every operator that is a leaf.
    spread
        Weights lie so far around their mean at most, in parts of the spread that is drawn.
    load
        Work that comes per second.
    seconds, rate, bias
        Of the four streams: length, rows per second each, and how bursty they are (`BModel`).
    delay_s
        How old rows are when they come.
    batching, alpha, beta
        `intelligent` with its factors, `none`, `fixed_length` or `fixed_interval`.
    size
        Rows of batches of fixed length, or seconds of those of fixed intervals.
    valuing_us
        See `VALUING_US`.
    """

    queries: int = 24
    operators: int = 40
    spread: float = 1.0
    load: float = 1.2
    seconds: float = 20.0
    rate: float = 100.0
    bias: float = 0.7
    delay_s: float = 0.0
    batching: str = "intelligent"
    alpha: float = 0.9
    beta: float = 4.0
    size: float = 1.0
    valuing_us: float = VALUING_US

    def sketch(self, seed: int) -> QueryGraph:
        drawn = random_graph(seed, self.queries, self.operators)
        middle = 5.5
        queries = [replace(query, weight=middle + (query.weight - middle) * self.spread) for query in drawn.queries]
        return replace(drawn, queries=tuple(queries)).costing(self.load, dict.fromkeys(drawn.shares, self.rate))

    def traffic(self, sketch: QueryGraph, seed: int) -> Traffic:
        rows = round(self.rate * self.seconds)
        times: dict[str, Int64s] = {
            stream: BModel(self.bias, self.seconds, seed=1_000 * seed + at).times(rows) for at, stream in enumerate(sketch.shares)
        }
        return Traffic.of(times, delay_us=round(self.delay_s * MICROS))

    def make_batching(self) -> MakeBatching:
        return partial(_batching, self)

    def valuing_ns(self, jobs: int) -> float:
        return self.valuing_us * 1_000 * jobs * log2(max(jobs, 2))


def _batching(setup: Setup, validity_us: float) -> Batching:
    if setup.batching == "intelligent":
        return IntelligentBatching(validity_us, setup.alpha, setup.beta)
    if setup.batching == "fixed_interval":
        return FixedInterval(round(setup.size * MICROS))
    return FixedLength(round(setup.size) if setup.batching == "fixed_length" else 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One strategy on one stream."""

    setup: Setup
    policy: str
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def on(self, seed: int) -> Task:
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it.

    Parameters
    ----------
    score
        Weighted share of the answers in time.
    interrupts
        How often new jobs were compared.
    batch_rows
        Rows of a batch, on average.
    """

    score: float
    interrupts: int
    batch_rows: float


def outcome(task: Task) -> Outcome:
    sketch = task.setup.sketch(task.seed)
    # Published strategies know no guard against starvation.
    parameters = {"oldest_every": 0, **task.parameters}
    traffic = task.setup.traffic(sketch, task.seed)
    run = Simulation(
        sketch, traffic, task.policy, parameters, interrupt_ns=task.setup.valuing_ns, batching=task.setup.make_batching()
    ).run()
    return Outcome(run.score, run.interrupts, run.inputs / max(run.batches, 1))


@cache
def _known(settings: Settings) -> dict[str, Outcome]:
    return {}


def outcomes(tasks: Sequence[Task], settings: Settings) -> list[list[Outcome]]:
    """Of each task on every stream; what two experiments share is run once."""
    known = _known(settings)
    each = [[task.on(seed) for seed in settings.seed_numbers()] for task in tasks]
    missing = list({repr(one): one for row in each for one in row if repr(one) not in known}.items())
    found = side_by_side(outcome, [one for _, one in missing], settings)
    known |= {key: result for (key, _), result in zip(missing, found, strict=True)}
    return [[known[repr(one)] for one in row] for row in each]


#: Scores by strategy: a row for every value that is tried, a column for every stream.
Scores = Mapping[str, Floats]


def sweep(setups: Sequence[Setup], settings: Settings, names: Sequence[str] = tuple(LABELS)) -> Scores:
    """Every strategy on every set-up."""
    found = outcomes([Task(setup, name) for name in names for setup in setups], settings)
    scores = np.array([[each.score for each in row] for row in found]).reshape(len(names), len(setups), -1)
    return dict(zip(names, scores, strict=True))


def standard(settings: Settings, **changes: Any) -> Setup:
    """Quick streams have fewer rows, each of which takes longer, and so say less."""
    setup = replace(Setup(), **changes)
    return replace(setup, rate=setup.rate / 5) if settings.is_quick else setup


def means(found: Floats) -> list[float]:
    """Over the streams."""
    result: list[float] = found.mean(axis=-1).tolist()
    return result


def lines(found: Scores, x: Sequence[float], x_label: str, names: Sequence[str] = tuple(LABELS), title: str = "") -> Panel:
    """Scores over what is changed, with the least and the greatest of all streams."""
    series = tuple(Series(LABELS[name], list(x), *spread_of(found[name].T)) for name in names)
    return Panel(x_label, "score", series, title=title)


def bars(found: Mapping[str, Scores], names: Sequence[str], title: str = "") -> Panel:
    """A group of bars for every strategy, and in it one for every variant."""
    series = tuple(
        Series(variant, range(len(names)), *spread_of(np.array([scores[name][0] for name in names]).T))
        for variant, scores in found.items()
    )
    return Panel("strategy", "score", series, "bars", tuple(LABELS[name] for name in names), title=title)


def shown(values: Sequence[float]) -> str:
    """Scores in a row."""
    return " / ".join(f"{value:.3f}" for value in values)
