"""Generators and slow references for PJoin over items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

from penstock.model.value_sets import ANY, Pattern, between, constant, one_of
from penstock.operators.joins.pjoin.config import Access, DiskJoin, ForgetClosed, PJoinConfig
from penstock.operators.joins.pjoin.registry import STANDARD, Condition, Event, Listener, Registry, Rule
from penstock.operators.joins.pjoin.trace import IDLE, PUNCTUATION, REQUEST, TUPLE, Items, Trace

#: Few: a bucket, a key, a partner on disk and its punctuation must meet.
KEYS = range(3)


def patterns() -> st.SearchStrategy[Pattern]:
    """Constants often, lists, ranges with all kinds of bounds, everything rarely: little would come after it."""
    value = st.integers(0, 3)
    narrow = st.tuples(value, st.integers(0, 2), st.booleans(), st.booleans()).map(
        lambda found: between(found[0], found[0] + found[1], found[2], found[3])
    )
    wide = st.sampled_from([ANY, between(None, 1), between(2, None), between(1, None, lo_inclusive=False), one_of([])])
    several = st.lists(value, min_size=1, max_size=3).map(one_of)
    return st.one_of(*[value.map(constant)] * 5, several, narrow, narrow, wide)


def ranges() -> st.SearchStrategy[Pattern]:
    """Two or three neighbouring keys: most of them overlap without one covering the other."""
    return st.tuples(st.integers(0, 2), st.integers(1, 2)).map(lambda found: between(found[0], sum(found)))


def entries(patterns: st.SearchStrategy[Pattern]) -> st.SearchStrategy[tuple[str, int, Any]]:
    stream = st.integers(0, 1)
    tuples = st.tuples(st.just("tuple"), stream, st.sampled_from(KEYS))
    marks = st.tuples(st.just("mark"), stream, patterns)
    others = st.tuples(st.sampled_from(["idle", "request"]), st.just(0), st.none())
    return st.one_of(*[tuples] * 7, marks, marks, others)


def as_items(entries: Sequence[tuple[str, int, Any]], violating: bool = False, ties: bool = True) -> Items:
    """Items of the entries; tuples that match an earlier punctuation of their stream are left out unless wanted."""
    known: tuple[list[Pattern], list[Pattern]] = ([], [])
    rows: list[tuple[int, int, int]] = []
    marks: dict[int, Pattern] = {}
    for kind, stream, value in entries:
        if kind == "tuple":
            if violating or not any(pattern.matches(value) for pattern in known[stream]):
                rows.append((TUPLE, stream, value))
        elif kind == "mark":
            known[stream].append(value)
            marks[len(rows)] = value
            rows.append((PUNCTUATION, stream, -1))
        else:
            rows.append((IDLE if kind == "idle" else REQUEST, 0, -1))
    items = Items.of(rows)
    ts = np.arange(len(rows)) // (2 if ties else 1)
    return Items(items.kind, items.stream, items.key, ts, marks)


@st.composite
def item_lists(draw: st.DrawFn, most: int = 36, violating: bool = False, ties: bool = True) -> Items:
    """Mostly long enough for rows to be spilled, purged and announced; sometimes nearly nothing."""
    least = draw(st.sampled_from([0, most // 2, most // 2, most // 2]))
    chosen = entries(draw(st.sampled_from([patterns(), patterns(), ranges()])))
    return as_items(draw(st.lists(chosen, min_size=least, max_size=most)), violating, ties)


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    """The standard ones, with and without disk joins before propagation, and arbitrary ones."""
    if draw(st.integers(0, 2)):
        name = draw(st.sampled_from([name for name in STANDARD if name != "xjoin"]))
        return STANDARD[name].with_spilled_state() if draw(st.booleans()) else STANDARD[name]
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
        "probe_access": draw(st.sampled_from(Access)),
        "purge_access": draw(st.sampled_from(Access)),
        "purge_threshold": draw(st.sampled_from([1, 2, 5, "auto"])),
        "memory_rows": draw(st.sampled_from([3, 4, 2, 6, 1, None])),
        "disk_join": draw(st.sampled_from(DiskJoin)),
        "activation_share": draw(st.sampled_from([0.01, 0.5])),
        "activation_least": draw(st.sampled_from([0.1, 1.0])),
        "propagate_count": draw(st.sampled_from([None, 1, 3])),
        "propagate_time": draw(st.sampled_from([None, 1, 4])),
        "registry": draw(registries()),
        "forget_closed": draw(st.sampled_from(ForgetClosed)),
        "expand_lists": draw(st.booleans()),
    }
    return PJoinConfig(**(chosen | fixed))


def changes() -> st.SearchStrategy[Mapping[str, Any]]:
    """What a control element may say."""
    return st.fixed_dictionaries(
        {},
        optional={
            "purge_threshold": st.sampled_from([1, 3, "auto"]),
            "memory_rows": st.sampled_from([None, 1, 4]),
            "propagate_count": st.sampled_from([None, 2]),
            "propagate_time": st.sampled_from([None, 2]),
            "activation_least": st.sampled_from([0.1, 5.0]),
            "registry": st.sampled_from(["reference", "eager", "eager_index", "pull", "time_push", "paired"]),
        },
    )


def brute_force(items: Items) -> list[tuple[int, int]]:
    """All pairs of tuples of equal key, as item numbers."""
    tuples = np.flatnonzero(items.kind == TUPLE)
    left = [at for at in tuples.tolist() if items.stream[at] == 0]
    right = [at for at in tuples.tolist() if items.stream[at] == 1]
    return sorted((a, b) for a in left for b in right if items.key[a] == items.key[b])


def pattern_of(items: Items, at: int) -> Pattern:
    return items.patterns.get(at, constant(int(items.key[at])))


def broken(items: Items, trace: Trace) -> list[str]:
    """Results that a punctuation before them in the output had excluded."""
    found = []
    keys = items.key[trace.pairs[:, 0]]
    said = zip(trace.announced.tolist(), trace.announced_key.tolist(), trace.announced_after.tolist(), strict=True)
    for source, key, after in said:
        pattern = constant(key) if key >= 0 else pattern_of(items, source)
        found += [f"{key} after {pattern}" for key in keys[after:].tolist() if pattern.matches(key)]
    return found
