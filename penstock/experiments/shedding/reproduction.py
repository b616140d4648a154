"""The experiments on load shedding, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.shedding import accuracy, latency, overhead, tolerance
from penstock.workloads.query_sets import published_queries

_GROUPS = "Contracts (0.6 s, 15 %), (1 s, 25 %) and (1.5 s, 50 %) of loss."
_PATHS = (
    f"{_GROUPS} A path with one operator for each, which take 1000, 1500 and 2000 rows per second; self-similar streams of 8 flows "
    "in pages of 10 rows for 120 s, mean load 0.92 or 1.025; the load is estimated every 0.1 s."
)

SHEDDING = Reproduction(
    "shedding",
    "Leaving rows out under overload",
    "chakravarthy2009",
    (
        Experiment("E-LS-1", "path capacity", "Figures 7.6-7.9", _PATHS, latency.path_capacity),
        Experiment("E-LS-2", "earliest deadline first", "Figures 7.10, 7.11", "The same streams.", latency.earliest_deadline),
        Experiment(
            "E-LS-3",
            "sixteen queries",
            "section 7.5",
            f"{_GROUPS} 16 queries with 116 operators (queries.csv), groups in turn; five such streams for 60 s, mean load 1.025.",
            latency.sixteen_queries,
        ),
        Experiment(
            "E-LS-4",
            "tolerance",
            "Figures 10.12, 10.13",
            "A query with 8 operators and 2 joins over three streams at random, load 0.7 that doubles in two of five phases, 50 s; "
            "an answer may take 1 s.",
            tolerance.tolerance,
        ),
        Experiment(
            "E-LS-5",
            "accuracy",
            "Figures 10.14, 10.15",
            "Averages of 30 windows of 40,000 speeds: normal (55, 8), one in a thousand is 0 or 130.",
            accuracy.accuracy,
        ),
        Experiment(
            "E-LS-6", "overhead", "section 7.3.4", "1000 paths with a shedder each; 100 at a steady load.", overhead.control
        ),
        Experiment(
            "E-LS-7",
            "ways to build a shedder in",
            "Figure 7.2",
            "A selection of half of 400,000 rows in batches of 1000.",
            overhead.ways,
        ),
    ),
    seeds=8,
    files={"queries.csv": lambda: published_queries().to_csv()},
)
