"""Functions that queries of the examples call to put values into sentences."""

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


def money(price: pa.Array) -> pa.Array:
    """A price with its cents.

    Examples
    --------
    >>> money(pa.array([7.0, 12.346, 0.05, None])).to_pylist()
    ['7.00', '12.35', '0.05', None]
    """
    cents = pc.cast(pc.round(pc.multiply(price, 100.0)), pa.int64())
    whole = pc.divide(cents, 100)
    rest = pc.cast(pc.subtract(cents, pc.multiply(whole, 100)), pa.string())
    return pc.binary_join_element_wise(pc.cast(whole, pa.string()), pc.utf8_lpad(rest, 2, "0"), ".")


def in_percent(share: pa.Array) -> pa.Array:
    """A share in percent, with one digit behind the point.

    Examples
    --------
    >>> in_percent(pa.array([0.0523, 0.1, None])).to_pylist()
    ['5.2 %', '10.0 %', None]
    """
    tenths = pc.cast(pc.round(pc.multiply(share, 1000.0)), pa.int64())
    whole = pc.divide(tenths, 10)
    rest = pc.cast(pc.subtract(tenths, pc.multiply(whole, 10)), pa.string())
    return pc.binary_join_element_wise(pc.cast(whole, pa.string()), pc.binary_join_element_wise(rest, pa.scalar("%"), " "), ".")
