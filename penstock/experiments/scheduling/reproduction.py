"""The experiments on scheduling strategies, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.scheduling import latency, memory, starvation
from penstock.workloads.query_sets import published_queries

_PATHS = (
    "8 paths of 3 to 6 operators, pages of 100 rows at random, load 0.7 with phases of 2, 1 and 1/4 times as much, 40 s each, "
    "twice; queries and rows are drawn for every stream."
)
_QUERIES = (
    "16 queries with 116 operators (queries.csv), five self-similar streams in pages of 200 rows, load 0.6 and 5 % more with every "
    "repetition, phases of 2 minutes, 18 minutes in all."
)

SCHEDULING = Reproduction(
    "scheduling",
    "Strategies that decide which operator runs next",
    "chakravarthy2009",
    (
        Experiment("E-SC-1", "latency", "Figures 6.8, 6.9", f"{_PATHS} {_QUERIES}", latency.latency),
        Experiment("E-SC-2", "throughput", "Figures 6.10, 6.11", "The same streams.", latency.output),
        Experiment("E-SC-3", "memory", "Figures 6.12, 6.13", "The same streams.", memory.memory),
        Experiment("E-SC-4", "overhead", "section 6.3", "The same streams; a decision costs 2 ms.", latency.decisions),
        Experiment(
            "E-SC-5",
            "threshold",
            "section 6.2",
            f"{_PATHS} Saving begins at 1.15 times the most memory that MOS needs on the stream, and ends at 0.8 times.",
            memory.threshold,
        ),
        Experiment(
            "E-SC-6",
            "starvation",
            "section 6.4",
            "A path that takes 12 rows per second of 0.1 s each and one with a row of 1 s every 20 s, for 400 s; and 8 paths with "
            "waves of 1.2 times of what can be done.",
            starvation.starvation,
        ),
    ),
    seeds=24,
    files={"queries.csv": lambda: published_queries().to_csv()},
)
