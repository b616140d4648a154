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

import pyarrow as pa

from penstock.runners.spark.processes import shard_processes

#: No threads of libraries that run before the fork. After it one thread a worker is what Penstock wants anyway.
WITHOUT_THREADS = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

#: Objects that a worker may make before Python looks for cycles among them. Tasks make many that die at once: with Python's 700
#: the search takes an eighth of a task. A function of a user's that leaves cycles behind is still found out.
_MANY_OBJECTS = 100_000

MODULES = (
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "penstock.runners.spark.data_path.exchange",
    "penstock.runners.spark.data_path.feed",
    "penstock.runners.spark.data_path.processor",
    "penstock.lowering.table",
)


def load() -> None:
    """Import what workers need, and take it out of the garbage collector's sight."""
    for name in MODULES:
        importlib.import_module(name)
    ready()


def ready() -> None:
    """What is left to do once everything is imported."""
    from penstock.columnar.hashing import hash_columns

    # The first compiled loop that a process calls loads what Numba knows of types: a fifth of a second.
    hash_columns([pa.array([0])], 1)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MANY_OBJECTS)


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
