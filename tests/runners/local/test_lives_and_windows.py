"""BEGIN and END hold for every kind of query, time has no beginning, and windows are never enumerated in vain."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.errors import InvalidWindow, TooManyWindows
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

STREAMS = "".join(f"CREATE STREAM {name} (ts BIGINT, k BIGINT, i BIGINT, WATERMARK ts DELAY OF 4) USING feed;\n" for name in "lr")
ROWS = ((-12, 1, 0), (-3, 2, 1), (0, 1, 2), (5, 1, 3), (11, 2, 4), (14, 1, 5))
Answers = list[tuple[object, ...]]


def batch(rows: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "i": pa.int64()})
    return pa.RecordBatch.from_pydict({name: [row[at] for row in rows] for at, name in enumerate(schema.names)}, schema)


def answers(
    queries: str, rows: Sequence[tuple[int, int, int]] = ROWS, shards: int = 1, name: str = "q", restart: bool = False
) -> Answers:
    """(time, values) of a query over the same rows in both streams, by time."""
    runner = LocalRunner(build_job(parse_application(STREAMS + queries), shards))
    for row in rows:
        runner.run({"l": batch([row]), "r": batch([row])})
        if restart:
            runner.restore(runner.snapshot())
    runner.end()
    return sorted(((ts, *row.values()) for ts, row in runner.collected.timed(name)), key=repr)


def times(found: Answers) -> list[object]:
    return sorted({row[0] for row in found}, key=int)  # type: ignore[call-overload]


KINDS = {
    "plain": "SELECT k, i FROM l",
    "filtered": "SELECT k FROM l WHERE i >= 0",
    "nested": "SELECT x.k FROM (SELECT k, i FROM l WHERE i >= 0) x",
    "union_all": "SELECT k FROM l UNION ALL SELECT k FROM r",
    "union": "SELECT k, i FROM l UNION SELECT k, i FROM r",
    "distinct": "SELECT DISTINCT k, i FROM l",
    "grouped": "SELECT i, count(*) AS n FROM l [RANGE 1] GROUP BY i",
    "joined": "SELECT l.i FROM l [RANGE 3], r [RANGE 3] WHERE l.i = r.i",
    "spilling": "SELECT /*+ XJOIN(memory_bytes = 1) */ l.i FROM l, r WHERE l.i = r.i",
    "hinted": "SELECT /*+ PWJOIN */ l.i FROM l [RANGE 3], r [RANGE 3] WHERE l.i = r.i",
    "by_rows": "SELECT l.i FROM l [ROWS 9], r [ROWS 9] WHERE l.i = r.i",
    "multiway": "SELECT l.i FROM l [RANGE 3], r [RANGE 3], l AS o [RANGE 3] WHERE l.i = r.i AND r.k = o.k AND r.i = o.i",
    "anti": "SELECT l.i FROM l ANTI JOIN r ON l.i = r.i + 100",
    "matched": "SELECT * FROM l MATCH_RECOGNIZE (ORDER BY ts MEASURES a.i AS i PATTERN (a))",
    "grouped_matches": "SELECT t, count(*) AS n FROM (SELECT * FROM l MATCH_RECOGNIZE "
    "(ORDER BY ts MEASURES a.i AS t PATTERN (a))) x [RANGE 1] GROUP BY t",
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_begin_and_end_hold_for_every_kind_of_query(kind: str, shards: int) -> None:
    assert times(answers(f"CREATE CQ q AS {KINDS[kind]};", shards=shards)) == [-12, -3, 0, 5, 11, 14]
    assert times(answers(f"CREATE CQ q BEGIN -3 END 11 AS {KINDS[kind]};", shards=shards)) == [-3, 0, 5]
    assert times(answers(f"CREATE CQ q BEGIN 0 AS {KINDS[kind]};", shards=shards, restart=True)) == [0, 5, 11, 14]
    assert times(answers(f"CREATE CQ q END 0 AS {KINDS[kind]};", shards=shards)) == [-12, -3]


def test_rows_outside_the_life_take_no_part_in_a_match() -> None:
    matches = "SELECT * FROM l MATCH_RECOGNIZE (ORDER BY ts MEASURES a.ts AS t, b.ts AS u PATTERN (a b))"
    assert answers(f"CREATE CQ q BEGIN -3 END 11 AS {matches};") == [(0, -3, 0)]
    assert answers(f"CREATE CQ w END 11 AS {matches}; CREATE CQ q BEGIN 0 AS SELECT t, u FROM w;") == [(5, 0, 5)]


def test_a_query_over_a_query_has_a_life_of_its_own() -> None:
    inner = "CREATE CQ w BEGIN -3 AS SELECT k, i FROM l;"
    assert answers(f"{inner} CREATE CQ q END 6 AS SELECT i FROM w;") == [(-3, 1), (0, 2), (5, 3)]


def test_explain_shows_where_a_life_is_kept() -> None:
    catalog = parse_application(f"{STREAMS} CREATE CQ q BEGIN -3 END 11 AS SELECT k FROM l;")
    assert "Lifetime from -3 to 11" in str(explain(catalog, 1))


def test_windows_go_on_before_1970() -> None:
    counted = "CREATE CQ q AS SELECT window_start() AS s, count(*) AS n FROM l [RANGE 10];"
    assert answers(counted) == [(-12, -20, 1), (-3, -10, 1), (14, 10, 2), (5, 0, 2)]
    pairs = "CREATE CQ q AS SELECT l.ts AS a, r.ts AS b FROM l [RANGE 10 TUMBLING], r [RANGE 10 TUMBLING] WHERE l.k = r.k;"
    assert [row[1:] for row in answers(pairs) if row[0] in (-12, -3, 0)] == [(-12, -12), (-3, -3), (0, 0)]


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_landmark_windows_end_with_the_newest_row_of_the_stream_in_every_shard(shards: int) -> None:
    query = "CREATE CQ q AS SELECT k, count(*) AS n, window_end() AS until FROM l [LANDMARK RANGE 10, ADVANCE 5] GROUP BY k;"
    rows = [(1, 1, 0), (2, 2, 0), (3, 3, 0), (23, 4, 0)]
    found = answers(query, rows, shards)
    assert sorted((row[1], row[3]) for row in found) == [(k, until) for k in (1, 2, 3) for until in (5, 10, 15, 20, 25)] + [(4, 25)]


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_landmark_windows_of_a_query_with_begin_are_the_same_in_any_number_of_shards(shards: int) -> None:
    """Windows are counted from BEGIN and no row lies before 1970: only what a shard knows of the others can go wrong."""
    query = "CREATE CQ q BEGIN 0 AS SELECT k, count(*) AS n FROM l [LANDMARK RANGE 10, ADVANCE 10] GROUP BY k;"
    found = answers(query, [(1, 1, 0), (2, 2, 0), (3, 3, 0), (23, 4, 0)], shards)
    assert sorted(row[1:] for row in found) == [(k, 1) for k in (1, 2, 3) for _ in range(3)] + [(4, 1)]


@pytest.mark.parametrize("shards", [1, 3])
def test_landmark_windows_over_a_query_end_with_the_streams_below_it(shards: int) -> None:
    inner = "CREATE CQ w AS SELECT k, count(*) AS n FROM l [RANGE 5] GROUP BY k HAVING max(i) < 5;"
    query = inner + "CREATE CQ q AS SELECT n, count(*) AS m FROM w [LANDMARK RANGE 10, ADVANCE 10] GROUP BY n;"
    rows = [(1, 1, 0), (2, 2, 0), (3, 2, 0), (33, 4, 9)]
    assert sorted(row[1:] for row in answers(query, rows, shards)) == [(1, 1)] * 4 + [(2, 1)] * 4


def test_union_removes_duplicates_in_the_window_of_its_branches() -> None:
    union = "CREATE CQ q AS SELECT k FROM l [RANGE 10] UNION SELECT k FROM r [RANGE 10];"
    assert answers(union) == [(-12, 1), (-3, 2), (0, 1), (11, 2), (14, 1)]
    assert answers(union.replace(" [RANGE 10]", "")) == [(-12, 1), (-3, 2)]
    assert answers(union, ROWS[2:]) == [(0, 1), (11, 2), (14, 1)]


@pytest.mark.parametrize("clause", ["[RANGE 10 TUMBLING]", "[RANGE 10, ADVANCE 10]"])
def test_emit_partial_joins_the_window_that_the_end_cuts_off(clause: str) -> None:
    pairs = f"SELECT l.i AS a, r.i AS b FROM l {clause}, r {clause} WHERE l.k = r.k"
    assert answers(f"CREATE CQ q BEGIN 0 END 12 AS {pairs};") == [(0, 2, 2), (5, 2, 3), (5, 3, 2), (5, 3, 3)]
    assert answers(f"CREATE CQ q BEGIN 0 END 12 EMIT PARTIAL AS {pairs};") == [
        (0, 2, 2),
        (11, 4, 4),
        (5, 2, 3),
        (5, 3, 2),
        (5, 3, 3),
    ]
    alone = f"SELECT l.i AS a FROM l {clause} ANTI JOIN r {clause} ON l.k = r.k + 100"
    assert answers(f"CREATE CQ q BEGIN 0 END 12 EMIT PARTIAL AS {alone};", restart=True) == [(0, 2), (11, 4), (5, 3)]


def test_a_landmark_window_beside_another_is_counted_up_to_the_one_that_the_end_cuts_off() -> None:
    """Windows of the first input end at 4, 8 and, cut off, at 10."""
    alone = "SELECT l.i AS a FROM l [LANDMARK RANGE 4, ADVANCE 4] ANTI JOIN r {other} ON l.k = r.k + 100"
    tumbling, fixed = alone.format(other="[RANGE 4, ADVANCE 4]"), alone.format(other="[FIXED RANGE 4]")
    for text in (tumbling, fixed):
        assert answers(f"CREATE CQ q BEGIN 0 END 10 AS {text};") == [(0, 2), (0, 2), (5, 3)]
        assert answers(f"CREATE CQ q BEGIN 0 END 10 EMIT PARTIAL AS {text};") == [(0, 2), (0, 2), (0, 2), (5, 3), (5, 3)]


def test_emit_partial_without_a_window_to_cut_is_refused() -> None:
    for select in ("SELECT k FROM l", "SELECT l.k FROM l [RANGE 5], r [RANGE 5] WHERE l.k = r.k"):
        with pytest.raises(InvalidWindow, match="EMIT PARTIAL is for windows that END cuts off"):
            parse_application(f"{STREAMS} CREATE CQ q BEGIN 0 END 9 EMIT PARTIAL AS {select};")


FAR = 2**61


@pytest.mark.parametrize("window", ["[RANGE 10]", "[RANGE 9, ADVANCE 2]", "[RANGE 5, ADVANCE 7]", "[RANGE 100000, ADVANCE 1]"])
def test_one_time_in_the_far_future_or_past_costs_no_more_than_another(window: str) -> None:
    counted = f"CREATE CQ q AS SELECT k, count(*) AS n FROM l {window} GROUP BY k;"
    near, far = (sum(row[2] for row in answers(counted, [(-ts, 1, 0), (3, 2, 0), (ts, 3, 0)])) for ts in (300_000, FAR))
    assert near == far


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k, count(*) AS n FROM l [LANDMARK RANGE 10, ADVANCE 5] GROUP BY k",
        "SELECT k, count(*) AS n FROM l [RANGE 10 MOVE (2, 4)] GROUP BY k",
        "SELECT DISTINCT k FROM l [RANGE 10 MOVE (2, 4)]",
        "SELECT l.k FROM l [RANGE 10 MOVE (2, 4)], r [RANGE 10 MOVE (2, 4)] WHERE l.k = r.k",
        "SELECT l.k FROM l [RANGE 10 MOVE (2, 4)] LEFT JOIN r [RANGE 10 MOVE (2, 4)] ON l.k = r.k",
    ],
)
def test_windows_that_would_be_answered_without_end_are_refused_by_name(select: str) -> None:
    counted = f"CREATE CQ q AS {select};"
    with pytest.raises(TooManyWindows, match=r"capacity\.windows"):
        answers(counted, [(3, 2, 0), (FAR, 3, 0)])
