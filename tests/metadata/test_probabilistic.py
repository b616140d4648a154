"""Budgets on recall, and what doubtful punctuations may become."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidDeclaration, InvalidPattern
from penstock.metadata.probabilistic import RecallBudget, joint_confidence, propagated
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import ScopedPunctuation
from penstock.model.value_sets import constant

ITEM = Punctuation.of(("item",), item=constant(180))


def doubt(confidence: float) -> ScopedPunctuation:
    return ScopedPunctuation((ITEM,), None, confidence, is_positive=False)


@pytest.mark.parametrize("confidence", [0.0, -0.5, 1.5, float("nan")])
def test_a_confidence_is_a_probability_above_zero(confidence: float) -> None:
    with pytest.raises(InvalidPattern):
        doubt(confidence)


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 2.0])
def test_a_budget_is_a_share_of_the_results(epsilon: float) -> None:
    with pytest.raises(InvalidDeclaration):
        RecallBudget(epsilon)


def test_certain_causes_make_a_certain_punctuation_and_doubtful_ones_the_product_of_their_confidences() -> None:
    assert propagated(ITEM, [ITEM, doubt(1.0)]) == ITEM
    found = propagated(ITEM, [doubt(0.9), doubt(0.5), ITEM])
    assert isinstance(found, ScopedPunctuation)
    assert found.confidence == pytest.approx(0.45)
    assert found.as_ordinary() is None


@given(confidences=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_doubt_never_vanishes_on_the_way(confidences: list[float]) -> None:
    causes = [doubt(confidence) for confidence in confidences]
    found = propagated(ITEM, causes)
    assert isinstance(found, Punctuation) == all(confidence == 1.0 for confidence in confidences)
    assert joint_confidence(causes) <= min(confidences)


@given(
    epsilon=st.floats(0.0, 0.5), emitted=st.integers(0, 1000),
    offers=st.lists(st.tuples(st.floats(0.05, 1.0), st.lists(st.floats(0, 100), max_size=6)), max_size=6),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_expected_losses_stay_within_the_budget(epsilon: float, emitted: int, offers: list[tuple[float, list[float]]]) -> None:
    budget = RecallBudget(epsilon, emitted)
    for confidence, results in offers:
        budget.spend(confidence, np.array(results))
        assert budget.lost <= epsilon * emitted + 1e-9
    assert budget.recall >= 1 - epsilon - 1e-9
    assert RecallBudget.from_json(budget.to_json()) == budget


def test_without_a_budget_nothing_is_forgotten_on_a_probability() -> None:
    assert not RecallBudget(0.0, emitted=1000).spend(0.99, np.array([0.0, 5.0])).any()


def test_a_run_without_results_has_full_recall() -> None:
    assert RecallBudget(0.1).recall == 1.0


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.3])
def test_with_calibrated_confidences_measured_recall_is_within_the_budget_on_average(epsilon: float) -> None:
    """Values with some results each; a statement about a value is false with the probability it admits."""
    random = np.random.default_rng(5)
    recalls = []
    for _ in range(80):
        budget, emitted, lost = RecallBudget(epsilon), 0, 0
        for _ in range(200):
            budget.emitted = emitted
            confidence, results = float(random.uniform(0.5, 0.99)), int(random.integers(1, 20))
            comes = random.random() >= confidence
            purged = bool(budget.spend(confidence, np.array([float(results)]))[0])
            emitted += 5 + (results if comes and not purged else 0)
            lost += results if comes and purged else 0
        recalls.append(emitted / (emitted + lost))
    assert np.mean(recalls) >= 1 - epsilon
    assert np.mean(recalls) < 1  # the budget is used
