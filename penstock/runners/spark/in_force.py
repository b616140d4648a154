"""What the tasks of a micro-batch do: the edition of the application that is in force when it starts.

Spark's plan stays as it is while queries come and go. Which edition a micro-batch belongs to is known from its offsets when it
starts; the driver hands it to all its tasks with a local property, as Spark hands on the number of the micro-batch. The edition
with which a run begins travels in the tasks themselves.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

#: Name of the part for shards; the others are called after the streams whose rows they pack.
SHARDS = ""


def property_of(run: str) -> str:
    """The local property of a run; others may run in the same session."""
    return f"penstock.edition.{run}"


def encoded(parts: Mapping[str, bytes]) -> str:
    """All parts of an edition, for the property."""
    return base64.b85encode(zlib.compress(pickle.dumps(dict(parts)))).decode()


def part_in_force(run: str, name: str, given: bytes) -> Any:
    """In a task: its part of the edition of its micro-batch; None if that has nothing for it.

    Parameters
    ----------
    given
        The part, pickled, of the edition with which the run began.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    told = (context.getLocalProperty(property_of(run)) if context is not None else None) or ""
    packed = _decoded(told).get(name) if told else given
    return None if packed is None else _unpickled(packed)


@lru_cache(maxsize=4)
def _decoded(text: str) -> dict[str, bytes]:
    found: dict[str, bytes] = pickle.loads(zlib.decompress(base64.b85decode(text)))
    return found


@lru_cache(maxsize=16)
def _unpickled(packed: bytes) -> Any:
    return pickle.loads(packed)
