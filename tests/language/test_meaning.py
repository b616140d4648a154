"""What queries mean: lengths, life spans, types of derived columns, and joins in steps against their definition."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.evaluate import mask
from penstock.language.application import parse_application, parse_query
from penstock.model.durations import UNIT_MICROS
from penstock.model.elements import FOREVER, NEVER
from penstock.model.schema import TIMESTAMP
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded
from penstock.plan.describe import tree
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.relational import GroupBy, Reference, Scan

DAY = UNIT_MICROS["day"]
CLOCKED = "CREATE STREAM s (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 SECOND);"


def grouping(window: str) -> Framed | Unbounded:
    plan = parse_application(f"{CLOCKED} CREATE CQ q AS SELECT count(*) FROM s {window}").queries["q"].plan
    return next(node for node in walk(plan) if isinstance(node, GroupBy)).window


@given(st.integers(1, 1000), st.sampled_from(sorted(UNIT_MICROS)), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_length_is_its_number_times_its_unit(number: int, unit: str, plural: bool, capital: bool) -> None:
    word = unit + "s" * plural
    size = number * UNIT_MICROS[unit]
    assert grouping(f"[RANGE {number} {word.upper() if capital else word}]") == Framed(size, size, size)


@given(st.integers(1, 50), st.integers(1, 50), st.booleans())
@settings(max_examples=30, deadline=None)
def test_advance_moves_both_bounds(size: int, step: int, in_rows: bool) -> None:
    unit, factor = ("tuples", 1) if in_rows else ("seconds", 1_000_000)
    clause = f"[{'ROW' if in_rows else 'RANGE'} {size} {unit}, ADVANCE {step} {unit}]"
    assert grouping(clause) == Framed(size * factor, step * factor, step * factor, in_rows)


def life(clauses: str, now: int | None = None) -> Lifespan:
    return parse_application(f"{CLOCKED} CREATE CQ q {clauses} AS SELECT k FROM s", now=now).queries["q"].life


def test_a_clock_time_is_its_next_occurrence_after_now() -> None:
    nine = 9 * UNIT_MICROS["hour"]
    assert life("BEGIN '10:00' END '22:00'", now=5 * DAY + nine).begin == 5 * DAY + 10 * UNIT_MICROS["hour"]
    assert life("BEGIN '10:00' END '22:00'", now=5 * DAY + nine).end == 5 * DAY + 22 * UNIT_MICROS["hour"]
    assert life("BEGIN '08:30:15'", now=5 * DAY + nine).begin == 6 * DAY + 8 * UNIT_MICROS["hour"] + 30 * 60_000_000 + 15_000_000
    assert life("BEGIN '22:00' END '06:00'", now=5 * DAY).end == 6 * DAY + 6 * UNIT_MICROS["hour"]


def test_times_with_a_date_need_no_present_time() -> None:
    assert life("BEGIN '1970-01-02' END '1970-01-03 00:00:00+00:00'") == Lifespan(DAY, 2 * DAY)
    assert life("END Infinity") == Lifespan(NEVER, FOREVER)
    assert life("BEGIN Now END Infinity", now=77) == Lifespan(77, FOREVER)


def test_the_hourly_average_has_67_complete_windows() -> None:
    frame = grouping("[Range 1 hour, advance 10 minutes]")
    span = life("BEGIN '10:00' END '22:00'", now=0)
    assert isinstance(frame, Framed)
    assert frame.closed_before(span.end - span.begin) == 67


def test_a_begin_in_the_past_is_reported_and_kept() -> None:
    catalog = parse_application(f"{CLOCKED} CREATE CQ q BEGIN '1970-01-02' AS SELECT k FROM s", now=2 * DAY)
    assert catalog.warnings == ["query 'q': BEGIN lies in the past: only rows with such old timestamps are new to it"]


def test_bounds_of_a_window_over_a_query_have_the_clock_of_its_sources() -> None:
    text = "CREATE CQ a AS SELECT k, count(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k;"
    over = "CREATE CQ b AS SELECT window_start() AS w, max(n) FROM a [RANGE 1 HOUR];"
    plan = parse_application(CLOCKED + text + over).queries["b"].plan
    assert plan.schema["w"].type == TIMESTAMP
    assert [node.clock_time for node in walk(plan) if isinstance(node, Reference)] == [True]
    counted = "CREATE STREAM s (k BIGINT, at BIGINT, WATERMARK at DELAY OF 1);"
    plan = parse_application((counted + text + over).replace(" MINUTE", "").replace(" HOUR", "")).queries["b"].plan
    assert plan.schema["w"].type == pa.int64()


def test_the_life_of_a_query_reaches_its_operators() -> None:
    catalog = parse_application(CLOCKED)
    query = parse_query("CREATE CQ q BEGIN '1970-01-02' AS SELECT k, count(*) FROM s [RANGE 1 DAY] GROUP BY k", catalog)
    assert [node.life for node in walk(query.plan) if isinstance(node, GroupBy)] == [query.life]


@pytest.mark.parametrize("declaration", ["UNIQUE (k),", "CLUSTERED (k),", "ORDERED (k),"])
def test_an_aggregate_without_window_needs_knowledge_of_any_source(declaration: str) -> None:
    known = CLOCKED.replace("WATERMARK", f"{declaration} WATERMARK")
    query = parse_application(known + "CREATE CQ q AS SELECT k, count(*) FROM s GROUP BY k").queries["q"]
    assert [node.window for node in walk(query.plan) if isinstance(node, GroupBy)] == [Unbounded()]


def test_groups_by_event_time_are_closed_by_the_watermark() -> None:
    assert parse_application(CLOCKED + "CREATE CQ q AS SELECT at, count(*) FROM s GROUP BY at").queries


ABC = """
CREATE STREAM a (x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (x BIGINT, y BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM c (y BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
"""
Row = dict[str, int]


def joined(node: Node, rows: dict[str, list[Row]]) -> list[tuple[int, Row]]:
    """Slow reading of a plan of scans and joins: (timestamp, row) by the definition of the windowed join."""
    if isinstance(node, Scan):
        name = node.alias or node.stream.name
        return [(row["ts"], {f"{name}.{column}": value for column, value in row.items()}) for row in rows[node.stream.name]]
    assert isinstance(node, WindowJoin)
    found = []
    for combination in product(*(joined(part, rows) for part in node.parts)):
        newest = max(ts for ts, _ in combination)
        keys = {tuple(row[name] for name in key) for (_, row), key in zip(combination, node.keys, strict=True)}
        limits = [window.size if isinstance(window, Sliding) else FOREVER for window in node.windows]
        recent = all(newest - ts <= limit for (ts, _), limit in zip(combination, limits, strict=True))
        row = {name: value for _, part in combination for name, value in part.items()}
        links = node.links if isinstance(node, MJoin) else ()
        linked = all(row[link.left_column] == row[link.right_column] for link in links)
        if len(keys) == 1 and linked and recent and (node.residual is None or holds(node, row)):
            found.append((newest, row))
    return found


def holds(node: WindowJoin, row: Row) -> bool:
    assert node.residual is not None
    batch = pa.RecordBatch.from_pylist([row], schema=node.schema.arrow)
    return bool(mask(node.residual, batch)[0])


keys, times = st.integers(0, 1), st.integers(0, 6)
windows = st.none() | st.integers(0, 4)


@given(
    a=st.lists(st.fixed_dictionaries({"x": keys, "ts": times}), max_size=4),
    b=st.lists(st.fixed_dictionaries({"x": keys, "y": keys, "ts": times}), max_size=4),
    c=st.lists(st.fixed_dictionaries({"y": keys, "ts": times}), max_size=4),
    sizes=st.tuples(windows, windows, windows),
    order=st.permutations("abc"),
)
@settings(max_examples=60, deadline=None)
def test_a_join_in_steps_equals_the_join_of_all_inputs_at_once(
    a: list[Row], b: list[Row], c: list[Row], sizes: tuple[int | None, ...], order: list[str]
) -> None:
    window = dict(zip("abc", sizes, strict=True))
    sources = ", ".join(name + (f" [RANGE {window[name]}]" if window[name] is not None else "") for name in order)
    query = f"CREATE CQ q AS SELECT a.ts AS at, b.ts AS bt, c.ts AS ct FROM {sources} WHERE a.x = b.x AND b.y = c.y"
    plan = parse_application(ABC + query).queries["q"].plan
    found = [(row["a.ts"], row["b.ts"], row["c.ts"]) for _, row in joined(plan.inputs[0], {"a": a, "b": b, "c": c})]
    wanted = []
    for rows in product(a, b, c):
        times_of = [row["ts"] for row in rows]
        limits = [FOREVER if size is None else size for size in sizes]
        recent = all(max(times_of) - ts <= limit for ts, limit in zip(times_of, limits, strict=True))
        if recent and rows[0]["x"] == rows[1]["x"] and rows[1]["y"] == rows[2]["y"]:
            wanted.append(tuple(times_of))
    assert sorted(found) == sorted(wanted)


def test_synonyms_of_aggregates_and_filter_are_aggregates_too() -> None:
    text = """
    CREATE STREAM s (k BIGINT, v DOUBLE, t BIGINT, WATERMARK t DELAY OF 0) USING feed;
    CREATE CQ q AS SELECT k, mean(v) AS m, std(v) AS d, count(*) FILTER (WHERE v > 3) AS n FROM s [RANGE 10] GROUP BY k;
    """
    plan = parse_application(text).queries["q"].plan
    assert tree(plan).splitlines()[1].strip() == "GroupBy k: avg(v), stddev(v), count(CASE WHEN v > 3 THEN 1 END) [tumbling 10]"
