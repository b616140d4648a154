"""Random numbers by index: the coin of row i is a hash of (seed, purpose, i), so any rows can be made alone."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s

UInt64s = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_GAMMA = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def stream_key(seed: int, purpose: str) -> int:
    """Start of an independent sequence for each seed and purpose."""
    return _mixed(_mixed(seed & _MASK) + crc32(purpose.encode()) * _GAMMA)


def _mixed(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def hashes(seed: int, purpose: str, index: Int64s) -> UInt64s:
    """64 random bits for each index: the SplitMix64 sequence, entered at any place.

    References
    ----------
    [steele2014] Steele, Lea, Flood. Fast Splittable Pseudorandom Number Generators. OOPSLA 2014, Figure 14.

    Examples
    --------
    >>> whole = hashes(7, "key", np.arange(10))
    >>> bool((whole[4:] == hashes(7, "key", np.arange(4, 10))).all())
    True
    """
    bits = index.astype(np.uint64)
    bits *= np.uint64(_GAMMA)
    bits += np.uint64(stream_key(seed, purpose))
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def uniforms(seed: int, purpose: str, index: Int64s) -> Floats:
    """Numbers in [0, 1), 53 random bits each."""
    result: Floats = (hashes(seed, purpose, index) >> np.uint64(11)).astype(np.float64)
    result *= 2.0**-53
    return result


def integers(seed: int, purpose: str, index: Int64s, bound: int) -> Int64s:
    """Integers in [0, bound), `bound` at most 2**32; the high bits are scaled, which avoids a slow division."""
    bits = hashes(seed, purpose, index) >> np.uint64(32)
    bits *= np.uint64(bound)
    bits >>= np.uint64(32)
    return bits.view(np.int64)


def happens(seed: int, purpose: str, index: Int64s, probability: float) -> Flags:
    """True with the given probability, independently for each index."""
    if probability <= 0.0:
        return np.zeros(len(index), np.bool_)
    return uniforms(seed, purpose, index) < probability
