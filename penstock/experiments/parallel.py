"""Independent streams side by side: one process for each processor."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from penstock.experiments.contracts import Settings

Task = TypeVar("Task")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Task], Found], tasks: Sequence[Task], settings: Settings) -> list[Found]:
    """What a function of a module makes of each task, in order; a quick look starts no processes.

    Examples
    --------
    >>> side_by_side(abs, [-1, 2], Settings(is_quick=True))
    [1, 2]
    """
    processes = min(os.cpu_count() or 1, len(tasks))
    if settings.is_quick or processes < 2:
        return [work(task) for task in tasks]
    # Forking a process with threads of its own may hang.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(work, tasks))
