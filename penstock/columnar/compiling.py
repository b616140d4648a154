"""How inner loops are compiled: decorators that keep the signature, and the result beside the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile a function that only compiled functions call and that makes no array.

    Such a function need not count references: with dozens of arrays handed around, counting costs more than the work.
    """
    return cast(Loop, njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(loop))


def inlined(loop: Loop) -> Loop:
    """Paste a function that makes no array into the loops that call it for every event."""
    return cast(Loop, njit(cache=True, inline="always", _nrt=False)(loop))


def allocating(loop: Loop) -> Loop:
    """Compile a function that only compiled functions call and that makes arrays."""
    return cast(Loop, njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(loop))


def entrance(loop: Loop) -> Loop:
    """Compile a function that Python calls; the result is kept beside the module."""
    return cast(Loop, njit(cache=True)(loop))
