"""The text of row patterns: what may be written, and what a mistake says."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidEventPattern
from penstock.model.row_pattern_text import parse_row_pattern
from penstock.model.row_patterns import least_before, least_rows, most_rows, variables_of


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A B", "A B"),
        ("((A)) (B C)", "A B C"),
        ('"A" /* the first */ `b` -- and so on\n c', "A b c"),
        ("a A b", "a a b"),
        ("a|b|c d", "a | b | c d"),
        ("(a|b) c", "(a | b) c"),
        ("a{1,} b{0,} c{0,1}", "a+ b* c?"),
        ("a{,3}? b??", "a{0,3}? b??"),
        ("(a b){2}", "(a b){2}"),
        ("permute(a, b+, c)", "a b+ c | a c b+ | b+ a c | b+ c a | c a b+ | c b+ a"),
        ("PERMUTE", "PERMUTE"),
        ("^a{-b+ c-}d", "^ a {- b+ c -} d"),
        ("a b | ( )", "a b | ()"),
        ("{- a | b -}{2} (^ c | d)", "{- a | b -}{2} (^ c | d)"),
    ],
)
def test_a_pattern_is_read_as_written(written: str, read: str) -> None:
    assert str(parse_row_pattern(written)) == read


@pytest.mark.parametrize(
    ("written", "message", "column"),
    [
        ("", "the pattern is empty", 1),
        ("a )", "')' is not expected here", 3),
        ("(a b", "found the end of the pattern; expected ')'", 4),
        ("a | | b", "found '|'; expected a variable or '('", 5),
        ("a {x}", "expected a number of rows", 4),
        ("a{2", "expected '}'", 3),
        ("a+*", "expected a variable", 3),
        ("a{0}", "allows no number of rows", 1),
        ("x (a? b?)+", "repeats what may take no row at all", 3),
        ("a $", "let a row that tells the end be the last, or use WITHIN", 3),
        ("a {- b", "expected '-}'", 6),
        ("a {- b )", "expected '-}'", 8),
        ("a ^*", "repeats what may take no row at all", 3),
        ("permute(a,b,c,d,e,f,g)", "at most 6 parts", 1),
    ],
)
def test_a_mistake_says_what_and_where(written: str, message: str, column: int) -> None:
    with pytest.raises(InvalidEventPattern, match=r"patterns\.invalid") as caught:
        parse_row_pattern(written)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == column


def test_bounds_of_a_pattern() -> None:
    pattern = parse_row_pattern("a? (b | c d){2,3} a e*")
    assert variables_of(pattern) == ("a", "b", "c", "d", "e")
    assert (least_rows(pattern), most_rows(pattern)) == (3, None)
    assert least_before(pattern) == {"a": 0, "b": 0, "c": 0, "d": 1, "e": 3}
    assert most_rows(parse_row_pattern("a? (b | c d){2,3}")) == 7
