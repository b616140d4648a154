"""The golden examples of event patterns, A-G1 to A-G21."""

from __future__ import annotations

import pytest
from pattern_cases import SCHEMA, answers, events, found_by_operator, query, texts

from penstock.model.elements import Heartbeat
from penstock.model.event_patterns import (
    EventOrder,
    EventPattern,
    LastRun,
    Strategy,
    absent,
    atom,
    both,
    either,
    seq,
)
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.streams import batch_of

G1 = "a1 c2 b3 a4 d5 b6 d7"
ABD, ABC = seq("A", "B", "D"), seq("A", atom("B", "b", "+"), "C")
ANY, NEXT, PARTITION, STRICT = Strategy


def test_g1_any_match_takes_every_combination() -> None:
    assert answers(query(ABD), events(G1)) == ["a1 b3 d5", "a1 b3 d7", "a1 b6 d7", "a4 b6 d7"]


def test_g2_next_match_takes_the_first_that_fits() -> None:
    assert answers(query(ABD, strategy=NEXT), events(G1)) == ["a1 b3 d5", "a4 b6 d7"]


def test_g3_strict_contiguity_allows_no_event_between() -> None:
    assert answers(query(ABD, strategy=STRICT), events(G1)) == []


@pytest.mark.parametrize(("within", "number"), [(3, 1), (4, 2), (5, 2), (6, 4)])
def test_g4_a_window_is_inclusive(within: int, number: int) -> None:
    found = answers(query(ABD, within=within), events(G1))
    assert len(found) == number
    assert "a4 b6 d7" in found


def test_g6_any_match_takes_every_subset_of_a_repeated_event() -> None:
    assert len(answers(query(ABC), events("a1 b2 b3 d4 b5 c6"))) == 7


def test_g7_next_match_takes_the_whole_run() -> None:
    rows = events("a1 b2 b3 d4 b5 c6")
    assert answers(query(ABC, strategy=NEXT), rows) == ["a1 [b2 b3 b5] c6"]
    assert answers(query(ABC, strategy=STRICT), rows) == []


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ANY, ["a1 [b2 b3] c4", "a1 [b2] c4", "a1 [b3] c4"]),
        (NEXT, ["a1 [b2 b3] c4"]),
        (PARTITION, ["a1 [b2 b3] c4"]),
        (STRICT, ["a1 [b2 b3] c4"]),
    ],
)
def test_g8_contiguous_repetition(strategy: Strategy, expected: list[str]) -> None:
    assert answers(query(ABC, strategy=strategy), events("a1 b2 b3 c4")) == expected


def test_g9_two_starts_and_two_ends() -> None:
    rows = events("a1 b2 a3 b4 c5 c6")
    assert len(answers(query(ABC), rows)) == 8
    assert answers(query(ABC, strategy=NEXT), rows) == ["a1 [b2 b4] c5", "a3 [b4] c5"]
    assert answers(query(ABC, strategy=STRICT), rows) == ["a3 [b4] c5"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(ANY, ["a1 [b2 b4]", "a1 [b2]", "a1 [b4]"]), (NEXT, ["a1 [b2 b4]", "a1 [b2]"]), (STRICT, ["a1 [b2]"])],
)
def test_g10_a_repeated_event_at_the_end_reports_every_extension(strategy: Strategy, expected: list[str]) -> None:
    assert answers(query(seq("A", atom("B", "b", "+")), strategy=strategy), events("a1 b2 c3 b4")) == expected


def test_g10_or_only_the_longest_run() -> None:
    longest = query(seq("A", atom("B", "b", "+")), strategy=NEXT, last_run=LastRun.MAXIMAL)
    assert answers(longest, events("a1 b2 c3 b4")) == ["a1 [b2 b4]"]


@pytest.mark.parametrize(("strategy", "number"), [(ANY, 13), (NEXT, 4), (STRICT, 4)])
def test_g11_rising_prices_and_a_drop(strategy: Strategy, number: int) -> None:
    rises = query(seq(atom("S", "a", "+"), atom("S", "b")), "`a[i].p` > `a[i-1].p`", "b.p < `a[last].p`", strategy=strategy)
    found = answers(rises, events("s1 s2 s3 s4 s5", [10, 12, 11, 13, 9]))
    assert len(found) == number
    if strategy is not ANY:
        assert found == ["[s1 s2] s3", "[s2] s3", "[s3 s4] s5", "[s4] s5"]


@pytest.mark.parametrize(
    ("pattern", "stream", "expected"),
    [
        pytest.param(seq("A", both("B", "C"), "D"), "a1 c2 b3 d4", ["a1 b3 c2 d4"], id="g12"),
        pytest.param(seq(both("A", "B"), both("C", "D")), "a1 c2 b3 d4 c5", ["a1 b3 c5 d4"], id="g13"),
        pytest.param(seq(either("A", seq("B", "C")), "D"), "b1 a2 c3 d4", ["a2 d4", "b1 c3 d4"], id="g15"),
        pytest.param(seq("A", "B"), "a@1 b@1 b@2", ["a1 b2"], id="g16"),
        pytest.param(seq("A", absent("B"), "C"), "a1 b2 a3 c4", ["a3 c4"], id="g17"),
        pytest.param(seq("A", absent("B"), "C"), "a1 b1 c3", ["a1 c3"], id="g19 tie with the first"),
        pytest.param(seq("A", absent("B"), "C"), "a1 b3 c3", ["a1 c3"], id="g19 tie with the last"),
    ],
)
def test_g12_to_g19_operators_and_ties(pattern: EventPattern, stream: str, expected: list[str]) -> None:
    assert answers(query(pattern), events(stream)) == expected


def test_g14_branches_of_and_may_share_an_event_unless_told_otherwise() -> None:
    pattern = both(seq(atom("A", "a"), "B"), seq(atom("A", "c"), "C"))
    rows = events("a1 b2 a3 c4")
    assert answers(query(pattern), rows) == ["a1 b2 a1 c4", "a1 b2 a3 c4"]
    assert answers(query(pattern, reuse=False), rows) == ["a1 b2 a3 c4"]


def test_g16_total_order_lets_simultaneous_events_follow_each_other() -> None:
    assert answers(query(seq("A", "B"), order=EventOrder.TOTAL), events("a@1 b@1 b@2")) == ["a1 b1", "a1 b2"]


def test_g18_an_event_of_another_key_is_no_counterexample() -> None:
    assert answers(query(seq("A", absent("B"), "C")), events("a1 b2 c3", ids=[1, 2, 1])) == ["a1 c3"]


def test_g20_an_absence_at_the_end_is_decided_when_the_window_has_passed() -> None:
    sought = query(seq("A", "B", absent("N")), within=5)
    assert answers(sought, events("a1 b3 n6")) == []
    rows = events("a1 b3 n7")
    assert answers(sought, rows) == ["a1 b3"]
    operator = PatternMatch(sought, SCHEMA)
    operator.on_batch(0, batch_of(rows, SCHEMA))
    assert operator.on_metadata(0, Heartbeat(6)) == [Heartbeat(6)]
    found, _ = operator.on_metadata(0, Heartbeat(7))
    assert (found.num_rows, found.ts.tolist()) == (1, [6])


def test_g21_an_absence_at_the_start_reaches_back_as_far_as_the_window() -> None:
    sought = query(seq(absent("N"), "B", "C"), within=5)
    assert answers(sought, events("n1 b3 c6")) == []
    assert answers(sought, events("n0 b3 c6")) == ["b3 c6"]


def test_the_reference_agrees_on_what_arrives_out_of_order() -> None:
    rows = events("d5 b3 a1 c2 a4 d7 b6")
    found = found_by_operator(query(ABD), rows, cuts=range(7), lag=2)
    assert texts(query(ABD), rows, found) == ["a1 b3 d5", "a1 b3 d7", "a1 b6 d7", "a4 b6 d7"]
