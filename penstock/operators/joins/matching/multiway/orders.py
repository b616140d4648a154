"""The order of a pipeline's probes: what the join asks of whoever decides it, and an order that never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.columnar.hashing import UInt64s

Floats = npt.NDArray[np.float64]


class ProbeOrder(Protocol):
    """Decides in which order the probes of one pipeline are made.

    The join asks for the order before each chunk of rows and shows, after it, what a sample of the dropped rows would have
    met at every probe. Answers never depend on the order, work does.
    """

    def order(self) -> Sequence[int]:
        """Numbers of all probes, the first one first."""
        ...

    def wanted(self, position: int) -> int:
        """Probes, as bits, to make for a sampled row that the probe at `position` dropped."""
        ...

    def observe(self, bits: UInt64s, known: UInt64s, costs: Floats) -> object:
        """Learn from dropped rows: bit k of `bits` is set where probe k drops the row, of `known` where that was looked up."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """JSON values from which `restore` goes on."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class FixedOrder:
    """Always the same order.

    Examples
    --------
    >>> FixedOrder([2, 0, 1]).order()
    (2, 0, 1)
    """

    def __init__(self, order: Sequence[int]) -> None:
        self._order = tuple(order)

    def order(self) -> Sequence[int]:
        return self._order

    def wanted(self, position: int) -> int:
        return 0

    def observe(self, bits: UInt64s, known: UInt64s, costs: Floats) -> None:
        """A fixed order learns nothing."""

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""
