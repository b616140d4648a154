"""The test for jobs that must start now, with the worked figures."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.qos.scheduling.last_ditch import LastDitch


@dataclass
class Stake:
    profit: float
    cost_ns: float
    latest_ns: float = 0.0

    def __post_init__(self) -> None:
        self.density = self.profit / self.cost_ns


@pytest.mark.parametrize(
    ("test", "waiting", "running", "interrupts"),
    [
        (LastDitch(1.3), Stake(9, 3), Stake(10, 4), False),
        (LastDitch(1.3), Stake(9, 3), Stake(10, 5), True),
        (LastDitch(0.65), Stake(4, 2), Stake(10, 4), True),
        (LastDitch(0.65, guard=True), Stake(4, 2), Stake(10, 4, latest_ns=1), False),
        (LastDitch(0.65, guard=True), Stake(4, 2), Stake(10, 4, latest_ns=2), True),
        (LastDitch(0.65, guard=True), Stake(10, 3), Stake(10, 4, latest_ns=1), True),
        (LastDitch(1.3, guard=True), Stake(9, 3), Stake(10, 5), True),
        (LastDitch(1.3), Stake(0.5, 1), Stake(10, 5, latest_ns=2), False),
        (LastDitch(1.3, save_both=True), Stake(0.5, 1), Stake(10, 5, latest_ns=2), True),
        (LastDitch(1.3, save_both=True), Stake(0.5, 3), Stake(10, 5, latest_ns=2), False),
        (LastDitch(1.3), Stake(13, 1), Stake(10, 1), False),
    ],
)
def test_a_job_interrupts_if_it_earns_enough(test: LastDitch, waiting: Stake, running: Stake, interrupts: bool) -> None:
    assert test.interrupts(waiting, running, now_ns=0) is interrupts
