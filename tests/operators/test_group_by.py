"""Grouping: worked examples, every window type against the reference, punctuations, restarts."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import Defect, NumericOverflow
from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.nodes import Column
from penstock.model.elements import FOREVER, End, Heartbeat, Herald
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between, constant
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.group_by.operator import GroupBy
from penstock.testing import reference
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, broken_promises, rows_of, run, run_with_restarts, stream_of

COUNT = AggregateCall("count", None, False, "n")
CARS = pa.schema({"car": pa.int64(), "xpos": pa.int64()})
SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "v": pa.float64(), "i": pa.int64()})
BOUNDS = ("window_start", "window_end")

AGGREGATES = [
    COUNT,
    AggregateCall("count", Column("v"), False, "count_v"),
    AggregateCall("sum", Column("v"), False, "sum_v"),
    AggregateCall("sum", Column("i"), False, "sum_i"),
    AggregateCall("min", Column("s"), False, "min_s"),
    AggregateCall("max", Column("v"), False, "max_v"),
    AggregateCall("avg", Column("i"), False, "avg_i"),
    AggregateCall("stddev", Column("v"), False, "dev_v"),
    AggregateCall("count", Column("v"), True, "distinct_v"),
    AggregateCall("max_by", Column("s"), False, "last_s", (Column("i"), Column("v"))),
    AggregateCall("min_by", Column("i"), False, "first_i", (Column("s"),)),
]


def cars() -> list[Row]:
    first = [(0, 10), (30, 10), (60, 10), (90, 10), (120, 10), (150, 11), (180, 12)]
    second = [(10, 20), (40, 20), (70, 21), (100, 21), (130, 21), (160, 21), (190, 21)]
    reports = sorted([(ts, 1, x) for ts, x in first] + [(ts, 2, x) for ts, x in second])
    return [Row(ts, pos, {"car": car, "xpos": x}) for pos, (ts, car, x) in enumerate(reports)]


def of_times(times: list[int]) -> list[Row]:
    return [Row(ts, pos, {"car": 1, "xpos": 0}) for pos, ts in enumerate(times)]


@st.composite
def streams(draw: st.DrawFn, most: int = 25) -> list[Row]:
    """Rows out of order with few keys, NULLs and tied times."""
    values = st.fixed_dictionaries(
        {
            "k": st.sampled_from([1, 2, 3, None]),
            "s": st.sampled_from(["a", "b", "", None]),
            "v": st.sampled_from([0.5, -0.0, 0.0, 3.25, float("nan"), None]),
            "i": st.sampled_from([-1, 0, 7, 2**40, None]),
        }
    )
    found = draw(st.lists(st.tuples(st.integers(-3, 40), values), max_size=most))
    return [Row(ts, pos, row) for pos, (ts, row) in enumerate(found)]


@st.composite
def windows(draw: st.DrawFn) -> Framed | Unbounded:
    """Every legal type."""
    size = draw(st.integers(1, 12))
    start = draw(st.integers(0, 14))
    end = draw(st.sampled_from([start, start + draw(st.integers(0, 3))]))
    parts = draw(st.sampled_from([(), ("k",), ("s",)]))
    framed = Framed(size, start, end, draw(st.booleans()), parts)
    return draw(st.sampled_from([framed, framed, framed, Unbounded()]))


lives = st.sampled_from([Lifespan(0), Lifespan(-2, 30), Lifespan(3, 17), Lifespan(0, 24)])
cuts = st.lists(st.integers(0, 25), max_size=6)


def expected(rows, keys, window, life, emit_partial=False):
    found = reference.group_by(rows, keys, AGGREGATES, window, life, emit_partial)
    results = []
    for number, values, ts in found:
        bounds: tuple[int | None, int | None] = (None, None)
        if isinstance(window, Framed):
            origin = 0 if window.in_rows else life.begin
            bounds = (origin + number * window.move_start, origin + window.size + number * window.move_end)
        results.append(((*values, *bounds), ts))
    return results


def alike(rows: list) -> list:
    """A bag in which deviations may differ in their last bits: the reference rounds once, the operator twice."""
    return bag((tuple(round(v, 9) if isinstance(v, float) else v for v in values), ts) for values, ts in rows)


def grouping(keys, window, life, emit_partial=False, evaluation="reuse") -> GroupBy:
    return GroupBy(SCHEMA, keys, AGGREGATES, window, life, emit_partial, BOUNDS, evaluation=evaluation)


@settings(max_examples=150, deadline=None)
@given(
    streams(), st.sampled_from([[], ["k"], ["k", "s"], ["v"]]), windows(), lives, cuts, st.booleans(), st.booleans(),
    st.integers(0, 4),
)  # fmt: skip
def test_every_window_equals_brute_force_for_every_batching(rows, keys, window, life, cuts, partial, reuse, lag):
    operator = grouping(keys, window, life, partial, "reuse" if reuse else "recompute")
    out = run(operator, stream_of(rows, SCHEMA, cuts, lag))
    assert alike(rows_of(out)) == alike(expected(rows, keys, window, life, partial))
    assert not broken_promises(out)
    assert operator.counters()["state_rows"] == 0


@settings(max_examples=50, deadline=None)
@given(streams(), windows(), lives, cuts, st.integers(0, 4))
def test_reuse_and_recompute_return_the_same_elements(rows, window, life, cuts, lag):
    elements = stream_of(rows, SCHEMA, cuts, lag)
    assert rows_of(run(grouping(["k"], window, life), elements)) == rows_of(
        run(grouping(["k"], window, life, evaluation="recompute"), elements)
    )


@settings(max_examples=50, deadline=None)
@given(streams(), windows(), lives, cuts, st.booleans())
def test_a_restart_at_every_boundary_changes_nothing(rows, window, life, cuts, reuse):
    elements = stream_of(rows, SCHEMA, cuts)
    if rows:
        elements.insert(-2, Punctuation.of(SCHEMA.names, k=constant(2)))

    def make() -> GroupBy:
        return grouping(["k"], window, life, evaluation="reuse" if reuse else "recompute")

    assert rows_of(run_with_restarts(make, elements)) == rows_of(run(make(), elements))


@settings(max_examples=60, deadline=None)
@given(streams(), windows(), lives, cuts, st.booleans())
def test_punctuations_change_neither_results_nor_grammar(rows, window, life, cuts, restart):
    elements = list(stream_of(rows, SCHEMA, cuts))
    for key in (1, 2, 3):
        last = max((at for at, row in enumerate(rows) if row.values["k"] == key), default=-1)
        seen, place = 0, 0
        while seen <= last:
            seen += getattr(elements[place], "num_rows", 0)
            place += 1
        elements.insert(place, Punctuation.of(SCHEMA.names, k=constant(key)))

    def make() -> GroupBy:
        return grouping(["k", "s"], window, life)

    out = run_with_restarts(make, elements) if restart else run(make(), elements)
    assert alike(rows_of(out)) == alike(expected(rows, ["k", "s"], window, life))
    assert not broken_promises(out)
    is_landmark = isinstance(window, Framed) and not window.move_start and window.move_end
    assert len([mark for mark in out if isinstance(mark, Punctuation)]) == (0 if is_landmark else 3)


def test_g6_counts_per_place_over_overlapping_windows():
    grouping = GroupBy(CARS, ["car", "xpos"], [COUNT], Framed(120, 60, 60), Lifespan(0, 240), window_columns=("ws", ""))
    out = run(grouping, stream_of(cars(), CARS, [3, 8]))
    assert rows_of(out) == [
        ((2, 20, 2, 0), 40), ((1, 10, 4, 0), 90), ((2, 21, 2, 0), 100),
        ((1, 10, 3, 60), 120), ((1, 11, 1, 60), 150), ((2, 21, 4, 60), 160),
        ((1, 10, 1, 120), 120), ((1, 11, 1, 120), 150), ((1, 12, 1, 120), 180), ((2, 21, 3, 120), 190),
    ]  # fmt: skip


def test_g6_through_a_group_filter_finds_the_immobile_cars():
    grouping = GroupBy(CARS, ["car", "xpos"], [COUNT], Framed(120, 60, 60), Lifespan(0, 240))
    found = rows_of(run(grouping, stream_of(cars(), CARS)))
    assert [(values, ts) for values, ts in found if values[2] > 3] == [((1, 10, 4), 90), ((2, 21, 4), 160)]


@pytest.mark.parametrize(
    ("times", "advance", "found"),
    [([0, 30, 60, 90], 120, True), ([30, 60, 90, 120], 120, False), ([30, 60, 90, 120], 30, True)],
)
def test_g7_a_car_is_immobile_after_four_reports_in_one_window(times, advance, found):
    grouping = GroupBy(CARS, ["car", "xpos"], [COUNT], Framed(120, advance, advance), Lifespan(0))
    counts = [values[2] for values, _ in rows_of(run(grouping, stream_of(of_times(times), CARS)))]
    assert (4 in counts) is found


def test_g8_hourly_averages_have_67_complete_windows():
    minute = 60
    life = Lifespan(10 * 60 * minute, 22 * 60 * minute)
    rows = [Row(ts, ts, {"car": 1, "xpos": ts}) for ts in range(life.begin, life.end, minute)]
    mean = AggregateCall("avg", Column("xpos"), False, "mean")
    grouping = GroupBy(CARS, [], [mean], Framed(60 * minute, 10 * minute, 10 * minute), life, window_columns=BOUNDS)
    out = rows_of(run(grouping, stream_of(rows, CARS, range(0, 720, 7))))
    assert len(out) == 67
    assert out[0][0] == (life.begin + 29.5 * minute, life.begin, 11 * 60 * minute)
    assert out[-1][0][1:] == (21 * 60 * minute, life.end)


def test_g9_each_hundred_customers_close_a_window_with_the_hundredth():
    calls = [AggregateCall("max", Column("xpos"), False, "last"), AggregateCall("min", Column("xpos"), False, "first")]
    rows = [Row(3 * n, n, {"car": 1, "xpos": 3 * n}) for n in range(250)]
    grouping = GroupBy(CARS, [], calls, Framed(100, 100, 100, in_rows=True), Lifespan(0))
    grouping.on_batch(0, batch_of(rows[:100], CARS))
    (first, _) = grouping.on_metadata(0, Heartbeat(300))
    assert [last - start for (last, start), _ in rows_of([first])] == [297]
    out = run(grouping, stream_of(rows[100:], CARS, [60]))
    assert [last - start for (last, start), _ in rows_of(out)] == [297]


def test_a_row_window_without_enough_rows_is_reported_only_when_asked():
    rows = of_times(list(range(250)))
    window = Framed(100, 100, 100, in_rows=True)
    for partial, counts in ((False, [100, 100]), (True, [100, 100, 50])):
        grouping = GroupBy(CARS, [], [COUNT], window, Lifespan(0), emit_partial=partial)
        assert [values[0] for values, _ in rows_of(run(grouping, stream_of(rows, CARS, [10])))] == counts


def bids() -> list[Row]:
    return [Row(ts, ts, {"item": item, "bidder": bidder}) for ts, (item, bidder) in enumerate([(180, 1), (180, 2), (181, 5)])]


BIDS = pa.schema({"item": pa.int64(), "bidder": pa.int64()})


@pytest.mark.parametrize("window", [Unbounded(), Framed(100, 100, 100)], ids=str)
def test_g29_a_group_is_reported_when_its_key_is_closed(window):
    grouping = GroupBy(BIDS, ["item"], [COUNT], window, Lifespan(0))
    grouping.on_batch(0, batch_of(bids(), BIDS))
    assert not grouping.on_metadata(0, Punctuation.of(BIDS.names, item=constant(180), bidder=constant(5)))
    row, mark = grouping.on_metadata(0, Punctuation.of(BIDS.names, item=constant(180)))
    assert rows_of([row]) == [((180, 2), 1)]
    assert mark == Punctuation.of(("item", "n"), item=constant(180))
    assert grouping.counters()["state_rows"] == 1
    assert grouping.counters()["purged"] == 1
    assert rows_of(run(grouping, [Heartbeat(FOREVER), End()])) == [((181, 1), 2)]


def test_a_punctuation_without_group_yields_no_row_and_is_passed_on():
    grouping = GroupBy(BIDS, ["item"], [COUNT], Unbounded(), Lifespan(0))
    assert grouping.on_metadata(0, Punctuation.of(BIDS.names, item=between(1, 9))) == [
        Punctuation.of(("item", "n"), item=between(1, 9))
    ]


def test_without_a_window_everything_is_reported_at_the_end():
    for marks in ([End()], [Heartbeat(FOREVER), End()]):
        grouping = GroupBy(BIDS, ["item"], [COUNT], Unbounded(), Lifespan(0))
        grouping.on_batch(0, batch_of(bids(), BIDS))
        assert rows_of(run(grouping, marks)) == [((180, 2), 1), ((181, 1), 2)]


def test_the_end_without_a_last_heartbeat_discards_open_windows():
    grouping = GroupBy(CARS, [], [COUNT], Framed(10, 5, 5), Lifespan(0))
    grouping.on_batch(0, batch_of(of_times([0, 5, 12]), CARS))
    assert rows_of(grouping.on_metadata(0, Heartbeat(11))) == [((2,), 5)]
    assert not grouping.on_metadata(0, End())


def test_landmark_state_is_one_row_per_group():
    grouping = GroupBy(CARS, ["car"], [COUNT], Framed(10, 0, 10), Lifespan(0))
    for start in range(0, 500, 5):
        grouping.on_metadata(0, Heartbeat(start))
        grouping.on_batch(0, batch_of(of_times([start, start + 1]), CARS))
    out = grouping.on_metadata(0, Heartbeat(500))
    assert rows_of(out) == [((1, 200), 496)]
    assert grouping.counters()["state_rows"] == 1


def test_rows_in_gaps_and_outside_the_life_are_counted_and_not_stored():
    grouping = GroupBy(CARS, [], [COUNT], Framed(3, 10, 10), Lifespan(0, 20))
    run(grouping, [batch_of(of_times([-1, 0, 5, 9, 12, 20, 25]), CARS)])
    counters = grouping.counters()
    assert (counters["in_gap"], counters["outside_life"], counters["state_rows"]) == (2, 3, 2)


def test_state_is_dropped_with_its_windows_and_segments_stay_few():
    grouping = GroupBy(CARS, ["xpos"], [COUNT], Framed(10, 5, 5), Lifespan(0))
    for start in range(2000):
        rows = [Row(start, start, {"car": 1, "xpos": start % 7})]
        run(grouping, [batch_of(rows, CARS), Heartbeat(start)])
    counters = grouping.counters()
    assert counters["state_rows"] <= 15
    assert counters["segments"] <= 20
    assert counters["expired"] > 700
    assert counters["windows_closed"] == 398


def test_purged_rows_leave_the_state_although_segments_are_immutable():
    grouping = GroupBy(BIDS, ["item"], [COUNT], Unbounded(), Lifespan(0))
    names = set()
    for start in range(0, 1000, 10):
        rows = [Row(start, start + n, {"item": start + n, "bidder": 1}) for n in range(10)]
        run(grouping, [batch_of(rows, BIDS)])
        run(grouping, [Punctuation.of(BIDS.names, item=between(start - 95, start - 86))])
        names |= set(grouping.snapshot().segments)
    counters = grouping.counters()
    assert counters["state_rows"] == 95
    assert counters["segments"] <= 30
    assert len(names) < 300


def test_empty_and_all_null_batches_are_accepted():
    for window in (Framed(5, 5, 5), Framed(2, 1, 1, in_rows=True, partition_by=("k",)), Unbounded()):
        nothing = dict.fromkeys(SCHEMA.names)
        rows = [Row(0, 0, nothing), Row(1, 1, nothing)]
        operator = grouping(["k"], window, Lifespan(0))
        out = run(operator, [batch_of([], SCHEMA), *stream_of(rows, SCHEMA), batch_of([], SCHEMA)])
        assert alike(rows_of(out)) == alike(expected(rows, ["k"], window, Lifespan(0)))


def test_input_is_not_modified():
    batch = batch_of(cars(), CARS)
    copy = batch_of(cars(), CARS)
    run(GroupBy(CARS, ["car"], [COUNT], Framed(120, 60, 60), Lifespan(0)), [batch, Heartbeat(FOREVER)])
    assert batch.rows.equals(copy.rows)
    assert np.array_equal(batch.ts, copy.ts)


def test_a_sum_that_does_not_fit_is_an_error_but_not_its_way_there():
    total = AggregateCall("sum", Column("i"), False, "total")
    for values, fits in (([2**62, 2**62, -1], True), ([2**62, 2**62], False)):
        rows = [Row(0, pos, {"k": 1, "s": "", "v": 0.0, "i": value}) for pos, value in enumerate(values)]
        grouping = GroupBy(SCHEMA, [], [total], Unbounded(), Lifespan(0))
        if fits:
            assert rows_of(run(grouping, stream_of(rows, SCHEMA, [1]))) == [((2**63 - 1,), 0)]
        else:
            with pytest.raises(NumericOverflow, match="64 bits"):
                run(grouping, stream_of(rows, SCHEMA, [1]))


def test_a_row_behind_the_frontier_is_a_defect_of_the_host():
    grouping = GroupBy(CARS, [], [COUNT], Framed(5, 5, 5), Lifespan(0))
    grouping.on_metadata(0, Heartbeat(10))
    with pytest.raises(Defect, match="time 9"):
        grouping.on_batch(0, batch_of(of_times([9]), CARS))


def test_heralds_pass():
    herald = Herald(Punctuation.of(("car",), car=constant(1)))
    assert GroupBy(CARS, [], [COUNT], Framed(5, 5, 5), Lifespan(0)).on_metadata(0, herald) == [herald]


def test_results_have_one_name_for_every_batching():
    def positions(cuts: list[int]) -> list[int]:
        grouping = GroupBy(CARS, ["car", "xpos"], [COUNT], Framed(120, 60, 60), Lifespan(0))
        out = run(grouping, stream_of(cars(), CARS, cuts))
        return [pos for batch in out if hasattr(batch, "pos") for pos in batch.pos.tolist()]

    assert positions([]) == positions([2, 5, 9])
    assert len(set(positions([]))) == len(positions([]))
