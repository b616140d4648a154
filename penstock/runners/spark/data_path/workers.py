"""What every task owes the Python worker it runs in."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TypeVar

from penstock.errors import Defect, PenstockError

Piece = TypeVar("Piece")

#: Modules, compiled loops and kernels arrive with the first tasks of a worker; afterwards little is added.
_FREEZES = 4

_frozen = 0


def freeze_loaded_objects() -> None:
    """Take what a worker has loaded out of the garbage collector's sight; call it at the end of a task.

    Spark's daemon collects garbage after every task. With Arrow, pandas and Numba loaded that walks a hundred thousand
    objects which never die: 50 ms a task, more than many tasks work.
    """
    global _frozen
    if _frozen < _FREEZES:
        _frozen += 1
        gc.collect()
        gc.freeze()


def without_traceback(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """What a task hands back; if data, query or machine are to blame it fails with that sentence, without the way to it.

    Spark shows a worker's whole traceback before its last line. Only of our own defects the traceback tells something.
    """
    try:
        yield from pieces
    except Defect:
        raise
    except PenstockError as found:
        raise found.with_traceback(None) from None
