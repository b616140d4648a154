"""Punctuations through a whole application: groups come once, complete, and as early as they may, for every shard count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.runners.local.runner import LocalRunner

COLUMNS = "k BIGINT, s STRING, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 50"
APPLICATION = f"""
CREATE STREAM l ({COLUMNS}) USING feed PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE STREAM r ({COLUMNS}) USING feed PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE CQ pairs AS SELECT a.k, a.s FROM l a, r b WHERE a.k = b.k AND a.s = b.s;
CREATE CQ by_k AS SELECT k, count(*) AS n FROM pairs GROUP BY k;
CREATE CQ by_s AS SELECT s, count(*) AS n FROM pairs GROUP BY s;
CREATE CQ by_both AS SELECT k, s, count(*) AS n FROM pairs GROUP BY k, s;
CREATE CQ triples AS SELECT p.k, p.s FROM pairs p, r c WHERE p.s = c.s;
CREATE CQ by_triple AS SELECT k, s, count(*) AS n FROM triples GROUP BY k, s;
CREATE CQ rows_by_k AS SELECT k, count(*) AS n FROM (SELECT k, s FROM l UNION ALL SELECT k, s FROM r) GROUP BY k;
"""
SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "ts": pa.int64(), "mark": pa.string()})


def table(items: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """(k, s) for a row, (text,) for a punctuation."""
    full = [(None, None, None, item[0]) if len(item) == 1 else (*item, at, None) for at, item in enumerate(items)]
    return pa.RecordBatch.from_pydict({name: [row[at] for row in full] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


rows = st.tuples(st.integers(1, 3), st.sampled_from(["a", "b"]))
marks = st.sampled_from(
    [
        '{"k": 1}',
        '{"k": [1, 3]}',
        '{"k": {"range": [2, 3]}}',
        '{"s": "a"}',
        '{"k": 2, "s": "b"}',
        '{"k": [1, 2], "s": ["a", "b"]}',
        "{}",
    ]
).map(lambda text: (text,))
sides = st.lists(st.one_of(rows, rows, rows, marks), max_size=10)


def counted(found: list[dict[str, Any]], *names: str) -> dict[Any, int]:
    return dict(Counter(tuple(row[name] for name in names) for row in found))


def once(found: list[dict[str, Any]], *names: str) -> dict[Any, int]:
    """Groups and their counts; a group that was reported twice is a mistake."""
    groups = {tuple(row[name] for name in names): row["n"] for row in found}
    assert len(groups) == len(found)
    return groups


@given(left=sides, right=sides, shards=st.sampled_from([1, 2, 3, 5]), cut=st.integers(0, 10), budget=st.sampled_from([None, 2]))
@settings(max_examples=25, deadline=None)
def test_closed_groups_are_complete_and_come_once(
    left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], shards: int, cut: int, budget: int | None
) -> None:
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards), encode=True)
    for start, stop in ((0, cut), (cut, 99)):
        batch = {"l": table(left[start:stop]), "r": table(right[start:stop])}
        runner.run(batch, [Control(0, "budget", {"ns": budget and budget * 30_000})])
        runner.restore(runner.snapshot())
    runner.end()
    collected = runner.collected
    pairs = collected.rows("pairs")
    assert once(collected.rows("by_k"), "k") == counted(pairs, "k")
    assert once(collected.rows("by_s"), "s") == counted(pairs, "s")
    assert once(collected.rows("by_both"), "k", "s") == counted(pairs, "k", "s")
    assert once(collected.rows("by_triple"), "k", "s") == counted(collected.rows("triples"), "k", "s")
    assert sum(row["n"] for row in collected.rows("rows_by_k")) == used(runner)
    once(collected.rows("rows_by_k"), "k")
    derived = [counters for name, counters in runner.report().items() if "read" in counters and not name.startswith(("l@", "r@"))]
    assert all(counters["late"] == counters["violating"] == 0 for counters in derived)


def used(runner: LocalRunner) -> int:
    """Rows the entries of the union let in."""
    report = runner.report()
    nodes = {node.id: node for stage in runner.job.stages for node in stage.graph.nodes}
    union = next(node for name, node in nodes.items() if name.startswith("Union"))
    # An entry may have columns that only its promises are about; a list behind it leaves them out.
    entries = [nodes[source].sources[0][0] if source in nodes else source for source, _ in union.sources]
    return sum(report[entry]["used"] for entry in entries)


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("mark", ['{"k": 1}', '{"k": {"range": [0, 1]}}', '{"k": [1, 7]}'])
def test_a_group_comes_when_both_streams_have_closed_it(shards: int, mark: str) -> None:
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards), encode=True)
    runner.run({"l": table([(1, "a"), (2, "a"), (1, "b")]), "r": table([(1, "a"), (1, "a"), (2, "a")])})
    runner.run({"l": table([(mark,)])})
    assert runner.collected.rows("by_k") == []
    runner.run({"r": table([(mark,)])})
    assert runner.collected.rows("by_k") == [{"k": 1, "n": 2}]
    assert runner.collected.rows("rows_by_k") == [{"k": 1, "n": 4}]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_a_pair_of_key_values_closes_its_group_across_an_exchange(shards: int) -> None:
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards))
    runner.run({"l": table([(1, "a"), (1, "b")]), "r": table([(1, "a"), (1, "b")])})
    closing = table([('{"k": 1, "s": "a"}',)])
    runner.run({"l": closing, "r": closing})
    assert runner.collected.rows("by_both") == [{"k": 1, "s": "a", "n": 1}]
    assert runner.collected.rows("by_k") == []


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_a_shard_does_not_speak_for_the_one_that_owns_the_values(shards: int) -> None:
    """Only the owner knows that a pair may still come; the others have nothing that would hold the punctuation back."""
    runner = LocalRunner(build_job(parse_application(APPLICATION), shards))
    runner.run({"l": table([(1, "a"), ('{"k": 1, "s": "a"}',)]), "r": table([(1, "a"), (2, "a")])})
    assert runner.collected.rows("by_triple") == []
    runner.run({"r": table([(1, "a")])})
    runner.end()
    assert runner.collected.rows("by_triple") == [{"k": 1, "s": "a", "n": 6}]
