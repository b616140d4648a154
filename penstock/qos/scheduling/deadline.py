"""What can wait least, and is worth it."""

from __future__ import annotations

from penstock.qos.scheduling.job_scheduler import Order, SchedulesJobs
from penstock.qos.scheduling.last_ditch import LastDitch
from penstock.qos.scheduling.valuation import ByFragments, ProfitOf


class Deadline(SchedulesJobs):
    """Run the arrival that can wait least until its answers are late; one that must start now interrupts what earns less.

    Jobs are fragments, as in `profit`. Choose it while nearly all answers can be in time; under overload it begins with what is
    nearly late whatever it earns, and `profit_deadline` is better.

    Parameters
    ----------
    threshold
        A job that must start now interrupts the running one if it earns more than so many times as much for its time (u).
    published
        Form fragments by the published rule, which may earn less; see `fragments`.
    save_both, guard
        See `LastDitch`.
    splitting, profit
        See `SchedulesJobs`.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4,
    Algorithms 2-7 (OptProfit+DD).
    """

    def __init__(
        self,
        threshold: float = 1.3,
        published: bool = False,
        save_both: bool = False,
        guard: bool = False,
        splitting: bool = True,
        profit: ProfitOf = "answers",
    ) -> None:
        super().__init__(
            ByFragments(published),
            Order.DEADLINE,
            LastDitch(threshold, save_both, guard),
            profit,
            splitting,
        )
