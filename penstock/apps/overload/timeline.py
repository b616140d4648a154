"""What happened in a run, micro-batch by micro-batch, put together from counters: pure figures, for the display and the picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from penstock.model.qos import Measure, Priority
from penstock.qos.contract_meter import Promise
from penstock.runners.spark.driver.counters import ReaderCounts

#: What people call the classes of promises.
_CLASSES = {Priority.MUST_SATISFY: "MUST", Priority.BEST_EFFORT: "BEST EFFORT", Priority.DONT_CARE: "DONT CARE"}


@dataclass(frozen=True, slots=True)
class Bound:
    """The latency that a query promises."""

    query: str
    seconds: float
    priority: Priority

    def __str__(self) -> str:
        return f"{self.seconds:g} s {self.class_text}"

    @property
    def class_text(self) -> str:
        return _CLASSES[self.priority]


@dataclass(frozen=True, slots=True)
class Losing:
    """An entry whose rows may be left out, and how many of them."""

    queries: tuple[str, ...]
    most: float


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Rows of an entry since the checkpoint began: those that its queries asked for, and those of them that were left out."""

    asked: int = 0
    shed: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """One micro-batch.

    Parameters
    ----------
    second, until
        When it was planned and when its answers were written, since the stream began.
    rows
        That have come.
    latency_s
        Of the queries that answered.
    left_out
        Share of the rows of each entry that may lose some, by entry; entries without rows are not there.
    """

    second: float
    until: float
    rows: int
    strategy: str
    waiting: int
    latency_s: Mapping[str, float]
    left_out: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which one strategy chose what ran next."""

    strategy: str
    begin: float
    end: float


@dataclass(slots=True)
class Timeline:
    """One run from its begin to its end.

    Parameters
    ----------
    name
        The strategy, or what else tells the run from others.
    bounds, losing
        What the contracts say: of queries, and of entries.
    readers
        What became of the rows of each entry, in all.
    notes
        What was decided, for people.
    """

    name: str
    bounds: Sequence[Bound] = ()
    losing: Mapping[str, Losing] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    promises: Sequence[Promise] = ()
    readers: Sequence[ReaderCounts] = ()
    notes: Sequence[str] = ()
    _before: dict[str, EntryRows] = field(default_factory=dict)

    def left_out(self, rows: Mapping[str, EntryRows]) -> dict[str, float]:
        """Shares that were left out since the last time, from counters that only grow.

        Examples
        --------
        >>> line = Timeline("contracts", losing={"tick@1.1": Losing(("puts",), 0.5)})
        >>> [line.left_out({"tick@1.1": EntryRows(asked, shed)}) for asked, shed in ((100, 0), (200, 25), (200, 25))]
        [{'tick@1.1': 0.0}, {'tick@1.1': 0.25}, {}]
        """
        found = {}
        for entry in self.losing:
            now, before = rows.get(entry, EntryRows()), self._before.get(entry, EntryRows())
            if now.asked > before.asked:
                found[entry] = (now.shed - before.shed) / (now.asked - before.asked)
            self._before[entry] = now
        return found

    def spans(self) -> list[Span]:
        """Strategies one after the other."""
        found: list[Span] = []
        for moment in self.moments:
            if found and found[-1].strategy == moment.strategy:
                found[-1] = Span(moment.strategy, found[-1].begin, moment.until)
            else:
                found.append(Span(moment.strategy, moment.second, moment.until))
        return [*(Span(one.strategy, one.begin, two.begin) for one, two in pairwise(found)), *found[-1:]]

    def arriving(self) -> Iterator[tuple[float, float, float]]:
        """From when to when, and how many rows a second have come meanwhile: between the plans of two micro-batches.

        Examples
        --------
        >>> moments = [Moment(second, second + 0.4, 50, "auto", 0, {}, {}) for second in (1.0, 1.5, 2.5)]
        >>> list(Timeline("contracts", moments=moments).arriving())
        [(1.0, 1.5, 100.0), (1.5, 2.5, 50.0)]
        """
        for before, now in pairwise(self.moments):
            if now.second > before.second:
                yield before.second, now.second, now.rows / (now.second - before.second)

    @property
    def second(self) -> float:
        """How far it has come."""
        return self.moments[-1].until if self.moments else 0.0

    @property
    def broken_s(self) -> dict[str, float]:
        """Seconds in which the latency of a query was longer than promised."""
        return {promise.query: promise.broken_s for promise in self.promises if promise.measure is Measure.LATENCY}

    @property
    def all_broken_s(self) -> float:
        return sum(self.broken_s.values())

    @property
    def shed_share(self) -> float:
        """Part of the rows that was left out, of those for queries that allow it."""
        losing = {each.queries for each in self.losing.values()}
        mine = [reader for reader in self.readers if reader.queries in losing]
        asked = sum(reader.read - reader.filtered for reader in mine)
        return sum(reader.shed for reader in mine) / asked if asked else 0.0

    @property
    def balance(self) -> Balance:
        return Balance.of(self.readers)


def notes_of(entries: Sequence[Mapping[str, Any]], began_s: float) -> list[str]:
    """What was decided about strategies, and what could not be helped; rows that are left out are seen anyway.

    Examples
    --------
    >>> switch = {"action": "switch", "at_ms": 9500, "strategy": "segment", "before": "auto", "reason": "memory is short"}
    >>> notes_of([switch, {"action": "shed", "at_ms": 9900}], began_s=1.0)
    ["second 8.5: 'segment' instead of 'auto', because memory is short"]
    """
    texts = {"switch": "'{strategy}' instead of '{before}', because {reason}", "cannot": "{reason}"}
    return [
        f"second {entry['at_ms'] / 1000 - began_s:.1f}: {texts[entry['action']].format(**entry)}"
        for entry in entries
        if entry["action"] in texts
    ]


@dataclass(frozen=True, slots=True)
class Balance:
    """What became of all rows that were read, those of every entry: nothing may be lost silently."""

    read: int
    used: int
    filtered: int
    late: int
    bad: int
    shed: int

    @classmethod
    def of(cls, readers: Sequence[ReaderCounts]) -> Balance:
        """Rows set aside for reasons other than being late count as bad."""
        totals = [
            (each.read, each.used, each.filtered, each.late, each.quarantined - each.late, each.shed) for each in readers
        ] or [(0,) * 6]
        return cls(*map(sum, zip(*totals, strict=True)))

    @property
    def is_complete(self) -> bool:
        return self.read == self.used + self.filtered + self.late + self.bad + self.shed

    def __str__(self) -> str:
        sign = "=" if self.is_complete else "≠"
        return (
            f"{self.read:,} read {sign} {self.used:,} used + {self.filtered:,} not wanted + {self.late:,} late + {self.bad:,} bad "
            f"+ {self.shed:,} left out"
        )
