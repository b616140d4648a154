"""Compiled generator of drop patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance
from penstock.operators.filtering._loops import mixed


@entrance
def drawn(placed: Any, lane: int) -> float:  # pragma: no cover - compiled
    return float(mixed(placed + np.uint64(lane)) >> np.uint64(11)) * 2.0**-53


@entrance
def correlated_masks(seed: Any, start: int, passing: Any, shared: Any, group: int, out: Any) -> None:  # pragma: no cover - compiled
    """Drop pattern of each row: a filter uses its group's number with probability `shared[i]`, else its own."""
    began = mixed(seed)
    for k in range(len(out)):
        placed = mixed(began + np.uint64(start + k))
        word = 0
        for i in range(len(passing)):
            lane = i // group if drawn(placed, 1000 + 2 * i) < shared[i] else 1001 + 2 * i
            if not drawn(placed, lane) < passing[i]:
                word |= 1 << i
        out[k] = word
