"""Closed values as a log of segments: what comes back is what was known, and few bytes are written for few new values."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from penstock.metadata.announcements import Announcements
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import between, one_of, one_of_array
from penstock.operators.joins.forgetting.announcement_log import AnnouncementLog

NUMBERS, TEXTS = Schema.of(k=pa.int64()), Schema.of(k=pa.string())


def mark_of(values: list[Any]) -> Punctuation:
    return Punctuation(("k",), (one_of(values),))


@given(
    st.sampled_from([NUMBERS, TEXTS]),
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(st.integers(0, 40), min_size=1, max_size=5)),
            st.tuples(st.just("prune"), st.lists(st.integers(0, 40), min_size=1, max_size=5)),
            st.tuples(st.sampled_from(["snapshot", "restart"]), st.just([])),
        ),
        max_size=30,
    ),
)
@settings(max_examples=150, deadline=None)
def test_what_was_known_comes_back_after_any_changes(schema: Schema, steps: list[tuple[str, list[int]]]) -> None:
    log = AnnouncementLog("closed", schema)
    for kind, numbers in steps:
        values: list[Any] = numbers if schema is NUMBERS else list(map(str, numbers))
        if kind == "add":
            log.add_beyond(mark_of(values))
        elif kind == "prune":
            gone = Announcements(schema)
            gone.add(mark_of(values))
            log.prune(gone)
        elif kind in ("snapshot", "restart"):
            meta, segments = log.snapshot()
            if kind == "restart":
                log = AnnouncementLog("closed", schema)
                log.restore(json.loads(json.dumps(meta)), segments)
    again = AnnouncementLog("closed", schema).restore(*log.snapshot())
    for number in range(41):
        row = {"k": number if schema is NUMBERS else str(number)}
        assert again.contains(row) == log.known.contains(row)


def test_ranges_come_back_too() -> None:
    log = AnnouncementLog("closed", NUMBERS)
    for mark in (Punctuation(("k",), (between(3, 9),)), Punctuation(("k",), (between(20, None),))):
        assert log.add_beyond(mark) == mark
    again = AnnouncementLog("closed", NUMBERS).restore(*log.snapshot())
    assert [number for number in range(25) if again.contains({"k": number})] == [3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24]


def test_a_snapshot_writes_what_is_new_and_few_segments_stay() -> None:
    log = AnnouncementLog("closed", NUMBERS)
    written, before = 0, set[str]()
    for step in range(100):
        mark = Punctuation(("k",), (one_of_array(pa.array(range(step * 1_000, step * 1_000 + 1_000, 2))),))
        log.add_beyond(mark)
        _, segments = log.snapshot()
        written += sum(part.nbytes for name, part in segments.items() if name not in before)
        before = set(segments)
        assert len(segments) <= 12
    whole = sum(part.nbytes for part in segments.values())
    assert written < 10 * whole  # each value is written again a few times only


def test_values_that_close_up_are_one_range_in_the_log() -> None:
    log = AnnouncementLog("closed", NUMBERS)
    for step in range(50):
        mark = Punctuation(("k",), (one_of_array(pa.array(range(step * 1_000, step * 1_000 + 1_000))),))
        log.add_beyond(mark)
        _, segments = log.snapshot()
    assert sum(part.nbytes for part in segments.values()) < 200
