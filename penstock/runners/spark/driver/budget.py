"""How much priced work a micro-batch may take: what a budget leaves in queues goes on with the next one."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.errors import InvalidDeclaration
from penstock.model.durations import duration, no_duration
from penstock.model.elements import BUDGET
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport


def nanoseconds(text: str) -> int:
    """A duration in nanoseconds.

    Examples
    --------
    >>> nanoseconds("800 ms")
    800000000
    """
    found = duration(text)
    if found is None:
        raise InvalidDeclaration(no_duration(text))
    return int(found * 1_000)


def share_of_shard(budget: str, shards: int, cores: int) -> int:
    """Nanoseconds of work for one shard: those for which there is no core at once must follow one after the other.

    Examples
    --------
    >>> share_of_shard("1 second", shards=4, cores=2)
    500000000
    """
    return nanoseconds(budget) // math.ceil(shards / max(cores, 1))


class BudgetController(Listener):
    """Says once how much work a micro-batch may take, and lets queues go on that no new row would wake."""

    name = "penstock-budget"

    def __init__(self, control: ControlLog, share_ns: int, report: Callable[[], BatchReport | None]) -> None:
        super().__init__(report)
        self._control = control
        control.append(BUDGET, {"ns": share_ns})

    def hear(self, report: BatchReport) -> None:
        if report.backlog:
            self._control.append("continue")
