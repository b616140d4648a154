"""Outer, semi and anti joins give what DuckDB finds in the whole of their streams, and so do queries that read them."""

from __future__ import annotations

from hypothesis import given, settings

from penstock.testing.random_queries.applications import outer_applications
from penstock.testing.soak import Case, cases, check


@given(cases(outer_applications()))
@settings(max_examples=30, deadline=None)
def test_outer_semi_and_anti_joins_equal_duckdb(case: Case) -> None:
    check(case)
