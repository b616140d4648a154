"""Conditions that change places while a query runs: answers never depend on it, the work does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sql_functions
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import FilterFailed, InvalidConfiguration
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.filters import FilterRecipe
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.rewrites.apply import rewritten
from penstock.runners.local.runner import LocalRunner
from penstock.runners.steering import Steering

DECLARATIONS = """
CREATE FUNCTION mix(v BIGINT, salt BIGINT) RETURNS BIGINT
  USING python OPTIONS (callable 'sql_functions:hashed', kind 'arrow', cost '1e-6');
CREATE FUNCTION fussy(v BIGINT) RETURNS DOUBLE USING python OPTIONS (callable 'sql_functions:fussy', cost '1e-6', after 'v <> 0');
CREATE STREAM s (k BIGINT, a BIGINT, b BIGINT, c BIGINT, t STRING, ts BIGINT, WATERMARK ts DELAY OF 0);
"""
#: Three conditions and a search; which of them rejects most depends on a, b and c.
QUERY = """
CREATE CQ q AS SELECT {hint} k, a, b, c FROM s
WHERE mix(k, 1) < a AND mix(k, 2) < b AND mix(k, 3) < c AND t RLIKE '[0-7]$' AND k >= 0;
"""
HINTS = [
    "",
    *(f"/*+ ORDER(policy = '{name}') */" for name in ("fixed", "random", "agreedy", "sweep", "independent", "local_swaps")),
]
EAGER = "probability = 1.0, min_fill = 20, chunk_rows = 50, window_rows = 100"


def rows(size: int, limits: tuple[int, int, int], start: int = 0, nulls: float = 0.05) -> pa.RecordBatch:
    """Rows of which each limit decides how many pass its condition."""
    random = np.random.default_rng(start + 7)
    k = np.arange(start, start + size)
    columns = [pa.array(np.full(size, limit), mask=random.random(size) < nulls) for limit in limits]
    texts = pa.array([str(number % 10) for number in k])
    return pa.RecordBatch.from_arrays([pa.array(k), *columns, texts, pa.array(k)], ["k", "a", "b", "c", "t", "ts"])


def batches(cuts: int = 8, size: int = 200) -> Iterator[pa.RecordBatch]:
    """The condition that rejects most is the last one at first, and the first one later."""
    for number in range(cuts):
        yield rows(size, (120, 64, 12) if number < cuts // 2 else (12, 64, 120), number * size)


def job(hint: str = "", query: str = QUERY, shards: int = 2) -> Job:
    return build_job(parse_application(DECLARATIONS + query.format(hint=hint)), shards)


def played(made: Job, given: list[pa.RecordBatch], **options: Any) -> LocalRunner:
    runner = LocalRunner(made, **options)
    for batch in given:
        runner.run({"s": batch})
    runner.end()
    return runner


def expected(given: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The plain conjunction, row by row."""

    def passes(row: dict[str, Any], salt: int, limit: int | None) -> bool:
        return limit is not None and ((((row["k"] * 7919 + salt) * 104729) >> 7) & 127) < limit

    return [
        {name: row[name] for name in ("k", "a", "b", "c")}
        for batch in given
        for row in batch.to_pylist()
        if all(passes(row, salt, row[name]) for salt, name in ((1, "a"), (2, "b"), (3, "c"))) and row["t"] in "01234567"
    ]


def by_key(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: row["k"])


def precedes(order: Sequence[Any], one: Any, other: Any) -> bool:
    # The search is measured, so its place among the others varies.
    return order.index(one) < order.index(other)


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("mode", ["global", "shard"])
def test_every_policy_gives_the_answer_of_the_plain_conjunction(hint: str, mode: str) -> None:
    options = f"{EAGER}, mode = '{mode}'"
    eager = hint.replace("')", f"', {options})") if hint else f"/*+ ORDER({options}) */"
    given = list(batches())
    runner = played(job(eager.replace("min_fill = 20", "min_fill = 20, stage_rows = 20")), given, encode=True)
    assert by_key(runner.collected.rows("q")) == by_key(expected(given))


@given(cuts=st.integers(1, 6), size=st.integers(1, 60), shards=st.integers(1, 3), nulls=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=15, deadline=None)
def test_any_batching_on_any_number_of_shards_gives_the_same_answer(cuts: int, size: int, shards: int, nulls: float) -> None:
    given = [rows(size, (100, 40, 70), number * size, nulls) for number in range(cuts)]
    runner = played(job(f"/*+ ORDER({EAGER}) */", shards=shards), given)
    assert by_key(runner.collected.rows("q")) == by_key(expected(given))


def test_the_driver_reorders_when_the_data_drift_and_work_follows() -> None:
    given = list(batches())
    eager, fixed = played(job(f"/*+ ORDER({EAGER}) */"), given), played(job("/*+ ORDER(policy = 'fixed') */"), given)
    (status,) = eager.steering.statuses()
    assert precedes(status.order, "mix(k, 1) < a", "mix(k, 3) < c")
    assert status.reorderings >= 2
    assert status.current is not None
    assert status.greedy is not None
    assert status.optimal is not None
    assert status.optimal <= status.greedy + 1e-12
    early = next(iter(eager.decisions.values()))[0].detail["mirror"]["order"]
    assert precedes(early, 2, 0)
    name = status.operator
    asked = [sum(value for key, value in run.report()[name].items() if key.startswith("evaluations:")) for run in (eager, fixed)]
    assert asked[0] < asked[1]
    assert fixed.decisions == {}


def test_a_run_with_noted_decisions_repeats_order_work_and_output() -> None:
    given = list(batches())
    first = LocalRunner(job(f"/*+ ORDER({EAGER}) */"), clock=lambda: 0)
    for batch in given:
        first.run({"s": batch})
    again = LocalRunner(job(f"/*+ ORDER({EAGER}) */"), clock=lambda: 0, is_steered=False)
    for number, batch in enumerate(given):
        again.run({"s": batch}, first.decisions.get(number, ()))
    assert first.decisions
    assert again.collected.timed("q") == first.collected.timed("q")
    assert again.report() == first.report()


def test_a_repeated_micro_batch_tells_nothing_new() -> None:
    runner = LocalRunner(job(f"/*+ ORDER({EAGER}) */"), clock=lambda: 0)
    for batch in list(batches())[:2]:
        runner.run({"s": batch})
    steering = Steering(runner.job)
    before = runner.steering.snapshot()
    assert runner.steering.hear(1, {}) == []
    assert runner.steering.snapshot() == before
    steering.restore(json.loads(json.dumps(before)))
    assert steering.statuses() == runner.steering.statuses()


@pytest.mark.parametrize("mode", ["global", "shard"])
def test_shards_restored_between_micro_batches_go_on_alike(mode: str) -> None:
    hint = f"/*+ ORDER({EAGER}, mode = '{mode}') */"
    given = list(batches())
    plain, interrupted = LocalRunner(job(hint), clock=lambda: 0), LocalRunner(job(hint), clock=lambda: 0)
    for batch in given:
        plain.run({"s": batch})
        interrupted.run({"s": batch})
        interrupted.restore(interrupted.snapshot())
    assert interrupted.collected.timed("q") == plain.collected.timed("q")
    assert interrupted.decisions == plain.decisions
    assert [status.order for status in interrupted.steering.statuses()] == [s.order for s in plain.steering.statuses()]


def test_shards_that_decide_for_themselves_need_no_decisions() -> None:
    runner = played(job(f"/*+ ORDER({EAGER}, mode = 'shard') */"), list(batches()))
    (status,) = runner.steering.statuses()
    assert runner.decisions == {}
    assert status.reorderings >= 2
    assert precedes(status.order, "mix(k, 1) < a", "mix(k, 3) < c")


# -- plans -------------------------------------------------------------------------------------------------------------


def test_comparisons_come_first_and_the_rest_is_ordered_before_rows_cross_to_the_group() -> None:
    text = """CREATE CQ q AS SELECT k, count(*) AS n FROM s [RANGE 9]
              WHERE mix(k, 1) < 9 AND a > 3 AND t RLIKE 'x' AND t LIKE 'ab%' GROUP BY k"""
    (stage,) = job(query=text).stages
    (source,) = stage.sources
    assert [str(part) for part in source.prefix.conditions] == ["a > 3", "t LIKE 'ab%'"]
    assert source.prefix.schema.names == ("k", "t")
    assert source.route.keys == ("k",)
    (item,) = source.prefix.filters
    assert isinstance(item.make, FilterRecipe)
    assert [conjunct.name for conjunct in item.make.conjuncts] == ["mix(k, 1) < 9", "t RLIKE 'x'"]
    assert item.columns == ("k", "t")
    assert not any(isinstance(node.make, FilterRecipe) for node in stage.graph.nodes)


def test_shards_run_filters_that_decide_for_themselves_and_those_of_hosts_that_tell_packing_nothing() -> None:
    text = QUERY.format(hint="/*+ ORDER(mode = 'shard') */")
    jobs = [job(query=text), build_job(parse_application(DECLARATIONS + QUERY.format(hint="")), 2, filters_early=False)]
    for made in jobs:
        (stage,) = made.stages
        assert [source.prefix.filters for source in stage.sources] == [()]
        assert [node.id for node in stage.graph.nodes if isinstance(node.make, FilterRecipe)] == list(made.filters)


def test_a_key_that_a_function_computes_crosses_an_exchange() -> None:
    text = "CREATE CQ q AS SELECT mix(k, 1) AS m, count(*) AS n FROM s [RANGE 9] GROUP BY mix(k, 1)"
    assert [source.route.keys for stage in job(query=text).stages for source in stage.sources] == [None]
    assert len(job(query=text).stages) == 2


def test_queries_that_share_a_filter_run_it_once() -> None:
    text = """CREATE CQ few AS SELECT k, a FROM s WHERE mix(k, 1) < 64 AND mix(k, 2) < 64;
              CREATE CQ n AS SELECT k, count(*) AS n FROM few [RANGE 50] GROUP BY k;
              CREATE CQ m AS SELECT k, a FROM few WHERE a > 3;"""
    made = job(query=text)
    assert [queries for _, queries in made.early_filters.values()] == [{"few", "n", "m"}]
    given = list(batches())
    runner = played(made, given)
    assert len(runner.collected.rows("n")) == len(runner.collected.rows("few"))
    # Entries of several queries ask about the same rows; m about fewer, as its own condition comes first.
    (name,) = made.early_filters
    assert runner.report()[name]["arrived"] == sum(batch.num_rows for batch in given)
    assert runner.collected.rows("m") == [row for row in runner.collected.rows("few") if (row["a"] or 0) > 3]


def test_a_filtered_stream_joins_with_a_function_in_the_join() -> None:
    text = """CREATE CQ q AS SELECT x.k, y.a FROM s x [RANGE 5], s y [RANGE 5]
              WHERE x.k = y.k AND mix(x.k, 1) < 64 AND mix(x.k, 2) < 64 AND mix(x.k + y.a, 3) < 100"""
    given = list(batches(2))
    runner = played(job(query=text), given)
    mixed = [
        row["k"]
        for batch in given
        for row in batch.to_pylist()
        if row["a"] is not None
        and ((((row["k"] * 7919 + 1) * 104729) >> 7) & 127) < 64
        and ((((row["k"] * 7919 + 2) * 104729) >> 7) & 127) < 64
        and (((((row["k"] + row["a"]) * 7919 + 3) * 104729) >> 7) & 127) < 100
    ]
    assert sorted(row["k"] for row in runner.collected.rows("q")) == sorted(mixed)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("/*+ ORDER(policy = 'greedy') */", "Did you mean 'agreedy'?"),
        ("/*+ ORDER(polcy = 'agreedy') */", "Did you mean 'policy'?"),
        ("/*+ ORDER(alpha = 2) */", "alpha is 2"),
        ("/*+ ORDER(alpha = 'much') */", "alpha is 'much'; expected a number"),
        ("/*+ ORDER(mode = 'local') */", "mode is 'local'"),
    ],
)
def test_wrong_options_of_the_order_are_named_where_they_stand(hint: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        job(hint)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.line


def test_more_conditions_than_can_be_ordered_are_refused_when_planned() -> None:
    conditions = " AND ".join(f"mix(k, {number}) < 120" for number in range(65))
    with pytest.raises(InvalidConfiguration, match="65 filters; an adaptive filter orders at most 64"):
        job(query=f"CREATE CQ q AS SELECT k FROM s WHERE {conditions}")


# -- guards ------------------------------------------------------------------------------------------------------------


def guarded(condition: str, hint: str = f"/*+ ORDER({EAGER}) */") -> str:
    return f"CREATE CQ q AS SELECT {hint} k, a FROM s WHERE fussy(a) > 2 AND mix(k, 2) < 64 AND {condition}"


@pytest.mark.parametrize(
    "condition", ["(a <> 0 OR t RLIKE 'x' AND a <> 0)", "(a > 0 OR t RLIKE 'x' AND a > 3)", "a <> 0 AND t RLIKE '[0-7]$'"]
)
def test_a_function_that_can_raise_never_sees_what_its_guard_rejects(condition: str) -> None:
    given = [rows(300, (number % 3, 64, 64), number * 300) for number in range(6)]
    sql_functions.SEEN.clear()
    runner = played(job(query=guarded(condition)), given)
    assert runner.collected.rows("q")
    assert sql_functions.SEEN
    assert 0 not in sql_functions.SEEN


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize(("mode", "shards"), [("global", 1), ("shard", 2), ("both", 3)])
def test_a_condition_protects_those_written_after_it_though_nobody_declares_it(hint: str, mode: str, shards: int) -> None:
    # Most rows fail the second condition, so that every policy would ask it first.
    text = "CREATE CQ q AS SELECT {hint} k, a FROM s WHERE (a <> 0 OR mix(k, 2) < 0) AND fussy(a) > 2 AND mix(k, 3) < 100"
    options = f"{EAGER}, mode = '{mode}', stage_rows = 20"
    eager = hint.replace("')", f"', {options})") if hint else f"/*+ ORDER({options}) */"
    catalog = parse_application((DECLARATIONS + text.format(hint=eager)).replace(", after 'v <> 0'", ""))
    given = [rows(100, ((60, 5, 60, 0)[number % 4], 64, 64), number * 100) for number in range(12)]
    mixed = pa.concat_tables([pa.Table.from_batches(given)]).take(np.random.default_rng(3).permutation(1200)).combine_chunks()
    mixed = mixed.set_column(5, "ts", pa.array(np.arange(1200)))
    runner = played(build_job(catalog, shards), [mixed.slice(start, 150).to_batches()[0] for start in range(0, 1200, 150)])
    wanted = [row["k"] for row in mixed.to_pylist() if row["a"] == 5 and ((((row["k"] * 7919 + 3) * 104729) >> 7) & 127) < 100]
    assert sorted(row["k"] for row in runner.collected.rows("q")) == sorted(wanted)


def test_without_a_guard_the_query_fails_with_function_and_row() -> None:
    with pytest.raises(FilterFailed, match=r"filter 'fussy\(a\) > 2' raised ZeroDivisionError: division by zero on .*'k': 0"):
        played(job(query=guarded("t RLIKE '[0-7]$'")), [rows(50, (0, 64, 64), nulls=0.0)])


def test_rows_a_function_cannot_judge_are_kept_apart_on_request() -> None:
    text = guarded("t RLIKE '[0-7]$'", "/*+ ORDER(on_error = 'dead_letter', policy = 'fixed') */")
    runner = played(job(query=text), [rows(50, (0, 64, 64), nulls=0.0)])
    assert sum(item.batch.num_rows for item in runner.collected.refused) == 50
    assert {item.reason for item in runner.collected.refused} == {"filter-failed"}


def test_a_function_that_may_not_be_profiled_stands_last_and_sees_only_rows_that_reach_it() -> None:
    text = DECLARATIONS.replace("after 'v <> 0'", "after 'v <> 0', profilable 'false'") + guarded("a <> 0 AND t RLIKE '[0-7]$'")
    catalog = parse_application(text)
    (node,) = [found for found in walk(rewritten(catalog).queries["q"].plan) if isinstance(found, AdaptiveFilter)]
    assert [item.profilable for item in node.conjuncts] == [False, True, True]
    runner = played(build_job(catalog, 2), [rows(300, (5, 64, 64), number * 300) for number in range(4)])
    (status,) = runner.steering.statuses()
    assert status.order[-1] == "fussy(a) > 2"


def test_the_explanation_says_who_orders_what() -> None:
    text = str(
        explain(parse_application(DECLARATIONS + guarded("(a <> 0 OR t RLIKE 'x' AND a > 1)", "/*+ ORDER(policy = 'sweep') */")))
    )
    assert ". ordered by sweep, decided on the driver; 1 % of rejected rows is profiled; the hint ORDER(policy = 'sweep')" in text
    assert ". fussy(a) > 2 after a <> 0 OR t RLIKE 'x' AND a > 1" in text
