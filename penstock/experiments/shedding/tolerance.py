"""What a tolerance buys: E-LS-4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from penstock.experiments.contracts import Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import is_increasing, listed, spread_of
from penstock.experiments.parallel import side_by_side
from penstock.experiments.shedding.setup import STATEMENTS
from penstock.model.qos import QoSSpecification
from penstock.runners.simulated.shedding import Shedding
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.workloads.arrivals import RateSchedule
from penstock.workloads.poisson import Poisson
from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph, QuerySketch

TOLERANCES = (0.0, 0.1, 0.2, 0.3)
RATES = {"s1": 1_000.0, "s2": 750.0, "s3": 500.0}
#: How it is decided when to shed, and whether that is by feedback.
WAYS = {"by load": False, "by feedback": True}
#: Load of the rates; they double in the second and fourth fifth of the time.
_LOAD = 0.7
_PAGE_ROWS = 10


@dataclass(frozen=True, slots=True)
class Task:
    """One stream with all tolerances."""

    seed: int
    seconds: float


def one_query() -> QueryGraph:
    """Eight operators with two joins of windows of as many rows, over three streams."""

    def single(id: str, kind: str, source: str, selectivity: float = 1.0) -> OperatorSketch:
        return OperatorSketch(id, kind, (PortSketch(source, 1_000.0, selectivity, 1),))

    def join(id: str, left: str, right: str) -> OperatorSketch:
        return OperatorSketch(id, "join", (PortSketch(left, 5_000.0, 0.8, 1), PortSketch(right, 5_000.0, 0.8, 1)))

    operators = (
        single("o1", "select", "s1", 0.8), single("o2", "select", "s2", 0.8), join("o3", "o1", "o2"), single("o4", "project", "o3"),
        single("o5", "select", "s3", 0.9), join("o6", "o4", "o5"), single("o7", "select", "o6", 0.5), single("o8", "project", "o7"),
    )  # fmt: skip
    total = sum(RATES.values())
    shares = {stream: rate / total for stream, rate in RATES.items()}
    return QueryGraph(operators, (QuerySketch("q", "o8"),), shares, {}).costing(_LOAD, RATES)


def all_tolerances(task: Task) -> list[list[tuple[float, float, float]]]:
    """Mean latency, greatest latency and most rows in queues, by way to decide and by tolerance."""
    fifth = task.seconds / 5
    changes = tuple((fifth * at, 2.0 if at % 2 else 1.0) for at in range(1, 5))
    times = {
        stream: Poisson(RateSchedule(rate / _PAGE_ROWS, changes), 100 * task.seed + at).times(task.seconds)
        for at, (stream, rate) in enumerate(RATES.items())
    }
    traffic = Traffic.of(times, _PAGE_ROWS)
    return [[_figures(traffic, tolerance, by_feedback) for tolerance in TOLERANCES] for by_feedback in WAYS.values()]


def _figures(traffic: Traffic, tolerance: float, by_feedback: bool) -> tuple[float, float, float]:
    contract = QoSSpecification(max_latency=1.0, max_relative_error=tolerance)
    shedding = Shedding({"q": contract}, every_s=0.1, by_feedback=by_feedback)
    run = Simulation(one_query(), traffic, "path_capacity", {"oldest_every": 0}, shedding=shedding).run()
    return float(run.latency_s.mean()), float(run.latency_s.max()), float(run.peak_memory)


@cache
def _runs(settings: Settings) -> Floats:
    """By stream, way to decide, tolerance and figure."""
    seconds = 20.0 if settings.is_quick else 50.0
    return np.array(side_by_side(all_tolerances, [Task(seed, seconds) for seed in settings.seed_numbers()], settings))


def tolerance(settings: Settings) -> ReproductionOutcome:
    """E-LS-4: latency and memory by tolerance."""
    found = _runs(settings)
    means = found.mean(axis=0)
    mean_s, worst_s, rows = ([means[way, :, figure].tolist() for way in range(len(WAYS))] for figure in range(3))
    claims = (
        STATEMENTS["E-LS-4a"].judged(
            "E-LS-4a", all(is_increasing(each[::-1]) for each in (*mean_s, *worst_s)),
            f"mean {_both(mean_s, 's')}; greatest {_both(worst_s, 's')}",
            seconds=[*mean_s[0], *mean_s[1], *worst_s[0], *worst_s[1]],
        ),
        STATEMENTS["E-LS-4b"].judged(
            "E-LS-4b", all(is_increasing(each[::-1]) for each in rows), _both(rows, "rows"), rows=[*rows[0], *rows[1]]
        ),
        STATEMENTS["E-LS-4c"].judged(
            "E-LS-4c", all(ours <= theirs for ours, theirs in zip(mean_s[0][1:], mean_s[1][1:], strict=True)),
            _both([each[1:] for each in mean_s], "s"), seconds=[*mean_s[0][1:], *mean_s[1][1:]],
        ),
    )  # fmt: skip
    percent = [100 * each for each in TOLERANCES]
    labels = (("mean latency (s)", 1.0), ("greatest latency (s)", 1.0), ("most rows in queues (thousands)", 1e3))
    panels = tuple(
        Panel(
            "tolerated loss (%)", label,
            tuple(Series(name, percent, *spread_of(found[:, way, :, figure] / scale)) for way, name in enumerate(WAYS)), "markers",
        )
        for figure, (label, scale) in enumerate(labels)
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Latency and memory by tolerated loss", panels))


def _both(values: Sequence[Sequence[float]], unit: str) -> str:
    return ", ".join(f"{name} {listed(found)} {unit}" for name, found in zip(WAYS, values, strict=True))
