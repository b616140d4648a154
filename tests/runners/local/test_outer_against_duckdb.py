"""Outer, semi and anti joins give what DuckDB finds in the whole of their streams, and so do queries that read them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from test_against_duckdb import check_conservation, found_by_duckdb, found_by_penstock, micro_batches, run, runner_for

from penstock.testing.queries import STREAMS, outer_applications, stream_rows, table_of


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_outer_semi_and_anti_joins_equal_duckdb(data: st.DataObject) -> None:
    queries = data.draw(outer_applications())
    tables = {name: table_of(data.draw(stream_rows())) for name in STREAMS}
    cuts = {name: data.draw(st.lists(st.integers(0, 14), max_size=5)) for name in STREAMS}
    runner = runner_for(queries, data)
    run(runner, micro_batches(tables, cuts), data.draw(st.sampled_from([None, 1, 3, 20])), data.draw(st.booleans()))
    for query in queries:
        assert found_by_penstock(runner, query.name) == found_by_duckdb(query, tables), query
    assert runner.collected.refused == []
    check_conservation(runner)
