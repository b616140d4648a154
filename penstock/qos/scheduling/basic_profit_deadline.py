"""Operator by operator, what earns most unless something nearly as good would be late."""

from __future__ import annotations

from penstock.qos.scheduling.job_scheduler import Order, SchedulesJobs
from penstock.qos.scheduling.last_ditch import LastDitch
from penstock.qos.scheduling.valuation import JobByJob, NlDeadline, ProfitOf


class BasicProfitDeadline(SchedulesJobs):
    """As `profit_deadline`, with the jobs of `basic`: each operator by itself, looked at after every piece of work.

    It is what `profit_deadline` is compared with.

    Parameters
    ----------
    threshold
        A job that must start now interrupts the running one if it earns more than so many times as much for its time (u).
    nl_deadline
        When an operator must have ended: before the longest path behind it (`path`) or before everything behind it (`subtree`).
    save_both, guard
        See `LastDitch`.
    splitting, profit
        See `SchedulesJobs`.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4,
    Algorithms 1, 7 and 8 (Basic+PD).
    """

    def __init__(
        self,
        threshold: float = 0.65,
        nl_deadline: NlDeadline = "path",
        save_both: bool = False,
        guard: bool = False,
        splitting: bool = True,
        profit: ProfitOf = "answers",
    ) -> None:
        super().__init__(
            JobByJob(nl_deadline),
            Order.PROFIT_DEADLINE,
            LastDitch(threshold, save_both, guard),
            profit,
            splitting,
        )
