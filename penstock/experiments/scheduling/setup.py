"""Two sets of queries under waves of load, served by every strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from penstock.experiments.contracts import Floats, Panel, Series, Settings, statements
from penstock.experiments.measures import spread_of
from penstock.experiments.parallel import side_by_side
from penstock.model.batch import Int64s
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.runners.simulated.trace import Trace
from penstock.workloads.arrivals import MICROS, RateSchedule
from penstock.workloads.phases import heavy_spans, waves
from penstock.workloads.poisson import Poisson
from penstock.workloads.query_graphs import QueryGraph
from penstock.workloads.query_sets import published_queries, simple_paths
from penstock.workloads.self_similar import SelfSimilar

STATEMENTS = statements(Path(__file__).parent)

#: What a decision costs where it costs something.
DECISION_MS = 2

#: Strategies as they are called in figures; the last one needs to know how much memory another one takes.
LABELS: Mapping[str, str] = {
    "path_capacity": "PC",
    "path_answers": "PC-out",
    "simple_segment": "SS",
    "segment": "MOS",
    "greedy_segment": "Segment",
    "chain": "Chain",
    "greedy": "greedy",
    "round_robin": "round robin",
    "fifo": "FIFO",
    "threshold": "Threshold",
}

#: Not in figures, and only run where that is quick.
_SHORT_ONLY = ("greedy", "round_robin")

#: Those in figures.
SHOWN = tuple(name for name in LABELS if name not in _SHORT_ONLY)

#: Thresholds in parts of the most memory that memory-optimal segments need on the same stream.
UPPER, LOWER = 1.15, 0.8

#: Those whose order is claimed, in figures.
COMPARED = ("path_capacity", "simple_segment", "segment", "chain", "threshold")


@dataclass(frozen=True, slots=True)
class Setup:
    """Queries and their load.

    Parameters
    ----------
    name
        `paths` or `published`.
    load
        Work per second where the load is standard.
    phase_s, repetitions, growth
        Of the waves; see `waves`.
    page_rows
        Rows that enter and are served together.
    """

    name: str
    load: float
    phase_s: float
    repetitions: int
    growth: float
    page_rows: int

    @property
    def seconds(self) -> float:
        return 3 * self.phase_s * self.repetitions

    @property
    def heavy(self) -> tuple[tuple[float, float], ...]:
        return heavy_spans(self.phase_s, self.repetitions)

    def sketch(self, seed: int) -> QueryGraph:
        """The queries; those of a publication are the same for every seed."""
        if self.name == "published":
            return published_queries()
        drawn = simple_paths(seed)
        # What is drawn is the work for a page.
        return drawn.costing(self.load, {stream: rate * self.page_rows for stream, rate in drawn.rates(self.load).items()})

    def traffic(self, sketch: QueryGraph, seed: int) -> Traffic:
        rates = sketch.rates(self.load)
        return Traffic.of(
            {stream: self._times(rate / self.page_rows, 1_000 * seed + at) for at, (stream, rate) in enumerate(rates.items())},
            self.page_rows,
        )

    def _times(self, pages_per_s: float, seed: int) -> Int64s:
        schedule: RateSchedule = waves(pages_per_s, self.phase_s, self.repetitions, self.growth)
        if self.name == "published":
            return SelfSimilar(schedule, seed).times(round(schedule.expected_rows(round(self.seconds * MICROS))))
        return Poisson(schedule, seed).times(self.seconds)


def setup_named(name: str, settings: Settings) -> Setup:
    """Quick streams are shorter, and so coarser in what they show."""
    if name == "published":
        return Setup(name, 0.6, 60.0 if settings.is_quick else 120.0, 1 if settings.is_quick else 3, 0.05, 200)
    return Setup(name, 0.7, 40.0, 1 if settings.is_quick else 2, 0.0, 100)


@dataclass(frozen=True)
class Outcome:
    """What became of one stream under one strategy, in few numbers.

    Parameters
    ----------
    heavy
        Mean latency of the answers to rows that came in heavy phases.
    share
        Of the answers, those made in heavy phases.
    peak_output
        Answers in the busiest 5 seconds over the mean.
    digest
        Of all answers: equal if these are.
    lines
        Latency, memory and output over time, a value for every quarter of a phase.
    """

    per_output: float
    per_input: float
    heavy: float
    p99: float
    peak: float
    mean: float
    peak_output: float
    share: float
    decisions: float
    switches: float
    answers: int
    digest: str
    lines: Mapping[str, list[float]]

    @classmethod
    def of(cls, run: Trace, setup: Setup) -> Outcome:
        return cls(
            run.latency_per_output, run.latency_per_input, _came_within(run, setup.heavy), run.percentile(99), run.peak_memory,
            run.mean_memory, run.peak_output(5.0, setup.seconds), run.output_share(setup.heavy), run.decisions, run.switches,
            len(run.query), sha256(run.answer_bag().tobytes()).hexdigest(), _lines(run, setup),
        )  # fmt: skip


def _came_within(run: Trace, spans: Iterable[tuple[float, float]]) -> float:
    came = run.ts_us / MICROS
    chosen = np.any([(came >= start) & (came < stop) for start, stop in spans], axis=0)
    return float(run.latency_s[chosen].mean()) if chosen.any() else 0.0


def _lines(run: Trace, setup: Setup) -> dict[str, list[float]]:
    stretch = setup.phase_s / 4
    points = round(setup.seconds / stretch)
    latency = _filled(run.latency_per(stretch)[:points])
    found = {"latency": latency, "memory": run.memory_per(stretch)[:points], "output": run.output_per(stretch)[:points] / stretch}
    return {name: [*values.tolist(), *[0.0] * (points - len(values))] for name, values in found.items()}


def _filled(values: Floats) -> Floats:
    """Where nothing was answered, the latency before."""
    known = np.where(np.isnan(values), 0, np.arange(len(values)))
    return np.nan_to_num(values[np.maximum.accumulate(known)])


@dataclass(frozen=True, slots=True)
class Task:
    """All strategies on one stream."""

    setup: Setup
    seed: int
    decision_ms: int

    def simulation(self, policy: str, **parameters: Any) -> Simulation:
        sketch = self.setup.sketch(self.seed)
        # Published strategies know no guard against starvation.
        guarded = {"oldest_every": 0, **parameters}
        return Simulation(sketch, self.setup.traffic(sketch, self.seed), policy, guarded, self.decision_ms * 1_000_000)

    def threshold(self, peak: float) -> dict[str, Any]:
        return {"memory": round(2 * UPPER * peak), "upper": round(UPPER * peak), "lower": round(LOWER * peak)}


def all_strategies(task: Task) -> dict[str, Outcome]:
    """By name."""
    names = [name for name in LABELS if name not in (*(_SHORT_ONLY if task.setup.name == "published" else ()), "threshold")]
    found = {name: Outcome.of(task.simulation(name).run(), task.setup) for name in names}
    limits = task.threshold(found["segment"].peak)
    found["threshold"] = Outcome.of(task.simulation("threshold", **limits).run(), task.setup)
    return found


@cache
def runs(name: str, decision_ms: int, settings: Settings) -> dict[str, tuple[Outcome, ...]]:
    """By strategy, the streams in order."""
    setup = setup_named(name, settings)
    found = side_by_side(all_strategies, [Task(setup, seed, decision_ms) for seed in settings.seed_numbers()], settings)
    return {policy: tuple(each[policy] for each in found) for policy in found[0]}


def values(found: Sequence[Outcome], what: str) -> list[float]:
    """One figure of all streams."""
    return [float(getattr(each, what)) for each in found]


def mean(found: Sequence[Outcome], what: str) -> float:
    return float(np.mean(values(found, what)))


def means(found: Mapping[str, Sequence[Outcome]], what: str, names: Iterable[str]) -> list[float]:
    return [mean(found[name], what) for name in names]


def ratio(found: Mapping[str, Sequence[Outcome]], what: str, one: str, other: str) -> float:
    """Geometric mean over the streams."""
    pairs = zip(values(found[one], what), values(found[other], what), strict=True)
    return float(np.exp(np.mean([np.log(mine / theirs) for mine, theirs in pairs])))


def bars(
    found: Mapping[str, Mapping[str, Sequence[Outcome]]], what: str, names: Sequence[str], label: str, scale: float = 1.0
) -> Panel:
    """A group of bars for every strategy, and in it one for every set of runs."""
    series = tuple(
        Series(title, range(len(names)), *spread_of(np.array([values(each[name], what) for name in names]).T / scale))
        for title, each in found.items()
    )
    return Panel("strategy", label, series, "bars", tuple(LABELS[name] for name in names))


def over_time(
    found: Mapping[str, Sequence[Outcome]], setup: Setup, what: str, names: Sequence[str], label: str, scale: float = 1.0
) -> Panel:
    """A line for every strategy."""
    stretch = setup.phase_s / 4
    x = [(at + 1) * stretch for at in range(round(setup.seconds / stretch))]
    series = tuple(
        Series(LABELS[name], x, *spread_of(np.array([each.lines[what] for each in found[name]]) / scale)) for name in names
    )
    return Panel("time (s)", label, series)


free = partial(runs, "paths", 0)
priced = partial(runs, "paths", DECISION_MS)
published = partial(runs, "published", DECISION_MS)
