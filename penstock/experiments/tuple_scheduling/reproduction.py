"""The experiments on scheduling arrivals by profit and deadlines, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.tuple_scheduling import batches, load, optimality, queries, thresholds

_SETUP = (
    "24 queries with weights 1 to 10 over 40 operators and 4 bursty streams (b = 0.7) of 100 rows per second for 20 s; rows are of "
    "use for 4 to 8 s. Queries and rows are drawn for every stream. Valuing n new jobs takes 20 µs · n log n."
)

TUPLE_SCHEDULING = Reproduction(
    "tuple_scheduling",
    "Strategies that decide which arrival runs next",
    "wu2010",
    (
        Experiment("E-TS-1", "threshold with deadlines first", "Figure 4.6", f"{_SETUP} Load 1.4.", thresholds.patient),
        Experiment("E-TS-2", "threshold with profit first", "Figure 4.7", f"{_SETUP} Load 1.4.", thresholds.greedy),
        Experiment("E-TS-3", "batching", "Figure 4.8", f"{_SETUP} Load 1.4, 40 rows per second each.", batches.batching),
        Experiment("E-TS-4", "factors of batching", "section 4.7", f"{_SETUP} Load 1.4.", batches.factors),
        Experiment("E-TS-5", "shared operators", "Figure 4.9", f"{_SETUP} Load 1.4.", queries.sharing),
        Experiment("E-TS-6", "weights", "Figure 4.10", f"{_SETUP} Load 1.4.", queries.weights),
        Experiment("E-TS-7", "load", "Figure 4.11", f"{_SETUP} Streams of 30 s.", load.load),
        Experiment("E-TS-8", "urgency", "Figure 4.12", f"{_SETUP} Load 1.2.", load.urgency),
        Experiment("E-TS-9", "burstiness", "Figure 4.13", f"{_SETUP} Load 1.2.", load.burstiness),
        Experiment(
            "E-TS-10",
            "optimality of fragments",
            "Theorem 4.6.1",
            "Random trees of 3 to 9 jobs, four budgets each, in exact arithmetic against the optimum of the linear program.",
            optimality.optimality,
        ),
    ),
    seeds=20,
)
