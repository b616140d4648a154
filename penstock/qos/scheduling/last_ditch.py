"""Whether a job that will be late unless it starts now may interrupt the running one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Stake(Protocol):
    """What is known of a job when it is compared with another: time it still takes, profit for it, and when it must start."""

    cost_ns: float
    density: float
    latest_ns: float


@dataclass(frozen=True, slots=True)
class LastDitch:
    """The test of deadline-aware strategies; each job may ask for it once.

    Parameters
    ----------
    threshold
        The job in danger must earn more than this many times as much for its time as the running one (u).
    save_both
        Let it through also if the running job can wait for it, so that neither is late.
    guard
        Ask for 1.3 instead of a threshold below 1 if the running job would be late.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, Algorithm 7. `save_both` and `guard` are ours.
    """

    threshold: float
    save_both: bool = False
    guard: bool = False

    def interrupts(self, waiting: Stake, running: Stake, now_ns: float) -> bool:
        can_wait = running.latest_ns - now_ns >= waiting.cost_ns
        if self.save_both and can_wait:
            return True
        is_guarded = self.guard and self.threshold < 1 and not can_wait
        return waiting.density > (1.3 if is_guarded else self.threshold) * running.density
