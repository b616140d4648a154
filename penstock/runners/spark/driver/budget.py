"""How much priced work a micro-batch may take; what a budget leaves in queues goes on with the next one, see `ShardTask`."""

from __future__ import annotations

import math

from penstock.errors import InvalidDeclaration
from penstock.model.durations import duration, no_duration
from penstock.model.elements import BUDGET
from penstock.runners.spark.data_path.control import ControlLog


def nanoseconds(text: str) -> int:
    """A duration in nanoseconds.

    Examples
    --------
    >>> nanoseconds("800 ms")
    800000000
    """
    found = duration(text)
    if found is None:
        raise InvalidDeclaration(no_duration(text))
    return int(found * 1_000)


def share_of_shard(budget: str, shards: int, cores: int) -> int:
    """Nanoseconds of work for one shard: those for which there is no core at once must follow one after the other.

    Examples
    --------
    >>> share_of_shard("1 second", shards=4, cores=2)
    500000000
    """
    return nanoseconds(budget) // math.ceil(shards / max(cores, 1))


def decide_budget(control: ControlLog, ns: int | None) -> None:
    """Say how much a shard may do, None: all there is; shards remember it, so what holds already is not said again."""
    said = [detail.get("ns") for kind, detail in control.read(0, len(control)) if kind == BUDGET]
    if (said[-1] if said else None) != ns:
        control.append(BUDGET, {"ns": ns})
