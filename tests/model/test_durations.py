"""One reading of durations: what every door has accepted, and what none has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidDeclaration, InvalidOption, SyntaxMistake
from penstock.expressions.nodes import Literal
from penstock.expressions.parse import parse
from penstock.model.durations import UNIT_MICROS, duration_text, micros_of, no_duration
from penstock.workloads.texts import read_duration_us

SECOND = 1_000_000


def literal(text: str) -> int:
    found = parse(text)
    assert isinstance(found, Literal)
    return int(found.value)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 seconds", 10 * SECOND), ("1 hour 30 minutes", 5400 * SECOND), ("0 seconds", 0), ("1 WEEK", 7 * 86_400 * SECOND),
        ("2 days", 2 * 86_400 * SECOND), ("  5   milliseconds ", 5_000), ("7 microsecond", 7), ("1.5 hours", 5400 * SECOND),
        ("250ms", 250_000), ("2h30m", 9000 * SECOND), (".5 s", SECOND // 2), ("800 us", 800), ("3000 ns", 3),
    ],
)  # fmt: skip
def test_arguments_of_calls_say_how_long(text: str, micros: int) -> None:
    assert micros_of(text) == micros


@pytest.mark.parametrize("text", ["", "soon", "10", "seconds", "10 fortnights", "-5 seconds", "1.2.3 s", "10 5 days", "5 days 3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is no duration; write a number and a unit"):
        micros_of(text, "ps.join, within")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("250 ms", 250_000), ("2 seconds", 2 * SECOND), ("0.5", SECOND // 2), (".5", SECOND // 2), ("3.", 3 * SECOND),
        ("7 m", 420 * SECOND), ("1 h", 3600 * SECOND), ("5US", 5), ("2 Minutes", 120 * SECOND), ("4 days", 4 * 86_400 * SECOND),
    ],
)  # fmt: skip
def test_options_of_workloads_count_seconds_where_no_unit_stands(text: str, micros: int) -> None:
    assert read_duration_us("disorder", text) == micros


@pytest.mark.parametrize("text", ["", "5 parsecs", "1.2.3", "-1", "1 2"])
def test_options_of_workloads_are_refused_in_the_same_words(text: str) -> None:
    with pytest.raises(InvalidOption) as found:
        read_duration_us("disorder", text)
    assert found.value.message == no_duration(text)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("INTERVAL 5 MINUTES", 300 * SECOND), ("INTERVAL '1 hour 3 seconds'", 3603 * SECOND),
        ("INTERVAL '-5' SECOND", -5 * SECOND),
        ("INTERVAL '1.5' HOURS", 5400 * SECOND), ("INTERVAL '9007199254740993' MICROSECONDS", 2**53 + 1),
        ("INTERVAL '12345678901.234567' SECONDS", 12_345_678_901_234_567), ("INTERVAL '1 day -1 hour'", 82_800 * SECOND),
        ("INTERVAL '5 ms'", 5_000), ("INTERVAL '5seconds'", 5 * SECOND),
    ],
)  # fmt: skip
def test_intervals_are_exact_and_signed(text: str, micros: int) -> None:
    assert literal(text) == micros


@pytest.mark.parametrize("text", ["INTERVAL '1' MONTH", "INTERVAL '1 year'", "INTERVAL 'soon' SECONDS", "INTERVAL '5 fortnights'"])
def test_intervals_without_a_fixed_length_are_refused(text: str) -> None:
    with pytest.raises(SyntaxMistake):
        literal(text)


def test_an_interval_beyond_all_timestamps_is_refused() -> None:
    for amount in ("9" * 30, "9" * 5_000, "9" * 400 + ".5"):
        with pytest.raises(SyntaxMistake, match="longer than a timestamp can count"):
            literal(f"INTERVAL '{amount}' SECONDS")


@given(st.integers(0, 10**15), st.sampled_from(sorted(UNIT_MICROS)), st.booleans())
def test_what_is_printed_is_read_back(number: int, unit: str, is_plural: bool) -> None:
    micros = micros_of(f"{number} {unit}{'s' if is_plural else ''}")
    assert micros == number * UNIT_MICROS[unit]
    assert micros_of(duration_text(micros)) == micros
