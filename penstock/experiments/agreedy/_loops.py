"""Compiled generator of drop patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile once and keep the result beside the module, without losing the signature."""
    return cast(Loop, njit(cache=True)(loop))


@compiled
def mix64(x: Any) -> Any:  # pragma: no cover - compiled
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def drawn(placed: Any, lane: int) -> float:  # pragma: no cover - compiled
    return float(mix64(placed + np.uint64(lane)) >> np.uint64(11)) * 2.0**-53


@compiled
def correlated_masks(seed: Any, start: int, passing: Any, shared: Any, group: int, out: Any) -> None:  # pragma: no cover - compiled
    """Drop pattern of each row: a filter uses its group's number with probability `shared[i]`, else its own."""
    began = mix64(seed)
    for k in range(len(out)):
        placed = mix64(began + np.uint64(start + k))
        word = 0
        for i in range(len(passing)):
            lane = i // group if drawn(placed, 1000 + 2 * i) < shared[i] else 1001 + 2 * i
            if not drawn(placed, lane) < passing[i]:
                word |= 1 << i
        out[k] = word
