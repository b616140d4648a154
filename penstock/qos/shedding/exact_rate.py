"""Random rows, and exactly as many as asked for."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

import numpy as np

from penstock.columnar.coins import coins
from penstock.model.batch import Batch
from penstock.model.masks import Mask

#: Added before rounding down: 0.29 times 100 is a little less than 29 in binary numbers.
SLACK = 1e-9


class ExactRate:
    """Drop random rows of each batch, and what is missing to a whole row with the next batch.

    At the end of every batch the rows dropped differ from the share asked for by less than one row. Choose it where a queue
    keeps its state; `Coin` needs none, but is exact only on average.

    Parameters
    ----------
    seed, partition
        Of the coins by which rows are chosen.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.2, random
    shedder; there every row is dropped by a coin of its own.

    Examples
    --------
    >>> from penstock.model.batch import Batch
    >>> import pyarrow as pa
    >>> def numbers(first, last):
    ...     found = np.arange(first, last)
    ...     return Batch(pa.RecordBatch.from_pydict({"n": found}), found, found)
    >>> shedder = ExactRate(seed=1)
    >>> [int((~shedder.keep_mask(numbers(*bounds), 0.15)).sum()) for bounds in ((0, 7), (7, 20), (20, 40), (40, 100))]
    [1, 2, 3, 9]
    """

    def __init__(self, seed: int = 0, partition: int = 0) -> None:
        self._seed = seed
        self._partition = partition
        #: Part of a row that is still to be dropped.
        self._carry = 0.0

    def observe(self, batch: Batch) -> None:
        """Nothing about rows matters."""

    def keep_mask(self, batch: Batch, share: float) -> Mask:
        owed = share * batch.num_rows + self._carry
        number = min(floor(owed + SLACK), batch.num_rows)
        self._carry = owed - number
        keep = np.ones(batch.num_rows, np.bool_)
        if number:
            drawn = coins(self._seed, self._partition, batch.pos)
            keep[np.argpartition(drawn, number - 1)[:number]] = False
        return keep

    def counters(self) -> Mapping[str, int]:
        return {}

    def snapshot(self) -> Mapping[str, Any]:
        return {"carry": self._carry}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._carry = state["carry"]
