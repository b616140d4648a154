"""The hash of a key, for buckets and for tables with open addresses, inside compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import compiled

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_SHIFT = np.uint64(20)


@compiled
def bucket_of(key: Any, buckets: Any) -> Any:
    """Multiplicative hash: neighbours go far apart. The high half of the product decides, so that any number of buckets is
    used evenly.
    """
    return np.int64((((np.uint64(key) * _MIX) >> _HALF) * np.uint64(buckets)) >> _HALF)


@compiled
def slot_of(table: Any, known: Any, key: Any) -> Any:
    """Where a table of places in `known` has this key, or would have it: there it is negative.

    The table has a power of two slots, never all of them used.
    """
    mask = len(table) - 1
    slot = np.int64((np.uint64(key) * _MIX) >> _SHIFT) & mask
    while table[slot] >= 0 and known[table[slot]] != key:
        slot = (slot + 1) & mask
    return slot
