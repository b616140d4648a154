"""What keeps something from waiting for ever: E-SC-6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import listed, ranged, spread_of
from penstock.experiments.parallel import side_by_side
from penstock.experiments.scheduling.setup import STATEMENTS, Setup, Task, setup_named
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.runners.simulated.trace import Trace
from penstock.workloads.query_graphs import SECOND_NS, OperatorSketch, PortSketch, QueryGraph, QuerySketch

#: Picks after which the oldest is served, and the age after which nothing else is.
EVERY, MAX_AGE_S = 50, 30

_GUARDS: Mapping[str, Mapping[str, Any]] = {
    "PC": {"oldest_every": 0},
    "dynamic priority": {"oldest_every": 0, "dynamic": True},
    "oldest now and then": {"oldest_every": EVERY},
    "limit of age": {"oldest_every": 0, "max_age": f"{MAX_AGE_S} seconds"},
}

_SECONDS = 400.0


def _fast_and_slow() -> Simulation:
    """Twelve rows per second of a tenth of a second each are too much already; beside them a row of one second every 20 seconds."""
    operators = tuple(
        OperatorSketch(name, "select", (PortSketch(f"s_{name}", cost * SECOND_NS, 1.0, 100),))
        for name, cost in (("fast", 0.1), ("slow", 1.0))
    )
    queries = (QuerySketch("often", "fast"), QuerySketch("seldom", "slow"))
    sketch = QueryGraph(operators, queries, {"s_fast": 240 / 241, "s_slow": 1 / 241}, {})
    times = {name: np.arange(0.0, _SECONDS, gap) * 1e6 for name, gap in (("s_fast", 1 / 12), ("s_slow", 20.0))}
    return Simulation(sketch, Traffic.of({name: found.astype(np.int64) for name, found in times.items()}), "path_capacity")


def _seldom(run: Trace) -> tuple[int, float]:
    """Rare rows that were answered while rows came, and how long the longest of them waited."""
    answered = (run.query == 1) & (run.made_ns <= _SECONDS * 1e9)
    return int(answered.sum()), float(run.latency_s[answered].max(initial=0.0))


def _overloaded(settings: Settings) -> Setup:
    """Waves that bring 1.2 times of what can be done."""
    setup = setup_named("paths", settings)
    return replace(setup, load=1.2 * 3 / 3.25)


def longest_waits(task: Task) -> dict[str, tuple[float, float]]:
    """For each guard: for how long a path with input was not served, while rows came; and how long that may be."""
    found = {}
    for name, parameters in _GUARDS.items():
        run = task.simulation("path_capacity", **parameters).run()
        sketch = run.simulation.sketch
        paths = [
            [operator.id for operator in sketch.operators if operator.id.startswith(f"{query.id}.")] for query in sketch.queries
        ]
        waits = [run.longest_wait_s(operators, task.setup.seconds) for operators in paths]
        service = (run.steps[:, 1] - run.steps[:, 0]) / 1e9
        found[name] = max(waits), float(EVERY * len(paths) * service.mean() + service.max())
    return found


def starvation(settings: Settings) -> ReproductionOutcome:
    """E-SC-6: overload, and what has waited longest."""
    simulation = _fast_and_slow()
    seldom = {name: _seldom(replace(simulation, parameters=parameters).run()) for name, parameters in _GUARDS.items()}
    rows = [served for served, _ in seldom.values()]
    setup = _overloaded(settings)
    found = side_by_side(longest_waits, [Task(setup, seed, 0) for seed in settings.seed_numbers()], settings)
    waits = {name: [each[name][0] for each in found] for name in _GUARDS}
    limits = [each["oldest now and then"][1] for each in found]
    within = [wait <= limit for wait, limit in zip(waits["oldest now and then"], limits, strict=True)]
    guarded = [waits[name] for name in ("oldest now and then", "limit of age", "PC")]
    claims = (
        STATEMENTS["E-SC-6a"].judged(
            "E-SC-6a", rows[0] == rows[1] == 0,
            f"{rows[0]} of 20 rare rows with PC, {rows[1]} with dynamic priority", served=rows[:2],
        ),
        STATEMENTS["E-SC-6b"].judged(
            "E-SC-6b", min(rows[2:]) >= 10,
            f"{rows[2]} of 20 rare rows, after {seldom['oldest now and then'][1]:.0f} s at most; {rows[3]} with a limit of age",
            served=rows[2:],
        ),
        STATEMENTS["E-SC-6c"].judged(
            "E-SC-6c", all(within),
            f"{ranged(waits['oldest now and then'])} s, at most {listed([min(limits)])} s expected; "
            f"without guard {ranged(waits['PC'])} s",
            seconds=waits["oldest now and then"], limit=limits,
        ),
        STATEMENTS["E-SC-6d"].judged(
            "E-SC-6d", all(max(some, others) < without / 2 for some, others, without in zip(*guarded, strict=True)),
            " and ".join(f"{ranged(found)} s" for found in guarded[:2]) + f", without guard {ranged(guarded[2])} s",
            oldest=guarded[0], age=guarded[1], without=guarded[2],
        ),
    )  # fmt: skip
    names = tuple(_GUARDS)
    longest = Series("8 paths, 1.2 times too much", range(len(names)), *spread_of(np.array([waits[name] for name in names]).T))
    panels = (
        Panel("guard", "rare rows answered, of 20", (Series("fast and slow", range(len(names)), rows),), "bars", names),
        Panel("guard", "longest wait of a path (s)", (longest,), "bars", names),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("What waits longest under overload", panels))
