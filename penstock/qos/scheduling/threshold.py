"""Answers soon while there is memory, short queues when there is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Choice, WaitingWork, WorkPlan
from penstock.plan.analysis.estimation import bytes_text
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.path_share import PathShare
from penstock.qos.scheduling.segment import Segment

#: Strategies for while there is memory.
NORMAL = {"path_capacity": PathCapacity, "path_answers": PathAnswers, "path_share": PathShare}
#: Of the mean of memory.
_TIME_CONSTANT_NS = 600e9
#: Before this much time has been seen the mean is not trusted.
_START_NS = 60e9


class Threshold:
    """Serve by path capacity until queues take much memory, then by memory-optimal segments until they take little.

    Choose it when answers shall come soon and memory for queues is limited: queues stay near the upper threshold as long as
    `segment` could keep them there. What exceeds the memory is for a load shedder; a strategy drops nothing.

    Parameters
    ----------
    memory
        Bytes for the queues of one shard.
    beta
        The upper threshold is at most this part of the memory. Less saves sooner and answers later.
    upper, lower
        Bytes at which saving begins and ends; None: reckoned from the mean.
    normal
        What picks when nothing has to be saved: `path_capacity`, `path_answers` or `path_share`.
    dynamic
        Whether priorities are multiplied by age and size of what waits; see `starvation`.

    Notes
    -----
    Differs from the book: memory is looked at before every pick, which costs nothing here, instead of after intervals. The
    mean is exponential with a time constant of 10 minutes of virtual time; during the first minute the lower threshold is
    half of the upper one, because a mean near 0 would never let it leave saving.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, (6.8).

    Examples
    --------
    >>> Threshold(memory=1_000, upper=800, lower=500).mode
    'normal'
    """

    def __init__(
        self,
        memory: int,
        beta: float = 0.9,
        upper: int | None = None,
        lower: int | None = None,
        normal: str = "path_capacity",
        dynamic: bool = False,
    ) -> None:
        _check(memory, beta, upper, lower)
        self._memory, self._beta, self._upper, self._lower = memory, beta, upper, lower
        self._policies = {"normal": NORMAL[normal](dynamic), "saving": Segment(dynamic)}
        self.mode = "normal"
        self._mean = MeanMemory()

    def plan(self, plan: WorkPlan) -> None:
        for policy in self._policies.values():
            policy.plan(plan)

    def pick(self, work: WaitingWork) -> Choice | None:
        self._mean.observe(work.memory, work.now_ns)
        upper, lower = self.thresholds()
        # The order lets nothing but these two crossings change the mode.
        if self.mode == "normal" and work.memory >= upper:
            self.mode = "saving"
        elif self.mode == "saving" and work.memory <= lower:
            self.mode = "normal"
        return self._policies[self.mode].pick(work)

    def thresholds(self) -> tuple[float, float]:
        """Bytes at which saving begins, and ends."""
        upper, lower = thresholds(self._memory, self._mean.bytes, self._beta, self._upper)
        if self._lower is not None:
            return upper, self._lower
        return upper, lower if self._mean.is_trusted else upper / 2

    @property
    def serving(self) -> tuple[str, object]:
        return self.mode, self._policies[self.mode].serving[1]

    def snapshot(self) -> Mapping[str, Any]:
        policies = {mode: policy.snapshot() for mode, policy in self._policies.items()}
        return {"mode": self.mode, "mean": self._mean.snapshot(), **policies}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.mode = state.get("mode", "normal")
        self._mean.restore(state.get("mean", {}))
        for mode, policy in self._policies.items():
            policy.restore(state.get(mode, {}))

    def explained(self) -> Sequence[str]:
        upper, lower = map(bytes_text, self.thresholds())
        head = f"{self.mode}: of {bytes_text(self._memory)}, saving begins at {upper} and ends at {lower}; "
        lines = [f"{head}mean {bytes_text(self._mean.bytes)}"]
        for mode, policy in self._policies.items():
            lines += [f"{mode}:", *(f"  {line}" for line in policy.explained())]
        return lines


def thresholds(memory: float, mean: float, beta: float, upper: float | None = None) -> tuple[float, float]:
    """Bytes at which saving begins, and ends: (6.8).

    Examples
    --------
    >>> thresholds(memory=20, mean=4, beta=0.9), thresholds(memory=12.5, mean=7.5, beta=0.9)
    ((12.0, 4), (10.0, 7.5))
    """
    if upper is None:
        upper = min((1 + mean / memory) / 2 * memory, beta * memory)
    return upper, min(mean, beta * upper)


def _check(memory: int, beta: float, upper: int | None, lower: int | None) -> None:
    if not memory > 0:
        raise InvalidDeclaration(f"memory > 0 does not hold: it is {memory}")
    if not 0.5 < beta < 1:
        raise InvalidDeclaration(f"0.5 < beta < 1 does not hold: it is {beta:g}")
    if upper is not None and not 0 < upper < memory:
        raise InvalidDeclaration(f"0 < upper < memory does not hold: they are {bytes_text(upper)} and {bytes_text(memory)}")
    # Half of the memory is the least upper threshold that is ever reckoned.
    least, name = (memory / 2, "memory / 2") if upper is None else (upper, "upper")
    if lower is not None and not 0 <= lower < least:
        raise InvalidDeclaration(f"0 <= lower < {name} does not hold: they are {bytes_text(lower)} and {bytes_text(least)}")


class MeanMemory:
    """Exponential mean of memory over virtual time, of what has been seen so far."""

    def __init__(self) -> None:
        self._sum = self._weight = self._seen_ns = 0.0
        self._last = 0
        self._at_ns: int | None = None

    def observe(self, memory: int, now_ns: int) -> None:
        """So much waits now."""
        # Virtual time may run ahead of the next micro-batch; then time stands still.
        passed = 0 if self._at_ns is None else max(now_ns - self._at_ns, 0)
        if passed:
            # Not exp(), the last digit of which differs between machines; modes must be the same on a replay.
            kept = 1.0 / (1.0 + passed / _TIME_CONSTANT_NS)
            self._sum = self._sum * kept + self._last * (1.0 - kept)
            self._weight = self._weight * kept + 1.0 - kept
            self._seen_ns += passed
        self._last = memory
        self._at_ns = now_ns if self._at_ns is None else max(self._at_ns, now_ns)

    @property
    def bytes(self) -> float:
        return self._sum / self._weight if self._weight else 0.0

    @property
    def is_trusted(self) -> bool:
        return self._seen_ns >= _START_NS

    def snapshot(self) -> Mapping[str, Any]:
        return {"sum": self._sum, "weight": self._weight, "seen_ns": self._seen_ns, "last": self._last, "at_ns": self._at_ns}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._sum, self._weight = state.get("sum", 0.0), state.get("weight", 0.0)
        self._seen_ns, self._last, self._at_ns = state.get("seen_ns", 0.0), state.get("last", 0), state.get("at_ns")
