"""Three groups of queries with different contracts under self-similar load, with and without shedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path

import numpy as np

from penstock.experiments.contracts import Panel, Series, Settings, statements
from penstock.experiments.measures import spread_of
from penstock.experiments.parallel import side_by_side
from penstock.model.qos import QoSSpecification
from penstock.qos.shedding.controller import SheddingSettings
from penstock.runners.simulated.shedding import Shedding
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.runners.simulated.trace import Trace
from penstock.workloads.arrivals import RateSchedule
from penstock.workloads.query_graphs import SECOND_NS, OperatorSketch, PortSketch, QueryGraph, QuerySketch
from penstock.workloads.query_sets import published_queries
from penstock.workloads.self_similar import SelfSimilar

STATEMENTS = statements(Path(__file__).parent)

#: Greatest latency in seconds and relative error of each group of queries.
CONTRACTS = tuple(
    QoSSpecification(max_latency=latency, max_relative_error=error) for latency, error in ((0.6, 0.15), (1.0, 0.25), (1.5, 0.5))
)

#: The variant in which every path of a query may lose all that the query tolerates.
PER_PATH = "per_path"
#: How the load is held down.
VARIANTS: Mapping[str, SheddingSettings | None] = {
    "none": None,
    "full": SheddingSettings(headroom=1.0, counts_backlog=False),
    "headroom": SheddingSettings(headroom=0.95, counts_backlog=False),
    "backlog": SheddingSettings(headroom=1.0, counts_backlog=True),
    PER_PATH: SheddingSettings(headroom=1.0, counts_backlog=True),
}
#: Those that differ where no query has more than one path.
FOR_PATHS = ("none", "full", "headroom", "backlog")
VARIANT_LABELS = {"none": "no shedding", "full": "to 1.0", "headroom": "to 0.95", "backlog": "backlog", PER_PATH: "per path"}
STRATEGIES = {"path_capacity": "PC", "earliest_deadline": "EDF"}

#: Superposed flows: more of them would even out, and hardly ever exceed what can be served.
FLOWS = 8
#: Rows that enter together.
PAGE_ROWS = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the groups of one stream under one strategy.

    Parameters
    ----------
    worst_s, late, lost
        By group: greatest latency, share of the answers after their time, share of the rows left out.
    peak
        Most rows in queues, by their size.
    first_late_s
        When the first answer was late; infinite if none was.
    first_shed_s
        When the first row could be left out.
    feasible
        Share of the estimations at which contracts could be met.
    """

    worst_s: tuple[float, ...]
    late: tuple[float, ...]
    lost: tuple[float, ...]
    peak: float
    first_late_s: float
    first_shed_s: float
    feasible: float

    @property
    def any_late(self) -> float:
        return max(self.late)


def outcome(run: Trace, groups: Sequence[int], lost: tuple[float, ...]) -> Outcome:
    """In few numbers; `groups` are those of the queries."""
    group = np.array(groups)[run.query]
    bounds = np.array([contract.max_latency for contract in CONTRACTS], np.float64)
    late = run.latency_s > bounds[group]
    mine = [group == number for number in range(len(CONTRACTS))]
    return Outcome(
        tuple(float(run.latency_s[each].max(initial=0.0)) for each in mine),
        tuple(float(late[each].mean()) if each.any() else 0.0 for each in mine),
        lost,
        run.peak_memory,
        float(run.made_ns[late].min()) / SECOND_NS if late.any() else inf,
        next((second for second, found in run.estimates if found.shares), inf),
        float(np.mean([found.is_feasible for _, found in run.estimates])) if run.estimates else 1.0,
    )


@dataclass(frozen=True, slots=True)
class Task:
    """One stream under all strategies and variants.

    Parameters
    ----------
    load
        Mean share of the time that all rows would need.
    strict_is_slow
        Whether the group with the strictest contract has the slowest path, or the fastest.
    """

    load: float
    strict_is_slow: bool
    seed: int
    seconds: float
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    variants: tuple[str, ...] = FOR_PATHS


def _three_paths(task: Task) -> tuple[QueryGraph, Mapping[str, float]]:
    """A path with one operator for every group, and the rates of the streams."""
    capacities, shares = (1_000.0, 1_500.0, 2_000.0), (0.27, 0.315, 0.3375)
    if not task.strict_is_slow:
        capacities, shares = capacities[::-1], shares[::-1]
    names = [f"s{number}" for number in range(1, 4)]
    rates = {
        name: capacity * share * task.load / sum(shares) for name, capacity, share in zip(names, capacities, shares, strict=True)
    }
    operators = tuple(
        OperatorSketch(f"o{at}", "select", (PortSketch(name, SECOND_NS / capacity, 1.0, 1),))
        for at, (name, capacity) in enumerate(zip(names, capacities, strict=True), start=1)
    )
    queries = tuple(QuerySketch(f"q{at}", operator.id) for at, operator in enumerate(operators, start=1))
    validity = {name: float(contract.max_latency or 0) for name, contract in zip(names, CONTRACTS, strict=True)}
    return QueryGraph(operators, queries, {name: rate / sum(rates.values()) for name, rate in rates.items()}, validity), rates


def traffic(rates: Mapping[str, float], seconds: float, seed: int) -> Traffic:
    """Pages of self-similar streams that bring these rates on average."""
    times = {
        stream: SelfSimilar(RateSchedule(rate / PAGE_ROWS), 1_000 * seed + at, FLOWS, shortest_s=0.5).times(
            round(rate / PAGE_ROWS * seconds)
        )
        for at, (stream, rate) in enumerate(rates.items())
    }
    return Traffic.of(times, PAGE_ROWS)


def three_groups(task: Task) -> dict[tuple[str, str], Outcome]:
    """By strategy and variant."""
    sketch, rates = _three_paths(task)
    came = traffic(rates, task.seconds, task.seed)
    rows = np.bincount(came.stream, came.rows)
    contracts = {query.id: contract for query, contract in zip(sketch.queries, CONTRACTS, strict=True)}
    found = {}
    for policy in task.strategies:
        for variant in task.variants:
            settings = VARIANTS[variant]
            shedding = None if settings is None else Shedding(contracts, settings, every_s=0.1)
            run = Simulation(sketch, came, policy, {"oldest_every": 0}, shedding=shedding).run()
            lost = tuple(run.shed.get((f"o{at}", 0), 0) / float(rows[at - 1]) for at in range(1, 4))
            found[policy, variant] = outcome(run, range(3), lost)
    return found


#: What is found on every stream, by strategy and variant.
Found = Mapping[tuple[str, str], tuple[Outcome, ...]]


@cache
def groups(load: float, strict_is_slow: bool, settings: Settings) -> Found:
    """All streams in order."""
    seconds = 40.0 if settings.is_quick else 120.0
    return _in_order(three_groups, [Task(load, strict_is_slow, seed, seconds) for seed in settings.seed_numbers()], settings)


def _in_order(work: Callable[[Task], dict[tuple[str, str], Outcome]], tasks: Sequence[Task], settings: Settings) -> Found:
    found = side_by_side(work, tasks, settings)
    return {name: tuple(each[name] for each in found) for name in found[0]}


# -- many queries -----------------------------------------------------------------------------------------------------------

#: Those compared where queries share operators and join streams.
FOR_MANY = ("none", "headroom", "backlog", PER_PATH)


def many_queries(task: Task) -> dict[tuple[str, str], Outcome]:
    """The 16 queries with 116 operators; groups take turns."""
    drawn = published_queries()
    groups_of = [at % len(CONTRACTS) for at in range(len(drawn.queries))]
    contracts = {query.id: CONTRACTS[group] for query, group in zip(drawn.queries, groups_of, strict=True)}
    # Deadlines of a strategy belong to streams here; those of a stream are its most pressing query's.
    reached = drawn.outputs_per_row
    validity = {
        stream: min(float(contracts[query.id].max_latency or 0) for query in drawn.queries if reached[stream][query.operator] > 0)
        for stream in drawn.shares
    }
    sketch = QueryGraph(drawn.operators, drawn.queries, drawn.shares, validity)
    came = traffic(sketch.rates(task.load), task.seconds, task.seed)
    found = {}
    exact: dict[str, np.ndarray] = {}
    for policy in task.strategies:
        for variant in task.variants:
            settings = VARIANTS[variant]
            shedding = None if settings is None else Shedding(contracts, settings, every_s=0.1, splits_errors=variant != PER_PATH)
            run = Simulation(sketch, came, policy, {"oldest_every": 0}, shedding=shedding).run()
            answers = np.bincount(np.array(groups_of)[run.query], minlength=len(CONTRACTS)).astype(np.float64)
            exact.setdefault(policy, answers)
            found[policy, variant] = outcome(run, groups_of, tuple((1.0 - answers / exact[policy]).tolist()))
    return found


@cache
def many(load: float, settings: Settings) -> Found:
    """All streams in order."""
    seconds = 20.0 if settings.is_quick else 60.0
    tasks = [Task(load, True, seed, seconds, variants=FOR_MANY) for seed in settings.seed_numbers()]
    return _in_order(many_queries, tasks, settings)


# -- figures ----------------------------------------------------------------------------------------------------------------


def worst(found: Found, policy: str, variant: str, group: int) -> list[float]:
    """Greatest latency of a group on every stream."""
    return [each.worst_s[group] for each in found[policy, variant]]


def late(found: Found, policy: str, variant: str, group: int) -> list[float]:
    """Share of a group's answers after their time, on every stream."""
    return [each.late[group] for each in found[policy, variant]]


def lost(found: Found, policy: str, variant: str, group: int) -> list[float]:
    """Share of a group's rows left out, on every stream."""
    return [each.lost[group] for each in found[policy, variant]]


def bars(
    found: Found, policy: str, value: Callable[[Found, str, str, int], list[float]], label: str, scale: float = 1.0,
    log_y: bool = False, variants: Sequence[str] = FOR_PATHS,
) -> Panel:  # fmt: skip
    """A group of bars for every variant of shedding, and in it one for every group of queries."""
    series = tuple(
        Series(
            f"group {number + 1}: {contract.max_latency} s",
            range(len(variants)),
            *spread_of(np.array([value(found, policy, variant, number) for variant in variants]).T * scale),
        )
        for number, contract in enumerate(CONTRACTS)
    )
    title = STRATEGIES[policy]
    return Panel("how the load is held down", label, series, "bars", tuple(VARIANT_LABELS[each] for each in variants), log_y, title)
