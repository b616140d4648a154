"""The experiments on adaptive orders of filters, in order."""

from __future__ import annotations

from penstock.experiments.agreedy import adaptivity, joins, profiling, quality
from penstock.experiments.contracts import Experiment, Reproduction

_PAIRS = "Filters that pass half of the rows, correlated in pairs (equal answers on 80 % of the rows)."
_DEALT = "Eight filters in pairs, four more expensive, 2 million rows; selectivities 20 to 90 % are dealt anew after each period."

AGREEDY = Reproduction(
    "agreedy",
    "A-Greedy: filters that reorder themselves",
    "babu2004",
    (
        Experiment("E-AG-1", "number of filters", "Figure 9", f"{_PAIRS} 2 to 8 filters.", quality.number_of_filters),
        Experiment(
            "E-AG-2", "selectivity", "Figure 10", "Eight filters in pairs, 10 to 95 % of the rows pass each.", quality.selectivity
        ),
        Experiment(
            "E-AG-3",
            "correlation",
            "Figure 11",
            "Eight filters that pass half of the rows, in groups of 1 to 8.",
            quality.correlation,
        ),
        Experiment(
            "E-AG-4",
            "overhead",
            "Table 2",
            f"{_PAIRS} 3 and 8 filters, 1 and 5 % of the rejected rows profiled.",
            profiling.breakdown,
        ),
        Experiment(
            "E-AG-5", "all algorithms", "Figures 12, 13", f"{_PAIRS} 4 to 20 filters, 5 % profiled.", profiling.all_algorithms
        ),
        Experiment(
            "E-AG-6", "filter cost", "Figures 14, 15", f"{_PAIRS} Four of eight cost 1 to 100 times as much.", profiling.filter_cost
        ),
        Experiment(
            "E-AG-7",
            "adaptivity",
            "Figures 16-18",
            "Eight filters in pairs, 1.2 million rows; selectivities change places, first with last, in the middle.",
            adaptivity.timelines,
        ),
        Experiment("E-AG-8", "rate of change", "Figure 19", _DEALT, adaptivity.rate_of_change),
        Experiment("E-AG-9", "filter cost, fast change", "Figure 20", _DEALT, adaptivity.cost_of_fast_change),
        Experiment("E-AG-10", "filter cost, slow change", "Figure 21", _DEALT, adaptivity.cost_of_slow_change),
        Experiment("E-AG-11", "static quality", "section 7.1", "4,800 seeded instances of four families.", quality.static_quality),
        Experiment(
            "E-AG-12",
            "guarantee",
            "Theorem 4.1",
            "Named instances and random ones, 3 to 6 filters of equal cost.",
            quality.guarantee,
        ),
        Experiment(
            "E-AG-13",
            "join pipelines",
            "section 8",
            "A star join of facts with four windows; 30 to 70 % of the facts have no partner in each, and this changes.",
            joins.join_pipelines,
        ),
        Experiment(
            "E-AG-14",
            "thrashing avoidance",
            "section 4.5",
            "Eight filters in pairs, 1 million rows, start in reverse.",
            quality.thrashing,
        ),
    ),
)
