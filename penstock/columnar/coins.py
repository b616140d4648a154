"""Coins of rows: numbers that look drawn at random, and are the same whenever a row comes again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.columnar.hashing import mix_positions, mixed

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def coins(seed: int, partition: int, positions: Int64s) -> Floats:
    """Between 0 and 1, 1 excluded, for each row: a hash of the seed, the partition and the row's position.

    Examples
    --------
    >>> drawn = coins(7, 0, np.arange(10_000))
    >>> bool((drawn[100:200] == coins(7, 0, np.arange(100, 200))).all()), round(float(drawn.mean()), 2)
    (True, 0.5)
    """
    key = np.full(len(positions), mixed(seed, partition), np.int64)
    # 53 of the 63 bits: more would round up to 1 now and then.
    found: Floats = (mix_positions(key, positions) >> 10) / float(1 << 53)
    return found
