"""What every workload in the table promises, and the shape of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.batch import int64s
from penstock.workloads.arrivals import MICROS
from penstock.workloads.base import ColumnarWorkload
from penstock.workloads.contracts import START_US, Marks, Options
from penstock.workloads.disorder import Disorder
from penstock.workloads.keyed import Keyed
from penstock.workloads.pairs import Pairs
from penstock.workloads.table import WORKLOADS, workload_named
from penstock.workloads.telecom import Telecom
from penstock.workloads.traffic import Traffic

STREAMS = [(kind(), stream) for kind in map(workload_named, WORKLOADS) for stream in kind().streams]
STREAMS.append((Pairs(key_type="string"), "left"))
FAULTS = Disorder(bound_us=10**6, late_fraction=0.1, duplicate_fraction=0.2, null_fraction=0.1, bad_fraction=0.1, seed=5)


def options_for(workload: ColumnarWorkload, stream: str, **changes: object) -> Options:
    marks = Marks.CONSTANT if workload.shape(stream).has_marks else Marks.NONE
    return Options(rate=workload.default_rate, marks=marks, with_positions=True, **changes)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    which=st.sampled_from(STREAMS),
    is_poisson=st.booleans(),
    disorder=st.sampled_from([Disorder(), FAULTS]),
    partitions=st.integers(1, 3),
    origin=st.sampled_from([0, 4090, 10**6, 10**9]),
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
def test_rows_do_not_depend_on_how_offsets_are_cut(
    which: tuple[ColumnarWorkload, str],
    is_poisson: bool,
    disorder: Disorder,
    partitions: int,
    origin: int,
    cuts: list[int],
) -> None:
    workload, stream = which
    options = options_for(workload, stream, is_poisson=is_poisson, disorder=disorder)
    edges = [origin + cut for cut in [0, *sorted(cuts), 200]]
    part = partitions - 1
    pieces = [workload.generate(stream, part, partitions, *edge, options) for edge in pairwise(edges)]
    whole = workload.generate(stream, part, partitions, origin, origin + 200, options)
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([whole]))
    assert whole.schema.equals(workload.schema(stream, options).arrow)


@pytest.mark.parametrize(("workload", "stream"), STREAMS)
def test_partitions_share_the_rows_of_the_stream(workload: ColumnarWorkload, stream: str) -> None:
    options = Options(rate=workload.default_rate, is_poisson=True)
    alone = workload.generate(stream, 0, 1, 0, 300, options).to_pylist()
    for part in range(3):
        assert workload.generate(stream, part, 3, 0, 100, options).to_pylist() == alone[part::3]


@pytest.mark.parametrize(("workload", "stream"), STREAMS)
def test_seeds_matter_and_start_moves_event_times(workload: ColumnarWorkload, stream: str) -> None:
    timestamp = workload.shape(stream).timestamp
    base = Options(rate=workload.default_rate)
    rows = workload.generate(stream, 0, 1, 0, 5000, base)
    assert not rows.equals(workload.generate(stream, 0, 1, 0, 5000, Options(rate=workload.default_rate, seed=2)))
    moved = workload.generate(stream, 0, 1, 0, 5000, Options(rate=workload.default_rate, start_us=0))
    assert np.array_equal(int64s(rows.column(timestamp)) - START_US, int64s(moved.column(timestamp)))


@pytest.mark.parametrize(("workload", "stream"), STREAMS)
def test_rows_due_agree_with_event_times_and_with_the_rate(workload: ColumnarWorkload, stream: str) -> None:
    options = Options(rate=workload.default_rate)
    due = workload.rows_due(stream, 7_654_321, options)
    rows = workload.generate(stream, 0, 1, 0, due + 1, options)
    times = int64s(rows.column(workload.shape(stream).timestamp)) - START_US
    assert times[due - 1] <= 7_654_321 < times[due]
    expected = workload.default_rate * workload.shape(stream).rows / workload.shape(stream).ticks
    shape, ticks = workload.shape(stream), [workload.ticks_of(stream, row) for row in (0, 100_000)]
    first, last = options.arrivals(shape.clock).at(np.array(ticks))
    rate = (ticks[1] - ticks[0]) * MICROS / (last - first) * shape.rows / shape.ticks
    assert rate == pytest.approx(expected, rel=1e-6)
    assert workload.rows_at(stream, workload.ticks_of(stream, 17)) == 17


@pytest.mark.parametrize(("workload", "stream"), STREAMS)
def test_faults_strike_keys_and_event_times_in_the_given_share(workload: ColumnarWorkload, stream: str) -> None:
    shape = workload.shape(stream)
    options = Options(rate=workload.default_rate, disorder=Disorder(null_fraction=0.2, bad_fraction=0.1))
    rows = workload.generate(stream, 0, 1, 0, 5000, options)
    assert rows.column(shape.key).null_count / 5000 == pytest.approx(0.2, abs=0.03)
    assert rows.column(shape.timestamp).null_count / 5000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(("workload", "stream"), STREAMS)
def test_an_empty_range_gives_an_empty_batch(workload: ColumnarWorkload, stream: str) -> None:
    options = options_for(workload, stream, disorder=FAULTS, is_poisson=True)
    assert workload.generate(stream, 0, 2, 7, 7, options).num_rows == 0


def test_pairs_match_as_often_as_the_design_says() -> None:
    """100,000 left rows meet about 940,000 right rows within 15 s."""
    sides = [Pairs().generate(side, 0, 1, 0, 500_000, Options()) for side in ("left", "right")]
    left, right = ((int64s(rows.column("key")), int64s(rows.column("ts"))) for rows in sides)
    order = np.lexsort((right[1], right[0]))
    # Keys and times as one number each, so that matches are a range of the sorted right side.
    step = 10**10
    sorted_right = right[0][order] * step + right[1][order] - START_US
    probe = left[0][200_000:300_000] * step + left[1][200_000:300_000] - START_US
    low = np.searchsorted(sorted_right, probe - 15_000_000, "left")
    high = np.searchsorted(sorted_right, probe + 15_000_000, "right")
    assert (high - low).sum() == pytest.approx(940_000, rel=0.02)


def test_text_keys_say_the_same_as_number_keys() -> None:
    texts = Pairs(key_type="string").generate("left", 0, 1, 500, 600, Options())
    numbers = Pairs().generate("left", 0, 1, 500, 600, Options())
    assert texts.column("key").to_pylist() == [f"key-{key:010d}" for key in numbers.column("key").to_pylist()]
    assert set(pc.utf8_length(texts.column("payload")).to_pylist()) == {48}


def test_keyed_rows_reach_all_keys_evenly_or_with_skew() -> None:
    even = np.bincount(int64s(Keyed(keys=100).generate("reading", 0, 1, 0, 100_000, Options()).column("key")))
    assert len(even) == 100
    assert even.min() > 850
    skewed = np.bincount(int64s(Keyed(keys=100, skew=1.0).generate("reading", 0, 1, 0, 100_000, Options()).column("key")))
    assert skewed[0] > 4 * skewed[9] > 4 * skewed[99]


def test_every_call_starts_once_before_it_ends_once() -> None:
    rows = Telecom(open_calls=50).generate("outgoing", 0, 1, 0, 5_000, Options(rate=10.0)).to_pylist()
    events = defaultdict(list)
    for row in rows:
        events[row["call_id"]].append((row["event"], row["ts"], row["caller"]))
    shapes = Counter("".join(event for event, _, _ in seen) for seen in events.values())
    assert set(shapes) == {"S", "SE"}
    assert shapes["S"] == 50
    assert all(len({caller for _, _, caller in seen}) == 1 for seen in events.values())


def test_both_offices_see_the_same_calls() -> None:
    there, here = (Telecom().generate(name, 0, 1, 0, 9_000, Options(rate=10.0)) for name in ("outgoing", "incoming"))
    assert there.select(["call_id", "event", "ts"]).equals(here.select(["call_id", "event", "ts"]))


def test_cars_report_every_30_seconds_and_some_stand_still_for_four_reports() -> None:
    rows = Traffic(stall_fraction=0.1).generate("report", 0, 1, 0, 6_000, Options(rate=10.0)).to_pylist()
    reports = defaultdict(list)
    for row in rows:
        reports[row["car_id"]].append(row)
    assert len(reports) == 300
    standing = 0
    for seen in reports.values():
        assert {(b["ts"] - a["ts"]).total_seconds() for a, b in pairwise(seen)} == {30.0}
        assert all((b["xpos"] - a["xpos"]) % 160_000 == round(a["speed"] * 30 / 3.6) for a, b in pairwise(seen))
        standing += any(len({row["xpos"] for row in seen[at : at + 4]}) == 1 for at in range(len(seen) - 3))
    assert 30 < standing < 150
