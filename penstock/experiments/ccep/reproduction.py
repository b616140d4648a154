"""The experiments on constraints and event patterns, in order."""

from __future__ import annotations

from penstock.experiments.ccep import scale, sequences
from penstock.experiments.contracts import Experiment, Reproduction

_STREAM = (
    "Orders of 20 events, 1,000 side by side, 100,000 events per stream (4 million where time is taken); peaks after 1,000 orders."
)

CCEP = Reproduction(
    "ccep",
    "Event patterns that know what the process allows",
    "ding2008",
    (
        Experiment("E-CC-1", "sequence, fails early", "Figure 29.1a", f"{_STREAM} Q1.", sequences.sequence_failing_early),
        Experiment("E-CC-2", "sequence, fails late", "Figure 29.1b", f"{_STREAM} Q1.", sequences.sequence_failing_late),
        Experiment("E-CC-3", "AND, stock varies", "Figure 29.2a", f"{_STREAM} Q2.", sequences.conjunction_early_branch),
        Experiment("E-CC-4", "AND, quotes vary", "Figure 29.2b", f"{_STREAM} Q2.", sequences.conjunction_late_branch),
        Experiment("E-CC-5", "OR, both vary", "Figure 29.3", f"{_STREAM} Q3.", sequences.disjunction),
        Experiment(
            "E-CC-6", "scalability", "Section 29.5", "Ten times the events and orders of the other experiments.", scale.scalability
        ),
    ),
)
