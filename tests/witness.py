"""A function that tests declare in SQL to see in which tasks rows are looked at, and what these tasks know."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow as pa


def noted(value: pa.Array, where: pa.Array, file: pa.Array) -> pa.Array:
    """The values as they are; a line of the file tells of the task that asks for them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if len(value) and context is not None:
        known: dict[str, str] = context._localProperties
        told: dict[str, Any] = {
            "where": where[0].as_py(), "batch": int(known["streaming.sql.batchId"]), "folder": os.getcwd(), "process": os.getpid(),
            "decisions": _of(known, "penstock.decisions."), "edition": _of(known, "penstock.edition."),
        }  # fmt: skip
        with open(file[0].as_py(), "a") as out:
            out.write(json.dumps(told) + "\n")  # one write, so that lines of several processes stay whole
    return value


def _of(known: dict[str, str], name: str) -> str:
    (found,) = [text for key, text in known.items() if key.startswith(name)] or [""]
    return found
