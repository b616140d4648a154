"""The experiments on the run-time optimiser, in order."""

from __future__ import annotations

from penstock.experiments.contracts import Experiment, Reproduction
from penstock.experiments.qos import overhead, strategies

_QUERY = (
    "One query of eight operators with two joins; three streams at random with 2000, 1800 and 2200 rows per second in pages of "
    "100, which need half of the processor; after every 40 s they bring 2.2 times as much for 20 s, three times. A decision costs "
    "1 ms. The optimiser looks every 3 s and begins with Segment."
)

QOS = Reproduction(
    "qos",
    "The run-time optimiser",
    "chakravarthy2009",
    (
        Experiment("E-QS-1", "one promise", "Figures 10.7, 10.8", f"{_QUERY} Latency of 1 s, best effort.", strategies.one_measure),
        Experiment(
            "E-QS-2", "two classes", "Figure 10.9",
            "The same query. Latency of 0.5 s must be kept; 10 MB of queues, from the middle on 1 MB, do not matter.",
            strategies.other_class,
        ),
        Experiment(
            "E-QS-3", "one class", "Figures 10.10, 10.11", "The same query and bounds, which both must be kept.",
            strategies.same_class,
        ),
        Experiment(
            "E-QS-4", "overhead", "section 10.7", "Queries with two promises each, 40 looks with measures at random.",
            overhead.overhead,
        ),
    ),
    seeds=8,
)  # fmt: skip
