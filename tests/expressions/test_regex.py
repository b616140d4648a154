"""Regular expressions have Java's meaning in every engine, or are refused."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import SyntaxMistake
from penstock.expressions.evaluate import evaluate
from penstock.expressions.java_regex import PatternMistake
from penstock.expressions.nodes import Call, Column, Literal
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.typing import STRING, type_of
from penstock.model.schema import Schema
from penstock.testing.expressions import random_regex, random_text


def found(pattern: str, *texts: str) -> list[bool]:
    rows = pa.RecordBatch.from_pydict({"s": pa.array(texts)})
    result: list[bool] = evaluate(Call("rlike", (Column("s"), Literal(pattern, STRING))), rows).to_pylist()
    return result


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=110797)
def test_whole_columns_are_judged_as_single_texts_are(seed):
    rng = random.Random(seed)
    plan, texts = search_plan(random_regex(rng)), [random_text(rng) for _ in range(60)]
    assert plan(pa.array(texts)).to_pylist() == [plan.found(text) for text in texts]


def test_a_dollar_stands_before_the_terminator_that_ends_the_text():
    assert found("b$", "b", "b\n", "b\r\n", "b\r", "b\x85", "b\u2028", "b\n\n", "b\nc") == [True] * 6 + [False] * 2


def test_a_dollar_does_not_stand_between_carriage_return_and_line_feed():
    assert found("^[^\n]*$", "a\r\n", "a\r", "a\n", "a") == [True, True, True, True]
    assert found("[^\n]$", "\r\n", "\r", "a\r\n") == [False, True, True]
    assert search_plan("[^\n]$").re2 is not None


def test_a_dot_is_no_line_terminator_of_any_kind():
    assert found("^a.c$", "abc", "a\nc", "a\rc", "a\x85c", "a\u2029c", "a\U0001f600c") == [True, False, False, False, False, True]
    assert found("(?s)^a.c$", "a\nc", "a\r\nc") == [True, False]


def test_classes_are_those_of_ascii():
    assert found("^\\s$", " ", "\x0b", "\xa0") == [True, True, False]
    assert found("^\\w$", "_", "é") == [True, False]
    assert found("^\\d$", "7", "\u0663") == [True, False]


def test_case_is_ignored_for_letters_of_ascii_only():
    assert found("(?i)é", "é", "É") == [True, False]
    assert found("(?i)k", "K", "\u212a") == [True, False]
    assert found("(?i)[^a-c]", "B", "D") == [False, True]
    assert found("a(?i:b)c", "aBc", "aBC") == [True, False]


@pytest.mark.parametrize("pattern", ["[Kk]|1", "(?i)1|k", "a(?i:s)|a1", "(?:[Ss]|[1-3])+"])
def test_a_letter_in_both_cases_beside_other_characters_is_of_ascii_too(pattern):
    assert search_plan(pattern).re2 is not None
    assert found(pattern, "aK", "as", "a1", "a\u212a", "a\u017f")[2:] == [True, False, False]


def test_the_edge_of_a_word_is_that_of_ascii_letters_whatever_java_runs():
    assert found("\\bx", "éx", "ax") == [True, False]
    assert "\\b" not in search_plan("\\bx").java


def test_a_pattern_java_reads_in_one_way_reaches_catalyst_as_written():
    assert search_plan("^a.*[^b]$").java == "^a.*[^b]$"


@pytest.mark.parametrize(
    "pattern", ["(", "a)", "[", "[a", "*", "a**", "{", "a{", "a{2,1}", "\\", "(?", "(?<n>a)(?<n>b)", "\\x4", "[b-a]"]
)
def test_what_is_no_pattern_is_refused_before_the_query_starts(pattern):
    with pytest.raises(SyntaxMistake, match="RLIKE cannot use the pattern"):
        type_of(Call("rlike", (Column("s"), Literal(pattern, STRING))), Schema.of(s=STRING))


@pytest.mark.parametrize(
    "pattern", ["(a)\\1", "(?>a)", "a*+", "\\p{L}", "(?u)a", "(?x)a", "\\R", "\\X", "\\07", "(?<=a*)b", "(" * 70 + ")" * 70]
)
def test_what_engines_read_differently_is_refused_by_name(pattern):
    with pytest.raises(PatternMistake, match=r"support|inside each other"):
        search_plan(pattern)


@pytest.mark.parametrize("pattern", ["(?m)^a$", "a$b?", "(?!a)b", "(?<=a)b", "\\B", "(?:a$)?"])
def test_what_re2_cannot_say_is_left_to_python(pattern):
    assert search_plan(pattern).re2 is None


def test_an_unknown_text_has_no_answer():
    rows = pa.RecordBatch.from_pydict({"s": pa.array(["a", None])})
    for pattern in ("a", "(?m)^a", "[^\n]$"):
        assert evaluate(Call("rlike", (Column("s"), Literal(pattern, STRING))), rows).to_pylist() == [True, None]
