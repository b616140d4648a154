"""A slow join that follows the definitions, not the algorithms: it judges the compiled cores after every item."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np

from penstock.model.elements import FOREVER, NEVER
from penstock.model.windows import Rows, Sliding, Unbounded
from penstock.operators.joins.pwjoin.config import JoinConfig
from penstock.operators.joins.pwjoin.core import JoinCore
from penstock.operators.joins.pwjoin.trace import GREATEST_KEY, LEAST_KEY, Fate, Items, Kind

KEYS = range(8)
Item = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Arrived:
    """A tuple that was accepted: number of its item, time, key and number in its stream."""

    item: int
    ts: int
    key: int | None
    seq: int


@dataclass
class Oracle:
    """Everything that must hold after each item, by definition."""

    config: JoinConfig
    now: int = NEVER
    arrived: list[list[Arrived]] = field(default_factory=list)
    announced: list[list[tuple[int, int]]] = field(default_factory=list)
    frontiers: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    over: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    purged_on_the_fly: set[int] = field(default_factory=set)
    trusted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        n = self.config.streams
        self.arrived, self.announced = [[] for _ in range(n)], [[] for _ in range(n)]
        self.frontiers, self.counted = [NEVER] * n, [0] * n

    def closed(self, stream: int, key: int) -> bool:
        return any(low <= key <= high for low, high in self.announced[stream])

    def others_closed(self, stream: int, key: int) -> bool:
        return all(self.closed(other, key) for other in range(self.config.streams) if other != stream)

    def horizon(self, stream: int) -> int:
        if self.config.clock == "global_order":
            return self.now
        return min(frontier for other, frontier in enumerate(self.frontiers) if other != stream)

    def in_window(self, stream: int, one: Arrived) -> bool:
        window, horizon = self.config.windows[stream], self.horizon(stream)
        if horizon == FOREVER:
            return False
        if isinstance(window, Rows):
            return window.size is None or one.seq > self.counted[stream] - window.size
        return isinstance(window, Unbounded) or one.ts + window.size >= horizon

    def live(self, stream: int, key: int) -> bool:
        return any(one.key == key and self.in_window(stream, one) for one in self.arrived[stream])

    def judge(self) -> None:
        """Which keys can have no result any more, and may say so."""
        streams = range(self.config.streams)
        for key in KEYS:
            by = [stream for stream in streams if self.closed(stream, key)]
            may_leave = self.config.early_propagation and any(not self.live(stream, key) for stream in by)
            if may_leave or len(by) == self.config.streams:
                self.over.add(key)

    def tick(self, kind: int, stream: int, ts: int) -> None:
        self.now = max(self.now, ts)
        if self.config.clock == "source_order" or (self.config.clock == "frontier" and kind == Kind.HEARTBEAT):
            self.frontiers[stream] = max(self.frontiers[stream], ts)
        self.judge()

    def step(self, number: int, item: Item) -> Fate | None:
        """The fate of the item; None where the definition leaves it open (metadata)."""
        kind, stream, ts, key, high = item
        is_tuple = kind in (Kind.TUPLE, Kind.NULL_KEY)
        frontier = self.now if self.config.clock == "global_order" else self.frontiers[stream]
        if is_tuple and ts < frontier:
            return Fate.LATE
        self.tick(kind, stream, ts)
        fate: Fate | None = None
        if kind == Kind.PUNCTUATION:
            self.announced[stream].append((key, high))
            if self.config.clock != "global_order" and (key, high) == (LEAST_KEY, GREATEST_KEY):
                self.frontiers[stream] = FOREVER
        elif is_tuple:
            fate = self.arrive(number, kind, stream, ts, key)
        self.judge()
        return fate

    def arrive(self, number: int, kind: int, stream: int, ts: int, key: int) -> Fate:
        trusted = kind == Kind.TUPLE and self.closed(stream, key)
        if trusted and self.config.on_violation != "trust_tuple":
            return Fate.VIOLATION
        self.counted[stream] += 1
        one = Arrived(number, ts, key if kind == Kind.TUPLE else None, self.counted[stream])
        if trusted:
            self.trusted.add(number)
            return Fate.TRUSTED
        self.arrived[stream].append(one)
        if kind == Kind.NULL_KEY:
            return Fate.NULL
        if key in self.over and self.config.drop:
            self.dropped.add(number)
            return Fate.DROPPED
        if self.others_closed(stream, key):
            return Fate.PURGED_ON_THE_FLY
        return Fate.STORED if self.in_window(stream, one) else Fate.EXPIRED

    def stored(self, stream: int) -> set[int]:
        """Numbers of the tuples that must be stored, no more and no fewer."""
        kept = set()
        for one in self.arrived[stream]:
            if one.key is None or not self.in_window(stream, one) or self.others_closed(stream, one.key):
                continue
            if one.key not in self.over:
                kept.add(one.item)
        return kept


def brute_force(config: JoinConfig, items: list[Item], accepted: set[int]) -> list[tuple[int, ...]]:
    """All combinations of accepted tuples, without a thought about punctuations."""
    streams: list[list[tuple[int, int, int, int]]] = [[] for _ in config.windows]
    counted, ranks = [0] * config.streams, []
    for number, (kind, stream, ts, key, _) in enumerate(items):
        ranks.append(list(counted))
        if number in accepted:
            counted[stream] += 1
            if kind == Kind.TUPLE:
                streams[stream].append((number, ts, key, counted[stream]))
    equal = (parts for parts in product(*streams) if len({part[2] for part in parts}) == 1)
    return sorted(tuple(part[0] for part in parts) for parts in equal if _allowed(config, parts, ranks))


def _allowed(config: JoinConfig, parts: tuple[tuple[int, int, int, int], ...], ranks: list[list[int]]) -> bool:
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
    """A core that is fed item by item."""

    def __init__(self, config: JoinConfig, items: list[Item]) -> None:
        self.core = JoinCore(config, collect=True)
        self.items = Items.of(items)
        self.fates = np.zeros(len(items), np.int8)
        self.rows = np.arange(len(items), dtype=np.int64)
        self.results: list[tuple[int, ...]] = []
        self.marks: list[tuple[int, int, int]] = []
        self.at = 0

    def step(self, count: int = 1) -> tuple[list[tuple[int, ...]], list[tuple[int, int, int]]]:
        """New results, and new punctuations as (low, high, time)."""
        self.core.process(self.items, self.rows, self.fates, self.at, self.at + count)
        self.at += count
        out = self.core.take_output()
        results = [tuple(row) for row in out.results.tolist()]
        marks = list(zip(out.marks.lows.tolist(), out.marks.highs.tolist(), out.marks.ts.tolist(), strict=True))
        self.results += results
        self.marks += marks
        return results, marks

    def stored(self) -> list[set[int]]:
        return [set(self.core.live_rows(stream).tolist()) for stream in range(self.core.config.streams)]


# -- items that may legally come ------------------------------------------------------------------------------------------

sizes = st.sampled_from([0, 1, 3, 7, None])
time_windows = sizes.map(lambda size: Unbounded() if size is None else Sliding(size))
row_windows = st.sampled_from([0, 1, 2, 4, None]).map(Rows)


def configs(streams: int, state: str = "cluster", rows: bool = False, **options: Any) -> st.SearchStrategy[JoinConfig]:
    window = st.one_of(time_windows, row_windows) if rows else time_windows
    return st.tuples(*[window] * streams).map(lambda windows: JoinConfig(windows, state, **options))  # type: ignore[arg-type]


def _raw(streams: int, ranges: bool) -> st.SearchStrategy[tuple[int, int, int, int, int]]:
    kind = st.sampled_from([Kind.TUPLE] * 12 + [Kind.PUNCTUATION] * 5 + [Kind.HEARTBEAT, Kind.NULL_KEY])
    width = st.sampled_from([0] * 8 + [1, 3, 99]) if ranges else st.just(0)
    key = st.sampled_from([1, 1, 1, 2, 2, 4])
    return st.tuples(kind, st.integers(0, streams - 1), st.sampled_from([0, 0, 1, 1, 2, 5]), key, width)


@st.composite
def ordered_items(
    draw: st.DrawFn, streams: int, ranges: bool = True, violations: bool = False, most: int = 24, lateness: bool = False
) -> list[Item]:
    """Items of one global order: ties, idle streams, useless, duplicate and overlapping punctuations, ends of streams."""
    least = draw(st.sampled_from([0, most // 2, most - 1]))
    raw = draw(st.lists(_raw(streams, ranges), min_size=least, max_size=most))
    items, now = [], 0
    for kind, stream, step, key, width in raw:
        now += step
        low, high = (LEAST_KEY, GREATEST_KEY) if width == 99 else (key, key + width)
        ts = now - 1 if lateness and step == 0 else now
        items.append((int(kind), stream, ts, low if kind == Kind.PUNCTUATION else key, high if kind == Kind.PUNCTUATION else key))
    return items if violations else grammatical(items)


def grammatical(items: list[Item]) -> list[Item]:
    """Without the punctuations that a later tuple of their stream breaks."""
    return [item for at, item in enumerate(items) if item[0] != Kind.PUNCTUATION or not _is_broken(item, items[at + 1 :])]


def _is_broken(mark: Item, rest: list[Item]) -> bool:
    is_end = mark[3:] == (LEAST_KEY, GREATEST_KEY)
    for kind, stream, _, key, _ in rest:
        if stream == mark[1] and ((kind == Kind.TUPLE and mark[3] <= key <= mark[4]) or (kind == Kind.NULL_KEY and is_end)):
            return True
    return False


@st.composite
def frontier_items(draw: st.DrawFn, streams: int, most: int = 24) -> list[Item]:
    """The same for frontiers: tuples of a stream come in any order that its heartbeats allow, streams in any interleaving."""
    items = draw(ordered_items(streams, most=most))
    lags = draw(st.lists(st.integers(0, 4), min_size=len(items), max_size=len(items)))
    order = sorted(range(len(items)), key=lambda at: (items[at][2] + lags[at], at))
    mixed = [items[at] for at in order]
    return grammatical([item for at, item in enumerate(mixed) if item[0] != Kind.HEARTBEAT or _is_promise(item, mixed[at:])])


def _is_promise(beat: Item, rest: list[Item]) -> bool:
    return all(ts >= beat[2] for kind, stream, ts, _, _ in rest if stream == beat[1] and kind in (Kind.TUPLE, Kind.NULL_KEY))
