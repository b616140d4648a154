"""Spark's Python daemon with Penstock loaded; workers are forked from it and have nothing left to import.

A worker that loads Arrow, pandas, Numba and Penstock by itself takes two seconds of a core, and the first micro-batch of an
application starts a handful of them. Spark imports nothing before it forks because some libraries start threads when they are
imported, and a fork has none of its parent's; the settings below keep these libraries from doing so.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from penstock.runners.spark import shard_processes

#: No threads of libraries that run before the fork. After it one thread a worker is what Penstock wants anyway.
WITHOUT_THREADS = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

_MODULES = (
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "penstock.runners.spark.exchange",
    "penstock.runners.spark.feed",
    "penstock.runners.spark.processor",
)


def load() -> None:
    """Import what workers need, and take it out of the garbage collector's sight."""
    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    os.environ.update({name: value for name, value in WITHOUT_THREADS.items() if name not in os.environ})
    # Spark reads the port from standard output; a library that greets would be taken for it.
    protocol, sys.stdout = sys.stdout, sys.stderr
    try:
        load()
    finally:
        sys.stdout = protocol
    daemon = importlib.import_module("pyspark.daemon")
    shard_processes.install(daemon)
    daemon.manager()


if __name__ == "__main__":
    main()
