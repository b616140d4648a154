"""Operator by operator, what earns most."""

from __future__ import annotations

from penstock.qos.scheduling.job_scheduler import Order, SchedulesJobs
from penstock.qos.scheduling.valuation import JobByJob, ProfitOf


class Basic(SchedulesJobs):
    """Run the arrival at the operator with the highest profit for its own time, and look again after every piece of work.

    The profit of all answers behind an operator is credited to it, at its own price only: a rough estimate that favours cheap
    operators in front of expensive ones. It is what `profit` is compared with.

    Parameters
    ----------
    profit
        See `SchedulesJobs`.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, Algorithm 1.
    """

    def __init__(self, profit: ProfitOf = "answers") -> None:
        super().__init__(JobByJob(), Order.PROFIT, profit=profit)
