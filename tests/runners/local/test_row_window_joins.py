"""Joins over windows that count rows, from text to answer: brute force over the last rows judges them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidConfiguration, InvalidPlan, InvalidWindow
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.plan.analysis.safety import check
from penstock.runners.local.runner import LocalRunner

DELAY = 2
#: (key, value, time)
Stream = list[tuple[int | None, int, int]]

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF {DELAY});\n" for name in ("a", "b", "c")
)


@st.composite
def streams(draw: st.DrawFn) -> list[Stream]:
    """Three streams whose rows are at most `DELAY` behind the newest before them; ties and NULL keys included."""
    found = []
    for _ in range(3):
        rows: Stream = []
        newest = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(0, 9))):
            newest += draw(st.integers(0, 2))
            late = draw(st.integers(0, min(DELAY, newest)))
            rows.append((draw(st.sampled_from([0, 0, 1, 2, None])), draw(st.integers(0, 4)), newest - late))
        found.append(rows)
    return found


windows = st.one_of(
    st.integers(0, 4).map(lambda size: ("ROWS", size)), st.integers(0, 5).map(lambda size: ("RANGE", size)), st.just(("", 0))
)


def clause(window: tuple[str, int]) -> str:
    return f" [{window[0]} {window[1]}]" if window[0] else ""


def brute_force(inputs: Sequence[Stream], given: Sequence[tuple[str, int]]) -> list[tuple[int, ...]]:
    """Values of all combinations of equal keys whose last row finds the others among the last rows of their inputs."""
    order = sorted((row[2], port, place) for port, rows in enumerate(inputs) for place, row in enumerate(rows))
    ranks = {(port, place): at for at, (_, port, place) in enumerate(order)}
    numbers = {name: sum(1 for _, port, _ in order[:at] if port == name[0]) for name, at in ranks.items()}
    found = []
    for places in product(*(range(len(rows)) for rows in inputs)):
        rows = [inputs[port][place] for port, place in enumerate(places)]
        if rows[0][0] is None or any(row[0] != rows[0][0] for row in rows):
            continue
        last = max(enumerate(places), key=lambda name: ranks[name])
        before = order[: ranks[last]]
        if all(
            _is_in(
                given[port],
                rows[port],
                numbers[port, place],
                sum(1 for _, other, _ in before if other == port),
                inputs[last[0]][last[1]][2],
            )
            for port, place in enumerate(places)
            if port != last[0]
        ):
            found.append(tuple(row[1] for row in rows))
    return sorted(found)


def _is_in(window: tuple[str, int], row: tuple[int | None, int, int], number: int, count: int, now: int) -> bool:
    kind, size = window
    if kind == "ROWS":
        return number >= count - size
    return not kind or now - row[2] <= size


def answers(text: str, inputs: Sequence[Stream], cuts: Sequence[int], shards: int) -> list[tuple[Any, ...]]:
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, shards), encode=True)
    for start, stop in zip((0, *cuts), (*cuts, None), strict=True):
        pieces = {name: rows[start:stop] for name, rows in zip("abc", inputs, strict=True)}
        runner.run({name: _batch(rows, catalog.stream(name).schema.arrow) for name, rows in pieces.items()})
        if shards > 1:  # a restart at every boundary changes nothing
            runner.restore(runner.snapshot())
    runner.end()
    assert not runner.collected.refused
    return sorted(tuple(row.values()) for row in runner.collected.rows("q"))


def _batch(rows: Stream, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], item.type) for at, item in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def spread_hint(given_windows: Sequence[tuple[str, int]], variant: str) -> str:
    """Asks for the join to run in all shards; only where rows are counted is there anything to ask."""
    return f"/*+ {variant}(spread = TRUE) */ " if any(kind == "ROWS" for kind, _ in given_windows) else ""


@settings(max_examples=60, deadline=None)
@given(
    inputs=streams(), given_windows=st.tuples(windows, windows), cuts=st.sets(st.integers(0, 9)), shards=st.integers(1, 3),
    variant=st.sampled_from(["", "PWJOIN", "WJOIN"]),
)  # fmt: skip
@example([[(0, 1, 0), (1, 2, 0), (0, 3, 1)], [(0, 4, 1), (0, 5, 1)], []], (("ROWS", 1), ("ROWS", 1)), {1}, 2, "")
@example([[(0, 1, 0), (1, 2, 0), (0, 3, 1)], [(0, 4, 1), (0, 5, 1)], []], (("ROWS", 1), ("ROWS", 1)), {1}, 3, "PWJOIN")
def test_a_join_of_two_inputs_equals_brute_force_for_every_batching_in_one_shard_and_in_all(
    inputs: list[Stream], given_windows: tuple[tuple[str, int], ...], cuts: set[int], shards: int, variant: str
) -> None:
    hint = spread_hint(given_windows, variant) if variant else ""
    first, second = given_windows
    text = f"{STREAMS}CREATE CQ q AS SELECT {hint}a.v AS x, b.v AS y FROM a{clause(first)}, b{clause(second)} WHERE a.k = b.k"
    assert answers(text, inputs, sorted(cuts), shards) == brute_force(inputs[:2], given_windows)


@settings(max_examples=20, deadline=None)
@given(
    inputs=streams(), given_windows=st.tuples(windows, windows, windows), cuts=st.sets(st.integers(0, 9), max_size=3),
    is_spread=st.booleans(),
)  # fmt: skip
def test_a_join_of_three_inputs_equals_brute_force(
    inputs: list[Stream], given_windows: tuple[tuple[str, int], ...], cuts: set[int], is_spread: bool
) -> None:
    hint = spread_hint(given_windows, "MPWJOIN") if is_spread else ""
    sources = ", ".join(f"{name}{clause(window)}" for name, window in zip("abc", given_windows, strict=True))
    text = f"{STREAMS}CREATE CQ q AS SELECT {hint}a.v AS x, b.v AS y, c.v AS z FROM {sources} WHERE a.k = b.k AND b.k = c.k"
    assert answers(text, inputs, sorted(cuts), 2) == brute_force(inputs, given_windows)


@settings(max_examples=20, deadline=None)
@given(inputs=streams(), size=st.integers(0, 4), hint=st.sampled_from(["", "/*+ WJOIN */ ", "/*+ PWJOIN(spread = TRUE) */ "]))
def test_rows_that_fail_a_condition_take_a_place_in_the_window(inputs: list[Stream], size: int, hint: str) -> None:
    text = (
        f"{STREAMS}CREATE CQ q AS SELECT {hint}a.v AS x, b.v AS y FROM a [ROWS {size}], b [ROW {size}] WHERE a.k = b.k AND a.v > 1"
    )
    expected = [pair for pair in brute_force(inputs[:2], (("ROWS", size), ("ROWS", size))) if pair[0] > 1]
    assert answers(text, inputs, (), 2) == expected


def test_a_select_in_from_filters_before_rows_are_counted() -> None:
    inputs: list[Stream] = [[(0, 9, 0), (0, 1, 1), (0, 1, 2)], [(0, 5, 3)], []]
    inner = "(SELECT k, v FROM a WHERE v > 1) AS x [ROWS 1]"
    text = f"{STREAMS}CREATE CQ q AS SELECT x.v, b.v AS w FROM {inner}, b [ROWS 1] WHERE x.k = b.k"
    assert answers(text, inputs, (), 2) == [(9, 5)]


@pytest.mark.parametrize("hint", ["", "/*+ PWJOIN(spread = TRUE) */"])
def test_g25_closed_keys_are_purged_and_still_take_a_place_in_the_window(hint: str) -> None:
    """The example of the literature: b4 and b7 are purged of b1 … b12, and the window of ten rows begins with b3."""
    text = f"""
    CREATE STREAM a (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
    CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    CREATE CQ q AS SELECT {hint} a.k FROM a [ROWS 10], b [ROWS 10] WHERE a.k = b.k
    """
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 2))
    schema = catalog.stream("a").schema.arrow
    arrived = pa.RecordBatch.from_pydict({"k": list(range(1, 13)), "ts": list(range(1, 13))})

    def of_a(keys: list[int | None], ts: int, marks: list[str | None]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"k": keys, "ts": [ts] * len(keys), "mark": marks}, schema=schema)

    def of_b(key: int, ts: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"k": [key], "ts": [ts]})

    runner.run({"b": arrived, "a": of_a([98], 13, [None])})
    runner.run({"b": of_b(99, 13)})
    runner.run({"a": of_a([None, None], 13, ['{"k": 4}', '{"k": 7}'])})
    runner.run({"a": of_a([1, 2, 3, 12], 13, [None] * 4)})
    runner.run({"b": of_b(99, 20), "a": of_a([98], 20, [None])})
    assert sorted(row["k"] for row in runner.collected.rows("q")) == [3, 12]
    # Five rows of a, b4 … b13 without the two purged ones, and the last row of either input, which waits.
    # One row that has left the window may stay a while: a run is not written anew for less than an eighth of its rows.
    assert sum(found.get("state_rows", 0) for found in runner.report().values()) - (5 + 8 + 2) in (0, 1)
    runner.end()


def test_counted_rows_are_joined_in_all_shards_where_the_hint_asks_for_it() -> None:
    inputs: list[Stream] = [[(key, 0, ts) for ts, key in enumerate(range(40))], [(key, 0, 40) for key in range(40)], []]
    text = f"{STREAMS}CREATE CQ q AS SELECT /*+ PWJOIN(spread = TRUE) */ a.k FROM a [ROWS 30], b [ROWS 5] WHERE a.k = b.k"
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 4))
    runner.run({name: _batch(rows, catalog.stream(name).schema.arrow) for name, rows in zip("abc", inputs, strict=True)})
    runner.run({name: _batch([(99, 0, 50)], catalog.stream(name).schema.arrow) for name in "ab"})
    (join,) = [node.id for node in runner.job.stages[1].graph.nodes if node.id.startswith("WindowJoin")]
    rows = [runner.kernels[2, shard].report()["operators"][join]["state_rows"] for shard in range(4)]
    assert all(rows)
    # Shards forget rows of other shards' counting; a few stay until a run is written anew.
    assert sum(rows) - (30 + 5) in range(4)
    runner.end()
    assert sorted(row["k"] for row in runner.collected.rows("q")) == [*range(10, 40), 99]


def test_life_bounds_what_is_counted_also_before_the_exchange() -> None:
    inputs: list[Stream] = [[(0, 1, 1), (0, 2, 5), (0, 3, 6)], [(0, 9, 7), (0, 8, 20)], []]
    found = [
        answers(
            f"{STREAMS}CREATE CQ q BEGIN 3 END 10 AS SELECT {hint}a.v AS x, b.v AS y FROM a [ROWS 3], b [ROWS 3] WHERE a.k = b.k",
            inputs, (), 2,
        )
        for hint in ("", "/*+ PWJOIN(spread = TRUE) */ ")
    ]  # fmt: skip
    assert found == [[(2, 9), (3, 9)]] * 2


@pytest.mark.parametrize(
    ("source", "hint", "message"),
    [
        ("a [ROWS 5], b", "PWJOIN(spread = 2)", "spread is 2; expected TRUE or FALSE"),
        ("a [RANGE 5], b [RANGE 5]", "PWJOIN(spread = TRUE)", "spread is for windows that count rows"),
    ],
)
def test_spreading_that_means_nothing_is_refused(source: str, hint: str, message: str) -> None:
    with pytest.raises((InvalidConfiguration, InvalidPlan), match=message):
        parse_application(f"{STREAMS}CREATE CQ q AS SELECT /*+ {hint} */ a.v FROM {source} WHERE a.k = b.k")


def test_a_row_window_bounds_the_state_and_explain_names_the_shard() -> None:
    catalog = parse_application(f"{STREAMS}CREATE CQ q AS SELECT a.v FROM a [ROWS 100], b [ROWS 50] WHERE a.k = b.k")
    text = str(explain(catalog))
    assert "WindowJoin a.k = b.k [last 100 rows | last 50 rows]  round 1 in one shard" in text
    assert "nobody closes the key; rows are counted in one shard" in text
    assert "rows of b: its window holds the last 50 rows, counted in one shard" in text
    assert "memory of a: about 100 rows" in text
    (verdict, *_) = [found for found in check(catalog).verdicts if found.holdings]
    assert verdict.is_bounded
    assert verdict.bounded_by == ("count",)


def test_an_input_without_window_beside_a_row_window_is_not_bounded() -> None:
    catalog = parse_application(f"{STREAMS}CREATE CQ q AS SELECT a.v FROM a [ROWS 100], b WHERE a.k = b.k")
    assert not check(catalog).is_bounded


def test_rows_wait_for_ever_where_event_time_of_an_input_stands_still() -> None:
    text = f"""{STREAMS}
    CREATE STREAM u (k BIGINT, v BIGINT, ts BIGINT, UNIQUE (k), WATERMARK ts DELAY OF 0);
    CREATE CQ held AS SELECT COUNT(*) AS n, MAX(k) AS k FROM u;
    CREATE CQ q AS SELECT a.v FROM a [ROWS 3], held h [ROWS 3] WHERE a.k = h.k
    """
    found = [verdict for verdict in check(parse_application(text)).verdicts if verdict.query == "q" and verdict.holdings]
    assert not found[0].is_bounded
    assert "a row waits for its place in the order of all inputs" in str(found[0].holdings[0].why)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a.v FROM a [ROWS 5, ADVANCE 5], b [ROWS 5] WHERE a.k = b.k", "slides with each"),
        ("SELECT a.v FROM a [LANDMARK ADVANCE 5 TUPLES], b WHERE a.k = b.k", "slides with each"),
        ("SELECT a.v FROM a [PARTITION BY k ROWS 5], b WHERE a.k = b.k", "leave PARTITION BY out"),
        ("SELECT a.v FROM a [ROWS 5] LEFT JOIN b ON a.k = b.k", "outer, semi or anti joins takes no ROW windows"),
        ("SELECT a.v FROM a [ROWS 5], b, c WHERE a.k = b.k AND b.v = c.v", "without a common key takes no ROW windows"),
        ("SELECT COUNT(*) AS n FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k", "write the join as a query of its own"),
        ("SELECT a.v FROM a [ROWS 5], b [RANGE 5, ADVANCE 5] WHERE a.k = b.k", "with and without ADVANCE"),
    ],
)
def test_row_windows_where_they_have_no_meaning_are_refused(query: str, message: str) -> None:
    with pytest.raises((InvalidWindow, InvalidPlan), match=message):
        parse_application(f"{STREAMS}CREATE CQ q AS {query}")


def test_every_row_may_be_the_end_of_its_own_window_slide() -> None:
    text = f"{STREAMS}CREATE CQ q AS SELECT a.v FROM a [ROWS 2 SLIDE PER TUPLE], b [ROWS 2, ADVANCE 1 TUPLE] WHERE a.k = b.k"
    assert "[last 2 rows | last 2 rows]" in str(explain(parse_application(text)))


def test_generated_punctuations_reach_the_shard_that_counts() -> None:
    text = """
    CREATE STREAM a (k BIGINT, done BOOLEAN, ts BIGINT, WATERMARK ts DELAY OF 0) PUNCTUATE k WHEN done;
    CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    CREATE CQ q AS SELECT a.k FROM a [ROWS 9], b WHERE a.k = b.k
    """
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 2))
    runner.run(
        {
            "b": pa.RecordBatch.from_pydict({"k": [1, 2], "ts": [1, 1]}),
            "a": pa.RecordBatch.from_pydict({"k": [1, 1], "done": [False, True], "ts": [2, 2]}),
        }
    )
    later = {"b": pa.RecordBatch.from_pydict({"k": [3], "ts": [9]})}
    runner.run({**later, "a": pa.RecordBatch.from_pydict({"k": [5], "done": [False], "ts": [9]})})
    assert runner.report()["WindowJoin1" if "WindowJoin1" in runner.report() else "WindowJoin2"]["purged"] == 1
    runner.end()
