"""What earns most, reckoned to the answers."""

from __future__ import annotations

from penstock.qos.scheduling.job_scheduler import Order, SchedulesJobs
from penstock.qos.scheduling.valuation import ByFragments, ProfitOf


class Profit(SchedulesJobs):
    """Run the arrival whose answers earn most for all the time it takes to make them.

    Operators that are best run together make a fragment, so a shared operator is paid for once, by the best of those behind
    it. Choose it under overload if answers have weights but no deadlines; with deadlines `profit_deadline` is better.

    Parameters
    ----------
    published
        Form fragments by the published rule, which may earn less; see `fragments`.
    profit
        See `SchedulesJobs`.

    Notes
    -----
    Differs from the source: fragments that cannot end before the rows expire are not taken out beforehand.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, Algorithms 2-5 (OptProfit).
    """

    def __init__(self, published: bool = False, profit: ProfitOf = "answers") -> None:
        super().__init__(ByFragments(published), Order.PROFIT, profit=profit)
