"""What may be forgotten on a mere probability, and what that costs.

A probable punctuation says that values will not come, with a confidence below 1. As a *hint* (the default) it only decides
what is kept in memory; answers stay exact. In *approximate* mode rows may be forgotten on its word as long as the results
that are expected to be lost stay within a budget. What is answered is always right; some answers may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidDeclaration
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import ScopedPunctuation

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class RecallBudget:
    """How many results may be lost, how many probably were, and what that says about recall.

    Forgetting the rows of a value on a punctuation of confidence `c` loses `(1-c)·r` results on average, where `r` results
    would come of them within the scope. Rows are forgotten only while the sum stays within `epsilon` of all results.

    Parameters
    ----------
    epsilon
        Share of the results that may be lost; 0: none, so that nothing is ever purged on a probability.
    emitted
        Results so far.
    lost
        Results lost so far, as an expectation.

    Notes
    -----
    The estimate is an expectation. It is as good as the confidences and the predicted results are, and no guarantee for a
    single run; results that are emitted are always right.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 32.

    Examples
    --------
    >>> budget = RecallBudget(epsilon=0.1, emitted=100)
    >>> budget.spend(0.8, np.array([30.0, 10.0, 20.0])).tolist()
    [True, True, False]
    >>> round(budget.recall, 3)
    0.926
    """

    epsilon: float
    emitted: int = 0
    lost: float = 0.0
    purged_values: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1:
            raise InvalidDeclaration(
                f"a loss of {self.epsilon} is no share of the results; write a number from 0 to below 1", "recall"
            )

    @property
    def recall(self) -> float:
        """Expected share of all results that were emitted."""
        total = self.emitted + self.lost
        return 1.0 if total == 0 else 1.0 - self.lost / total

    def spend(self, confidence: float, results: Floats, expected: float = 0.0) -> npt.NDArray[np.bool_]:
        """Which values may be forgotten; what that is expected to cost is charged.

        Parameters
        ----------
        results
            Results each value would still have within the scope if it came after all.
        expected
            Results of all values that are still to come, where somebody can tell; they widen the budget.

        Returns
        -------
        One flag for each value. Values are taken in the order given until the next one would exceed the budget; put those
        first that free most memory.
        """
        losses = (1.0 - confidence) * np.asarray(results, np.float64)
        allowed = self.epsilon * (self.emitted + expected) - self.lost
        chosen: npt.NDArray[np.bool_] = np.cumsum(losses) <= allowed
        if self.epsilon == 0:
            chosen[:] = False
        self.lost += float(losses[chosen].sum())
        self.purged_values += int(np.count_nonzero(chosen))
        return chosen

    def to_json(self) -> dict[str, Any]:
        """State that `from_json` turns back."""
        return {"epsilon": self.epsilon, "emitted": self.emitted, "lost": self.lost, "purged_values": self.purged_values}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> RecallBudget:
        """Inverse of `to_json`."""
        return cls(saved["epsilon"], saved["emitted"], saved["lost"], saved["purged_values"])


def joint_confidence(statements: Iterable[ScopedPunctuation | Punctuation]) -> float:
    """Probability that independent statements are all true; ordinary punctuations are certain."""
    return prod(part.confidence if isinstance(part, ScopedPunctuation) else 1.0 for part in statements)


def propagated(pattern: Punctuation, causes: Iterable[ScopedPunctuation | Punctuation]) -> ScopedPunctuation | Punctuation:
    """What an operator may announce about its output because of these statements about its inputs.

    Only certain causes make an ordinary punctuation; one doubtful cause makes the result doubtful.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> item = Punctuation.of(("item",), item=constant(180))
    >>> doubt = ScopedPunctuation((item,), confidence=0.9, is_positive=False)
    >>> print(propagated(item, [item, doubt]), propagated(item, [item, item]))
    ⟨item=180 (90%)⟩ ⟨item=180⟩
    """
    known = list(causes)
    doubtful = [cause for cause in known if isinstance(cause, ScopedPunctuation) and not cause.is_exact]
    return ScopedPunctuation((pattern,), None, joint_confidence(known), is_positive=False) if doubtful else pattern
