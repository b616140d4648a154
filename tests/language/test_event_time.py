"""Columns that are named like event time and show something else: refused where somebody goes by that time."""

from __future__ import annotations

import pytest

from penstock.errors import SyntaxMistake
from penstock.language.application import parse_application

STREAMS = """
CREATE STREAM event (id BIGINT, kind STRING, due TIMESTAMP, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS);
CREATE STREAM other (id BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS);
"""
#: Each goes by the event time of `moved`.
READERS = {
    "pattern": "CREATE CQ q AS EVENT SEQ(A a, B b) FROM moved TYPE kind WHERE [id] WITHIN 1 hour RETURN a.id",
    "streams by type": "CREATE CQ q AS EVENT SEQ(moved m, other o) WHERE [id] WITHIN 1 hour RETURN m.kind AS k",
    "window": "CREATE CQ q AS SELECT id, COUNT(*) AS n FROM moved [RANGE 1 HOUR] GROUP BY id",
    "distinct": "CREATE CQ q AS SELECT DISTINCT id FROM moved [RANGE 1 HOUR]",
    "join": "CREATE CQ q AS SELECT m.id FROM moved m [RANGE 1 HOUR], other o [RANGE 1 HOUR] WHERE m.id = o.id",
    "bounds": "CREATE CQ q BEGIN '2026-05-01 08:00:00' END '2026-05-02 08:00:00' AS SELECT id FROM moved",
    "select over it": "CREATE CQ p AS SELECT id, ts FROM moved; CREATE CQ q AS SELECT DISTINCT id FROM p [RANGE 1 HOUR]",
    "select in FROM": "CREATE CQ q AS SELECT DISTINCT id FROM (SELECT id, ts FROM moved) [RANGE 1 HOUR]",
    "union": """CREATE CQ p AS SELECT id, ts FROM event UNION ALL SELECT id, ts FROM moved;
                CREATE CQ q AS SELECT DISTINCT id FROM p [ROWS 9]""",
}
MOVED = {
    "computed": "SELECT id, kind, ts + INTERVAL 1 HOUR AS ts FROM event",
    "another column": "SELECT id, kind, due AS ts FROM event",
    "both": "SELECT id, kind, ts AS real, due AS TS FROM event",
    "computed of a group": "SELECT id, MAX(kind) AS kind, MAX(ts) + INTERVAL 1 HOUR AS ts FROM event [RANGE 1 HOUR] GROUP BY id",
    "another column of a group": "SELECT id, MAX(kind) AS kind, MAX(due) AS ts FROM event [RANGE 1 HOUR] GROUP BY id",
    "start of the window": "SELECT id, MAX(kind) AS kind, window_start() AS ts FROM event [RANGE 1 HOUR] GROUP BY id",
    "over a join": """SELECT e.id, e.kind, o.at - INTERVAL 1 HOUR AS ts
                      FROM event e [RANGE 1 HOUR], other o [RANGE 1 HOUR] WHERE e.id = o.id""",
}
KEPT = {
    "as it is": "SELECT id, kind, ts FROM event WHERE id > 3",
    "under another name": "SELECT id, kind, ts AS real, due FROM event",
    "computed under another name": "SELECT id, kind, ts, ts + INTERVAL 1 HOUR AS later FROM event",
    "of one row of a group": "SELECT id, MAX(kind) AS kind, MIN_BY(ts, due) AS ts FROM event [RANGE 1 HOUR] GROUP BY id",
    "newest": "SELECT id, MAX(kind) AS kind, MAX(ts) AS ts FROM event [RANGE 1 HOUR] GROUP BY id",
    "of a pair": "SELECT e.id, e.kind, e.ts, o.at FROM event e [RANGE 1 HOUR], other o [RANGE 1 HOUR] WHERE e.id = o.id",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("moved", MOVED)
def test_what_is_only_named_like_event_time_is_refused_where_time_matters(moved: str, reader: str) -> None:
    with pytest.raises(SyntaxMistake, match="'ts' of these rows is not their event time"):
        parse_application(f"{STREAMS} CREATE CQ moved AS {MOVED[moved]}; {READERS[reader]}")


@pytest.mark.parametrize("moved", MOVED)
def test_it_may_be_shown(moved: str) -> None:
    shown = "SELECT id, ts FROM moved WHERE ts IS NOT NULL"
    assert parse_application(f"{STREAMS} CREATE CQ moved AS {MOVED[moved]}; CREATE CQ q AS {shown}").queries["q"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kept", KEPT)
def test_event_time_may_be_shown_under_any_name(kept: str, reader: str) -> None:
    text = READERS[reader]
    if "ts FROM moved" in text and "ts" not in KEPT[kept].replace("ts AS real", ""):
        text = text.replace("ts FROM moved", "real AS ts FROM moved")
    assert parse_application(f"{STREAMS} CREATE CQ moved AS {KEPT[kept]}; {text}").queries["q"]
