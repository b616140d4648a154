"""Joins of several sources without a common key, from SQL to answers: exact, however inputs are spread and orders change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidConfiguration, InvalidPlan
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.plan.analysis.safety import check
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import MJoin
from penstock.runners.local.runner import LocalRunner

STREAMS = "".join(
    f"CREATE STREAM {name} (x BIGINT, y BIGINT, z STRING, n BIGINT, ts BIGINT, WATERMARK ts DELAY OF 4);\n" for name in "abcd"
)
SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64(), "z": pa.string(), "n": pa.int64(), "ts": pa.int64()})
#: Conditions by what their graph looks like.
SHAPES = {
    "star": "a.x = b.x AND a.y = c.y AND d.z = a.z",
    "tree": "a.x = b.x AND b.y = c.y AND c.z = d.z",
    "branching tree": "a.x = b.x AND b.y = c.y AND b.z = d.z",
    "circle": "a.x = b.x AND b.y = c.y AND c.z = d.z AND d.n = a.n",
    "one key and more": "a.x = b.x AND a.x = c.x AND c.x = d.x AND a.y = c.y",
    "two keys": "a.x = b.x AND c.y = b.y AND a.y = c.y AND d.z = c.z AND a.n < d.n + 2",
}
POLICIES = ("agreedy", "sweep", "independent", "local_swaps", "random", "fixed")
EAGER = "probability = 1.0, min_fill = 1, chunk_rows = 2, window_rows = 8, stage_rows = 2"


def query(conditions: str, windows: Mapping[str, int | None], hint: str = "") -> str:
    written = {name: f" [RANGE {size}]" if size is not None else "" for name, size in windows.items()}
    sources = ", ".join(f"{name}{written[name]}" for name in windows)
    shown = ", ".join(f"{name}.n AS {name}n, {name}.ts AS {name}t" for name in windows)
    return f"CREATE CQ q AS SELECT {hint} {shown} FROM {sources} WHERE {conditions};"


def found_by_duckdb(conditions: str, windows: Mapping[str, int | None], tables: Mapping[str, pa.RecordBatch]) -> list[Any]:
    newest = f"greatest({', '.join(f'{name}.ts' for name in windows)})"
    recent = [f"{newest} - {name}.ts <= {size}" for name, size in windows.items() if size is not None]
    shown = ", ".join(f"{name}.n, {name}.ts" for name in windows)
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, pa.Table.from_batches([rows]))
        text = f"SELECT {shown}, {newest} FROM {', '.join(windows)} WHERE {' AND '.join([conditions, *recent])}"
        return sorted(connection.execute(text).fetchall(), key=repr)


def found_by_penstock(runner: LocalRunner) -> list[Any]:
    return sorted(((*row.values(), ts) for ts, row in runner.collected.timed("q")), key=repr)


def job_of(text: str, shards: int = 2) -> Job:
    return build_job(parse_application(STREAMS + text), shards)


values = st.none() | st.integers(0, 2)
rows_of_a_stream = st.lists(
    st.tuples(values, values, st.sampled_from(["u", "vv", None]), st.integers(0, 1), st.integers(0, 3)), max_size=9
)


def table_of(drawn: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Time passes from row to row, with some disorder."""
    rows = [(x, y, z, n, 2 * at - back + 3) for at, (x, y, z, n, back) in enumerate(drawn)]
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def played(
    runner: LocalRunner, tables: Mapping[str, pa.RecordBatch], step: int, restart: bool, budget: int | None = None,
    then: Mapping[str, pa.RecordBatch] | None = None,
) -> None:  # fmt: skip
    longest = max(rows.num_rows for rows in tables.values())
    controls = [Control(0, "budget", {"ns": budget and budget * 30_000})]
    for start in range(0, longest, step):
        runner.run({name: rows.slice(start, step) for name, rows in tables.items()}, controls)
        controls = []
        if restart:
            runner.restore(runner.snapshot())
    runner.run(then or {})
    runner.end()


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_multiway_joins_equal_duckdb_whatever_changes_places(data: st.DataObject) -> None:
    conditions = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))]
    windows = {name: data.draw(st.none() | st.integers(0, 9)) for name in data.draw(st.permutations("abcd"))}
    hint = f"/*+ MJOIN(policy = '{data.draw(st.sampled_from(POLICIES))}', {EAGER}) */"
    tables = {name: table_of(data.draw(rows_of_a_stream)) for name in "abcd"}
    runner = LocalRunner(
        job_of(query(conditions, windows, hint), data.draw(st.sampled_from([1, 2, 3]))), encode=data.draw(st.booleans())
    )
    budget = data.draw(st.sampled_from([None, 2]))
    played(runner, tables, data.draw(st.integers(1, 9)), data.draw(st.booleans()), budget)
    assert found_by_penstock(runner) == found_by_duckdb(conditions, windows, tables)
    assert runner.collected.refused == []
    for counters in runner.report().values():
        assert "read" not in counters or counters["read"] == counters["used"]


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_rows_that_are_refused_are_refused_once_and_the_rest_is_joined(data: st.DataObject) -> None:
    windows = dict.fromkeys("abcd", 5)
    tables = {name: table_of(data.draw(rows_of_a_stream)) for name in "abcd"}
    shards, step = data.draw(st.sampled_from([1, 3])), data.draw(st.integers(1, 4))
    old = table_of([(0, 0, "u", 1, 3)]).set_column(4, "ts", pa.array([-50]))
    untimed = old.set_column(4, "ts", pa.array([None], pa.int64()))
    soiled = {name: pa.concat_batches([old, untimed]) for name, rows in tables.items() if rows.num_rows}
    runner = LocalRunner(job_of(query(SHAPES["star"], windows), shards))
    played(runner, tables, step, False, then=soiled)
    assert found_by_penstock(runner) == found_by_duckdb(SHAPES["star"], windows, tables)
    reasons = sorted(refused.reason for refused in runner.collected.refused for _ in range(refused.batch.num_rows))
    assert reasons == sorted(["late", "no-timestamp"] * len(soiled))


# -- which join runs -----------------------------------------------------------------------------------------------------


def joins_in(text: str, streams: str = STREAMS) -> list[type]:
    return [type(node) for node in walk(parse_application(streams + text).queries["q"].plan) if isinstance(node, WindowJoin)]


def test_sources_without_a_common_key_become_one_join_if_all_have_windows() -> None:
    assert joins_in(query(SHAPES["star"], dict.fromkeys("abcd", 5))) == [MJoin]
    assert joins_in(query(SHAPES["circle"], dict.fromkeys("abcd", 5))) == [MJoin]
    assert joins_in(query(SHAPES["star"], {**dict.fromkeys("abc", 5), "d": None})) == [WindowJoin] * 3


def test_one_key_stays_a_window_join_unless_a_hint_asks() -> None:
    one_key = "a.x = b.x AND b.x = c.x"
    assert joins_in(query(one_key, dict.fromkeys("abc", 5))) == [WindowJoin]
    assert joins_in(query(one_key, dict.fromkeys("abc", 5), "/*+ MJOIN */")) == [MJoin]


def test_a_declaration_that_closes_values_is_worth_more_than_an_order() -> None:
    unique = STREAMS.replace("CREATE STREAM b (x BIGINT", "CREATE STREAM b (UNIQUE (n), x BIGINT")
    assert joins_in(query(SHAPES["tree"], dict.fromkeys("abcd", 5)), unique) == [WindowJoin] * 3
    assert joins_in(query(SHAPES["tree"], dict.fromkeys("abcd", 5), "/*+ MJOIN */"), unique) == [MJoin]


@pytest.mark.parametrize(
    ("sources", "error", "message"),
    [
        ("a [RANGE 5], b [RANGE 5] WHERE a.x = b.x", InvalidPlan, "joins three inputs or more; found 2"),
        ("a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x", InvalidPlan, "'c' is joined without an equality"),
        ("a [ROWS 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x AND b.y = c.y", InvalidPlan, "takes windows of time"),
        ("a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x AND CAST(b.y AS INT) = c.y", InvalidPlan, "differ in type"),
    ],
)
def test_a_join_that_cannot_run_this_way_is_refused(sources: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        job_of(f"CREATE CQ q AS SELECT /*+ MJOIN */ a.n FROM {sources}")


@pytest.mark.parametrize(
    ("options", "message"),
    [("polcy = 'sweep'", "policy"), ("policy = 'best'", "policy is 'best'"), ("mode = 'global'", "no option 'mode'"),
     ("alpha = 2", "alpha is 2"), ("chunk_rows = 0", "chunk_rows is 0")],
)  # fmt: skip
def test_options_of_the_hint_are_judged_before_a_job_is_built(options: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        job_of(query(SHAPES["star"], dict.fromkeys("abcd", 5), f"/*+ MJOIN({options}) */"))


# -- shards --------------------------------------------------------------------------------------------------------------


def test_the_value_by_which_least_is_copied_spreads_the_inputs() -> None:
    keys = {
        source.prefix.stream.name: source.route.keys
        for source in job_of(query(SHAPES["star"], dict.fromkeys("abcd", 5))).stages[0].sources
    }
    assert keys == {"a": ("a.x",), "b": ("b.x",), "c": ("*",), "d": ("*",)}
    rates = {"a": 1000, "b": 10, "c": 300, "d": 50}
    clocked = "".join(
        f"CREATE STREAM {name} (x BIGINT, y BIGINT, z STRING, n BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)"
        f" USING feed OPTIONS (rate '{rate}');\n"
        for name, rate in rates.items()
    )
    text = query(SHAPES["star"], dict.fromkeys("abcd", 5)).replace("RANGE 5", "RANGE 5 SECONDS")
    job = build_job(parse_application(clocked + text), 2)
    keys = {source.prefix.stream.name: source.route.keys for source in job.stages[0].sources}
    assert keys == {"a": ("a.y",), "b": ("*",), "c": ("c.y",), "d": ("*",)}


def test_answers_of_queries_are_copied_and_joined_too_and_the_grouping_behind_shares_the_stage() -> None:
    text = """
    CREATE CQ per_x AS SELECT x, y, count(*) AS n FROM b [RANGE 4] GROUP BY x, y;
    CREATE CQ q AS SELECT a.x, count(*) AS m FROM a [RANGE 9], per_x p [RANGE 9], c [RANGE 9], d [RANGE 9]
      WHERE a.x = d.x AND a.y = p.y AND a.z = c.z GROUP BY a.x;
    """
    random = np.random.default_rng(3)
    tables = {
        name: pa.RecordBatch.from_arrays(
            [pa.array(random.integers(0, 3, 60)), pa.array(random.integers(0, 3, 60)), pa.array(random.choice(["u", "v"], 60)),
             pa.array(random.integers(0, 3, 60)), pa.array(np.arange(60))], schema=SCHEMA)
        for name in "abcd"
    }  # fmt: skip
    answers = []
    for shards in (1, 3):
        runner = LocalRunner(job_of(text, shards), encode=True)
        played(runner, tables, 7, True)
        answers.append(sorted((ts, *row.values()) for ts, row in runner.collected.timed("q")))
    assert answers[0] == answers[1]
    assert len(answers[0]) > 10


# -- orders --------------------------------------------------------------------------------------------------------------


def drifting(size: int = 4000) -> dict[str, pa.RecordBatch]:
    """Rows of `a` seldom find a partner in `b`, later in `d`; the others send few rows."""
    random = np.random.default_rng(5)
    late = np.arange(size) >= size // 2
    x, y = np.where(late, random.integers(0, 20, size), random.integers(0, 2000, size)), random.integers(0, 20, size)
    z = np.where(late, random.integers(0, 2000, size), random.integers(0, 20, size)).astype(str)
    facts = pa.RecordBatch.from_arrays(
        [pa.array(x), pa.array(y), pa.array(z), pa.array(np.arange(size)), pa.array(np.arange(size))], schema=SCHEMA
    )
    few = np.arange(0, size, 20)
    ids = few // 20 % 20
    others = pa.RecordBatch.from_arrays(
        [pa.array(ids), pa.array(ids), pa.array(ids.astype(str)), pa.array(few), pa.array(few)], schema=SCHEMA
    )
    return {"a": facts, "b": others, "c": others, "d": others}


HINT = "/*+ MJOIN(probability = 0.2, min_fill = 20, chunk_rows = 100, window_rows = 60{}) */"


def drifted(hint: str, restart: bool) -> LocalRunner:
    runner = LocalRunner(job_of(query(SHAPES["star"], dict.fromkeys("abcd", 390), hint)))
    tables = drifting()
    for start in range(0, 4000, 100):
        within = {
            name: rows.filter(pa.array((rows["ts"].to_numpy() >= start) & (rows["ts"].to_numpy() < start + 100)))
            for name, rows in tables.items()
        }
        runner.run(within)
        if restart:
            runner.restore(runner.snapshot())
    runner.end()
    return runner


def counted(runner: LocalRunner) -> dict[str, int]:
    """All counters of the join but its time."""
    return {name: value for name, value in runner.report()["MJoin1"].items() if name != "ns"}


def test_a_repetition_makes_the_same_decisions_and_the_same_answers_in_the_same_order() -> None:
    first, again, restarted = (drifted(HINT.format(""), restart) for restart in (False, False, True))
    for other in (again, restarted):
        assert first.collected.timed("q") == other.collected.timed("q")
        assert counted(first) == counted(other)
    assert counted(first)["reorderings"] > 1


def test_adapting_makes_fewer_probes_than_the_order_that_was_best_at_first() -> None:
    adaptive, fixed = (drifted(HINT.format(more), False) for more in ("", ", policy = 'fixed'"))
    assert found_by_penstock(adaptive) == found_by_penstock(fixed)
    assert counted(adaptive)["probes_0"] < 0.7 * counted(fixed)["probes_0"]


# -- declarations and bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_a_row_that_breaks_a_promise_is_set_apart_once_although_every_shard_has_it(shards: int) -> None:
    promised = "CREATE STREAM c (UNIQUE (y), x BIGINT"
    streams = STREAMS.replace("CREATE STREAM c (x BIGINT", promised).replace("DELAY OF 4)", "DELAY OF 4) ON VIOLATION QUARANTINE")
    windows = dict.fromkeys("abcd", 9)
    runner = LocalRunner(
        build_job(parse_application(streams + query(SHAPES["star"], windows, "/*+ MJOIN */")), shards), encode=True
    )
    rows = [(1, 1, "u", 0, 0), (1, 2, "u", 1, 0), (1, 1, "u", 2, 0)]
    tables = {name: table_of(rows) for name in "abcd"}
    played(runner, tables, 2, True)
    (refused,) = runner.collected.refused
    assert (refused.reason, refused.batch.column("c.n").to_pylist()) == ("punctuation-violated", [2])
    assert found_by_penstock(runner) == found_by_duckdb(SHAPES["star"], windows, {**tables, "c": tables["c"].slice(0, 2)})
    counted_rows = [counters for name, counters in runner.report().items() if name.startswith("c@")]
    assert [(counters["read"], counters["used"], counters["violating"]) for counters in counted_rows] == [(3, 2, 1)]


def test_a_source_without_window_makes_the_state_grow_and_a_window_is_the_remedy() -> None:
    text = query(SHAPES["star"], {**dict.fromkeys("abc", 5), "d": None}, "/*+ MJOIN */")
    found = check(parse_application(STREAMS + text))
    assert not found.is_bounded
    assert "windows alone make a multiway join forget" in str(found)
    assert "[RANGE 5] on `d` in CREATE CQ q" in str(found)
    assert check(parse_application(STREAMS + query(SHAPES["star"], dict.fromkeys("abcd", 5)))).is_bounded


def test_functions_over_a_copied_source_change_nothing_for_others_that_read_it() -> None:
    text = """
    CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
    CREATE CQ q AS SELECT a.n, c.n AS m
      FROM a [RANGE 9], b [RANGE 9], (SELECT n, y FROM c WHERE wide(z) > 0 AND wide(z) < 2) c [RANGE 9]
      WHERE a.x = b.x AND a.y = c.y;
    CREATE CQ seen AS SELECT n, y FROM c WHERE wide(z) > 0 AND wide(z) < 2;
    CREATE CQ counted AS SELECT y, count(*) AS m FROM seen [RANGE 5] GROUP BY y;
    """
    random = np.random.default_rng(2)
    tables = {
        name: table_of([(int(x), int(y), str(z), 0, 0) for x, y, z in zip(
            random.integers(0, 3, 40), random.integers(0, 3, 40), random.choice(["u", "vv", ""], 40), strict=True)])
        for name in "abcd"
    }  # fmt: skip
    found = []
    for shards in (1, 3):
        runner = LocalRunner(job_of(text, shards))
        played(runner, tables, 7, True)
        found.append({name: sorted(map(repr, runner.collected.timed(name))) for name in ("q", "seen", "counted")})
    assert found[0] == found[1]
    assert all(len(rows) > 5 for rows in found[0].values())
