"""Functions that the queries call to put values into sentences."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def clock(moment: pa.Array) -> pa.Array:
    """Time of day.

    Examples
    --------
    >>> clock(pa.array([0, 3_723_500_000, None], pa.timestamp("us", "UTC"))).to_pylist()
    ['00:00:00', '01:02:03', None]
    """
    return pc.strftime(pc.floor_temporal(moment, unit="second").cast(pa.timestamp("s", "UTC")), "%H:%M:%S")
