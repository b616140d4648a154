"""Duplicate elimination against the reference, with punctuations and restarts."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import Defect
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, End, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import constant
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.operators.distinct import Distinct
from penstock.testing import reference
from penstock.testing.reference import Row, comparable
from penstock.testing.streams import bag, batch_of, broken_promises, run, run_with_restarts, stream_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.float64()})


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    values = st.fixed_dictionaries({"k": st.sampled_from([1, 2, None]), "v": st.sampled_from([0.0, -0.0, float("nan"), None])})
    found = draw(st.lists(st.tuples(st.integers(-3, 40), values), max_size=25))
    return [Row(ts, pos, row) for pos, (ts, row) in enumerate(found)]


@st.composite
def windows(draw: st.DrawFn) -> Framed | Unbounded:
    size, start = draw(st.integers(1, 12)), draw(st.integers(0, 14))
    end = start + draw(st.sampled_from([0, 0, 2]))
    framed = Framed(size, start, end, draw(st.booleans()), draw(st.sampled_from([(), ("k",)])))
    return draw(st.sampled_from([framed, framed, framed, Unbounded()]))


lives = st.sampled_from([Lifespan(0), Lifespan(-2, 30), Lifespan(3, 17)])
cuts = st.lists(st.integers(0, 25), max_size=6)


def found(elements: list) -> list:
    rows = []
    for batch in elements:
        if isinstance(batch, Batch):
            values = [tuple(map(comparable, row.values())) for row in batch.rows.to_pylist()]
            rows += list(zip(values, batch.ts.tolist(), batch.pos.tolist(), strict=True))
    return rows


@settings(max_examples=150, deadline=None)
@given(streams(), windows(), lives, cuts, st.integers(0, 4))
def test_the_first_of_equal_rows_in_each_window_for_every_batching(rows, window, life, cuts, lag):
    operator = Distinct(SCHEMA, window, life)
    out = run(operator, stream_of(rows, SCHEMA, cuts, lag))
    assert bag(found(out)) == bag(reference.distinct(rows, SCHEMA.names, window, life))
    assert [ts for _, ts, _ in found(out)] == sorted(ts for _, ts, _ in found(out))
    assert not broken_promises(out)


@settings(max_examples=60, deadline=None)
@given(streams(), windows(), lives, cuts, st.booleans())
def test_punctuations_and_restarts_change_neither_results_nor_grammar(rows, window, life, cuts, restart):
    elements = stream_of(rows, SCHEMA, cuts)
    last = max((at for at, row in enumerate(rows) if row.values["k"] == 2), default=-1)
    seen = place = 0
    while seen <= last:
        seen += getattr(elements[place], "num_rows", 0)
        place += 1
    elements.insert(place, Punctuation.of(SCHEMA.names, k=constant(2)))

    def make() -> Distinct:
        return Distinct(SCHEMA, window, life)

    out = run_with_restarts(make, elements) if restart else run(make(), elements)
    assert bag(found(out)) == bag(reference.distinct(rows, SCHEMA.names, window, life))
    assert not broken_promises(out)
    assert len([mark for mark in out if isinstance(mark, Punctuation)]) == 1


def row(ts: int, key: int) -> Row:
    return Row(ts, ts, {"k": key, "v": 0.0})


def test_a_punctuation_waits_for_the_rows_it_speaks_about():
    operator = Distinct(SCHEMA, Unbounded(), Lifespan(0))
    mark = Punctuation.of(SCHEMA.names, k=constant(1))
    assert not run(operator, [batch_of([row(5, 1), row(6, 2)], SCHEMA), mark])
    out = operator.on_metadata(0, Heartbeat(6))
    assert found(out) == [((1, 0.0), 5, 5)]
    assert out[1:] == [mark, Heartbeat(6)]


def test_a_closed_value_is_forgotten():
    operator = Distinct(SCHEMA, Unbounded(), Lifespan(0))
    run(operator, [batch_of([row(5, 1), row(6, 2)], SCHEMA), Heartbeat(7)])
    assert operator.counters()["state_rows"] == 2
    operator.on_metadata(0, Punctuation.of(SCHEMA.names, k=constant(1)))
    assert (operator.counters()["state_rows"], operator.counters()["purged"]) == (1, 1)


def test_a_value_is_forgotten_with_its_window_and_reported_again_in_the_next():
    operator = Distinct(SCHEMA, Framed(10, 10, 10), Lifespan(0))
    out = run(operator, [batch_of([row(5, 1), row(6, 1), row(15, 1)], SCHEMA), Heartbeat(16)])
    assert found(out) == [((1, 0.0), 5, 5), ((1, 0.0), 15, 15)]
    assert operator.counters()["state_rows"] <= 2
    run(operator, [Heartbeat(20)])
    assert operator.counters()["state_rows"] == 0


def test_a_row_is_reported_once_for_each_overlapping_window_it_is_first_in():
    operator = Distinct(SCHEMA, Framed(10, 5, 5), Lifespan(0))
    out = run(operator, stream_of([row(6, 1), row(8, 1), row(11, 1)], SCHEMA))
    assert found(out) == [((1, 0.0), 6, 6), ((1, 0.0), 6, 6), ((1, 0.0), 11, 11)]


def test_state_stays_small_when_windows_pass():
    operator = Distinct(SCHEMA, Framed(10, 10, 10), Lifespan(0))
    for ts in range(1000):
        run(operator, [batch_of([row(ts, ts % 7)], SCHEMA), Heartbeat(ts)])
    assert operator.counters()["state_rows"] < 30
    assert operator.counters()["segments"] < 30


def test_the_end_releases_what_waits():
    operator = Distinct(SCHEMA, Framed(10, 10, 10), Lifespan(0))
    assert found(run(operator, [batch_of([row(5, 1)], SCHEMA), End()])) == [((1, 0.0), 5, 5)]


def test_empty_batches_are_accepted_and_input_is_not_modified():
    batch, copy = batch_of([row(5, 1)], SCHEMA), batch_of([row(5, 1)], SCHEMA)
    run(Distinct(SCHEMA, Unbounded(), Lifespan(0)), [batch_of([], SCHEMA), batch, Heartbeat(FOREVER)])
    assert batch.rows.equals(copy.rows)
    assert np.array_equal(batch.ts, copy.ts)


def test_a_row_behind_the_frontier_is_a_defect_of_the_host():
    operator = Distinct(SCHEMA, Unbounded(), Lifespan(0))
    operator.on_metadata(0, Heartbeat(10))
    with pytest.raises(Defect, match="time 9"):
        operator.on_batch(0, batch_of([row(9, 1)], SCHEMA))
