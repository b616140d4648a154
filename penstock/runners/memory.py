"""The driver's part of memory: a limit for all operators; what others leave of it is shared among joins, which can spill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, TypeVar

from penstock.errors import OutOfMemory
from penstock.lowering.jobs import Job
from penstock.lowering.statistics import Counters, MemoryMonitor, joins_by_query, joins_of
from penstock.model.elements import MEMORY, Control
from penstock.plan.analysis.estimation import InputEstimate, bytes_text
from penstock.plan.analysis.retuning import Retuning, allocate

#: A share is told anew when it has changed by more than this part of it.
_NEWS = 0.1

_Known = TypeVar("_Known")


def limits_of_joins(job: Job, limits: Mapping[str, int]) -> tuple[Control, ...]:
    """What each join shall know where queries have limits of their own.

    Parameters
    ----------
    limits
        By query, for the rows of its joins in memory over all shards. Of equal joins, which are one operator, the smallest
        counts; joins without any are told so, since they may remember another.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> from penstock.lowering.stages import build_job
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE CQ q AS SELECT a.k FROM a, b WHERE a.k = b.k;
    ...   CREATE CQ l AS SELECT a.k FROM a LEFT JOIN b ON a.k = b.k''')
    >>> [decision.detail for decision in limits_of_joins(build_job(catalog, 2), {"q": 1000})]
    [{'to': ['WindowJoin1'], 'bytes': 500}, {'to': ['WindowJoin3'], 'bytes': None}]
    """
    found: dict[str, int | None] = dict.fromkeys(joins_of(job))
    by_query = joins_by_query(job)
    for query, size in limits.items():
        for name in by_query.get(query.lower(), ()):
            found[name] = min(found[name] or size, size)
    return tuple(Control(0, MEMORY, {"to": [name], "bytes": _each(size, job.shards)}) for name, size in found.items())


def _each(size: float | None, shards: int) -> int | None:
    """A shard's part of a limit."""
    return None if size is None else max(int(size / shards), 1)


class MemorySharing:
    """Gives every join a share of a limit, in proportion to the state it is expected to have.

    Before anything is measured declarations say what to expect, where they say nothing shares are equal. While the queries
    run an estimate stays in force as long as it fits; one that was wrong for some micro-batches is replaced, and shares
    follow. What a share does not hold is spilled, so answers never depend on it. Other operators (groupings, DISTINCT,
    patterns) keep all of their state in memory, and joins share what these leave.

    Parameters
    ----------
    limit_bytes
        For the state of all operators in memory, over all shards.
    floor_bytes
        What each join gets at least.
    before
        How the limit was shared among the queries that ran before these: what is known of operators that stay remains known.

    Raises
    ------
    OutOfMemory
        When the limit does not even hold the floors, or not the state of operators that cannot spill.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 32.1.
    """

    def __init__(self, job: Job, limit_bytes: int, floor_bytes: float = 1e6, before: MemorySharing | None = None) -> None:
        self._limit, self._floor, self._shards = limit_bytes, floor_bytes, job.shards
        self._monitor: MemoryMonitor = MemoryMonitor(job, before._monitor.joins() if before else ())
        self._estimates = {name: Retuning(found) for name, found in self._monitor.estimates().items()}
        self._rows = dict.fromkeys(self._estimates, 0)
        #: Bytes of the operators that cannot spill, and of all of them when shares were last told.
        self._others = {node.id: 0 for stage in job.stages for node in stage.graph.nodes if node.id not in self._rows}
        self._others_told = 0
        if before:
            self._estimates |= _of_those_in(self._estimates, before._estimates)
            self._rows |= _of_those_in(self._rows, before._rows)
            self._others |= _of_those_in(self._others, before._others)
        #: Bytes of each join, over all shards, as they were told.
        self.shares: dict[str, float] = {}
        self._divided()  # what cannot be shared is refused before anybody relies on it

    def following(self, job: Job) -> MemorySharing:
        """How the same limit is shared when queries have come or gone."""
        return MemorySharing(job, self._limit, self._floor, self)

    def first(self) -> list[Control]:
        """What the joins shall know from the beginning."""
        return self._shared()

    def hear(self, operators: Counters, entries: Counters) -> list[Control]:
        """Take in the report of a micro-batch; returns what the joins shall know from the next one on.

        It may be of a micro-batch before queries came or went: it has operators then that are gone, and none of the new ones.
        """
        self._monitor.update(operators, entries)
        fresh = self._monitor.estimates()
        is_replaced = False
        for name, estimate in self._estimates.items():
            if name in operators:
                self._rows[name] = operators[name].get("state_rows", 0)
                is_replaced |= estimate.observe(self._rows[name], fresh[name])
        self._others = self._sizes_of_others(operators)
        is_replaced |= abs(sum(self._others.values()) - self._others_told) > _NEWS * self._limit
        return self._shared() if is_replaced else []

    def _sizes_of_others(self, operators: Counters) -> dict[str, int]:
        """State that has to stay in memory, by operator.

        Raises
        ------
        OutOfMemory
            When the limit does not hold it beside the least that joins need.
        """
        sizes = {name: operators.get(name, {}).get("state_bytes", 0) for name in self._others}
        total = sum(sizes.values())
        if total > self._limit - self._floor * len(self._estimates):
            largest = sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])[:3]
            raise OutOfMemory(
                f"the state of operators that cannot spill has grown to {bytes_text(total)} "
                f"({', '.join(f'{name} {bytes_text(sizes[name])}' for name in largest)}), the limit is {bytes_text(self._limit)}; "
                "nothing is lost: start again with more memory on the same checkpoint, or bound the state (`check` says how)"
            )
        return sizes

    def _divided(self) -> dict[str, float]:
        """The share of each join, by what is known now."""
        wanted = {name: _bytes(found.estimates, self._rows[name]) for name, found in self._estimates.items()}
        return allocate(self._limit - sum(self._others.values()), wanted, self._floor) if wanted else {}

    def _shared(self) -> list[Control]:
        self._others_told = sum(self._others.values())
        changed = {name: size for name, size in self._divided().items() if abs(size - self.shares.get(name, 0)) > _NEWS * size}
        self.shares |= changed
        return [Control(0, MEMORY, {"to": [name], "bytes": _each(size, self._shards)}) for name, size in changed.items()]


def _of_those_in(wanted: Mapping[str, Any], known: Mapping[str, _Known]) -> dict[str, _Known]:
    return {name: found for name, found in known.items() if name in wanted}


def _bytes(estimates: Iterable[InputEstimate], measured_rows: int) -> float:
    """What a join is expected to need; what it has where nothing can be expected."""
    parts = list(estimates)
    sizes = [part.num_bytes for part in parts]
    if any(size is None or not isfinite(size) for size in sizes):
        return measured_rows * sum(part.bytes_per_row for part in parts) / len(parts)
    return sum(size for size in sizes if size is not None)
