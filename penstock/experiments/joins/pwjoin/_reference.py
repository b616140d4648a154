"""The one place where this package meets Numba.

Compiled functions share the arrays of a join through one reference: handing a dozen arrays from function to function would
make compiling several times slower.
"""

from __future__ import annotations

from typing import Any, cast

from numba import types
from numba.experimental import structref

from penstock.columnar.compiling import allocating, entrance
from penstock.experiments.joins.pwjoin.layout import Memory

#: For functions that only compiled functions call: reaching an array through the reference is like making one.
compiled = allocating
#: For functions that the host calls.
entry = entrance


@structref.register
class MemoryType(types.StructRef):  # type: ignore[misc]  # Numba has no types
    """All arrays of a join, for compiled functions."""


class Reference(structref.StructRefProxy):  # type: ignore[misc]  # Numba has no types
    """All arrays of a join, to be handed to compiled functions; made of arrays in the order of `Memory`."""

    def __new__(cls, *arrays: Any) -> Reference:
        return cast(Reference, structref.StructRefProxy.__new__(cls, *arrays))


structref.define_proxy(Reference, MemoryType, list(Memory._fields))
