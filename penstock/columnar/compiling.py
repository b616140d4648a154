"""How inner loops are compiled: decorators that keep the signature, and the result beside the module.

Numba compiles a loop again when its own file has changed, and knows nothing of the loops and constants of other files that went
into it. What is compiled is therefore forgotten when any file of loops beside it, in the folder above, or in `columnar` has
changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])
_COLUMNAR = Path(__file__).parent
_STAMP = "loops.stamp"
#: Folders that this process has looked at.
_SEEN: set[Path] = set()


def njit(**options: Any) -> Callable[[Loop], Loop]:
    """As Numba's, for functions whose results are kept beside their module."""

    def decorated(loop: Loop) -> Loop:
        forget_outdated(Path(loop.__code__.co_filename).parent)
        return cast(Loop, numba.njit(**options)(loop))

    return decorated


def forget_outdated(folder: Path) -> None:
    """Remove what was compiled from other sources than those of now; nothing where it cannot be removed.

    Processes that start at the same time may both do so: the worst is that a loop is compiled twice.
    """
    if folder in _SEEN:
        return
    _SEEN.add(folder)
    sources = {*_COLUMNAR.glob("*.py"), *folder.glob("_*.py"), *folder.glob("layout.py"), *folder.parent.glob("_*.py")}
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(sources)]
    kept, now = folder / "__pycache__", hashlib.sha256(repr(states).encode()).hexdigest()
    stamp = kept / _STAMP
    with suppress(OSError):
        if not stamp.exists() or stamp.read_text() != now:
            for file in (*kept.glob("*.nbi"), *kept.glob("*.nbc")):
                file.unlink(missing_ok=True)
            draft = kept / f"{_STAMP}.{os.getpid()}"
            draft.write_text(now)
            draft.replace(stamp)


def compiled(loop: Loop) -> Loop:
    """Compile a function that only compiled functions call and that makes no array.

    Such a function need not count references: with dozens of arrays handed around, counting costs more than the work.
    """
    return njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(loop)


def inlined(loop: Loop) -> Loop:
    """Paste a function that makes no array into the loops that call it for every event."""
    return njit(cache=True, inline="always", _nrt=False)(loop)


def woven(loop: Loop) -> Loop:
    """Compile a function that makes no array into its callers, which hand it more arrays than a call passes on cheaply."""
    return njit(cache=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(loop)


def allocating(loop: Loop) -> Loop:
    """Compile a function that only compiled functions call and that makes arrays."""
    return njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(loop)


def entrance(loop: Loop) -> Loop:
    """Compile a function that Python calls; the result is kept beside the module."""
    return njit(cache=True)(loop)
