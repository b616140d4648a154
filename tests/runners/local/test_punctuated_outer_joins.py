"""Punctuations through outer, semi and anti joins: groups behind them come once, complete, and as early as they may."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from test_punctuated_queries import COLUMNS, counted, once, sides, table

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.runners.local.runner import LocalRunner

APPLICATION = f"""
CREATE STREAM l ({COLUMNS}) USING feed PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE STREAM r ({COLUMNS}) USING feed PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE CQ lefts AS SELECT a.k, a.s, b.k AS other FROM l a LEFT JOIN r b ON a.k = b.k AND a.s = b.s;
CREATE CQ wholes AS SELECT a.k, b.k AS other, coalesce(a.s, b.s) AS s FROM l a FULL JOIN r b ON a.k = b.k;
CREATE CQ semis AS SELECT a.k, a.s FROM l a LEFT SEMI JOIN r b ON a.k = b.k;
CREATE CQ antis AS SELECT a.k, a.s FROM l a LEFT ANTI JOIN r b ON a.s = b.s;
CREATE CQ lefts_by_k AS SELECT k, count(*) AS n FROM lefts GROUP BY k;
CREATE CQ lefts_by_other AS SELECT other, count(*) AS n FROM lefts GROUP BY other;
CREATE CQ wholes_by_k AS SELECT k, count(*) AS n FROM wholes GROUP BY k;
CREATE CQ wholes_by_both AS SELECT k, other, count(*) AS n FROM wholes GROUP BY k, other;
CREATE CQ semis_by_k AS SELECT k, count(*) AS n FROM semis GROUP BY k;
CREATE CQ antis_by_s AS SELECT s, count(*) AS n FROM antis GROUP BY s;
CREATE CQ chains AS SELECT w.k, w.s, c.s AS t FROM wholes w LEFT JOIN r c ON w.k = c.k;
CREATE CQ chains_by_k AS SELECT k, count(*) AS n FROM chains GROUP BY k;
"""
GROUPED = {
    "lefts_by_k": ("lefts", "k"),
    "lefts_by_other": ("lefts", "other"),
    "wholes_by_k": ("wholes", "k"),
    "wholes_by_both": ("wholes", "k", "other"),
    "semis_by_k": ("semis", "k"),
    "antis_by_s": ("antis", "s"),
    "chains_by_k": ("chains", "k"),
}


@given(left=sides, right=sides, shards=st.sampled_from([1, 2, 3, 5]), cut=st.integers(0, 10), budget=st.sampled_from([None, 2]))
@settings(max_examples=12, deadline=None)
def test_groups_over_rows_without_partner_are_complete_and_come_once(
    left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], shards: int, cut: int, budget: int | None
) -> None:
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards), encode=True)
    for start, stop in ((0, cut), (cut, 99)):
        batch = {"l": table(left[start:stop]), "r": table(right[start:stop])}
        runner.run(batch, [Control(0, "budget", {"ns": budget and budget * 30_000})])
        runner.restore(runner.snapshot())
    runner.end()
    for name, (source, *keys) in GROUPED.items():
        assert once(runner.collected.rows(name), *keys) == counted(runner.collected.rows(source), *keys), name
    derived = [counters for name, counters in runner.report().items() if "read" in counters and not name.startswith(("l@", "r@"))]
    assert all(counters["late"] == counters["violating"] == 0 for counters in derived)


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_rows_without_partner_and_their_groups_come_with_the_punctuations_that_prove_them(shards: int) -> None:
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards), encode=True)
    runner.run({"l": table([(1, "a"), (1, "b"), (2, "a")]), "r": table([(1, "a"), (2, "b")])})
    assert runner.collected.rows("antis") == []
    runner.run({"r": table([('{"k": 1}',)])})
    assert runner.collected.rows("lefts") == [{"k": 1, "s": "a", "other": 1}, {"k": 1, "s": "b", "other": None}]
    assert runner.collected.rows("lefts_by_k") == []  # further rows of l with key 1 may come
    runner.run({"l": table([('{"k": 1}',)])})
    assert runner.collected.rows("lefts_by_k") == [{"k": 1, "n": 2}]
    assert runner.collected.rows("semis_by_k") == [{"k": 1, "n": 2}]
    assert runner.collected.rows("wholes_by_k") == [{"k": 1, "n": 2}]
    assert runner.collected.rows("chains_by_k") == [{"k": 1, "n": 2}]


@pytest.mark.parametrize("shards", [2, 5])
def test_punctuations_on_columns_that_may_be_null_cross_an_exchange(shards: int) -> None:
    """Rows whose key is not NULL live in one shard, which may speak for all."""
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards))
    closing = [('{"k": [1, 2, 3]}',)]
    runner.run({"l": table([(1, "a"), (2, "a"), *closing]), "r": table([(1, "a"), (3, "a"), *closing])})
    assert sorted(row["n"] for row in runner.collected.rows("chains_by_k")) == [1, 1]
    joins = [counters for name, counters in runner.report().items() if name.startswith("WindowJoin")]
    assert sum(counters["owed"] for counters in joins) == 0
    # Only the anti join by s keeps something: the two rows of r, for rows of l to come.
    assert sum(counters["state_rows"] for counters in joins) == 2
