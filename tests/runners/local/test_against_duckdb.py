"""Random continuous queries give what DuckDB finds in the whole of their streams, however they are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.runners.local.runner import LocalRunner
from penstock.testing.queries import DISORDER, STREAMS, Query, application_text, applications, stream_rows, table_of

POLICIES = ("round_robin", "path_capacity")


def shown(value: Any) -> str:
    """Nine digits are enough to tell answers apart and too few to see in which order doubles were added."""
    return format(value + 0.0, ".9g") if isinstance(value, float) else repr(value)


def found_by_duckdb(query: Query, tables: Mapping[str, pa.RecordBatch]) -> list[tuple[str, ...]]:
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, pa.Table.from_batches([rows]))
        cursor = connection.execute(query.equivalent)
        names = [column[0] for column in cursor.description]
        time = names.index("_ts")
        rows = [(*row[:time], *row[time + 1 :], row[time]) for row in cursor.fetchall()]
    return sorted(tuple(map(shown, row)) for row in rows)


def found_by_penstock(runner: LocalRunner, name: str) -> list[tuple[str, ...]]:
    return sorted((*map(shown, row.values()), shown(ts)) for ts, row in runner.collected.timed(name))


def micro_batches(tables: Mapping[str, pa.RecordBatch], cuts: Mapping[str, Sequence[int]]) -> list[dict[str, pa.RecordBatch]]:
    """Each stream cut at its own places; shorter lists of pieces leave their stream idle at the end."""
    pieces: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in tables.items():
        bounds = sorted({0, rows.num_rows, *(cut for cut in cuts[name] if cut < rows.num_rows)})
        pieces[name] = [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]
    longest = max(map(len, pieces.values()), default=0)
    return [{name: found[at] for name, found in pieces.items() if at < len(found)} for at in range(longest)]


def run(runner: LocalRunner, batches: Sequence[Mapping[str, pa.RecordBatch]], budget: int | None, restart: bool) -> None:
    controls = [Control(0, "budget", {"rows": budget})]
    for batch in batches:
        runner.run(batch, controls)
        controls = []
        if restart:
            runner.restore(runner.snapshot())
    runner.end()


def check_conservation(runner: LocalRunner) -> None:
    """read = used + filtered + late + bad + violating, at every entry; nothing gets lost between stages either."""
    for counters in runner.report().values():
        if "read" in counters:
            refused = counters["late"] + counters["bad"] + counters["violating"] - counters["trusted"]
            used = counters["used"] + counters["filtered"] + refused
            assert counters["read"] in (0, used)
            assert counters["read"] or not refused


def soiled(rows: pa.RecordBatch, kinds: Sequence[str]) -> pa.RecordBatch:
    """Some rows lose their time, some come far too old."""
    times = [
        None if kind == "untimed" else ts - 12 if kind == "old" and ts >= 12 else ts
        for ts, kind in zip(rows.column("ts").to_pylist(), kinds, strict=False)
    ]
    return rows.set_column(0, rows.schema.field(0), pa.array(times, pa.int64()))


def usable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows in time, row by row: the definition of lateness."""
    newest: int | None = None
    kept = []
    for at, ts in enumerate(rows.column("ts").to_pylist()):
        if ts is not None and (newest is None or ts >= newest - DISORDER):
            kept.append(at)
        newest = ts if newest is None else max(newest, ts if ts is not None else newest)
    return rows.take(pa.array(kept, pa.int64()))


def runner_for(queries: Sequence[Query], data: st.DataObject) -> LocalRunner:
    shards = data.draw(st.sampled_from([1, 2, 3, 5]))
    job = build_job(parse_application(application_text(queries)), shards, optimise=data.draw(st.booleans()))
    return LocalRunner(job, data.draw(st.sampled_from(POLICIES)), encode=data.draw(st.booleans()))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_random_queries_equal_duckdb(data: st.DataObject) -> None:
    queries = data.draw(applications())
    tables = {name: table_of(data.draw(stream_rows())) for name in STREAMS}
    cuts = {name: data.draw(st.lists(st.integers(0, 14), max_size=5)) for name in STREAMS}
    runner = runner_for(queries, data)
    run(runner, micro_batches(tables, cuts), data.draw(st.sampled_from([None, 1, 3, 20])), data.draw(st.booleans()))
    for query in queries:
        assert found_by_penstock(runner, query.name) == found_by_duckdb(query, tables), query
    assert runner.collected.refused == []
    check_conservation(runner)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_bad_and_late_rows_are_set_apart_and_the_rest_equals_duckdb(data: st.DataObject) -> None:
    queries = data.draw(applications())
    kinds = st.lists(st.sampled_from(["good", "good", "good", "old", "untimed"]), min_size=14, max_size=14)
    tables = {name: soiled(table_of(data.draw(stream_rows())), data.draw(kinds)) for name in STREAMS}
    cuts = {name: data.draw(st.lists(st.integers(0, 14), max_size=5)) for name in STREAMS}
    runner = runner_for(queries, data)
    run(runner, micro_batches(tables, cuts), data.draw(st.sampled_from([None, 3])), data.draw(st.booleans()))
    clean = {name: usable(rows) for name, rows in tables.items()}
    for query in queries:
        assert found_by_penstock(runner, query.name) == found_by_duckdb(query, clean), query
    check_conservation(runner)
