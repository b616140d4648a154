"""How much time operators get in a micro-batch, against a query whose costs are known."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from penstock.qos.shedding.batch_load import BatchLoad, MeasuredBatch

FIXED_S, READ_S, WORK_S = 0.15, 5e-6, 95e-6


class Query:
    """Micro-batches that take all rows that have come, of which so many are left out that operators keep within their time."""

    def __init__(self, latency_s: float, trigger_s: float = 0.0, row_s: float = WORK_S) -> None:
        self.load, self.trigger_s, self.row_s = BatchLoad(latency_s, trigger_s), trigger_s, row_s
        self.now_s = self.before_s = 0.0
        self.shares: list[float] = []
        self.latencies: list[float] = []

    def run(self, rate: float, seconds: float, believed_s: float = WORK_S) -> None:
        """`believed_s` is what the work on a row is thought to take."""
        until = self.now_s + seconds
        while self.now_s < until:
            since = self.now_s - self.before_s
            rows = round(rate * since)
            room_s = self.load.room_s(rows, since) if self.load.is_known else 1e9
            kept = min(rows, int(room_s / believed_s))
            self.load.expect(rows, kept * believed_s)
            took = FIXED_S + READ_S * rows + self.row_s * kept
            self.latencies.append(since + took)
            self.shares.append(1 - kept / rows if rows else 0.0)
            self.before_s = self.now_s
            self.now_s += max(took, self.trigger_s)
            self.load.hear(MeasuredBatch(rows, took, self.row_s * kept))


#: At which rows alone take all the time.
HIGHEST = 1 / (READ_S + WORK_S)


@pytest.mark.parametrize("trigger_s", [0.0, 0.3, 1.0])
def test_latency_stays_within_its_bound_from_the_first_micro_batch_with_too_many_rows_on(trigger_s: float) -> None:
    query = Query(3.0, trigger_s)
    query.run(0.3 * HIGHEST, 20)
    assert max(query.shares) == 0
    quiet = len(query.latencies)
    query.run(3 * HIGHEST, 60)
    assert max(query.latencies[quiet:]) <= 3.0
    assert max(query.shares) < 0.9
    query.run(0.3 * HIGHEST, 60)
    assert query.shares[-1] == 0


def test_nothing_is_left_out_where_all_can_be_processed() -> None:
    query = Query(3.0)
    query.run(0.6 * HIGHEST, 60)
    assert set(query.shares) == {0.0}


def test_shares_do_not_swing_at_a_constant_rate() -> None:
    query = Query(3.0)
    query.run(0.3 * HIGHEST, 20)
    query.run(2 * HIGHEST, 60)
    late = query.shares[-10:]
    assert max(late) - min(late) < 0.05


def test_a_start_with_a_backlog_does_not_leave_rows_out_for_ever() -> None:
    """Its first micro-batches are long, and by what they took beside operators there would never be time for any work again."""
    query = Query(3.0)
    query.before_s = -20.0
    query.run(0.4 * HIGHEST, 60)
    assert query.shares[-1] == 0


def test_work_that_takes_longer_than_believed_is_made_up_for() -> None:
    query = Query(3.0, row_s=1.4 * WORK_S)
    query.run(0.2 * HIGHEST, 20)
    query.run(2 * HIGHEST, 60)
    assert max(query.latencies[-10:]) <= 3.0


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.001, 100), st.floats(0, 1), st.floats(0, 100)), max_size=60),
    st.floats(0.1, 10),
)
@settings(max_examples=200)
def test_operators_never_get_more_than_half_of_the_latency(
    batches: list[tuple[int, float, float, float]], latency_s: float
) -> None:
    load = BatchLoad(latency_s)
    for rows, seconds, part, waited_s in batches:
        load.expect(rows, seconds * part)
        load.hear(MeasuredBatch(rows, seconds, seconds * part))
        assert 0 <= load.room_s(rows, waited_s) <= 0.4 * latency_s / 0.7
