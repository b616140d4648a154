"""The weighted share of answers in time."""

from __future__ import annotations

import pytest

from penstock.qos.score import Answers, QosScore


def test_the_worked_example() -> None:
    score = QosScore({"q1": 3, "q2": 1})
    score.count("q1", on_time=3, late=1)
    score.count("q2", on_time=5)
    assert score.utility == 3 * 0.75 + 1 * 1 == 3.25
    assert score.value == 0.8125


def test_dropped_answers_were_due() -> None:
    score = QosScore()
    score.count("q", on_time=1, late=1, dropped=2)
    assert score.answers["q"] == Answers(due=4, on_time=1)
    assert score.value == 0.25


def test_a_query_without_answers_does_not_count_and_its_weight_neither() -> None:
    score = QosScore({"silent": 100})
    score.count("silent")
    assert score.value is None
    score.count("q", on_time=1)
    assert (score.utility, score.value) == (1, 1)


@pytest.mark.parametrize("factor", [2, 0.5])
def test_only_the_proportion_of_weights_matters_for_the_score(factor: float) -> None:
    found = []
    for by in (1, factor):
        score = QosScore({"a": 3 * by, "b": by})
        score.count("a", on_time=1, late=1)
        score.count("b", on_time=1)
        found.append(score.value)
    assert found[0] == found[1]


def test_a_period_counts_what_came_in_it() -> None:
    score = QosScore({"a": 3})
    score.count("a", late=5)
    score.count("b", late=1)
    earlier = dict(score.answers)
    score.count("a", on_time=3, dropped=1)
    later = score.since(earlier)
    assert later.answers == {"a": Answers(4, 3), "b": Answers(0, 0)}
    assert later.value == 0.75
