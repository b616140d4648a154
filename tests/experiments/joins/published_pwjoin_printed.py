"""PWJoin as printed: a small, slow join of the corrected algorithms in which single errata can be put back.

Streams of time windows in one global order; keys and constants only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from penstock.experiments.joins.items import Kind
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.model.elements import FOREVER
from penstock.model.windows import Rows, Sliding


@dataclass
class Node:
    """A T-Node: `row` is None when the tuple is gone."""

    row: int | None
    ts: int
    key: int
    seq: int


@dataclass
class Entry:
    """An I-Node: value lists, who announced, and the schedule item."""

    lists: list[list[Node]]
    announcers: list[int] = field(default_factory=list)
    prop_time: float | None = None
    is_propagated: bool = False


class PrintedJoin:
    """The join, with some errata as printed; names of errata as in the specification, such as `ER-12`."""

    def __init__(self, config: PWJoinConfig, *errata: str) -> None:
        self.config, self.errata = config, set(errata)
        self.n = config.streams
        self.times: list[list[Node]] = [[] for _ in range(self.n)]
        self.entries: dict[int, Entry] = {}
        self.counted = [0] * self.n
        self.results: list[tuple[Any, ...]] = []
        self.marks: list[tuple[int, int]] = []

    def has(self, erratum: str) -> bool:
        return erratum in self.errata

    def play(self, items: list[tuple[int, int, int, int]]) -> PrintedJoin:
        for number, (kind, stream, ts, key) in enumerate(items):
            if kind == Kind.TUPLE:
                self.advance(ts, stream)
                self.tuple(number, stream, ts, key)
            elif kind == Kind.PUNCTUATION:
                if not self.has("ER-31") and not self.has("ER-26"):
                    self.advance(ts, stream)
                self.punctuation(stream, ts, key)
            elif not self.has("ER-31") and not self.has("ER-26"):
                self.advance(ts, stream)
        return self

    def state(self) -> list[set[int]]:
        return [{node.row for node in nodes if node.row is not None} for nodes in self.times]

    # -- time ---------------------------------------------------------------------------------------------------------

    def advance(self, now: int, stream: int) -> None:
        for other, nodes in enumerate(self.times):
            if other == stream and self.has("ER-26"):
                continue  # Only tuples of the other stream move a window.
            while nodes and self.is_expired(other, nodes[0], now):
                node = nodes.pop(0)
                node.row = None
        for key, entry in sorted(self.entries.items(), key=lambda pair: pair[1].prop_time or 0):
            if entry.prop_time is not None and self.is_due(entry.prop_time, now) and not self.is_blocked(entry, stream):
                self.propagate(key, now)

    def is_expired(self, stream: int, node: Node, now: int) -> bool:
        if node.row is None and self.has("ER-7"):
            raise TypeError("the tuple of a purged node is read")
        window = self.config.windows[stream]
        if isinstance(window, Rows):
            return window.size is not None and node.seq <= self.counted[stream] - window.size
        return isinstance(window, Sliding) and node.ts + window.size < now

    def is_due(self, prop_time: float, now: int) -> bool:
        return prop_time <= now if self.has("ER-18") else prop_time < now

    def is_blocked(self, entry: Entry, stream: int) -> bool:
        return self.has("ER-26") and stream in entry.announcers

    def propagate(self, key: int, now: int) -> None:
        entry = self.entries[key]
        self.marks.append((key, now))
        entry.is_propagated, entry.prop_time = True, None
        self.clear(entry)

    def clear(self, entry: Entry) -> None:
        for nodes in entry.lists:
            for node in nodes:
                node.row = None
            nodes.clear()

    # -- tuples -------------------------------------------------------------------------------------------------------

    def tuple(self, number: int, stream: int, ts: int, key: int) -> None:
        entry = self.entries.setdefault(key, Entry([[] for _ in range(self.n)]))
        if entry.is_propagated and not self.has("ER-24"):
            if not self.has("ER-19"):
                self.counted[stream] += 1
            return
        self.counted[stream] += 1
        node = Node(number, ts, key, self.counted[stream])
        if self.may_have_partners(entry, stream):
            self.probe(entry, stream, number)
        announced = set(entry.announcers) | {stream}
        if len(announced) < self.n or self.has("ER-13"):
            self.times[stream].append(node)
            entry.lists[stream].append(node)

    def may_have_partners(self, entry: Entry, stream: int) -> bool:
        filled = [any(node.row is not None for node in nodes) for nodes in entry.lists]
        if self.has("ER-12"):
            return sum(filled) == self.n
        return all(is_filled for other, is_filled in enumerate(filled) if other != stream)

    def probe(self, entry: Entry, stream: int, number: int) -> None:
        pools: list[list[Any]] = [
            [number] if other == stream else [node.row for node in nodes if node.row is not None or self.has("ER-8")]
            for other, nodes in enumerate(entry.lists)
        ]
        self.results += product(*pools)

    # -- punctuations -------------------------------------------------------------------------------------------------

    def punctuation(self, stream: int, now: int, key: int) -> None:
        entry = self.entries.setdefault(key, Entry([[] for _ in range(self.n)]))
        if stream in entry.announcers and not self.has("ER-11"):
            return
        entry.announcers.append(stream)
        if len(entry.announcers) == self.n:
            self.all_announced(key, entry, now)
            return
        if entry.is_propagated and not self.has("ER-14 touch"):
            return
        live = [node for node in entry.lists[stream] if node.row is not None]
        if not live and not self.has("ER-9"):
            self.propagate(key, now)
            return
        # As printed the tail is taken, expired or not; without a tail the punctuation is lost.
        tail = live or entry.lists[stream]
        if tail:
            self.schedule(entry, stream, max(node.ts for node in tail))
        if len(entry.announcers) == self.n - 1 and not self.has("ER-14 purge"):
            (missing,) = set(range(self.n)) - set(entry.announcers)
            for node in entry.lists[missing]:
                node.row = None
            entry.lists[missing].clear()

    def all_announced(self, key: int, entry: Entry, now: int) -> None:
        if not entry.is_propagated:
            self.marks.append((key, now))
        if not self.has("ER-10"):
            self.clear(entry)
        del self.entries[key]

    def schedule(self, entry: Entry, stream: int, last: int) -> None:
        window = self.config.windows[stream]
        leaves = last + window.size if isinstance(window, Sliding) else FOREVER
        if entry.prop_time is None:
            entry.prop_time = leaves
        elif not self.has("ER-14 order"):
            entry.prop_time = min(entry.prop_time, leaves)
