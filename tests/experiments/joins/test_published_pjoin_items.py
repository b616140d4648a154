"""PJoin and XJoin over items: exactness and grammar for every configuration, tightness, conservation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import example, given, settings
from published_pjoin_cases import broken, brute_force, changes, configurations, is_closed, item_lists, pairs

from penstock.experiments.joins.items import Fate, Items, Kind
from penstock.experiments.joins.playing import play
from penstock.experiments.joins.xjoin_pjoin.config import PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.joins.xjoin_pjoin.registry import EAGER, Event, Listener, Registry, Rule

#: Lets punctuations go when enough time has passed, and only then.
BY_TIME = PJoinConfig(
    1, propagate_time=2, registry=Registry((Rule(Event.PROPAGATE_TIME_EXPIRED, (Listener.INDEX_BUILD, Listener.PROPAGATION)),))
)
#: Time passes within a run of tuples, and within the first one.
CLOSED, LATER = (Kind.PUNCTUATION, 0, 0, 0), [(Kind.TUPLE, 0, ts, 1) for ts in (0, 1, 2, 3)]


@given(items=item_lists(), config=configurations())
@settings(max_examples=200, deadline=None)
def test_p1_p2_p12_results_equal_brute_force_and_keep_every_promise_whatever_the_configuration(
    items: Items, config: PJoinConfig
) -> None:
    trace = play(PJoin(config, keep_results=True), items)
    assert pairs(trace) == brute_force(items)
    assert broken(items, trace) == []
    assert trace.totals["results"] == len(trace.results)


@given(items=item_lists(40), config=configurations(), controls=st.dictionaries(st.integers(0, 39), changes(), max_size=5))
@settings(max_examples=40, deadline=None)
def test_changes_at_run_time_change_no_answer(items: Items, config: PJoinConfig, controls: Mapping[int, Any]) -> None:
    class Changing(PJoin):
        def process(self, items: Items, fates: Any, start: int, stop: int) -> None:
            if start in controls:
                self.configure(replace(self.config, **controls[start]))
            super().process(items, fates, start, stop)

    trace = play(Changing(config, keep_results=True), items)
    assert pairs(trace) == brute_force(items)
    assert broken(items, trace) == []


@given(items=item_lists(), config=configurations(uses_punctuations=False))
@settings(max_examples=40, deadline=None)
def test_xjoin_is_exact_with_full_and_partial_disk_joins(items: Items, config: PJoinConfig) -> None:
    trace = play(PJoin(config, keep_results=True), items)
    assert pairs(trace) == brute_force(items)
    assert len(trace.marks) == 0
    assert trace.totals["purged_on_the_fly"] == 0


@given(items=item_lists(), config=configurations(purge_threshold=1, memory_rows=None, registry=EAGER))
@settings(max_examples=40, deadline=None)
def test_p4_after_each_item_an_eager_purge_has_left_no_useless_tuple(items: Items, config: PJoinConfig) -> None:
    trace = play(PJoin(config), items)
    for last in range(len(items)):
        alive = [0, 0]
        for at in np.flatnonzero(items.kinds[: last + 1] == Kind.TUPLE).tolist():
            stream = int(items.streams[at])
            alive[stream] += not is_closed(items, 1 - stream, int(items.keys[at]), last + 1)
        assert trace.state[last].tolist() == alive


@given(items=item_lists(violating=True), config=configurations())
@settings(max_examples=40, deadline=None)
def test_p11_every_tuple_is_stored_purged_or_refused(items: Items, config: PJoinConfig) -> None:
    trace = play(PJoin(config), items)
    arrived = np.cumsum(items.kinds == Kind.TUPLE)
    known = trace.state.sum(axis=1) + trace.samples["purged"] + trace.samples["purged_on_the_fly"]
    assert (arrived - known).tolist() == trace.samples["violations"].tolist()
    assert np.cumsum(trace.fates == Fate.VIOLATION).tolist() == trace.samples["violations"].tolist()


@given(items=item_lists(violating=True), config=configurations())
@settings(max_examples=40, deadline=None)
def test_refused_tuples_leave_no_trace_in_the_answer(items: Items, config: PJoinConfig) -> None:
    lawful = {at for at in range(len(items)) if not is_closed(items, int(items.streams[at]), int(items.keys[at]), at)}
    trace = play(PJoin(config, keep_results=True), items)
    assert pairs(trace) == [pair for pair in brute_force(items) if set(pair) <= lawful]
    assert broken(items, trace) == []


@given(items=item_lists(40), config=configurations())
@example(items=Items.of([CLOSED, *LATER]), config=BY_TIME)
@example(items=Items.of([*LATER[:2], (Kind.PUNCTUATION, 0, 1, 0), (Kind.TUPLE, 0, 2, 1)]), config=BY_TIME)
@settings(max_examples=40, deadline=None)
def test_a_run_in_pieces_is_the_run_as_a_whole(items: Items, config: PJoinConfig) -> None:
    each = play(PJoin(config, keep_results=True), items)
    whole = play(PJoin(config, keep_results=True), items, items.ts[-1:])
    assert each.totals == whole.totals
    assert each.results.tolist() == whole.results.tolist()
    assert each.fates.tolist() == whole.fates.tolist()
    assert each.state[-1:].tolist() == whole.state.tolist()
    assert each.marks.lows.tolist() == whole.marks.lows.tolist()
    assert each.marks.items.tolist() == whole.marks.items.tolist()
