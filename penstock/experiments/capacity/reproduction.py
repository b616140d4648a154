"""The experiments on the capacity model, in order."""

from __future__ import annotations

from penstock.experiments.capacity import joins, observations, schedules
from penstock.experiments.contracts import Experiment, Reproduction

_TARGET = (
    "The published query of five operators with 100 rows per second and stream, between 15 operators of other queries that make "
    "up a load of 0.88; gated service, turns of all operators, rows at random, 4,000 s."
)
_MANY = (
    "16 queries with 116 operators on five streams (those of `reproduce scheduling`), setups of 0.3 ms on average; gated, push-up."
)

CAPACITY = Reproduction(
    "capacity",
    "Queueing model of continuous queries",
    "chakravarthy2009",
    (
        Experiment(
            "E-CP-1",
            "join, equal windows",
            "Table 5.1, Figure 5.9",
            "Two streams at random into one queue, 209.4 rows per second served; 4 million rows, on a virtual clock.",
            joins.equal_windows,
        ),
        Experiment(
            "E-CP-2",
            "join, unequal windows",
            "Table 5.2, Figure 5.10",
            "Rows of one side are served at 440, those of the other at 220 per second; 4 million rows.",
            joins.unequal_windows,
        ),
        Experiment("E-CP-3", "order of turns", "Tables 5.3 to 5.5", _TARGET, schedules.hierarchical_and_global),
        Experiment("E-CP-4", "load", "Figure 5.12", f"{_MANY} Rows at random, 2,000 s.", schedules.load),
        Experiment(
            "E-CP-5",
            "bursts",
            "Figure 5.12",
            f"{_MANY} Self-similar streams, 3,000 s, with bursts and pauses of at least 0.01, 0.1 or 1 s.",
            schedules.bursts,
        ),
        Experiment(
            "E-CP-6",
            "observations",
            "section 5.5",
            "Formulas; for the limit of rows three operators that share a processor, simulated for 4,000 s.",
            observations.observations,
        ),
    ),
    seeds=6,
)
