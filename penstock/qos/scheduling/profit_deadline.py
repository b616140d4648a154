"""What earns most, unless something nearly as good would be late."""

from __future__ import annotations

from penstock.qos.scheduling.job_scheduler import Order, SchedulesJobs
from penstock.qos.scheduling.last_ditch import LastDitch
from penstock.qos.scheduling.valuation import ByFragments, ProfitOf


class ProfitDeadline(SchedulesJobs):
    """Run the arrival that earns most for its time; one that must start now interrupts it even if it earns somewhat less.

    The running one can often wait. Jobs are fragments, as in `profit`. Choose it under heavy load, or if queries differ in weight.

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
    Algorithms 2-5, 7 and 8 (OptProfit+PD).
    """

    def __init__(
        self,
        threshold: float = 0.65,
        published: bool = False,
        save_both: bool = False,
        guard: bool = False,
        splitting: bool = True,
        profit: ProfitOf = "answers",
    ) -> None:
        super().__init__(
            ByFragments(published),
            Order.PROFIT_DEADLINE,
            LastDitch(threshold, save_both, guard),
            profit,
            splitting,
        )
