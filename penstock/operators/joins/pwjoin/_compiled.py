"""The one place where this package meets Numba.

Compiled functions share the arrays of a core through one reference: handing twenty arrays from function to function would
make compiling several times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import types
from numba.experimental import structref

from penstock.columnar.compiling import njit

Function = TypeVar("Function", bound=Callable[..., object])

FIELDS = (
    "nodes",
    "inodes",
    "lists",
    "buckets",
    "schedule",
    "streams",
    "recent",
    "spans",
    "spare_spans",
    "ranges",
    "order",
    "loners",
    "marks",
    "found",
    "scratch",
    "wheel",
    "log",
    "numbers",
    "counts",
    "saved",
)


@structref.register
class MemoryType(types.StructRef):  # type: ignore[misc]  # Numba has no types
    """All arrays of a core, for compiled functions."""


class Reference(structref.StructRefProxy):  # type: ignore[misc]  # Numba has no types
    """All arrays of a core, to be handed to compiled functions; made of arrays in the order of `FIELDS`."""

    def __new__(cls, *arrays: Any) -> Reference:
        return cast(Reference, structref.StructRefProxy.__new__(cls, *arrays))


structref.define_proxy(Reference, MemoryType, list(FIELDS))


def compiled(function: Function) -> Function:
    """Compile a function that only compiled functions call."""
    return njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def entry(function: Function) -> Function:
    """Compile a function that is called from outside; what is compiled is kept on disk."""
    return njit(cache=True, no_cfunc_wrapper=True)(function)
