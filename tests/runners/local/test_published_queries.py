"""The queries of the literature, from text to answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

CALLS = """
CREATE STREAM outgoing (call BIGINT, caller STRING, event STRING, minute BIGINT, WATERMARK minute DELAY OF 0) USING feed;
CREATE STREAM incoming (call BIGINT, callee STRING, event STRING, minute BIGINT, WATERMARK minute DELAY OF 0) USING feed;
CREATE CQ long_calls AS
  SELECT s.call, s.caller FROM outgoing s [RANGE 1440], outgoing e [RANGE 1440]
  WHERE s.call = e.call AND s.event = 'S' AND e.event = 'E' AND e.minute - s.minute > 10;
CREATE CQ pairs AS
  SELECT DISTINCT o.caller, i.callee FROM outgoing o [RANGE 1440], incoming i [RANGE 1440]
  WHERE o.call = i.call AND o.event = 'S' AND i.event = 'S';
CREATE CQ longest AS
  SELECT s.caller, max(e.minute - s.minute) AS minutes FROM outgoing s [RANGE 1440], outgoing e [RANGE 1440]
  WHERE s.call = e.call AND s.event = 'S' AND e.event = 'E' GROUP BY s.caller;
"""
OUTGOING = [(1, "a", "S", 0), (2, "b", "S", 5), (1, "a", "E", 12), (2, "b", "E", 15), (3, "a", "S", 60), (3, "a", "E", 105)]
OUTGOING += [(4, "c", "S", 120), (5, "d", "S", 180), (5, "d", "E", 190)]
INCOMING = [(1, "x", "S", 0), (2, "y", "S", 5), (3, "x", "S", 60), (3, "x", "E", 105)]


def run(text: str, inputs: dict[str, list[tuple[Any, ...]]], batch_rows: int, shards: int = 2) -> LocalRunner:
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, shards))
    longest = max(map(len, inputs.values()))
    for start in range(0, longest, batch_rows):
        cut = {}
        for name, rows in inputs.items():
            schema = catalog.stream(name).schema
            piece = rows[start : start + batch_rows]
            columns = [pa.array([row[at] for row in piece], item.type) for at, item in enumerate(schema)]
            cut[name] = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
        runner.run(cut)
    runner.end()
    return runner


@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_g11_telecom_queries(batch_rows: int) -> None:
    found = run(CALLS, {"outgoing": OUTGOING, "incoming": INCOMING}, batch_rows).collected
    assert values(found.rows("long_calls")) == [[1, "a"], [3, "a"]]
    assert values(found.rows("pairs")) == [["a", "x"], ["b", "y"]]
    assert values(found.rows("longest")) == [["a", 45], ["b", 10], ["d", 10]]


def values(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return sorted(list(row.values()) for row in rows)


REPORTS = """
CREATE STREAM report (car BIGINT, xpos BIGINT, second BIGINT, WATERMARK second DELAY OF 0) USING feed;
CREATE CQ disjoint AS SELECT car, xpos, count(*) AS n FROM report [RANGE 120] GROUP BY car, xpos HAVING count(*) > 3;
CREATE CQ moving AS SELECT car, xpos, count(*) AS n FROM report [RANGE 120, ADVANCE 30] GROUP BY car, xpos GFILTER count(*) > 3;
"""


def test_g7_a_car_that_stands_for_four_reports_is_found() -> None:
    stands_at_once = [(1, 10, second) for second in (0, 30, 60, 90)]
    stands_across = [(2, 20, second) for second in (30, 60, 90, 120)]
    moves_on = [(1, 11, 240), (2, 21, 240)]
    rows = sorted(stands_at_once + stands_across + moves_on, key=lambda row: row[2])
    found = run(REPORTS, {"report": rows}, 3).collected
    assert found.rows("disjoint") == [{"car": 1, "xpos": 10, "n": 4}]
    assert sorted(row["car"] for row in found.rows("moving")) == [1, 2]


def test_g9_every_hundred_customers_take_their_time() -> None:
    text = """
    CREATE STREAM customer (id BIGINT, second BIGINT, WATERMARK second DELAY OF 0) USING feed;
    CREATE CQ pace AS SELECT max(second) - min(second) AS took, count(*) AS n FROM customer [ROW 100];
    """
    rows = [(number, number * number // 10) for number in range(250)]
    found = run(text, {"customer": rows}, 60).collected
    assert found.rows("pace") == [{"took": 99 * 99 // 10, "n": 100}, {"took": 199 * 199 // 10 - 1000, "n": 100}]


def test_g8_hourly_average_has_67_complete_windows() -> None:
    text = """
    CREATE STREAM temperature (degrees DOUBLE, minute BIGINT, WATERMARK minute DELAY OF 0) USING feed;
    CREATE CQ hourly BEGIN 600 END 1320 AS
      SELECT avg(degrees) AS mean, window_start(), window_end() FROM temperature [RANGE 60, ADVANCE 10];
    """
    rows = [(20.0 + minute % 7, minute) for minute in range(1440)]
    found = run(text, {"temperature": rows}, 500).collected.rows("hourly")
    assert len(found) == 67
    assert (found[0]["window_start"], found[0]["window_end"]) == (600, 660)
    assert (found[-1]["window_start"], found[-1]["window_end"]) == (1260, 1320)


def test_filtered_unique_rows_still_close_their_key() -> None:
    """Bids on auctions the query does not want are dropped at once: their item will never come in the auction stream."""
    text = """
    CREATE STREAM auction (item BIGINT, category STRING, t BIGINT, UNIQUE (item), WATERMARK t DELAY OF 0) USING feed;
    CREATE STREAM bid (item BIGINT, price BIGINT, t BIGINT, WATERMARK t DELAY OF 0) USING feed;
    CREATE CQ art AS SELECT a.item, b.price FROM auction a, bid b WHERE a.item = b.item AND a.category = 'art';
    """
    auctions = [(item, "art" if item % 2 else "toys", item) for item in range(40)]
    bids = [(item, 7, item) for item in range(40)]
    runner = run(text, {"auction": auctions, "bid": bids}, 10)
    assert values(runner.collected.rows("art")) == [[item, 7] for item in range(1, 40, 2)]
    join = next(counters for name, counters in runner.report().items() if name.startswith("WindowJoin"))
    assert join["dropped"] + join["purged_on_the_fly"] == len(bids)
