"""Coins as a pure hash: whether a row is profiled depends on the seed and its place in the stream, never on a generator's state.

A repeated micro-batch therefore profiles the same rows, and so takes the same decisions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.operators.filtering._loops import toss

UInt64s = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Lane of the profiling coin of source partition 0; other partitions follow.
PROFILING = 900_000
#: Lane of the first draw of a random permutation.
_PERMUTING = 500_000

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MASK = 2**64 - 1


def mix64(values: UInt64s) -> UInt64s:
    """The finaliser of SplitMix64 on each value."""
    z = values + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, place: npt.NDArray[Any], lane: int | npt.NDArray[Any] = 0) -> Floats:
    """A number in [0, 1) for each place: a hash of (seed, place, lane).

    References
    ----------
    [steele2014] Steele, Lea, Flood. Fast Splittable Pseudorandom Number Generators. OOPSLA 2014, Figure 14.

    Examples
    --------
    >>> float(uniform(1, np.array([2]), 3)[0])
    0.4175580595044027
    """
    started = mix64(np.array([seed & _MASK], np.uint64))
    placed = mix64(started + np.asarray(place).astype(np.uint64))
    result: Floats = (mix64(placed + np.asarray(lane).astype(np.uint64)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return result


def are_profiled(seed: int, positions: npt.NDArray[np.int64], probability: float, partition: int = 0) -> Flags:
    """Which rows are profiled if they are rejected.

    Examples
    --------
    >>> np.flatnonzero(are_profiled(22, np.arange(600), 0.01)).tolist()
    [160, 360, 456, 528]
    """
    if probability <= 0.0:
        return np.zeros(len(positions), np.bool_)
    if probability >= 1.0:
        return np.ones(len(positions), np.bool_)
    found = np.empty(len(positions), np.bool_)
    limit = np.uint64(np.ceil(probability * 2.0**53))
    toss(np.uint64(seed & _MASK), np.ascontiguousarray(positions).view(np.uint64), np.uint64(PROFILING + partition), limit, found)
    return found


def permutation(seed: int, number: int, length: int) -> tuple[int, ...]:
    """The `number`-th random permutation of a seed; number 0 is the identity.

    Examples
    --------
    >>> permutation(11, 0, 4)
    (0, 1, 2, 3)
    """
    found = list(range(length))
    if not number or length < 2:
        return tuple(found)
    ends = np.arange(length - 1, 0, -1)
    drawn = np.floor(uniform(seed, np.full(len(ends), number), _PERMUTING + ends) * (ends + 1)).astype(np.int64)
    for end, other in zip(ends.tolist(), drawn.tolist(), strict=True):
        found[end], found[other] = found[other], found[end]
    return tuple(found)
