"""The PWJoin experiments, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.pwjoin import memory, propagation

_STREAMS = "Two streams of 40 s, a tuple every 2 ms and every 10 ms on average, 64 hash buckets."
_EQUAL = f"{_STREAMS} `punct-asc-100-40` on both"

PWJOIN = Reproduction(
    "pwjoin",
    "PWJoin: windows and punctuations together",
    "ding2008",
    (
        Experiment(
            "E-PW-1",
            "state by window",
            "Figure 8.1 of [ding2008] and Figure 8 of [ding2004]",
            f"{_EQUAL}; windows of 1, 5 and 15 s.",
            memory.window_sizes,
        ),
        Experiment(
            "E-PW-2",
            "output rate by window",
            "Figure 8.2 of [ding2008] and Figure 9 of [ding2004]",
            f"{_EQUAL}; windows of 5 and 15 s; items are taken as fast as they can be.",
            memory.output_rates,
        ),
        Experiment(
            "E-PW-3",
            "useless punctuations",
            "Figure 8.3 of [ding2008] and Figure 10 of [ding2004]",
            f"{_STREAMS} 30 tuples per punctuation, ascending and random, no tuple has a closed value; windows of 5 s.",
            memory.useless_punctuations,
        ),
        Experiment(
            "E-PW-4",
            "early propagation",
            "Figure 8.4 of [ding2008] and Figure 11 of [ding2004]",
            f"{_STREAMS} `punct-asc-30-40` and `punct-random-30-40`; PWJoin with windows of 1 s, PJoin without windows.",
            propagation.early_propagation,
        ),
        Experiment(
            "E-PW-5",
            "one-sided punctuations",
            "Figure 12 of [ding2004]",
            f"{_STREAMS} A: values uniform over 15,000 and never closed. B: `punct-asc-30-40`, window 5 s.",
            propagation.one_sided_punctuations,
        ),
        Experiment(
            "E-PW-6",
            "no punctuations",
            "the design goal of equal cost",
            f"{_EQUAL}, punctuations left out; windows of 5 s.",
            memory.no_punctuations,
        ),
    ),
)
