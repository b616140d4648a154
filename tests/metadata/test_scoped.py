"""Statements about the next rows: how they are written, how they end, how partitions agree."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPattern
from penstock.metadata.scoped import ScopeBoard, coded, decoded, read_statement
from penstock.model.elements import Herald
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation, scoped_from_herald
from penstock.model.value_sets import between, constant, one_of

SCHEMA = Schema.of(A=pa.int64(), B=pa.string())


def above(least: int) -> Punctuation:
    return Punctuation.of(("A",), A=between(least))


def read(text: str) -> Punctuation | ScopedPunctuation:
    return read_statement(text, SCHEMA, "stream 's'")


def test_a_scope_is_an_object_with_the_number_of_rows_it_speaks_about() -> None:
    found = read('{"$next": 5000, "A": {"range": [2001, null]}}')
    assert isinstance(found, ScopedPunctuation)
    assert (found.rows, found.confidence, found.is_positive) == (5000, 1.0, True)
    assert found.may_match(pa.RecordBatch.from_pydict({"A": [2000, 2001], "B": ["x", None]})).tolist() == [False, True]


def test_a_certain_statement_without_scope_is_an_ordinary_punctuation() -> None:
    assert read('{"$confidence": 1, "A": 7}') == read('{"A": 7}')
    assert isinstance(read('{"$confidence": 0.99, "A": 7}'), ScopedPunctuation)


def test_a_doubtful_statement_is_never_an_ordinary_punctuation() -> None:
    for confidence in (0.01, 0.5, 0.999999):
        statement = ScopedPunctuation((above(3),), None, confidence, is_positive=False)
        assert statement.as_ordinary() is None


@pytest.mark.parametrize("confidence", ["0", "-0.1", "1.01", '"much"', "true", "null"])
def test_a_confidence_outside_of_zero_to_one_is_refused(confidence: str) -> None:
    with pytest.raises(InvalidPattern, match="greater than 0 and at most 1"):
        read(f'{{"$next": 10, "$confidence": {confidence}, "A": 7}}')


@pytest.mark.parametrize("rows", ["0", "-3", "2.5", '"all"', "true"])
def test_a_scope_needs_a_number_of_rows(rows: str) -> None:
    with pytest.raises(InvalidPattern, match="number of rows to come"):
        read(f'{{"$next": {rows}, "A": 7}}')


def test_mistakes_inside_a_scope_are_those_of_a_punctuation() -> None:
    with pytest.raises(InvalidPattern, match="Did you mean 'A'"):
        read('{"$next": 5, "AA": 7}')
    with pytest.raises(InvalidPattern, match="not JSON"):
        read('{"$next": 5, ')
    with pytest.raises(InvalidPattern, match=r"no attribute '\$nxt'"):
        read('{"$nxt": 5}')


scopes = st.builds(
    ScopedPunctuation,
    st.lists(
        st.one_of(
            st.integers(-5, 5).map(above), st.lists(st.integers(0, 9), min_size=1).map(lambda v: Punctuation(("A",), (one_of(v),)))
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.one_of(st.none(), st.integers(0, 10_000)),
    st.floats(0.001, 1.0),
    st.booleans(),
)


@given(scope=scopes)
@settings(max_examples=60, deadline=None)
def test_a_statement_survives_every_form_it_travels_in(scope: ScopedPunctuation) -> None:
    assert scoped_from_herald(scope.to_herald()) == scope
    assert decoded(coded(scope)) == scope
    assert pickle.loads(pickle.dumps(scope)) == scope


def test_another_herald_is_no_scope() -> None:
    assert scoped_from_herald(Herald(above(1), {"kind": "rows"})) is None


def test_rows_use_a_scope_up_and_a_scope_without_end_stays() -> None:
    assert ScopedPunctuation.next_rows(5, above(1)).after(3).rows == 2
    assert ScopedPunctuation.next_rows(5, above(1)).after(9).rows == 0
    assert ScopedPunctuation((above(1),)).after(9).rows is None


def test_an_ended_scope_lets_every_row_come() -> None:
    assert ScopedPunctuation.nothing_known().says_nothing
    assert ScopedPunctuation.next_rows(5, above(1)).after(5).says_nothing
    assert not ScopedPunctuation.next_rows(5, above(1)).says_nothing


def test_partitions_allow_what_one_of_them_allows_and_the_least_certain_counts() -> None:
    board = ScopeBoard()
    board.see_partition(0)
    board.see_partition(1)
    board.announce(0, ScopedPunctuation.next_rows(4, above(10), confidence=0.9))
    assert board.current() is None
    board.announce(1, ScopedPunctuation.next_rows(2, Punctuation.of(("A",), A=constant(3)), confidence=0.7))
    current = board.current()
    assert current is not None
    assert current.confidence == 0.7
    assert current.may_match(pa.RecordBatch.from_pydict({"A": [3, 4, 10]})).tolist() == [True, False, True]
    board = ScopeBoard.from_json(board.to_json())
    assert board.current() == current
    board.see_partition(2)
    assert board.current() is None


@given(scopes=st.lists(st.integers(1, 6), min_size=1, max_size=5), cuts=st.lists(st.integers(0, 4), max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_scope_ends_after_its_rows_however_they_are_cut(scopes: list[int], cuts: list[int]) -> None:
    for rows in scopes:
        board, passed = ScopeBoard(), 0
        board.announce(0, ScopedPunctuation.next_rows(rows, above(1)))
        for cut in cuts:
            board.pass_rows(0, cut)
            passed += cut
            assert (board.current() is None) == (passed >= rows)
