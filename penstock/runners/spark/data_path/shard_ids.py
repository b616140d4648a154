"""Shard identifiers that Spark sends to different partitions: one shard per task."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's hash of one INT (Murmur3, seed 42), as used by hash partitioning.

    Examples
    --------
    >>> spark_hash(1)
    -559580957
    """
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    h = 42 ^ (k * 0x1B873593 & _MASK)
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def shard_ids(shards: int) -> tuple[int, ...]:
    """For each shard the smallest identifier that lands in the partition of the same number.

    Examples
    --------
    >>> ids = shard_ids(4)
    >>> [spark_hash(value) % 4 for value in ids]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    value = 0
    while len(found) < shards:
        found.setdefault(spark_hash(value) % shards, value)
        value += 1
    return tuple(found[shard] for shard in range(shards))
