"""Arrivals in unequal halves of halves: burstiness as one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS
from penstock.workloads.coins import Floats, happens


@dataclass(frozen=True, slots=True)
class BModel:
    """One half of the time gets a share `bias` of the rows, the other half the rest; which one is a coin. And so on within each.

    Parameters
    ----------
    bias
        0.5 spreads rows evenly; traffic of networks is described by 0.6 to 0.8.
    seconds
        Length of the stream.
    levels
        How often time is halved.

    References
    ----------
    [wang2002] Wang, Madhyastha, Chan, Papadimitriou, Faloutsos. Data Mining Meets Performance Evaluation: Fast Algorithms for
    Modeling Bursty Traffic. ICDE 2002.

    Examples
    --------
    >>> sorted(BModel(0.75, seconds=4.0, levels=2).counts(16).tolist())
    [1, 3, 3, 9]
    """

    bias: float
    seconds: float
    levels: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.bias < 1.0:
            raise InvalidOption(f"a share of {self.bias} leaves nothing for one half; give a value between 0 and 1", "bias")

    def shares(self) -> Floats:
        """Of the rows, for each of the equal pieces of time."""
        found = np.ones(1)
        for level in range(self.levels):
            pieces = np.arange(len(found), dtype=np.int64)
            first = np.where(happens(self.seed, f"half {level}", pieces, 0.5), self.bias, 1.0 - self.bias)
            found = np.column_stack([found * first, found * (1.0 - first)]).ravel()
        return found

    def counts(self, rows: int) -> Int64s:
        """Rows of each piece; together exactly as many as asked for."""
        reached = np.rint(np.cumsum(self.shares()) * rows).astype(np.int64)
        return np.diff(reached, prepend=0)

    def times(self, rows: int) -> Int64s:
        """Arrival times in microseconds, even within a piece."""
        counts = self.counts(rows)
        piece = np.repeat(np.arange(len(counts)), counts)
        within = (np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[piece]
        found: Int64s = np.floor((piece + within) * (self.seconds * MICROS / len(counts))).astype(np.int64)
        return found
