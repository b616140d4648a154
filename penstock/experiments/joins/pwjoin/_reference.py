"""One reference to all arrays of a join, which its compiled functions hand from one to the next as `m`.

To hand on sixteen arrays takes longer than what most of these functions do. They are compiled as allocating ones: to reach an
array through the reference is like making one.
"""

from __future__ import annotations

from typing import Any, cast

from numba import types
from numba.experimental import structref

from penstock.experiments.joins.pwjoin.layout import Memory


@structref.register
class MemoryType(types.StructRef):  # type: ignore[misc]  # Numba has no types
    """All arrays of a join, for compiled functions."""


class Reference(structref.StructRefProxy):  # type: ignore[misc]  # Numba has no types
    """All arrays of a join, to be handed to compiled functions; made of arrays in the order of `Memory`."""

    def __new__(cls, *arrays: Any) -> Reference:
        return cast(Reference, structref.StructRefProxy.__new__(cls, *arrays))


structref.define_proxy(Reference, MemoryType, list(Memory._fields))
