"""Generators and slow references for PJoin over items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

from penstock.experiments.joins.items import GREATEST_KEY, LEAST_KEY, Items, Kind, Trace
from penstock.experiments.joins.xjoin_pjoin.config import Access, DiskJoin, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.registry import STANDARD, Condition, Event, Listener, Registry, Rule

#: Few: a bucket, a key, a partner on disk and its punctuation must meet.
KEYS = range(3)
Range = tuple[int, int]


def closings() -> st.SearchStrategy[Range]:
    """Single keys often, ranges, everything rarely: little would come after it."""
    value = st.integers(0, 3)
    narrow = st.tuples(value, st.integers(0, 2)).map(lambda found: (found[0], sum(found)))
    wide = st.sampled_from([(LEAST_KEY, GREATEST_KEY), (LEAST_KEY, 1), (2, GREATEST_KEY)])
    return st.one_of(*[value.map(lambda key: (key, key))] * 6, narrow, narrow, wide)


def overlapping() -> st.SearchStrategy[Range]:
    """Two or three neighbouring keys: most of them overlap without one covering the other."""
    return st.tuples(st.integers(0, 2), st.integers(1, 2)).map(lambda found: (found[0], sum(found)))


def entries(closings: st.SearchStrategy[Range]) -> st.SearchStrategy[tuple[Kind, int, Range]]:
    stream = st.integers(0, 1)
    tuples = st.tuples(st.just(Kind.TUPLE), stream, st.sampled_from(KEYS).map(lambda key: (key, key)))
    marks = st.tuples(st.just(Kind.PUNCTUATION), stream, closings)
    others = st.tuples(st.sampled_from([Kind.IDLE, Kind.REQUEST, Kind.HEARTBEAT]), st.just(0), st.just((0, 0)))
    return st.one_of(*[tuples] * 7, marks, marks, others)


def as_items(entries: Sequence[tuple[Kind, int, Range]], violating: bool = False) -> Items:
    """Items of the entries, two at a time; tuples that break an earlier punctuation are left out unless wanted."""
    known: tuple[list[Range], list[Range]] = ([], [])
    rows: list[tuple[int, ...]] = []
    for kind, stream, (low, high) in entries:
        if kind == Kind.PUNCTUATION:
            known[stream].append((low, high))
        elif kind == Kind.TUPLE and not violating and any(first <= low <= last for first, last in known[stream]):
            continue
        rows.append((kind, stream, len(rows) // 2, low, high))
    return Items.of(rows)


@st.composite
def item_lists(draw: st.DrawFn, most: int = 36, violating: bool = False) -> Items:
    """Mostly long enough for tuples to be spilled, purged and announced; sometimes nearly nothing."""
    least = draw(st.sampled_from([0, most // 2, most // 2, most // 2]))
    chosen = entries(draw(st.sampled_from([closings(), closings(), overlapping()])))
    return as_items(draw(st.lists(chosen, min_size=least, max_size=most)), violating)


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    """The standard ones, with and without disk joins before propagation, and arbitrary ones."""
    if draw(st.integers(0, 2)):
        registry = STANDARD[draw(st.sampled_from(list(STANDARD)))]
        return registry.with_spilled_state() if draw(st.booleans()) else registry
    rule = st.builds(
        Rule,
        st.sampled_from(Event),
        st.lists(st.sampled_from(Listener), min_size=1, max_size=3).map(tuple),
        st.sampled_from(Condition),
    )
    # Whoever is full must be able to make room, or nothing would be spilled.
    relocation = Rule(Event.STATE_FULL, (Listener.STATE_RELOCATION,))
    return Registry((*draw(st.lists(rule, max_size=6)), relocation))


@st.composite
def configurations(draw: st.DrawFn, **fixed: Any) -> PJoinConfig:
    """Every parameter at its extremes: one bucket, memory for one tuple, all registries."""
    chosen: dict[str, Any] = {
        "buckets": draw(st.sampled_from([1, 2, 64])),
        "purge_access": draw(st.sampled_from(Access)),
        "purge_threshold": draw(st.sampled_from([1, 2, 5])),
        "memory_rows": draw(st.sampled_from([3, 4, 2, 6, 1, None])),
        "disk_join": draw(st.sampled_from(DiskJoin)),
        "activation_share": draw(st.sampled_from([0.01, 0.5])),
        "activation_least": draw(st.sampled_from([0.1, 1.0])),
        "propagate_count": draw(st.sampled_from([None, 1, 3])),
        "propagate_time": draw(st.sampled_from([None, 1, 4])),
        "registry": draw(registries()),
    }
    return PJoinConfig(**(chosen | fixed))


def changes() -> st.SearchStrategy[Mapping[str, Any]]:
    """What may change while a join runs."""
    return st.fixed_dictionaries(
        {},
        optional={
            "purge_threshold": st.sampled_from([1, 3]),
            "memory_rows": st.sampled_from([None, 1, 4]),
            "propagate_count": st.sampled_from([None, 2]),
            "propagate_time": st.sampled_from([None, 2]),
            "activation_least": st.sampled_from([0.1, 5.0]),
            "registry": st.sampled_from([registry.with_spilled_state() for registry in STANDARD.values()]),
        },
    )


def brute_force(items: Items) -> list[tuple[int, int]]:
    """All pairs of tuples of equal key, as item numbers."""
    tuples = np.flatnonzero(items.kinds == Kind.TUPLE)
    left, right = (tuples[items.streams[tuples] == stream].tolist() for stream in (0, 1))
    return sorted((a, b) for a in left for b in right if items.keys[a] == items.keys[b])


def pairs(trace: Trace) -> list[tuple[int, int]]:
    """The results, sorted."""
    return sorted((left, right) for left, right in trace.results.tolist())


def is_closed(items: Items, stream: int, key: int, before: int) -> bool:
    """Whether a stream has closed a key in the items before one."""
    part = slice(0, before)
    marks = (items.kinds[part] == Kind.PUNCTUATION) & (items.streams[part] == stream)
    return bool((marks & (items.keys[part] <= key) & (key <= items.highs[part])).any())


def broken(items: Items, trace: Trace) -> list[str]:
    """Results that a punctuation before them in the output had excluded."""
    keys = items.keys[trace.results[:, 0]]
    marks = zip(trace.marks.lows.tolist(), trace.marks.highs.tolist(), trace.marks.after.tolist(), strict=True)
    return [f"{key} after {low} to {high}" for low, high, after in marks for key in keys[after:].tolist() if low <= key <= high]
