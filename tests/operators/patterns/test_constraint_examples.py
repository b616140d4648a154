"""Worked examples of constraints on the operator: when traces are given up, what is kept, and what breaks a constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pattern_cases import SCHEMA, events, query, read, texts

from penstock.errors import ConstraintViolated, NeverMatches
from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.clauses import Constraint, at_most_once, exclusive, horn, prior, require, terminal
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, NEVER, Heartbeat, Quarantined
from penstock.model.event_patterns import LastRun, Strategy, absent, atom, both, either, seq
from penstock.operators.patterns import _scan
from penstock.operators.patterns._events import Horizon, Search
from penstock.operators.patterns.operator import PatternMatch
from penstock.operators.patterns.pattern_engine import PatternEngine
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of

TYPES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Played:
    """What the operator did after each time: matches so far, events kept, and what it set aside."""

    def __init__(
        self, sought: EventQuery, text: str, *rules: Constraint, prices: Sequence[int] = (), types: Any = TYPES, **options: Any
    ) -> None:
        self.rows = events(text, prices)
        constraints = ConstraintSet(("id",), tuple(types), rules, options.pop("is_trusted", True))
        self.search = PatternMatch(sought, SCHEMA, constraints=constraints, **options)
        self.found: dict[int, list[str]] = {}
        self.kept: dict[int, int] = {}
        self.refused: list[str] = []
        for time in dict.fromkeys(row.ts for row in self.rows):
            self.search.on_batch(0, batch_of([row for row in self.rows if row.ts == time], SCHEMA))
            self._to(sought, time)

    def _to(self, sought: EventQuery, time: int) -> None:
        out = self.search.on_metadata(0, Heartbeat(time + 1))
        self.found[time] = texts(sought, self.rows, read(sought, out))
        self.kept[time] = self.search.counters()["kept_events"]
        self.refused += [each.text for each in out if isinstance(each, Quarantined)]

    @property
    def matches(self) -> list[str]:
        return sorted(text for found in self.found.values() for text in found)

    def __getitem__(self, name: str) -> int:
        return self.search.counters()[name]


def test_types_that_only_constraints_declare_are_not_unknown() -> None:
    played = Played(query(seq("A", "B")), "a1 c2 x3 b4 y5", prior("B", "X"), types=("A", "B", "C", "X"))
    assert played["events_unknown_type"] == 1


def test_a_g5_active_instance_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    sought = query(seq("A", "B", "D"))
    engine = PatternEngine(sought, SCHEMA)
    rows: list[Row] = events("a1 c2 b3 a4 d5 b6 d7")
    batch = batch_of(rows, SCHEMA)
    columns = engine.extra_columns(batch.rows, engine.classify(batch.rows)[0])
    stored = batch.with_rows(batch.rows.append_column("_class", columns[0]))
    order, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    traced, _ = engine._events(stored, none, order, Horizon(NEVER, FOREVER), None)
    search = Search(traced, engine._values(stored.rows, order), engine._tables[0], engine.rules, engine._programs, engine._scratch)
    sizes = [np.zeros(3, np.int64) for _ in range(3)]
    stacks = _scan.Stacks(np.empty((3, 7), np.int64), np.empty((2, 7), np.int64), *sizes)
    monkeypatch.setattr(_scan, "_is_enabled", _scan._is_enabled.py_func)  # type: ignore[attr-defined]
    at, keep = 0, np.zeros(len(rows), np.int64)
    while at < len(rows):
        at = _scan._push_group.py_func(search, stacks, at, len(rows), 2, False, keep)  # type: ignore[attr-defined]
    names = [f"{row.values['type'].lower()}{row.ts}" for row in rows]
    shown = [[names[event] for event in stacks.items[place, : stacks.top[place]]] for place in range(3)]
    assert shown == [["a1", "a4"], ["b3", "b6"], ["d5", "d7"]]
    # The most recent earlier instance is the one below the height that was noted.
    assert [shown[0][height - 1] for height in stacks.heights[0, :2]] == ["a1", "a4"]
    assert [shown[1][height - 1] for height in stacks.heights[1, :2]] == ["b3", "b6"]


EP1 = seq(both(seq(atom("O", "o"), atom("Q", "q")), seq(atom("R", "r"), atom("I", "i"))), atom("C", "c"))


def test_b_g1_the_excluded_stock_fails_the_order() -> None:
    played = Played(query(EP1, "q.p > 200"), "o1 i2 l3", exclusive("L", "R"))
    assert (played.kept[1], played.kept[3]) == (1, 0)
    assert played["failed_traces"] == 1


def test_b_g2_no_quote_above_the_limit_before_it_is_sent() -> None:
    rules, sought = (prior("Q", "S"),), query(EP1, "q.p > 200")
    low = Played(sought, "o1 q2 r3 q4 i5 q6 s7", *rules, prices=[0, 150, 0, 180, 0, 200, 0])
    assert (low.kept[6], low.kept[7]) == (3, 0)
    one = Played(sought, "o1 q2 r3 q4 i5 q6 s7 c8", *rules, prices=[0, 250, 0, 180, 0, 200, 0, 0])
    assert one.matches == ["o1 q2 r3 i5 c8"]
    two = Played(sought, "o1 q2 r3 q4 i5 q6 s7 c8", *rules, prices=[0, 250, 0, 280, 0, 200, 0, 0])
    assert len(two.matches) == 2


def test_b_g5_order_and_requirement_together() -> None:
    rules = (prior("A", "B"), require("C", "A"), terminal("Z"))
    sought = query(seq("D", "C"), within=None, terminal=("Z",))
    assert Played(sought, "d1 b2", *rules).kept == {1: 1, 2: 0}
    assert Played(sought, "d1 a2 b3 c4", *rules).matches == ["d1 c4"]


def test_b_g7_a_required_event_without_a_legal_position_is_found_by_exact_reasoning() -> None:
    rules = (require("Z", "W"), prior("B", "W"), prior("W", "A"))
    for sought in (query(seq("A", "B"), within=None, terminal=("E",)), query(seq("A", "B"), trace_ttl=50)):
        assert Played(sought, "z1", *rules)["failed_traces"] == 0
        exact = Played(sought, "z1 a2", *rules, options=ConditionOptions(exact=True))
        assert (exact["failed_traces"], exact["skipped"], exact.kept[2]) == (1, 1, 0)
    # A trace that is forgotten when it leaves the window may have had its W before.
    assert Played(query(seq("A", "B")), "z1", *rules, options=ConditionOptions(exact=True))["failed_traces"] == 0


def test_b_g9_prior_is_not_transitive() -> None:
    assert Played(query(seq("C", "A")), "c1 a2", prior("A", "B"), prior("B", "C")).matches == ["c1 a2"]


def test_b_g10_conditions_are_asked_after_all_simultaneous_events() -> None:
    assert Played(query(seq("Z", "A")), "z1 b5 a5", prior("A", "B")).matches == ["z1 a5"]


def test_b_g11_a_requirement_that_can_no_longer_be_met() -> None:
    rules = (prior("K", "X"), require("E", "K"))
    sought = query(seq("E", "F"), within=None, terminal=("Z",))
    assert Played(sought, "x1", *rules)["failed_traces"] == 1
    assert Played(sought, "k1 x2", *rules)["failed_traces"] == 0


def test_b_g12_exclusion_is_inherited_along_requirements() -> None:
    assert Played(query(seq("D", "E")), "d1 j2", require("J", "K"), exclusive("K", "E"))["failed_traces"] == 1
    assert Played(query(seq("D", "E")), "d1 j2", require("E", "A"), exclusive("A", "B"), require("J", "B"))["failed_traces"] == 1


G13 = seq("A", either(seq("B", "C"), "D"), either("E", seq("F", "G"), "H"), "I")


@pytest.mark.parametrize(("mode", "failed"), [("hierarchy", 0), ("mask", 1)])
def test_b_g13_the_mask_knows_which_branches_go_together(mode: Any, failed: int) -> None:
    rules = (exclusive("D", "H"), exclusive("X", "B"), exclusive("Y", "E"), exclusive("Y", "F"))
    played = Played(query(G13), "a1 x2 y3", *rules, options=ConditionOptions(disjunctions=mode))
    assert played["failed_traces"] == failed


@pytest.mark.parametrize("mode", ["hierarchy", "mask"])
def test_b_g13_events_of_a_failed_branch_are_dropped(mode: Any) -> None:
    rules = (exclusive("X", "C"),)
    played = Played(query(G13), "a1 b2 x3 b4 d5 e6 i7", *rules, options=ConditionOptions(disjunctions=mode))
    assert (played.kept[2], played.kept[3], played.kept[4]) == (2, 1, 1)
    assert played.matches == ["a1 d5 e6 i7"]


def test_b_g14_an_event_that_occurs_once_and_fails_its_leaf() -> None:
    sought = query(seq(atom("A", "a"), atom("B", "b")), "b.p > 200")
    assert Played(sought, "a1 b2", at_most_once("B"), prices=[0, 150]).kept[2] == 0
    as_published = ConditionOptions(reflexive=False, suffixes=False)
    late = Played(sought, "a1 b2 s3", at_most_once("B"), prior("B", "S"), prices=[0, 150, 0], options=as_published)
    assert (late.kept[2], late.kept[3]) == (1, 0)


def test_b_g15_a_trace_that_matched_is_released_when_its_last_type_cannot_come() -> None:
    played = Played(query(seq("A", "B")), "a1 b2 x3 a4", prior("B", "X"))
    assert played.matches == ["a1 b2"]
    assert (played.kept[3], played.kept[4], played["exhausted_traces"], played["skipped"]) == (0, 0, 1, 1)
    as_published = ConditionOptions(exhaustion=False, suffixes=False)
    without = Played(query(seq("A", "B")), "a1 b2 x3 a4", prior("B", "X"), options=as_published)
    assert without.kept[4] == 2


def test_b_g16_the_match_behind_a_type_that_cannot_come_any_more() -> None:
    played = Played(query(seq("A", "B", "C")), "a1 b2 a3 x4 a5 c6", prior("B", "X"))
    assert played.matches == ["a1 b2 c6"]
    assert (played.kept[3], played.kept[4], played.kept[5], played["cut_events"]) == (3, 2, 2, 2)
    as_published = Played(query(seq("A", "B", "C")), "a1 b2 a3 x4 c5", prior("B", "X"), options=ConditionOptions(suffixes=False))
    assert (as_published.matches, as_published.kept[4], as_published["cut_events"]) == (["a1 b2 c5"], 3, 0)


def test_events_that_wait_for_one_of_several_alternatives_stay() -> None:
    sought = query(seq("A", either("B", seq("C", "D"))))
    assert Played(sought, "a1 c2 x3", prior("C", "X"), prior("B", "Y")).kept[3] == 2
    sure = query(seq("A", "B", either("C", "D")))
    assert Played(sure, "a1 b2 a3 x4 d5", prior("B", "X")).kept[4] == 2


def test_an_event_that_comes_too_late_for_what_was_dropped_is_not_used_and_says_so() -> None:
    rules, sought = prior("B", "X"), query(seq("A", "B", "C"))
    played = Played(sought, "a1 b2 a3 x4 b5 c6", rules)
    assert played.matches == ["a1 b2 c6"]
    (text,) = played.refused
    assert text.startswith("order: B with X")
    assert "matches of it may be missing" in text
    shadow = Played(sought, "a1 b2 a3 x4 b5 c6", rules, on_violation=ViolationPolicy.SHADOW)
    assert (shadow.matches, shadow["lost"]) == (["a1 b2 c6", "a1 b5 c6", "a3 b5 c6"], 2)


def test_b_g17_what_has_left_the_window_is_not_kept() -> None:
    played = Played(query(seq("A", "B"), within=5), "a1 x3 b9", prior("A", "X"))
    assert (played.matches, played.kept[3], played.kept[9], played["failed_traces"]) == ([], 1, 0, 0)


def test_b_g18_an_absence_is_settled_when_the_type_cannot_come() -> None:
    sought = query(seq("A", "B", absent("N")), within=10)
    assert Played(sought, "a1 b2 x3", prior("N", "X")).found[3] == ["a1 b2"]
    assert Played(sought, "a1 b2 x3 y12", prior("N", "W")).found == {1: [], 2: [], 3: [], 12: ["a1 b2"]}


def test_a_match_that_waits_for_an_absence_outlives_an_exhausted_trace() -> None:
    sought = query(seq("A", "B", absent("N")), within=10)
    played = Played(sought, "a1 b2 a3 x4 z13", prior("B", "X"))
    assert played["exhausted_traces"] == 1
    # The events of the waiting match stay, the start of another one does not.
    assert (played.kept[3], played.kept[4]) == (3, 2)
    assert played.found[13] == ["a1 b2"]


def test_d_5_two_events_together_fail_a_query() -> None:
    played = Played(query(seq("X", "C")), "x1 a2 b3", horn("A", "B", "C"))
    assert (played.kept[2], played.kept[3], played["failed_traces"]) == (1, 0, 1)


# -- trace end and policies -----------------------------------------------------------------------------------------------


def test_a_terminal_event_ends_the_trace_and_a_key_may_come_again() -> None:
    played = Played(query(seq("A", "B"), within=None, terminal=("Z",)), "a1 z2 b3 a4 b5", terminal("Z"))
    assert played.matches == ["a4 b5"]
    assert played.refused == []


def test_what_comes_after_the_end_of_a_trace_breaks_the_constraint_where_keys_are_not_used_again() -> None:
    played = Played(query(seq("A", "B")), "a1 z2 b3 b4", terminal("Z"))
    assert played.matches == []
    assert (
        played.refused
        == ["order: B with Z: no B comes after a Z by terminal(Z); the trace has been given up, matches of it may be missing"] * 2
    )
    assert (played.kept[1], played.kept[2], played["ended_traces"]) == (1, 0, 1)


def test_the_end_of_a_trace_is_forgotten_when_no_match_can_reach_over_it() -> None:
    played = Played(query(seq("A", "B"), within=3), "a1 z2 a6 b7", terminal("Z"))
    assert (played.matches, played.refused) == (["a6 b7"], [])


def test_a_trace_that_a_constraint_ends_is_complained_of_once() -> None:
    sought = query(seq("A", "B"), within=None, terminal=("Y",))
    played = Played(sought, "a1 z2 z3 y4 a5 b6 z7 y8", require("A", "C"), terminal("Z"))
    assert played.matches == ["a5 b6"]
    assert [text.split(":")[0] for text in played.refused] == ["missing", "order", "order", "missing", "order"]


def test_in_the_shadow_a_match_over_the_end_of_a_trace_is_found_and_counted() -> None:
    played = Played(query(seq("A", "B")), "a1 z2 b3", terminal("Z"), on_violation=ViolationPolicy.SHADOW)
    assert (played.matches, played["lost"], played["violations"]) == (["a1 b3"], 1, 1)


def test_a_match_that_was_released_too_early_is_said_to_be_false_perhaps() -> None:
    played = Played(query(seq("A", absent("N", "n")), within=10), "a1 x2 n3 z30", prior("N", "X"))
    assert played.found[2] == ["a1"]
    assert played.refused == [
        "order: N with X: no N comes after a X by prior(N, X); its matches no longer waited for such an event, so that one of "
        "them may be false"
    ]


def test_a_list_that_was_cut_short_is_said_to_be_false_perhaps() -> None:
    longest = query(atom("A", "a", "+"), strategy=Strategy.NEXT, last_run=LastRun.MAXIMAL, within=10)
    played = Played(longest, "a1 x2 a3 z30", prior("A", "X"))
    assert [text for text in played.refused if "may be false" in text] == played.refused != []


def test_what_is_missing_shows_at_the_end_of_a_trace() -> None:
    played = Played(query(seq("A", "B"), within=None, terminal=("Z",)), "a1 b2 z3", require("B", "C"), prior("C", "Z"))
    assert played.matches == ["a1 b2"]
    assert played.refused == ["missing: C: B needs C by require(B, C)"]


def test_a_contradiction_of_three_types_shows_at_the_end_of_a_trace() -> None:
    sought = query(seq("A", "B"), within=None, terminal=("Z",))
    played = Played(sought, "a1 x2 y3 b4 z5", horn("A", "X", "Y"), horn("X", "Y", "B"))
    assert len(played.refused) == 1
    assert played.refused[0].startswith("occurrence")
    assert "the trace has been given up" in played.refused[0]


def test_an_event_that_breaks_a_constraint_is_set_aside_and_still_searched_while_the_trace_lives() -> None:
    played = Played(query(seq("A", "B")), "b1 a2 b3", prior("A", "B"))
    assert played["violations"] == 1
    assert played.refused == [
        "order: A with B: no A comes after a B by prior(A, B); the trace has been given up, matches of it may be missing"
    ]


def test_the_strict_policy_stops_and_names_the_row() -> None:
    with pytest.raises(ConstraintViolated, match=r"exclusive\(B, C\).*'id': 1"):
        Played(query(seq("A", "B")), "a1 c2 b3", exclusive("B", "C"), on_violation=ViolationPolicy.ERROR)


def test_in_the_shadow_nothing_is_lost_and_the_loss_is_counted() -> None:
    played = Played(query(seq("A", "B")), "a1 c2 b3 b4", exclusive("B", "C"), on_violation=ViolationPolicy.SHADOW)
    assert played.matches == ["a1 b3", "a1 b4"]
    assert (played["lost"], played["violations"], played["failed_traces"]) == (2, 2, 1)


def test_constraints_nobody_vouches_for_are_only_watched() -> None:
    played = Played(query(seq("A", "B")), "a1 c2 b3", exclusive("B", "C"), is_trusted=False)
    assert (played.matches, played["lost"]) == (["a1 b3"], 1)


def test_a_query_that_can_never_match_is_refused_or_keeps_nothing() -> None:
    with pytest.raises(NeverMatches, match=r"exclusive\(A, B\)"):
        Played(query(seq("A", "B")), "a1", exclusive("A", "B"))
    played = Played(query(seq("A", "B")), "a1 b2", exclusive("A", "B"), on_static_unsat="empty")
    assert (played.matches, played["state_rows"]) == ([], 0)


def test_more_types_than_a_word_has_bits() -> None:
    types = [*(f"other{number}" for number in range(70)), *TYPES]
    played = Played(query(seq("A", "B")), "a1 c2 b3", exclusive("B", "C"), types=types)
    assert (played.kept[2], played["violations"]) == (0, 1)


def test_constraints_may_change_at_a_restart() -> None:
    sought = query(seq("A", "B"), within=None, terminal=("Z",))
    first = PatternMatch(sought, SCHEMA, constraints=ConstraintSet(("id",), ("A", "B", "C", "Z"), (prior("C", "A"),)))
    first.on_batch(0, batch_of(events("a1"), SCHEMA))
    first.on_metadata(0, Heartbeat(2))
    # Types have other numbers now, and the A that was seen excludes what comes.
    second = PatternMatch(sought, SCHEMA, constraints=ConstraintSet(("id",), ("Y", "C", "Z", "B", "A"), (exclusive("C", "A"),)))
    second.restore(first.snapshot())
    second.on_batch(0, batch_of(events("c3"), SCHEMA))
    out = second.on_metadata(0, Heartbeat(9))
    assert [each.text.split(";")[0] for each in out if isinstance(each, Quarantined)] == [
        "occurrence: C with A: C and A never occur together by exclusive(C, A)"
    ]


def test_constraints_may_be_watched_no_longer_after_a_restart() -> None:
    sought = query(seq("A", "B"), within=None, terminal=("Z",))
    first = PatternMatch(sought, SCHEMA, constraints=ConstraintSet(("id",), ("A", "B", "C", "Z"), (prior("A", "C"),)))
    first.on_batch(0, batch_of(events("a1"), SCHEMA))
    first.on_metadata(0, Heartbeat(2))
    first.on_batch(0, batch_of(events("b3"), SCHEMA))
    second = PatternMatch(sought, SCHEMA)
    second.restore(first.snapshot())
    found = [each.num_rows for each in second.on_metadata(0, Heartbeat(9)) if isinstance(each, Batch)]
    assert found == [1]
    assert not any(name.startswith("traces") for name in second.snapshot().segments)
