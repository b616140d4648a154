"""Sums of doubles that do not depend on the order of addition.

Floating-point addition is not associative, so a running sum would depend on how a stream is cut into batches. Here the
exponent range of doubles is divided into fixed bins of 30 bits. A double covers three neighbouring bins; its part in
each is an integer that depends on the double alone, and integers add exactly and in any order. A sum keeps only the
highest bins that any of its terms reaches (`limbs` of them). Which bins these are depends on the largest term alone, so
whatever lies below is left out in the same way for every order of addition: the result is the same to the last bit.

With 4 limbs a sum is exact to at least 83 bits below the largest term, with 5 to 113 (plain doubles: 53). A bin holds
the parts of 2**33 terms. Infinities and NaN are remembered as flags.

A sum is `limbs + 1` neighbouring integers in a row of *cells*, from column `at` on: the number of the highest bin with
the flags above it, then the limbs, lowest bin first.

References
----------
[demmel2013] Demmel, Nguyen. Fast Reproducible Floating-Point Summation. ARITH 2013. Differs: integer bins, no
normalisation before the end.
"""

from __future__ import annotations

from fractions import Fraction
from math import ldexp
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.columnar.codes import Bools, owned, shared
from penstock.columnar.compiling import njit
from penstock.model.batch import Int64s

Doubles = npt.NDArray[np.float64]

#: Terms a bin can take before its 64 bits might overflow.
MOST_TERMS = 2**33

_BITS = 30
_MASK = (1 << _BITS) - 1
_PLUS, _MINUS, _NAN = 1 << 8, 1 << 9, 1 << 10


def add_doubles(codes: Int64s, values: Doubles, valid: Bools, cells: Int64s, at: int, limbs: int) -> None:
    """Add `values[i]` to the sum in row `codes[i]` of `cells`, in place.

    Examples
    --------
    >>> cells = np.zeros((1, 5), np.int64)
    >>> add_doubles(np.zeros(3, np.int64), np.array([1e16, 1.0, -1e16]), np.ones(3, bool), cells, 0, 4)
    >>> rounded(cells, 0, 4)[0]
    array([1.])
    """
    _add(owned(codes), owned(values).view(np.int64), owned(valid), cells, at, limbs)


def add_sums(codes: Int64s, others: Int64s, cells: Int64s, at: int, limbs: int) -> None:
    """Add the sum in row i of `others` to the one in row `codes[i]` of `cells`, in place."""
    _merge(owned(codes), shared(others), cells, at, limbs)


def rounded(cells: Int64s, at: int, limbs: int) -> tuple[Doubles, Doubles]:
    """Each sum as the nearest double and the double nearest to what is left."""
    high, low = np.empty(len(cells)), np.empty(len(cells))
    _round(shared(cells), at, limbs, high, low)
    return high, low


def exact(row: Int64s) -> Fraction:
    """One finite sum without any rounding."""
    top, *limbs = (int(number) for number in row)
    whole = sum(limb << (_BITS * place) for place, limb in enumerate(limbs))
    unit = _BITS * ((top & 0xFF) - len(limbs) + 1) - 1074
    return whole * Fraction(2) ** unit


@njit(cache=True)
def _raise_top(row: Any, top: int) -> None:  # pragma: no cover - compiled
    limbs = len(row) - 1
    steps = top - (row[0] & 0xFF)
    for j in range(limbs):
        row[1 + j] = row[1 + j + steps] if j + steps < limbs else 0
    row[0] += steps


@njit(cache=True)
def _add(codes: Any, bits: Any, valid: Any, cells: Any, at: int, limbs: int) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if not valid[i]:
            continue
        row = cells[codes[i], at : at + limbs + 1]
        exponent = (bits[i] >> 52) & 0x7FF
        part = bits[i] & ((1 << 52) - 1)
        if exponent == 0x7FF:
            row[0] |= _NAN if part else (_MINUS if bits[i] < 0 else _PLUS)
            continue
        shift = 0
        if exponent:
            part |= 1 << 52
            shift = exponent - 1
        lowest = shift // _BITS
        shift -= lowest * _BITS
        if lowest + 2 > (row[0] & 0xFF):
            _raise_top(row, lowest + 2)
        sign = -1 if bits[i] < 0 else 1
        place = limbs - ((row[0] & 0xFF) - lowest)
        if place >= 1:
            row[place] += sign * ((part << shift) & _MASK)
        if place + 1 >= 1:
            row[place + 1] += sign * ((part >> (_BITS - shift)) & _MASK)
        if place + 2 >= 1:
            row[place + 2] += sign * (part >> (2 * _BITS - shift))


@njit(cache=True)
def _merge(codes: Any, others: Any, cells: Any, at: int, limbs: int) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        row = cells[codes[i], at : at + limbs + 1]
        top = others[i, at] & 0xFF
        if top > (row[0] & 0xFF):
            _raise_top(row, top)
        row[0] |= others[i, at] & (_PLUS | _MINUS | _NAN)
        steps = (row[0] & 0xFF) - top
        for j in range(steps, limbs):
            row[1 + j - steps] += others[i, at + 1 + j]


@njit(cache=True)
def _round(cells: Any, at: int, limbs: int, high: Any, low: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(cells)):
        low[i] = 0.0
        flags = cells[i, at] & (_PLUS | _MINUS | _NAN)
        if flags:
            high[i] = np.nan if flags & _NAN or flags == _PLUS | _MINUS else (np.inf if flags & _PLUS else -np.inf)
            continue
        # Carries first: then no two pieces overlap and adding them from the top loses nothing that matters.
        carry, pieces = 0, np.empty(limbs)
        for j in range(limbs - 1):
            value = cells[i, at + 1 + j] + carry
            carry = value >> _BITS
            pieces[j] = ldexp(float(value & _MASK), _BITS * j)
        value = cells[i, at + limbs] + carry
        total = ldexp(float(value >> 32), _BITS * (limbs - 1) + 32)
        rest = 0.0
        pieces[limbs - 1] = ldexp(float(value & 0xFFFFFFFF), _BITS * (limbs - 1))
        for j in range(limbs - 1, -1, -1):
            added = total + pieces[j]
            bulk = added - total
            rest += (total - (added - bulk)) + (pieces[j] - bulk)
            total = added
        unit = _BITS * ((cells[i, at] & 0xFF) - limbs + 1) - 1074
        high[i] = ldexp(total + rest, unit)
        if not np.isinf(high[i]):
            low[i] = ldexp(rest - ((total + rest) - total), unit)
