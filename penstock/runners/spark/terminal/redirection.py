"""Keep the messages of Spark, its Java process and its Python workers off the terminal, and in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirected(log: Path, *descriptors: int) -> Iterator[None]:
    """Send file descriptors into a file, for this process and those it starts meanwhile.

    Replacing `sys.stderr` would not do: the Java process inherits descriptors, and keeps them when they are restored here.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = {number: os.dup(number) for number in descriptors}
    try:
        for number in descriptors:
            os.dup2(target, number)
        yield
    finally:
        _flush()
        for number, original in kept.items():
            os.dup2(original, number)
            os.close(original)
        os.close(target)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
