"""What is left out, and why, in the history that `penstock why` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.model.qos import Measure, Priority
from penstock.qos.optimizer.optimizer import Action
from penstock.runners.spark.checkpoints.decision_history import DecisionHistory
from penstock.runners.spark.checkpoints.editions import BatchContext
from penstock.runners.spark.driver.reports import BatchReport

#: Changes of what is left out that are worth a line, the time between two such lines, and between two complaints.
_WORTH_TELLING, _PAUSE_MS, _COMPLAINTS_MS = 0.1, 3_000, 30_000
#: Before everything that is told.
_LONG_AGO_MS = -_COMPLAINTS_MS


@dataclass(frozen=True, slots=True)
class Lost:
    """A share of the rows at some place, and whose they are."""

    place: str
    share: float
    queries: Sequence[str]

    def __str__(self) -> str:
        return f"{self.share:.1%} of the rows of {self.place} ({', '.join(self.queries)})"


@dataclass(slots=True)
class LossHistory:
    """Notes when rows begin to be left out, when many more or fewer are, when none are, and when more should be than may be.

    Parameters
    ----------
    latency_s, asking
        The latency for which rows are left out, and the query that promises it.
    """

    history: DecisionHistory
    latency_s: float
    asking: str
    #: Of what was last noted: the greatest share, and when; and when it was last said that nothing helps.
    _told: float = 0.0
    _told_ms: int = _LONG_AGO_MS
    _complained_ms: int = _LONG_AGO_MS

    def hear(self, lost: Sequence[Lost], excess: float, rows: float, last: BatchReport | None, context: BatchContext) -> None:
        """A micro-batch begins.

        Parameters
        ----------
        excess
            Part of its work that is too much with all loss that may be.
        rows
            That it has.
        last
            The micro-batch before.
        """
        now_ms, most = context.planned_ms, max((item.share for item in lost), default=0.0)
        if excess and now_ms - self._complained_ms >= _COMPLAINTS_MS:
            self._complained_ms = now_ms
            self._note(
                Action.CANNOT, f"{excess:.0%} of the work is too much even with all loss that contracts allow", lost, last, context
            )
        is_news = bool(most) != bool(self._told) or abs(most - self._told) >= _WORTH_TELLING
        if is_news and now_ms - self._told_ms >= _PAUSE_MS:
            more = most > self._told
            reason = (
                f"{rows:,.0f} rows have come for one micro-batch, more than can be processed within a latency of "
                f"{self.latency_s:g} s of '{self.asking}'"
            )
            self._told, self._told_ms = most, now_ms
            self._note(
                Action.SHED if more else Action.RESTORE,
                reason if more else "fewer rows come, or they cost less",
                lost,
                last,
                context,
            )

    def _note(self, action: Action, reason: str, lost: Sequence[Lost], last: BatchReport | None, context: BatchContext) -> None:
        took_s = last.duration_ms / 1000 if last is not None else 0.0
        policy = last.policy if last is not None else ""
        told = f"; left out: {'; '.join(map(str, lost))}" if lost else ""
        measured: Mapping[str, object] = {
            "query": self.asking, "measure": Measure.LATENCY.value, "measured": took_s, "expected": self.latency_s,
            "class": Priority.MUST_SATISFY.value, "is_kept": action is Action.RESTORE,
            "text": f"the micro-batch before took {took_s:.2f} s, latency promised {self.latency_s:.2f} s",
        }  # fmt: skip
        self.history.append(
            {
                "at_ms": context.planned_ms, "epoch": context.epoch, "action": action.value, "strategy": policy, "before": policy,
                "query": self.asking, "reason": reason + told, "scores": {}, "measured": [measured],
                "losing": sorted({query for item in lost for query in item.queries}),
            }
        )  # fmt: skip
