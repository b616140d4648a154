"""PJoin and XJoin over items: exactness and grammar for every configuration, tightness, conservation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from pjoin_cases import (
    broken,
    brute_force,
    changes,
    configurations,
    item_lists,
    pattern_of,
)

from penstock.model.declarations import RowPolicy
from penstock.operators.joins.pjoin.config import ForgetClosed, PJoinConfig
from penstock.operators.joins.pjoin.items import ItemRun, run_items
from penstock.operators.joins.pjoin.registry import EAGER
from penstock.operators.joins.pjoin.trace import PUNCTUATION, TUPLE, Items, Trace

# Random registries often have no rule that purges.
pytestmark = pytest.mark.filterwarnings("ignore:no rule of the registry purges")


def pairs(trace: Trace) -> list[tuple[int, int]]:
    return sorted(map(tuple, trace.pairs.tolist()))


@given(items=item_lists(), config=configurations())
@settings(max_examples=200, deadline=None)
def test_p1_p2_p12_results_equal_brute_force_and_keep_every_promise_whatever_the_configuration(
    items: Items, config: PJoinConfig
) -> None:
    trace = run_items(config, items, keep_pairs=True)
    assert pairs(trace) == brute_force(items)
    assert broken(items, trace) == []
    assert trace.totals["results"] == len(trace.pairs)


@given(items=item_lists(40), config=configurations(), controls=st.dictionaries(st.integers(0, 39), changes(), max_size=5))
@settings(max_examples=40, deadline=None)
def test_changes_at_run_time_change_no_answer(items: Items, config: PJoinConfig, controls: Mapping[int, Any]) -> None:
    changed = replace(items, controls={at: change for at, change in controls.items() if at < len(items)})
    trace = run_items(config, changed, keep_pairs=True)
    assert pairs(trace) == brute_force(items)
    assert broken(items, trace) == []


@given(items=item_lists(), config=configurations(uses_punctuations=False))
@settings(max_examples=40, deadline=None)
def test_xjoin_is_exact_with_full_and_partial_disk_joins(items: Items, config: PJoinConfig) -> None:
    trace = run_items(config, items, keep_pairs=True)
    assert pairs(trace) == brute_force(items)
    assert len(trace.announced) == 0
    assert trace.totals["purged_on_the_fly"] == 0


@given(items=item_lists(), config=configurations(purge_threshold=1, memory_rows=None, registry=EAGER))
@settings(max_examples=40, deadline=None)
def test_p4_after_each_item_an_eager_purge_has_left_no_useless_tuple(items: Items, config: PJoinConfig) -> None:
    trace = run_items(config, items)
    for last in range(len(items)):
        alive = [0, 0]
        for at in range(last + 1):
            stream = items.stream[at]
            closing = [
                pattern_of(items, mark)
                for mark in range(last + 1)
                if items.kind[mark] == PUNCTUATION and items.stream[mark] != stream
            ]
            if items.kind[at] == TUPLE:
                alive[stream] += not any(pattern.matches(int(items.key[at])) for pattern in closing)
        assert trace.state_rows[last].tolist() == alive


@given(items=item_lists(violating=True), config=configurations(), policy=st.sampled_from([RowPolicy.TRUST, RowPolicy.QUARANTINE]))
@settings(max_examples=40, deadline=None)
def test_p11_every_tuple_is_stored_purged_or_refused(items: Items, config: PJoinConfig, policy: RowPolicy) -> None:
    trace = run_items(replace(config, on_violation=policy), items, finish=False)
    arrived = np.cumsum(items.kind == TUPLE)
    known = trace.state_rows.sum(axis=1) + trace.counters["purged"] + trace.counters["purged_on_the_fly"]
    refused = arrived - known
    assert np.all(np.diff(refused) >= 0)
    assert np.all(refused >= 0)
    if len(items):
        assert refused[-1] == (trace.totals["violations"] if policy is RowPolicy.QUARANTINE else 0)
    if policy is RowPolicy.TRUST:
        assert trace.totals["trusted"] == trace.totals["violations"]


@given(items=item_lists(violating=True), config=configurations(on_violation=RowPolicy.QUARANTINE))
@settings(max_examples=40, deadline=None)
def test_quarantined_tuples_leave_no_trace_in_the_answer(items: Items, config: PJoinConfig) -> None:
    known: tuple[list[Any], list[Any]] = ([], [])
    lawful = []
    for at in range(len(items)):
        stream = items.stream[at]
        if items.kind[at] == PUNCTUATION:
            known[stream].append(pattern_of(items, at))
        elif items.kind[at] == TUPLE and not any(pattern.matches(int(items.key[at])) for pattern in known[stream]):
            lawful.append(at)
    # What is forgotten cannot be noticed when it comes again.
    trace = run_items(replace(config, forget_closed=ForgetClosed.NEVER), items, keep_pairs=True)
    assert pairs(trace) == [pair for pair in brute_force(items) if set(pair) <= set(lawful)]
    assert broken(items, trace) == []


@given(items=item_lists(40), config=configurations(), cut=st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_a_run_in_pieces_is_the_run_as_a_whole(items: Items, config: PJoinConfig, cut: int) -> None:
    cut = min(cut, len(items))
    run = ItemRun(config)
    for start, stop in ((0, cut), (cut, len(items))):
        marks = {at - start: pattern for at, pattern in items.patterns.items() if start <= at < stop}
        parts = (column[start:stop] for column in (items.kind, items.stream, items.key, items.ts))
        run.feed(Items(*parts, marks))
    run.finish()
    found, whole = run.trace(keep_pairs=True), run_items(config, items, keep_pairs=True)
    assert found.totals == whole.totals
    assert found.pairs.tolist() == whole.pairs.tolist()
    assert found.state_rows.tolist() == whole.state_rows.tolist()
    assert found.announced.tolist() == whole.announced.tolist()
