"""A slow join that follows the definitions, not the algorithms: it judges the compiled cores after every item."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np

from penstock.experiments.joins.items import Fate, Items, Kind
from penstock.experiments.joins.pwjoin import layout as lay
from penstock.experiments.joins.pwjoin.config import PWJoinConfig
from penstock.experiments.joins.pwjoin.join import PWJoin
from penstock.model.elements import NEVER
from penstock.model.windows import Rows, Sliding, Unbounded

KEYS = range(8)
Item = tuple[int, int, int, int]


@dataclass(frozen=True)
class Arrived:
    """A tuple that was accepted: number of its item, time, key and number in its stream."""

    item: int
    ts: int
    key: int
    seq: int


@dataclass
class Oracle:
    """Everything that must hold after each item, by definition."""

    config: PWJoinConfig
    now: int = NEVER
    arrived: list[list[Arrived]] = field(default_factory=list)
    announced: list[set[int]] = field(default_factory=list)
    over: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.arrived = [[] for _ in self.config.windows]
        self.announced = [set() for _ in self.config.windows]

    def others_closed(self, stream: int, key: int) -> bool:
        return all(key in keys for other, keys in enumerate(self.announced) if other != stream)

    def in_window(self, stream: int, one: Arrived) -> bool:
        window = self.config.windows[stream]
        if isinstance(window, Rows):
            return window.size is None or one.seq > len(self.arrived[stream]) - window.size
        return isinstance(window, Unbounded) or one.ts + window.size >= self.now

    def live(self, stream: int, key: int) -> bool:
        return any(one.key == key and self.in_window(stream, one) for one in self.arrived[stream])

    def judge(self) -> None:
        """Which keys can have no result any more, and may say so."""
        for key in KEYS:
            by = [stream for stream, keys in enumerate(self.announced) if key in keys]
            may_leave = self.config.early_propagation and any(not self.live(stream, key) for stream in by)
            if may_leave or len(by) == self.config.streams:
                self.over.add(key)

    def step(self, number: int, item: Item) -> Fate | None:
        """The fate of the item; None where the definition leaves it open (what is no tuple)."""
        kind, stream, ts, key = item
        self.now = max(self.now, ts)
        self.judge()
        fate = self.arrive(number, stream, ts, key) if kind == Kind.TUPLE else None
        if kind == Kind.PUNCTUATION:
            self.announced[stream].add(key)
        self.judge()
        return fate

    def arrive(self, number: int, stream: int, ts: int, key: int) -> Fate:
        if key in self.announced[stream]:
            return Fate.VIOLATION
        one = Arrived(number, ts, key, len(self.arrived[stream]) + 1)
        self.arrived[stream].append(one)
        if key in self.over:
            return Fate.DROPPED
        if self.others_closed(stream, key):
            return Fate.PURGED_ON_THE_FLY
        return Fate.STORED if self.in_window(stream, one) else Fate.EXPIRED

    def stored(self, stream: int) -> set[int]:
        """Numbers of the tuples that must be stored, no more and no fewer."""
        kept = set()
        for one in self.arrived[stream]:
            if not self.in_window(stream, one) or self.others_closed(stream, one.key):
                continue
            if one.key not in self.over:
                kept.add(one.item)
        return kept


def brute_force(config: PWJoinConfig, items: list[Item], accepted: set[int]) -> list[tuple[int, ...]]:
    """All combinations of accepted tuples, without a thought about punctuations."""
    streams: list[list[tuple[int, int, int, int]]] = [[] for _ in config.windows]
    counted, ranks = [0] * config.streams, []
    for number, (_, stream, ts, key) in enumerate(items):
        ranks.append(list(counted))
        if number in accepted:
            counted[stream] += 1
            streams[stream].append((number, ts, key, counted[stream]))
    equal = (parts for parts in product(*streams) if len({part[2] for part in parts}) == 1)
    return sorted(tuple(part[0] for part in parts) for parts in equal if _allowed(config, parts, ranks))


def _allowed(config: PWJoinConfig, parts: tuple[tuple[int, int, int, int], ...], ranks: list[list[int]]) -> bool:
    newest = max(ts for _, ts, _, _ in parts)
    last = max(number for number, _, _, _ in parts)
    for stream, (number, ts, _, seq) in enumerate(parts):
        window = config.windows[stream]
        if isinstance(window, Sliding) and newest - ts > window.size:
            return False
        if isinstance(window, Rows) and window.size is not None and number != last:
            rank = ranks[last][stream]
            if not rank - window.size < seq <= rank:
                return False
    return True


class Stepper:
    """A join that is fed item by item."""

    def __init__(self, config: PWJoinConfig, items: list[Item]) -> None:
        self.join = PWJoin(config, keep_results=True)
        self.items = Items.of(items)
        self.fates = np.zeros(len(items), np.int8)
        self.results: list[tuple[int, ...]] = []
        #: Key and time.
        self.marks: list[tuple[int, int]] = []
        self.at = 0

    def step(self, count: int = 1) -> tuple[list[tuple[int, ...]], list[tuple[int, int]]]:
        """New results, and new punctuations."""
        self.join.process(self.items, self.fates, self.at, self.at + count)
        self.at += count
        out, seen = self.join.output(), (len(self.results), len(self.marks))
        self.results = [tuple(row) for row in out.results.tolist()]
        self.marks = list(zip(out.marks.lows.tolist(), out.marks.ts.tolist(), strict=True))
        return self.results[seen[0] :], self.marks[seen[1] :]

    def time_list(self, stream: int) -> list[int]:
        """Nodes of the time list of a stream."""
        memory, nodes = self.join.memory, []
        node = int(memory.streams[stream, lay.FIRST])
        while node != lay.NONE:
            nodes.append(node)
            node = int(memory.nodes[node, lay.TIME_NEXT])
        return nodes

    def stored(self) -> list[set[int]]:
        """Item numbers of the stored tuples of each stream."""
        items = self.join.memory.nodes[:, lay.ITEM]
        found = [{int(items[node]) for node in self.time_list(stream)} for stream in range(self.join.config.streams)]
        return [held - {lay.NONE} for held in found]


# -- items that may legally come ------------------------------------------------------------------------------------------

sizes = st.sampled_from([0, 1, 3, 7, None])
time_windows = sizes.map(lambda size: Unbounded() if size is None else Sliding(size))
row_windows = st.sampled_from([0, 1, 2, 4, None]).map(Rows)


def configs(streams: int, state: str = "cluster", rows: bool = False, **options: Any) -> st.SearchStrategy[PWJoinConfig]:
    window = st.one_of(time_windows, row_windows) if rows else time_windows
    return st.tuples(*[window] * streams).map(lambda windows: PWJoinConfig(windows, state, **options))  # type: ignore[arg-type]


def _raw(streams: int) -> st.SearchStrategy[tuple[Kind, int, int, int]]:
    kind = st.sampled_from([Kind.TUPLE] * 12 + [Kind.PUNCTUATION] * 5 + [Kind.HEARTBEAT, Kind.IDLE, Kind.REQUEST])
    key = st.sampled_from([1, 1, 1, 2, 2, 4])
    return st.tuples(kind, st.integers(0, streams - 1), st.sampled_from([0, 0, 1, 1, 2, 5]), key)


@st.composite
def ordered_items(draw: st.DrawFn, streams: int, violations: bool = False, most: int = 24) -> list[Item]:
    """Items of one global order: ties, idle streams, useless and duplicate punctuations."""
    least = draw(st.sampled_from([0, most // 2, most - 1]))
    items: list[Item] = []
    now = 0
    for kind, stream, step, key in draw(st.lists(_raw(streams), min_size=least, max_size=most)):
        now += step
        items.append((int(kind), stream, now, key))
    return items if violations else grammatical(items)


def grammatical(items: list[Item]) -> list[Item]:
    """Without the punctuations that a later tuple of their stream breaks."""
    return [item for at, item in enumerate(items) if item[0] != Kind.PUNCTUATION or not _is_broken(item, items[at + 1 :])]


def _is_broken(mark: Item, rest: list[Item]) -> bool:
    return any(kind == Kind.TUPLE and (stream, key) == (mark[1], mark[3]) for kind, stream, _, key in rest)
