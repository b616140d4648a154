"""Every rule has a golden file of its name: plans before and after, which are also run and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.declarations import StreamDeclaration
from penstock.plan.catalog import Catalog
from penstock.plan.describe import tree
from penstock.plan.nodes.base import Node
from penstock.plan.rewrites.apply import rewritten
from penstock.plan.rewrites.merge_selects import merge_selects
from penstock.plan.rewrites.push_filter_below_join import push_filter_below_join
from penstock.plan.rewrites.push_filter_below_project import push_filter_below_project
from penstock.plan.rewrites.rebuild import Rule
from penstock.plan.rewrites.table import RULES_BY_NAME
from penstock.runners.local.runner import LocalRunner
from penstock.testing.streams import bag

FOLDER = Path(__file__).parents[1] / "golden" / "rewrites"
UNCHANGED = "does not fire"


def cases(rule: str) -> list[tuple[str, str]]:
    """(statements, expected) of a golden file."""
    parts = [case.partition("\n----") for case in (FOLDER / f"{rule}.sql").read_text().split("\n====\n")]
    return [(text, expected.strip("\n")) for text, _, expected in parts]


def prepared(catalog: Catalog, rule: Rule) -> Catalog:
    """The plans as the rule meets them: some rules have work only once filters have moved below lists."""
    return changed(catalog, push_filter_below_project) if rule in (merge_selects, push_filter_below_join) else catalog


def changed(catalog: Catalog, rule: Rule) -> Catalog:
    return replace(catalog, queries={name: replace(query, plan=rule(query.plan)) for name, query in catalog.queries.items()})


def shown(before: Catalog, after: Catalog) -> str:
    def pair(name: str, old: Node, new: Node) -> str:
        return f"{name}\n{tree(old)}\n=> {UNCHANGED}" if new is old else f"{name}\n{tree(old)}\n=>\n{tree(new)}"

    return "\n\n".join(pair(query.name, query.plan, after.queries[name].plan) for name, query in before.queries.items())


def rows_of(stream: StreamDeclaration, seed: int, size: int = 120) -> Iterator[pa.RecordBatch]:
    """Rows within the disorder bound: small keys, some NULLs, unique values where they are declared."""
    random = np.random.default_rng(seed)
    promised = {constraint.column for constraint in stream.constraints}
    columns = []
    for item in stream.schema:
        if item.name == stream.timestamp:
            columns.append(pa.array(np.arange(size) // 2 + random.integers(0, 3, size), item.type))
        elif item.name in promised:
            columns.append(pa.array(np.arange(size), item.type))
        else:
            values = pa.array(random.integers(0, 6, size), mask=random.random(size) < 0.1)
            columns.append(values.cast(item.type))
    rows = pa.RecordBatch.from_arrays(columns, names=list(stream.schema.names))
    cuts = [0, 1, 37, 80, size]
    yield from (rows.slice(start, stop - start) for start, stop in pairwise(cuts))


def answers(catalog: Catalog, shards: int = 2) -> dict[str, list[object]]:
    runner = LocalRunner(build_job(catalog, shards, optimise=False))
    batches = {name: list(rows_of(stream, seed)) for seed, (name, stream) in enumerate(catalog.streams.items())}
    for step in range(4):
        runner.run({catalog.streams[name].name: parts[step] for name, parts in batches.items()})
    runner.end()
    return {query.name: bag(runner.collected.timed(query.name)) for query in catalog.queries.values()}


def test_every_rule_has_a_golden_file_and_every_file_a_rule() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.sql")) == sorted(RULES_BY_NAME)


@pytest.mark.parametrize("name", RULES_BY_NAME)
def test_a_rule_turns_the_plans_of_its_golden_file_into_equal_ones(name: str, update_golden: bool) -> None:
    results, rule = [], RULES_BY_NAME[name]
    for text, expected in cases(name):
        before = prepared(parse_application(text), rule)
        after = changed(before, rule)
        results.append(f"{text}\n----\n{shown(before, after)}\n")
        assert update_golden or shown(before, after) == expected
        assert all(rule(query.plan) is query.plan for query in after.queries.values())
        found = answers(after)
        assert found == answers(before)
        assert all(found.values())
    if update_golden:
        (FOLDER / f"{name}.sql").write_text("\n====\n".join(results))


@pytest.mark.parametrize("name", RULES_BY_NAME)
def test_all_rules_together_change_no_answer_and_end(name: str) -> None:
    for text, _ in cases(name):
        before = parse_application(text)
        after = rewritten(before)
        assert rewritten(after) is after
        assert answers(after, shards=3) == answers(before)
        for query_name, query in before.queries.items():
            assert after.queries[query_name].plan.schema == query.plan.schema


def test_queries_that_share_a_join_still_share_it_after_pruning() -> None:
    catalog = parse_application("""
        CREATE STREAM a (k BIGINT, v BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE STREAM b (k BIGINT, x BIGINT, note STRING, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE CQ one AS SELECT a.v FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k;
        CREATE CQ other AS SELECT a.w FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k;
    """)
    (stage,) = build_job(catalog, 2).stages
    assert [node.id[:10] for node in stage.graph.nodes if node.id.startswith("WindowJoin")] == ["WindowJoin"]
    assert [source.prefix.schema.names for source in stage.sources] == [("a.k", "a.v", "a.w"), ("b.k",)]


def test_an_application_no_rule_applies_to_stays_the_same_object() -> None:
    catalog = parse_application("CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0); CREATE CQ q AS SELECT k FROM a;")
    assert rewritten(catalog) is catalog


def test_a_stream_spread_by_two_keys_carries_to_each_what_is_read_there() -> None:
    catalog = parse_application("""
        CREATE STREAM a (k BIGINT, v BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE CQ one AS SELECT k, max(v) AS top FROM a [RANGE 5] GROUP BY k;
        CREATE CQ same AS SELECT k, min(w) AS low FROM a [RANGE 9] GROUP BY k;
        CREATE CQ other AS SELECT v, count(*) AS n FROM a [RANGE 5] GROUP BY v;
    """)
    (stage,) = build_job(catalog, 2).stages
    assert [source.prefix.schema.names for source in stage.sources] == [("k", "v", "w"), ("v",)]
