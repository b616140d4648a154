"""How an application will run, as text and as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.plan.analysis.safety import check

FOLDER = Path(__file__).parents[1] / "golden" / "explain"


def operators(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(found for part in plan["inputs"] for found in operators(part))]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_the_explanation_reads_like_the_golden_file(path: Path, update_golden: bool) -> None:
    text, _, expected = path.read_text().partition("\n----")
    result = str(explain(parse_application(text, path.stem)))
    if update_golden:
        path.write_text(f"{text}\n----\n{result}\n")
    assert update_golden or result == expected.strip("\n")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_the_data_say_what_the_safety_check_says(path: Path) -> None:
    catalog = parse_application(path.read_text().partition("\n----")[0], path.stem)
    coded = json.loads(json.dumps(explain(catalog, shards=3).to_json()))
    assert coded["shards"] == 3
    assert coded["bounded"] is check(catalog, with_remedies=False).is_bounded
    found = [operator for query in coded["queries"] for operator in operators(query["plan"])]
    assert {operator["where"] for operator in found} <= {"catalyst", "packing", "kernel", "query"}
    assert all(operator["round"] for operator in found if operator["where"] == "kernel")


def test_state_is_predicted_from_declared_rates_and_windows() -> None:
    catalog = parse_application("""
        CREATE STREAM a (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (rate '500');
        CREATE STREAM b (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (rate '500');
        CREATE CQ q AS SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;
    """)
    (query,) = explain(catalog).queries
    (join,) = query.plan.inputs
    assert join.state_rows == 5_000
    assert [part.rate for part in join.inputs] == [500, 500]


def test_an_application_without_operators_still_passes_a_stage() -> None:
    catalog = parse_application("CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0); CREATE CQ q AS SELECT k FROM a;")
    explanation = explain(catalog)
    assert explanation.is_bounded
    assert "a -> round 1 in any shard" in str(explanation)


def test_memory_of_a_join_is_shown_once_from_declarations() -> None:
    catalog = parse_application("""
        CREATE STREAM a (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (rate '500');
        CREATE STREAM b (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (rate '500');
        CREATE CQ q AS SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k;
    """)
    text = str(explain(catalog))
    assert "memory of a: about 2,500 rows" in text
    assert text.count("memory of a:") == 1


def test_partitions_and_the_clock_are_shown_where_they_matter() -> None:
    catalog = parse_application("""
        CREATE STREAM click (page STRING) USING json OPTIONS (path 'in');
        CREATE STREAM bid (k BIGINT, part INT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 2 SECONDS)
          PARTITIONED BY part INTO 4 PARTITIONS IDLE AFTER INTERVAL 10 SECONDS;
        CREATE CQ pages AS SELECT page FROM click;
        CREATE CQ bids AS SELECT k, COUNT(*) AS n FROM bid [RANGE 1 MINUTE] GROUP BY k;
    """)
    explanation = explain(catalog)
    assert explanation.to_json()["clocked"] == ["bid: partitions may be silent for 10 seconds; the clock is told every 1 second"]
    assert ". source partitions by part: 4, all waited for" in str(explanation)
    assert check(catalog).notes == ()  # the time of arrival goes on too
