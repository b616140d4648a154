"""`MATCH_NUMBER()`: matches of each partition are numbered from 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import group_codes
from penstock.model.batch import Int64s, int64s
from penstock.operators.segments import SegmentLog

_COUNT = "_matches"


class MatchNumbers:
    """Counts the matches of partitions; remembers a row for each that ever had one.

    Parameters
    ----------
    key
        The columns of the key.

    Examples
    --------
    >>> numbers = MatchNumbers([pa.field("symbol", pa.string())])
    >>> numbers.numbered([pa.array(["x", "y", "x"])], 3)
    array([1, 1, 2])
    >>> numbers.numbered([pa.array(["x"])], 1)
    array([3])
    """

    def __init__(self, key: list[pa.Field]) -> None:
        self._schema = pa.schema([*key, pa.field(_COUNT, pa.int64())])
        self.log = SegmentLog("numbers")

    def numbered(self, keys: list[pa.Array], matches: int) -> Int64s:
        """Numbers of further matches, which come in the order of their starts within each partition."""
        known = self.log.whole(self._schema)
        columns = [pa.concat_arrays([old, new]) for old, new in zip(known.columns, keys, strict=False)]
        codes, first, number = group_codes(columns, known.num_rows + matches)
        before = np.zeros(number, np.int64)
        before[codes[: known.num_rows]] = int64s(known.column(_COUNT))
        mine = codes[known.num_rows :]
        order = np.argsort(mine, kind="stable")
        sizes = np.bincount(mine, minlength=number)
        rank = np.empty(matches, np.int64)
        rank[order] = np.arange(matches) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        arrays = [column.take(pa.array(first)) for column in columns]
        self.log.clear()
        self.log.add(pa.RecordBatch.from_arrays([*arrays, pa.array(before + sizes)], schema=self._schema))
        return before[mine] + rank + 1
