"""What is in force when a micro-batch starts: the edition of the application, and what is decided about its operators.

Spark's plan stays as it is while queries come and go. Which edition a micro-batch belongs to, and which decisions, is known from
its offsets when it starts; the driver hands both to all its tasks with local properties, as Spark hands on the number of the
micro-batch. The edition with which a run begins travels in the tasks themselves.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from penstock.runners.decisions import Decisions

#: The local property with the time of a micro-batch, in milliseconds since 1970.
TIME_PROPERTY = "penstock.time"
#: Name of the part for shards; the others are called after the streams whose rows they pack.
SHARDS = ""


def edition_property(run: str) -> str:
    """The local property with the edition of a run; others may run in the same session."""
    return f"penstock.edition.{run}"


def decisions_property(run: str) -> str:
    """The local property with what is decided."""
    return f"penstock.decisions.{run}"


def encoded(parts: Mapping[str, bytes]) -> str:
    """All parts of an edition, for the property."""
    return base64.b85encode(zlib.compress(pickle.dumps(dict(parts)))).decode()


def part_of_edition(run: str, name: str, given: bytes) -> Any:
    """In a task: its part of the edition of its micro-batch; None if that has nothing for it.

    Parameters
    ----------
    given
        The part, pickled, of the edition with which the run began.
    """
    text = _local_property(edition_property(run))
    packed = _decoded(text).get(name) if text else given
    return None if packed is None else _unpickled(packed)


def decisions_of_batch(run: str) -> Decisions:
    """In a task: what is decided for its micro-batch."""
    return _decisions(_local_property(decisions_property(run)))


def time_of_batch_ns() -> int:
    """In a task: when its micro-batch was planned; a repeated one has the same time. 0 where nobody says."""
    return int(_local_property(TIME_PROPERTY) or 0) * 1_000_000


def _local_property(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.getLocalProperty(name) if context is not None else None) or ""


@lru_cache(maxsize=4)
def _decoded(text: str) -> dict[str, bytes]:
    found: dict[str, bytes] = pickle.loads(zlib.decompress(base64.b85decode(text)))
    return found


@lru_cache(maxsize=4)
def _decisions(text: str) -> Decisions:
    return Decisions.from_text(text)


@lru_cache(maxsize=16)
def _unpickled(packed: bytes) -> Any:
    return pickle.loads(packed)
