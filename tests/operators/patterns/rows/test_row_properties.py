"""Row patterns against brute force: all skip modes, both forms of output, any arrival within the promises, restarts."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from row_cases import SCHEMA, answers, query

from penstock.model.row_pattern_text import parse_row_pattern
from penstock.model.row_patterns import (
    Alternation,
    Excluded,
    PartitionStart,
    Repeated,
    RowPattern,
    Sequence,
    Variable,
    can_be_empty,
    least_before,
    least_rows,
    most_rows,
    permuted,
    variables_of,
)
from penstock.operators.patterns.rows.operator import RowPatternMatch
from penstock.testing.checks import check_all, inputs
from penstock.testing.reference import Row
from penstock.testing.row_pattern_reference import answers as expected
from penstock.testing.row_pattern_reference import matches
from penstock.testing.streams import bag
from penstock.testing.tapes import batch_cuts

NAMES = ("a", "b", "c")
#: A name for the rows of several variables, where a query has some of them.
SUBSET = "u"
#: Conditions that are evaluated for all rows at once, and conditions that depend on the rows taken; v is some variable.
DIRECT = ("p > 1", "p % 2 = 0", "p > PREV(p)", "p < PREV(p)", "x >= PREV(x, 2)", "s = 'a'", "p IS NULL", "{own}.p <> 2")
DEPENDENT = (
    "p > FIRST({v}.p)",
    "SUM({v}.p) < 5",
    "COUNT(*) <= 3",
    "{own}.p >= LAST({own}.p, 1) OR LAST({own}.p, 1) IS NULL",
    "x <= AVG(x)",
    "LAST({v}.p) IS NOT NULL",
    "s >= MAX({v}.s)",
    "PREV(FIRST(p)) IS NULL OR p > 1",
    "COUNT({v}.p) < 2 AND p <> MIN(p) + 1",
    "FIRST({v}.p, 1) IS NULL",
    "PREV({v}.p) < p",
    "ABS(p - FIRST({v}.p)) <= 1",
    "COALESCE({v}.s, s, 'c') <> 'b'",
    "CASE WHEN p > {v}.p THEN x ELSE AVG(x) END >= 1",
    "ROUND(x * {v}.p) > FLOOR(x) OR GREATEST(p, {v}.p, FIRST(p)) = 2",
)
MEASURES = (
    "FIRST({v}.p) AS m1",
    "LAST({v}.x, 1) AS m2",
    "SUM({v}.p) AS m3",
    "AVG(p) AS m4",
    "COUNT({v}.*) AS m5",
    "MIN({v}.s) AS m6",
    "FINAL MAX({v}.x) AS m7",
    "CLASSIFIER() AS m8",
    "CLASSIFIER({v}) AS m14",
    "MATCH_NUMBER() AS m9",
    "PREV({v}.p) AS m10",
    "{v}.p + PREV(FIRST(p), 2) AS m11",
    "FINAL LAST({v}.p) - FIRST(p, 1) AS m12",
    "COUNT({v}.x) * 10 + COUNT(*) AS m13",
)
OUTPUTS = (
    *("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH"),
    *("ALL ROWS PER MATCH OMIT EMPTY MATCHES", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"),
)
SKIPS = ("PAST LAST ROW", "TO NEXT ROW", "TO FIRST {v}", "TO LAST {v}")


def _repeated(parts: st.SearchStrategy[RowPattern]) -> st.SearchStrategy[RowPattern]:
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None)])
    whole = parts.filter(lambda part: not can_be_empty(part))
    return st.builds(lambda part, bound, lazy: Repeated(part, *bound, lazy), whole, bounds, st.booleans())


def _longer(parts: st.SearchStrategy[RowPattern]) -> st.SearchStrategy[RowPattern]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    joined = several.map(Sequence) | several.map(Alternation) | several.map(permuted)
    return joined | _repeated(parts) | parts.map(Excluded)


LEAVES = st.sampled_from(NAMES).map(Variable)
PATTERNS = st.recursive(LEAVES | LEAVES | LEAVES | st.just(PartitionStart()), _longer, max_leaves=5)


@st.composite
def queries(draw: st.DrawFn, conditions: tuple[str, ...]) -> str:
    pattern = draw(PATTERNS.filter(variables_of))
    names = variables_of(pattern)
    members = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    some = st.sampled_from([*names, SUBSET] if members else names)
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    defined = draw(st.lists(st.sampled_from(names), max_size=len(names), unique=True))
    definitions = [f"{name} AS {draw(st.sampled_from(conditions))}".format(own=name, v=draw(some)) for name in defined]
    return " ".join(
        [
            draw(st.sampled_from(["PARTITION BY k", ""])),
            f"MEASURES {', '.join(measure.format(v=draw(some)) for measure in measures)}",
            draw(st.sampled_from(OUTPUTS)),
            f"AFTER MATCH SKIP {draw(st.sampled_from(SKIPS)).format(v=draw(some))}",
            f"PATTERN ({pattern})",
            draw(st.sampled_from(["", "WITHIN 3", "WITHIN 0", "WITHIN 8"])),
            f"SUBSET {SUBSET} = ({', '.join(members)})" if members else "",
            f"DEFINE {', '.join(definitions)}" if definitions else "",
        ]
    )


@st.composite
def streams(draw: st.DrawFn, most: int = 9) -> list[Row]:
    """Rows in the order of arrival, which is not that of time; several share a time."""
    numbers = st.sampled_from([0, 1, 2, 3, None])
    found = []
    for number in range(draw(st.integers(0, most))):
        price, time = draw(numbers), draw(st.integers(0, 9))
        values = {"k": draw(st.sampled_from([1, 2, None])), "p": price, "x": draw(st.sampled_from([0.5, 1.0, 4.25, None]))}
        found.append(Row(time, number, {**values, "s": draw(st.sampled_from(["a", "b", None])), "t": time}))
    return draw(st.permutations(found))


@pytest.mark.parametrize("conditions", [DIRECT, DIRECT + DEPENDENT], ids=["all rows at once", "row by row"])
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_answers_are_those_of_brute_force(conditions: tuple[str, ...], data: st.DataObject) -> None:
    sought, stream = query(data.draw(queries(conditions))), data.draw(streams())
    wanted = bag(expected(sought, stream, SCHEMA))
    cuts, lag = data.draw(batch_cuts()), data.draw(st.integers(0, 2))
    assert bag(answers(sought, stream, cuts, lag, restarts=data.draw(st.booleans()))) == wanted


CHECKED = pa.schema({"k": pa.int64(), "s": pa.string(), "x": pa.float64(), "t": pa.int64()})
QUERIES = {
    "all rows at once": "PARTITION BY k MEASURES FIRST(a.s) AS first, COUNT(b.*) AS n PATTERN (a b+) DEFINE b AS s <> PREV(s)",
    "row by row": "PARTITION BY k MEASURES COUNT(*) AS n PATTERN (a+ b) WITHIN 6 DEFINE a AS COUNT(a.x) < 2, b AS s >= FIRST(a.s)",
    "numbered": "PARTITION BY k MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (a a)",
    "one partition": "MEASURES a.k AS k, MAX(s) AS last PATTERN (a b*) DEFINE a AS x > 0, b AS b.s >= PREV(b.s)",
}


@pytest.mark.parametrize("name", list(QUERIES))
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_operator_passes_the_shared_checks(name: str, data: st.DataObject) -> None:
    sought = query(QUERIES[name], CHECKED)
    check_all(lambda: RowPatternMatch(sought, CHECKED), data.draw(inputs([CHECKED])), [CHECKED], data.draw(batch_cuts()))


# -- the pattern itself -----------------------------------------------------------------------------------------------


@given(PATTERNS)
@settings(max_examples=60, deadline=None)
def test_a_pattern_reads_back_from_its_text(pattern: RowPattern) -> None:
    again = parse_row_pattern(str(pattern))
    assert str(again) == str(pattern)
    assert (least_rows(again), most_rows(again), least_before(again)) == (
        least_rows(pattern),
        most_rows(pattern),
        least_before(pattern),
    )


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_matches_keep_to_the_bounds_that_are_known_of_a_pattern(data: st.DataObject) -> None:
    sought, stream = query(data.draw(queries(DIRECT))), data.draw(streams())
    before: dict[str, Any] = least_before(sought.pattern)
    for _, found in matches(sought, stream, SCHEMA):
        for match in found:
            assert least_rows(sought.pattern) <= len(match.labels) <= (most_rows(sought.pattern) or len(stream))
            assert all(place >= before[label] for place, label in enumerate(match.labels))
