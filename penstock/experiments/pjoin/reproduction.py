"""The PJoin experiments, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.pjoin import memory, work

_STREAMS = "Two streams of 40 s, a tuple every 2 ms on average, many-to-many join over 64 hash buckets."

PJOIN = Reproduction(
    "pjoin",
    "PJoin: joins that forget closed values",
    "ding2008",
    (
        Experiment(
            "E-PJ-1", "PJoin-1 and XJoin, state", "Figure 5.1", f"{_STREAMS} 40 tuples per punctuation.", memory.pjoin_against_xjoin
        ),
        Experiment(
            "E-PJ-2",
            "tuples per punctuation, state",
            "Figure 5.2",
            f"{_STREAMS} 10, 20, 30 and 40 tuples per punctuation, streams independent and in lockstep.",
            memory.tuples_per_punctuation,
        ),
        Experiment(
            "E-PJ-3", "PJoin-1 and XJoin, output", "Figure 5.3", f"{_STREAMS} 30 tuples per punctuation.", work.steady_output
        ),
        Experiment(
            "E-PJ-4", "eager and lazy purge, state", "Figure 5.4", f"{_STREAMS} 10 tuples per punctuation.", memory.eager_and_lazy
        ),
        Experiment(
            "E-PJ-5", "purge thresholds, work", "Figure 5.5", f"{_STREAMS} 10 tuples per punctuation.", work.purge_thresholds
        ),
        Experiment(
            "E-PJ-6",
            "asymmetric punctuations, state",
            "Figure 5.6",
            f"{_STREAMS} A 10, B 20, 30 or 40 tuples per punctuation.",
            memory.asymmetric_punctuations,
        ),
        Experiment(
            "E-PJ-7",
            "asymmetric punctuations, work",
            "Figure 5.7",
            f"{_STREAMS} A 10, B 20 or 40 tuples per punctuation.",
            work.fewer_punctuations,
        ),
        Experiment(
            "E-PJ-8",
            "eager, lazy and no purge, work",
            "Figure 5.8",
            f"{_STREAMS} A 10, B 20 tuples per punctuation.",
            work.asymmetric_work,
        ),
        Experiment(
            "E-PJ-9", "lazy purge, state", "Figure 5.9", f"{_STREAMS} A 10, B 20 tuples per punctuation.", memory.lazy_memory
        ),
        Experiment(
            "E-PJ-10",
            "paired propagation",
            "Figure 5.10",
            f"{_STREAMS} 40 tuples per punctuation, values closed in the same order.",
            work.paired_propagation,
        ),
    ),
)
