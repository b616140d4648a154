"""Row patterns by example: preference, contiguity, navigation, aggregates, where the search goes on, ties, memory."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from row_cases import SCHEMA, answers, labelled, query, rows

from penstock.errors import Defect, InvalidEventPattern, TooManyRuns
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, End, Heartbeat
from penstock.operators.patterns.rows.operator import RowPatternMatch
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of, run, stream_of

# -- preference -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "prices", "found"),
    [
        ("a+ b", [1, 3, 5, 2], ["a1 a3 a5 b2"]),
        ("a+? b", [1, 3, 5, 2], ["a1 a3 a5 b2"]),
        ("a+?", [1, 3], ["a1", "a3"]),
        ("a+", [1, 3], ["a1 a3"]),
        ("a{2}", [1, 3, 5, 7, 9], ["a1 a3", "a5 a7"]),
        ("a{2,3}", [1, 3, 5, 7, 9], ["a1 a3 a5", "a7 a9"]),
        ("a{2,3}?", [1, 3, 5, 7, 9], ["a1 a3", "a5 a7"]),
        ("a{2,}", [1, 3, 5, 2, 7], ["a1 a3 a5"]),
        ("a{,2} b", [1, 3, 5, 2], ["a3 a5 b2"]),
        ("a b?", [1, 2, 3, 5], ["a1 b2", "a3", "a5"]),
        ("a b??", [1, 2, 3], ["a1", "a3"]),
        ("any | a b", [1, 2], ["any1", "any2"]),
        ("a b | any", [1, 2, 4], ["a1 b2", "any4"]),
        ("(a b)+", [1, 2, 3, 4, 5], ["a1 b2 a3 b4"]),
        ("(a | b){3}", [1, 2, 4, 5], ["a1 b2 b4"]),
        ("PERMUTE(a, b)", [2, 1, 3, 4], ["b2 a1", "a3 b4"]),
        ("any* b", [1, 2, 3, 4, 5], ["any1 any2 any3 b4"]),
        ("any*? b", [1, 2, 3, 4, 5], ["any1 b2", "any3 b4"]),
    ],
)
def test_the_preferred_way_to_take_rows_is_the_match(pattern: str, prices: list[int], found: list[str]) -> None:
    defined = [f"{name} AS p % 2 = {rest}" for name, rest in (("a", 1), ("b", 0)) if re.search(rf"\b{name}\b", pattern)]
    assert labelled(f"PATTERN ({pattern}) DEFINE {', '.join(defined)}", prices) == found


def test_rows_of_a_match_follow_each_other_directly_in_their_partition() -> None:
    pattern = "PATTERN (low high) DEFINE low AS p < 10, high AS p > 10"
    assert labelled(pattern, [1, 20, 3, 4, 30], keys=[1, 2, 2, 1, 1]) == ["low4 high30"]


def test_null_is_a_partition_of_its_own() -> None:
    assert labelled("PATTERN (a b) DEFINE b AS p > a.p", [1, 5, 2], keys=[None, 1, None]) == ["a1 b2"]


def test_rows_of_equal_time_are_in_the_order_of_their_positions() -> None:
    assert labelled("PATTERN (a b) DEFINE b AS p > a.p", [1, 2, 3, 4], times=[5, 5, 5, 5]) == ["a1 b2", "a3 b4"]
    swapped = [Row(5, 1, rows([2])[0].values), Row(5, 0, rows([7])[0].values)]
    sought = query("MEASURES a.p AS first PATTERN (a b) DEFINE a AS p > 5")
    assert answers(sought, swapped) == [(7,)]


# -- what belongs to a match ------------------------------------------------------------------------------------------


def test_excluded_rows_belong_to_the_match_and_are_not_shown() -> None:
    text = "PATTERN (a {- b+ -} c) DEFINE b AS p > PREV(p), c AS p < PREV(p)"
    assert labelled(text, [1, 2, 3, 0]) == ["a1 c0"]
    sought = query(f"MEASURES COUNT(*) AS n, SUM(b.p) AS total, FINAL LAST(b.p) AS last ALL ROWS PER MATCH {text}")
    assert [row[1:4] for row in answers(sought, rows([1, 2, 3, 0]))] == [(1, None, 3), (4, 5, 3)]
    one = query(f"MEASURES COUNT(*) AS n, SUM(b.p) AS total {text}")
    assert answers(one, rows([1, 2, 3, 0])) == [(4, 5)]


def test_a_match_of_which_nothing_is_shown_still_takes_its_rows_and_its_number() -> None:
    assert labelled("PATTERN ({- a b -} | c) DEFINE a AS p = 1, b AS p = 2", [1, 2, 1, 5]) == ["c1", "c5"]
    sought = query("MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH PATTERN ({- a b -} | c) DEFINE a AS p = 1, b AS p = 2")
    assert [row[1] for row in answers(sought, rows([1, 2, 1, 5]))] == [2, 3]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a*", [(1, 2, "a", 4), (2, 0, None, None), (3, 1, "a", 3)]),
        ("a*?", [(1, 0, None, None), (2, 0, None, None), (3, 0, None, None), (4, 0, None, None)]),
        ("a b | ()", [(1, 0, None, None), (2, 2, "b", 7), (3, 0, None, None)]),
        ("b?", [(1, 0, None, None), (2, 0, None, None), (3, 1, "b", 4), (4, 0, None, None)]),
    ],
)
def test_a_pattern_that_may_take_no_row_is_found_wherever_it_takes_none(pattern: str, found: list[tuple[object, ...]]) -> None:
    defined = ", ".join(f"{name} AS p % 2 = {rest}" for name, rest in (("a", 1), ("b", 0)) if name in pattern)
    measures = "MATCH_NUMBER() AS n, COUNT(*) AS size, CLASSIFIER() AS last, SUM(p) AS total"
    sought = query(f"MEASURES {measures} PATTERN ({pattern}) DEFINE {defined}")
    assert sorted(answers(sought, rows([1, 3, 4, 3]))) == found


def test_a_match_without_rows_is_shown_as_the_row_where_it_was_found() -> None:
    text = "PATTERN (a*) DEFINE a AS p % 2 = 1"
    for shown in ("", "SHOW EMPTY MATCHES"):
        assert labelled(text, [1, 3, 4, 3], rows_shown=shown) == ["a1 a3", "None4", "a3"]
    assert labelled(text, [1, 3, 4, 3], rows_shown="OMIT EMPTY MATCHES") == ["a1 a3", "a3"]


def test_rows_that_are_in_no_match_are_shown_with_nothing_measured() -> None:
    measures = "MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c, COUNT(*) AS size, 7 AS seven"
    sought = query(f"{measures} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a b) DEFINE a AS p = 1, b AS p = 2")
    for restarts in (False, True):
        found = answers(sought, rows([5, 1, 2, 1, 3]), cuts=[1, 2, 3, 4], restarts=restarts)
        assert [row[:5] for row in sorted(found)] == [
            (0, None, None, None, None),
            (1, 1, "a", 1, 7),
            (2, 1, "b", 2, 7),
            (3, None, None, None, None),
            (4, None, None, None, None),
        ]


def test_a_row_of_a_match_is_not_unmatched_where_a_later_start_fails() -> None:
    shown = "MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW"
    text = f"{shown} PATTERN (a b b) DEFINE a AS p = 1"
    for cuts in ((), range(6)):
        found = sorted(answers(query(text), rows([0, 1, 2, 3, 4]), cuts=cuts, restarts=bool(cuts)), key=lambda row: row[0])
        assert [row[1] for row in found] == [None, 1, 1, 1, None]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^ a b", ["a1 b2"]),
        ("^ a+", ["a1 a2 a3 a4"]),
        ("(^ a | b) c", ["a1 c2", "b3 c4"]),
        ("a ^ b", []),
        ("a (^ | b) c", ["a1 b2 c3"]),
    ],
)
def test_a_circumflex_is_the_place_before_the_first_row_of_a_partition(pattern: str, found: list[str]) -> None:
    assert labelled(f"PATTERN ({pattern})", [1, 2, 3, 4]) == found


def test_the_start_of_a_partition_is_known_whatever_the_batches() -> None:
    sought = query("PARTITION BY k MEASURES a.p AS p PATTERN (^ a)")
    stream = rows([1, 2, 3, 4, 5], keys=[1, 1, 2, 1, 2])
    for restarts in (False, True):
        assert answers(sought, stream, cuts=[1, 2, 3, 4], restarts=restarts) == [(1, 1), (2, 3)]
    operator = RowPatternMatch(sought, SCHEMA)
    operator.on_batch(0, batch_of(stream, SCHEMA))
    operator.on_metadata(0, Heartbeat(60))
    assert operator.counters()["state_rows"] == 2


def test_a_subset_names_the_rows_of_several_variables() -> None:
    text = (
        "PATTERN (a b c) SUBSET ends = (a, c), tail = (b, c) DEFINE b AS p > ends.p, c AS p > MAX(tail.p) OR p = SUM(ends.p) - a.p"
    )
    shown = "MEASURES FIRST(ends.p) AS f, LAST(ends.p) AS l, SUM(tail.p) AS s, COUNT(ends.*) AS n, CLASSIFIER(ends) AS c, a.p AS p"
    assert answers(query(f"{shown} {text}"), rows([3, 5, 4])) == [(3, 4, 9, 2, "c", 3)]
    assert labelled(text, [1, 2, 3, 4, 5], "TO FIRST tail") == ["a1 b2 c3", "a2 b3 c4", "a3 b4 c5"]
    assert labelled(text, [1, 2, 3, 4, 5], "TO LAST ends") == ["a1 b2 c3", "a3 b4 c5"]


# -- where the search goes on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "found"),
    [
        ("PAST LAST ROW", ["s9 down5 down3 up4 up6"]),
        ("TO NEXT ROW", ["s9 down5 down3 up4 up6", "s5 down3 up4 up6"]),
        ("TO FIRST up", ["s9 down5 down3 up4 up6"]),
        ("TO FIRST down", ["s9 down5 down3 up4 up6", "s5 down3 up4 up6"]),
        ("TO LAST down", ["s9 down5 down3 up4 up6"]),
        ("TO up", ["s9 down5 down3 up4 up6", "s6 down2 up8"]),
        ("TO LAST up", ["s9 down5 down3 up4 up6", "s6 down2 up8"]),
    ],
)
def test_the_search_goes_on_where_after_match_says(skip: str, found: list[str]) -> None:
    text = "PATTERN (s down+ up+) DEFINE down AS p < PREV(p), up AS p > PREV(p)"
    prices = [9, 5, 3, 4, 6, 2, 8] if "up" in skip and "FIRST" not in skip else [9, 5, 3, 4, 6]
    assert labelled(text, prices, skip) == found


@pytest.mark.parametrize("skip", ["TO FIRST a", "TO LAST b"])
def test_a_place_that_would_find_the_same_match_again_is_not_gone_to(skip: str) -> None:
    # The variable took the first row, or none at all: the search goes on at the next row instead of for ever.
    text = "PATTERN (a c b?) DEFINE a AS p > 0, b AS p < 0, c AS p > 0"
    assert labelled(text, [1, 2, 3], skip) == ["a1 c2", "a2 c3"]


# -- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "prices", "found"),
    [
        # the row before the match counts, too
        ("PATTERN (up+) DEFINE up AS p > PREV(p)", [5, 6, 7, 3, 4], ["up6 up7", "up4"]),
        ("PATTERN (a b) DEFINE b AS p > PREV(p, 2)", [1, 9, 2, 3], ["a9 b2"]),
        ("PATTERN (a b+) DEFINE b AS p > FIRST(a.p) + 1", [1, 3, 2, 5, 4], ["a1 b3", "a2 b5 b4"]),
        ("PATTERN (a+ b) DEFINE a AS SUM(a.p) < 10, b AS p > 5", [4, 5, 6, 7, 8], ["a4 a5 b6", "a7 b8"]),
        ("PATTERN (a+) DEFINE a AS COUNT(a.*) <= 2", [1, 2, 3], ["a1 a2", "a3"]),
        ("PATTERN (a+) DEFINE a AS COUNT(*) <= 2", [1, 2, 3], ["a1 a2", "a3"]),
        ("PATTERN (a b+) DEFINE b AS p > AVG(a.p) AND MAX(b.p) < 10", [4, 5, 12, 13], ["a4 b5"]),
        ("PATTERN (a+) DEFINE a AS LAST(a.p, 1) IS NULL OR a.p > LAST(a.p, 1)", [1, 2, 2, 4], ["a1 a2", "a2 a4"]),
        ("PATTERN (a+ b) DEFINE b AS p = FIRST(a.p, 1)", [1, 7, 3, 7], ["a1 a7 a3 b7"]),
        ("PATTERN (a b) DEFINE b AS p > PREV(LAST(a.p))", [5, 1, 6, 2], ["a1 b6"]),
        ("PATTERN (a b) DEFINE b AS a.p IS NULL", [None, 2], ["aNone b2"]),
        ("PATTERN (a b) DEFINE b AS p > a.p", [None, 2, 3], ["a2 b3"]),
        ("PATTERN (a b) DEFINE b AS CLASSIFIER() = 'b' AND p BETWEEN a.p AND a.p + 1", [1, 2, 5], ["a1 b2"]),
        ("PATTERN (a b) DEFINE b AS SUM(a.p * 2 + 1) = p", [1, 3], ["a1 b3"]),
        ("PATTERN (a b) DEFINE b AS ABS(p - a.p) > 3", [5, 1, 2, 6], ["a5 b1", "a2 b6"]),
        ("PATTERN (a b+) DEFINE b AS p >= GREATEST(FIRST(a.p), AVG(b.p), 3)", [1, 4, 5, 2], ["a1 b4 b5"]),
        ("PATTERN (a b) DEFINE b AS COALESCE(a.p, p + 1) = 3 AND FLOOR(a.p / p) IS NULL", [None, 2, 3, 0], ["aNone b2", "a3 b0"]),
        ("PATTERN (a b) DEFINE b AS CASE WHEN a.p > p THEN 'falls' ELSE a.s END = 'falls'", [3, 4, 2], ["a4 b2"]),
    ],
)
def test_conditions_see_the_rows_taken_so_far(text: str, prices: list[int | None], found: list[str]) -> None:
    assert labelled(text, prices) == found


def test_a_condition_that_no_compiled_loop_can_test_is_refused_when_the_query_is_made() -> None:
    advice = "'concat.*' is computed of several events; .* of one event alone, or select among the matches in a query around"
    with pytest.raises(InvalidEventPattern, match=f"cannot be tested while a match grows: {advice}"):
        RowPatternMatch(query("PATTERN (a b) DEFINE b AS CONCAT(s, a.s) = 'ab'"), SCHEMA)


def test_functions_of_one_row_and_earlier_ones_are_free() -> None:
    assert labelled("PATTERN (a b) DEFINE b AS ABS(p - PREV(p)) > COALESCE(PREV(p, 2), 3)", [1, 2, 8, 3]) == ["a2 b8"]


# -- measures ---------------------------------------------------------------------------------------------------------


def test_measures_over_the_whole_match() -> None:
    sought = query(
        "PARTITION BY k MEASURES FIRST(a.p) AS one, LAST(b.p) AS two, LAST(b.p, 1) AS three, SUM(b.p) AS four, AVG(p) AS five, "
        "COUNT(b.*) + COUNT(*) AS six, MIN(b.x) AS seven, PREV(FIRST(a.p)) AS eight, CLASSIFIER() AS nine, MATCH_NUMBER() AS ten, "
        "c.p AS eleven, SUM(c.p) AS twelve, MAX(s) AS thirteen PATTERN (a b+ c?) DEFINE a AS p < 3, b AS p > 5, c AS p = 4"
    )
    assert answers(sought, rows([3, 1, 7, 6, 2, 8])) == [
        (1, 1, 6, 7, 13, 14 / 3, 5, 3.0, 3, "b", 1, None, None, None),
        (1, 2, 8, None, 8, 5.0, 3, 4.0, 6, "b", 2, None, None, None),
    ]


def test_measures_of_all_rows_run_unless_they_are_final() -> None:
    sought = query(
        "PARTITION BY k MEASURES SUM(p) AS running, FINAL SUM(p) AS total, RUNNING LAST(b.p) AS b, FINAL LAST(b.p) AS last "
        "ALL ROWS PER MATCH PATTERN (a b b) DEFINE a AS p < 3"
    )
    shown = [row[:6] for row in answers(sought, rows([1, 4, 6]))]
    assert shown == [(1, 0, 1, 11, None, 6), (1, 1, 5, 11, 4, 6), (1, 2, 11, 11, 6, 6)]
    names = RowPatternMatch(sought, SCHEMA).output_schema.names
    assert names == ["k", "t", "running", "total", "b", "last", "p", "x", "s"]


def test_a_measure_may_have_the_name_of_a_key() -> None:
    assert answers(query("PARTITION BY k MEASURES a.p AS k PATTERN (a)"), rows([7])) == [(7,)]


def test_numbers_of_matches_go_on_after_a_restart() -> None:
    sought = query("PARTITION BY k MEASURES MATCH_NUMBER() AS n, p AS p PATTERN (a)")
    stream = rows([1, 2, 3, 4], keys=[1, 2, 1, 1])
    assert answers(sought, stream, cuts=[1, 2, 3], restarts=True) == [(1, 1, 1), (2, 1, 2), (1, 2, 3), (1, 3, 4)]


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_repetition_is_decided_by_the_first_row_that_does_not_fit() -> None:
    sought = query("MEASURES SUM(a.p) AS total PATTERN (a+) DEFINE a AS p > 0")
    out = run(RowPatternMatch(sought, SCHEMA), stream_of(rows([1, 2, -1, 3]), SCHEMA, cuts=[1, 2, 3]))
    found = [(element.rows.to_pylist(), element.ts.tolist()) for element in out if isinstance(element, Batch)]
    assert found == [([{"total": 3}], [2]), ([{"total": 3}], [3])]


def test_a_window_that_is_over_decides_without_further_rows() -> None:
    operator = RowPatternMatch(query("MEASURES SUM(a.p) AS total PATTERN (a+) WITHIN 5"), SCHEMA)
    operator.on_batch(0, batch_of(rows([1, 2], times=[0, 3]), SCHEMA))
    assert operator.on_metadata(0, Heartbeat(5)) == [Heartbeat(5)]
    found, _ = operator.on_metadata(0, Heartbeat(6))
    assert isinstance(found, Batch)
    assert (found.rows.to_pylist(), found.ts.tolist()) == ([{"total": 3}], [5])
    assert operator.counters()["state_rows"] == 0


def test_the_window_includes_its_last_moment() -> None:
    text = "PATTERN (a b) WITHIN 5 DEFINE b AS p > 1"
    assert labelled(text, [1, 2], times=[0, 5]) == ["a1 b2"]
    assert labelled(text, [1, 2], times=[0, 6]) == []


def test_rows_that_no_match_can_need_are_forgotten() -> None:
    operator = RowPatternMatch(
        query("PARTITION BY k MEASURES a.p AS p PATTERN (a b) DEFINE a AS p > 100, b AS p > PREV(p)"), SCHEMA
    )
    operator.on_batch(0, batch_of(rows(list(range(50))), SCHEMA))
    operator.on_metadata(0, Heartbeat(60))
    assert operator.counters()["state_rows"] == 0


def test_open_matches_keep_no_more_than_their_window() -> None:
    operator = RowPatternMatch(query("PARTITION BY k MEASURES COUNT(*) AS n PATTERN (a+ b) WITHIN 10 DEFINE b AS p < 0"), SCHEMA)
    stream = rows([1] * 200, keys=[number % 2 for number in range(200)])
    for at in range(200):
        operator.on_batch(0, batch_of(stream[at : at + 1], SCHEMA))
        operator.on_metadata(0, Heartbeat(at + 1))
        assert operator.counters()["state_rows"] <= 11
    operator.on_metadata(0, Heartbeat(300))
    assert operator.counters()["state_rows"] == 0


def test_only_as_many_earlier_rows_are_kept_as_prev_reads() -> None:
    operator = RowPatternMatch(query("PARTITION BY k MEASURES a.p AS p PATTERN (a b) DEFINE a AS p < PREV(p, 2)"), SCHEMA)
    operator.on_batch(0, batch_of(rows(list(range(50)), keys=[number % 5 for number in range(50)]), SCHEMA))
    operator.on_metadata(0, Heartbeat(60))
    assert operator.counters()["state_rows"] == 2 * 5


@pytest.mark.parametrize(
    ("pattern", "define", "lookback"),
    [
        ("s down+ up+", "down AS p < PREV(p), up AS p > PREV(p)", 0),
        ("up+", "up AS p > PREV(p)", 1),
        ("s? up", "up AS p > PREV(p, 3)", 3),
        ("s s up", "up AS p > PREV(p, 3)", 1),
        ("s up", "up AS p > PREV(FIRST(s.p), 2)", 2),
    ],
)
def test_lookback_counts_rows_before_the_earliest_start(pattern: str, define: str, lookback: int) -> None:
    assert query(f"PATTERN ({pattern}) DEFINE {define}").lookback == lookback


def test_too_many_ways_stop_the_query_with_advice() -> None:
    sought = query("MEASURES a.p AS p PATTERN ((a | b | c)+ d) DEFINE d AS p < 0 AND SUM(p) < 0")
    with pytest.raises(TooManyRuns, match="fewer ways"):
        answers(replace(sought, most_steps=1000), rows([1] * 12))


def test_a_row_behind_the_frontier_is_a_broken_promise() -> None:
    operator = RowPatternMatch(query("PATTERN (a)"), SCHEMA)
    operator.on_metadata(0, Heartbeat(5))
    with pytest.raises(Defect):
        operator.on_batch(0, batch_of(rows([1], times=[4]), SCHEMA))


def test_the_end_decides_what_is_open() -> None:
    operator = RowPatternMatch(query("MEASURES COUNT(*) AS n PATTERN (a+)"), SCHEMA)
    operator.on_batch(0, batch_of(rows([1, 2]), SCHEMA))
    operator.on_metadata(0, Heartbeat(40))
    (found,) = operator.on_metadata(0, End())
    assert isinstance(found, Batch)
    assert (found.rows.to_pylist(), found.ts.tolist()) == ([{"n": 2}], [40])
    assert operator.on_metadata(0, Heartbeat(FOREVER)) == ()


def test_linear_work_where_no_condition_depends_on_the_match() -> None:
    # Without remembered failures this takes 2**40 steps.
    assert labelled("PATTERN ((a | b)+ c) DEFINE c AS p < 0", [1] * 40) == []
