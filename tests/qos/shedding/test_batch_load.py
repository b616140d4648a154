"""The controller of micro-batches against a query whose costs are known."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from penstock.qos.shedding.batch_load import BatchLoad, MeasuredBatch

FIXED_S, READ_S, WORK_S = 0.15, 5e-6, 95e-6


class Query:
    """Micro-batches that take all rows that have come, of which a share is left out; decisions hold from the next but one on."""

    def __init__(self, latency_s: float, trigger_s: float = 0.0, most: float = 0.9) -> None:
        self.load, self.trigger_s, self.most = BatchLoad(latency_s, trigger_s), trigger_s, most
        self.now_s = self.before_s = 0.0
        self.shares = [0.0, 0.0]
        self.latencies: list[float] = []

    def run(self, rate: float, seconds: float) -> None:
        until = self.now_s + seconds
        while self.now_s < until:
            since = self.now_s - self.before_s
            rows = round(rate * since)
            shed = round(rows * self.shares[-2])
            took = FIXED_S + READ_S * rows + WORK_S * (rows - shed)
            self.latencies.append(since + took)
            self.before_s = self.now_s
            self.now_s += max(took, self.trigger_s)
            self.shares.append(self.load.hear(MeasuredBatch(rows, shed, took, since), self.most))


#: At which rows alone take all the time.
HIGHEST = 1 / (READ_S + WORK_S)


@pytest.mark.parametrize("trigger_s", [0.0, 0.3, 1.0])
def test_latency_stays_within_its_bound_at_three_times_the_highest_rate(trigger_s: float) -> None:
    query = Query(3.0, trigger_s)
    query.run(0.3 * HIGHEST, 20)
    assert query.load.share == 0
    quiet = len(query.latencies)
    query.run(3 * HIGHEST, 60)
    assert max(query.latencies[quiet + 5 :]) <= 3.0
    assert query.load.share < 0.9
    query.run(0.3 * HIGHEST, 60)
    assert query.load.share == 0


def test_nothing_is_left_out_where_all_can_be_processed() -> None:
    query = Query(3.0)
    query.run(0.6 * HIGHEST, 60)
    assert set(query.shares) == {0.0}


def test_more_than_may_be_is_never_left_out_and_what_would_be_needed_is_known() -> None:
    query = Query(1.0, most=0.2)
    query.run(0.3 * HIGHEST, 10)
    query.run(3 * HIGHEST, 10)
    assert max(query.shares) == pytest.approx(0.2)
    assert query.load.excess > 0.2


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1), st.floats(0.001, 100), st.floats(0, 100)), max_size=60),
    st.floats(0, 1),
)
@settings(max_examples=200)
def test_shares_are_shares_whatever_is_measured(batches: list[tuple[int, float, float, float]], most: float) -> None:
    load = BatchLoad(2.0)
    for rows, part, seconds, since in batches:
        assert 0 <= load.hear(MeasuredBatch(rows, round(rows * part), seconds, since), most) <= most
        assert 0 <= load.excess <= 1
