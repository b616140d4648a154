"""The purge threshold that finds itself: the optimum of the cost model as a start, then steps towards less work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

#: Purges between two decisions.
PERIOD = 20
LEAST, MOST = 1, 10_000


def best_threshold(buckets: int, tuples_per_punctuation: float, state_rows: float, freed: float) -> int:
    """Punctuations to wait for that make scans and probes of garbage together cheapest.

    Parameters
    ----------
    state_rows
        Rows of both inputs right after a purge.
    freed
        Stored rows that one punctuation makes useless.

    Notes
    -----
    N* = sqrt(4 · buckets · (punctuations per tuple) · state / freed): a probe sees half the state spread over the buckets,
    a purge all of it; comparing and scanning cost the same. Too small when buckets are more than stored keys.

    Examples
    --------
    >>> best_threshold(16, 10, 242, 5.6), best_threshold(64, 10, 242, 5.6)
    (17, 33)
    """
    if freed <= 0:
        return MOST
    return min(max(round(sqrt(4 * buckets * state_rows / (tuples_per_punctuation * freed))), LEAST), MOST)


@dataclass(slots=True)
class PurgeTuner:
    """Chooses the purge threshold from counters alone, so that a replay chooses the same.

    The first period purges eagerly to learn; then the cost model gives a start, and every period the threshold is doubled or
    halved: on while work per tuple falls, back when it rises.

    Examples
    --------
    >>> tuner = PurgeTuner(buckets=64)
    >>> for purge in range(1, 21):
    ...     tuner.after_purge(tuples=100 * purge, punctuations=10 * purge, work=5_000 * purge, freed=56 * purge, state_rows=242)
    >>> tuner.threshold
    33
    """

    buckets: int
    threshold: int = 1
    factor: float = 2.0
    purges: int = 0
    state_sum: int = 0
    last_cost: float = -1.0
    start: dict[str, int] = field(default_factory=lambda: {"tuples": 0, "punctuations": 0, "work": 0, "freed": 0})

    def after_purge(self, tuples: int, punctuations: int, work: int, freed: int, state_rows: int) -> None:
        """Hear the totals after a purge; they decide the next threshold at the end of a period."""
        self.purges += 1
        self.state_sum += state_rows
        if self.purges % PERIOD:
            return
        now = {"tuples": tuples, "punctuations": punctuations, "work": work, "freed": freed}
        seen = {name: value - self.start[name] for name, value in now.items()}
        cost = seen["work"] / max(seen["tuples"], 1)
        if self.purges == PERIOD:
            ratio, each = (seen[name] / max(seen["punctuations"], 1) for name in ("tuples", "freed"))
            self.threshold = best_threshold(self.buckets, max(ratio, 1e-9), self.state_sum / PERIOD, each)
        else:
            if 0 <= self.last_cost < cost:
                self.factor = 1 / self.factor
            self.threshold = min(max(round(self.threshold * self.factor), LEAST), MOST)
        self.last_cost, self.start, self.state_sum = cost, now, 0

    def to_json(self) -> dict[str, Any]:
        names = ("threshold", "factor", "purges", "state_sum", "last_cost", "start")
        return {name: getattr(self, name) for name in names}

    def restore(self, coded: Mapping[str, Any]) -> None:
        for name, value in coded.items():
            setattr(self, name, dict(value) if isinstance(value, Mapping) else value)
