"""How well queries with weights and validities are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answers:
    """Those a query should have given in a period, and those of them that came in time.

    Parameters
    ----------
    due
        All: in time, late, and those that will never come because rows were dropped.
    """

    due: int = 0
    on_time: int = 0

    @property
    def share(self) -> float | None:
        """Of answers in time; None if none was due."""
        return self.on_time / self.due if self.due else None


class QosScore:
    """Counts answers and says which weighted share of them came in time.

    Each query counts with its weight, however many answers it has. Queries of which no answer was due do not count.

    Parameters
    ----------
    weights
        By query; others have weight 1.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, (4.1)-(4.3). The score is (4.3)
    divided by the weights, so that 1 means that all answers are in time.

    Examples
    --------
    >>> score = QosScore({"deals": 3})
    >>> score.count("deals", on_time=3, late=1)
    >>> score.count("reports", on_time=5)
    >>> score.utility, score.value
    (3.25, 0.8125)
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._weights = dict(weights or {})
        self._answers: dict[str, Answers] = {}

    def count(self, query: str, on_time: int = 0, late: int = 0, dropped: int = 0) -> None:
        """Answers of a query, or what it would have answered if nothing had been dropped."""
        before = self._answers.get(query, Answers())
        self._answers[query] = Answers(before.due + on_time + late + dropped, before.on_time + on_time)

    def weight_of(self, query: str) -> float:
        return self._weights.get(query, 1.0)

    @property
    def answers(self) -> Mapping[str, Answers]:
        return self._answers

    @property
    def utility(self) -> float:
        """Weights of all queries, each times its share in time."""
        return sum((self.weight_of(query) * share for query, share in self._shares().items()), 0.0)

    @property
    def value(self) -> float | None:
        """Between 0 and 1; None while no answer was due."""
        weights = sum(self.weight_of(query) for query in self._shares())
        return self.utility / weights if weights else None

    def since(self, earlier: Mapping[str, Answers]) -> QosScore:
        """The same for the period after an earlier look at `answers`."""
        later = QosScore(self._weights)
        for query, now in self._answers.items():
            then = earlier.get(query, Answers())
            on_time = now.on_time - then.on_time
            later.count(query, on_time, late=now.due - then.due - on_time)
        return later

    def _shares(self) -> dict[str, float]:
        return {query: share for query, found in self._answers.items() if (share := found.share) is not None}
