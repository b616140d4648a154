"""What every task owes the Python worker it runs in."""

from __future__ import annotations

import gc

#: Modules, compiled loops and kernels arrive with the first tasks of a worker; afterwards little is added.
_FREEZES = 4

_frozen = 0


def settle() -> None:
    """Take what a worker has loaded out of the garbage collector's sight; call it at the end of a task.

    Spark's daemon collects garbage after every task. With Arrow, pandas and Numba loaded that walks a hundred thousand
    objects which never die: 50 ms a task, more than many tasks work.
    """
    global _frozen
    if _frozen < _FREEZES:
        _frozen += 1
        gc.collect()
        gc.freeze()
