"""Random continuous queries give what DuckDB finds in the whole of their streams, however they are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from penstock.testing.random_queries.applications import DISORDER, STREAMS
from penstock.testing.random_queries.timeline import Timeline
from penstock.testing.soak import (
    Case,
    cases,
    check,
    found_by_duckdb,
    found_by_penstock,
    main,
    micro_batches,
    play,
    runner_for,
    unaccounted,
)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_random_queries_equal_duckdb(case: Case) -> None:
    check(case)


def test_the_command_that_compares_for_long_runs() -> None:
    assert main(["--minutes", "0", "--seed", "1", "--applications", "5"]) == 0


def soiled(rows: pa.RecordBatch, kinds: Sequence[str], timeline: Timeline) -> pa.RecordBatch:
    """Some rows lose their time, some come far too old."""
    age = timedelta(seconds=12) if timeline.is_clock else 12
    times = [
        None if kind == "untimed" else ts - age if kind == "old" else ts
        for ts, kind in zip(rows.column("ts").to_pylist(), kinds, strict=False)
    ]
    return rows.set_column(0, rows.schema.field(0), pa.array(times, rows.schema.field(0).type))


def usable(rows: pa.RecordBatch, cuts: Sequence[int], timeline: Timeline) -> pa.RecordBatch:
    """Rows in time: the definition of lateness. What a micro-batch brings holds for the next one."""
    bound = timedelta(seconds=DISORDER) if timeline.is_clock else DISORDER
    promised = newest = None
    kept = []
    for at, ts in enumerate(rows.column("ts").to_pylist()):
        promised = newest if at in cuts else promised
        if ts is None:
            continue
        if promised is None or ts >= promised - bound:
            kept.append(at)
        newest = ts if newest is None else max(newest, ts)
    return rows.take(pa.array(kept, pa.int64()))


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_bad_and_late_rows_are_set_apart_and_the_rest_equals_duckdb(data: st.DataObject) -> None:
    case = data.draw(cases())
    timeline = case.application.timeline
    kinds = st.lists(st.sampled_from(["good", "good", "good", "old", "untimed"]), min_size=14, max_size=14)
    case = replace(case, tables={name: soiled(case.tables[name], data.draw(kinds), timeline) for name in STREAMS})
    runner = runner_for(case)
    play(runner, micro_batches(case.tables, dict(case.host.cuts)), case.host)
    clean = {name: usable(rows, dict(case.host.cuts).get(name, ()), timeline) for name, rows in case.tables.items()}
    for query in case.application.queries:
        assert found_by_penstock(runner, query.name) == found_by_duckdb(query, clean), case
    assert unaccounted(runner) == []
