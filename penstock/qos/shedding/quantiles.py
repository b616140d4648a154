"""Quantiles of all values seen, in little memory; summaries of parts can be merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.columnar.coins import Floats, coins

#: Values kept in each layer: ranks are then off by 0.2 % of the values as a rule, and hardly ever by 1 %.
LAYER = 1024


class QuantileSummary:
    """Layers of values, each of which stands for twice as many as one of the layer below.

    A full layer is sorted, and every other value of it moves up; which half is decided by a coin, so errors cancel out. Few
    values are all kept, and then everything is exact.

    Parameters
    ----------
    seed
        Of the coins.
    layer
        Values per layer; the error of ranks falls in proportion.

    Notes
    -----
    Differs from the paper: all layers have the same size, which needs more memory by a factor of the number of layers and makes
    adding a large piece one sort.

    References
    ----------
    [karnin2016] Karnin, Lang, Liberty. Optimal Quantile Approximation in Streams. FOCS 2016, section 3.

    Examples
    --------
    >>> summary = QuantileSummary()
    >>> summary.add(np.arange(100_000, dtype=np.float64))
    >>> values, weights = summary.weighted()
    >>> summary.count, int(weights.sum()), len(values) < 10_000
    (100000, 100000, True)
    >>> abs(float(weights[values < 30_000].sum()) / 100_000 - 0.3) < 0.01
    True
    """

    def __init__(self, seed: int = 0, layer: int = LAYER) -> None:
        self._seed = seed
        self._layer = layer
        self._layers: list[Floats] = [np.zeros(0)]
        self._turns = 0
        self.count = 0

    def add(self, values: Floats) -> None:
        """Further values, of which none is NaN."""
        self._put(0, values)
        self.count += len(values)
        self._compact()

    def merge(self, other: QuantileSummary) -> None:
        """All that another one has seen."""
        for height, values in enumerate(other._layers):
            self._put(height, values)
        self.count += other.count
        self._compact()

    def weighted(self) -> tuple[Floats, Floats]:
        """Values with the number of values that each stands for, in no order."""
        weights = np.repeat(2.0 ** np.arange(len(self._layers)), [len(values) for values in self._layers])
        return np.concatenate(self._layers), weights

    def _put(self, height: int, values: Floats) -> None:
        while len(self._layers) <= height:
            self._layers.append(np.zeros(0))
        self._layers[height] = np.concatenate([self._layers[height], values])

    def _compact(self) -> None:
        height = 0
        while height < len(self._layers):
            values = self._layers[height]
            if len(values) > self._layer:
                values = np.sort(values)
                pairs = len(values) // 2 * 2
                first = int(coins(self._seed, height, np.array([self._turns]))[0] < 0.5)
                self._turns += 1
                self._layers[height] = values[pairs:]  # one without a partner stays
                self._put(height + 1, values[first:pairs:2])
            height += 1

    def snapshot(self) -> Mapping[str, Any]:
        return {"layers": [values.tolist() for values in self._layers], "turns": self._turns, "count": self.count}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._layers = [np.array(values, np.float64) for values in state["layers"]]
        self._turns, self.count = state["turns"], state["count"]
