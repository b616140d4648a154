"""From a job and what a run has remembered to an application that can be planned."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apps.reading import read_text
from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.language.outputs import without_outputs, without_promises
from penstock.lowering.capacity import planned_application, queries_key
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.qos.capacity.application import PlannedApplication
from penstock.qos.capacity.planning import CapacityPlan, Machine
from penstock.runners.editions.edition import Edition

TEXT = """
CREATE STREAM bid (item BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
  USING kafka OPTIONS (maxOffsetsPerTrigger '5000');
CREATE CQ per_item AS SELECT window_end() AS until, item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] WHERE price > 5 GROUP BY item;
CREATE CQ busiest AS SELECT window_end() AS until, bids, COUNT(*) AS items FROM per_item [RANGE 1 MINUTE] GROUP BY bids;
"""


def planned(text: str, told: Any = (), costs: Any = None) -> PlannedApplication:
    return planned_application(looped(build_job(parse_application(text, "app", now=0), 2)), "app", told, costs)


def test_without_measurements_everything_is_estimated() -> None:
    found = planned(TEXT)
    assert found.rates == {"bid": 0.0}
    assert found.estimated == ("what operators take and let pass",)
    assert found.costs.estimated
    assert found.most_rows == {"bid": 5000.0}


def test_a_query_behind_another_key_needs_another_round() -> None:
    found = planned(TEXT)
    assert {name: parts.rounds for name, parts in found.queries.items()} == {"per_item": 1, "busiest": 2}
    plan = CapacityPlan(found.at({"bid": 1000.0}), Machine(2))
    server = plan.server()
    assert server is not None
    first, second = plan.latency("per_item"), plan.latency("busiest")
    assert first is not None
    assert second == pytest.approx(first + server.cycle_s)


def test_what_a_run_has_remembered_counts() -> None:
    bare = planned(TEXT)
    ((entrance, *_),) = (bare.entrances,)
    (entry,) = {
        source.route.entry for stage in build_job(parse_application(TEXT, "app", now=0), 2).stages for source in stage.sources
    }
    price = {"call_ns": 1e5, "row_ns": 2_000.0, "selectivity": 0.1, "row_bytes": 64, "call_rows": 500.0, "rate": 900.0}
    key = queries_key(build_job(parse_application(TEXT, "app", now=0), 2))
    costs = {
        "cores": 2, "shards": 2, "plan": key, "batches": [[rows, 0.1 + 1e-5 * rows] for rows in range(500, 6_000, 500)],
        "rates": {"bid": 1_000.0, "gone": 5.0}, "shares": {entry: 0.25}, "state": {"nobody": [1, 1], entrance.place[0]: [10, 640]},
        "prices": {entrance.place[0]: [price]},
    }  # fmt: skip
    found = planned(TEXT, costs=costs)
    assert (found.rates, found.measured_rates, found.estimated) == ({"bid": 1000.0}, {"bid": 1000.0}, ())
    assert {each.share for each in found.entrances} == {0.25}
    assert set(found.state) == {entrance.place[0]}
    assert found.flow().arriving[entrance.place] == 250.0
    assert (found.costs.fixed_s, found.costs.row_s, found.costs.most_rows) == (pytest.approx(0.1), pytest.approx(1e-5), 5_500)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_and_a_plan_know_the_same_queries(name: str) -> None:
    text = read_text(name)[0]
    run = queries_key(Edition.first(name, text, 0).job(2))
    assert run == queries_key(looped(build_job(parse_application(text, name, now=0), 8)))
    assert run == queries_key(Edition.first(name, without_outputs(text), 0).job(2))
    assert run != queries_key(Edition.first("app", TEXT, 0).job(2))


def test_costs_of_other_queries_are_estimates() -> None:
    costs = {
        "cores": 2, "shards": 2, "plan": "another", "batches": [], "rates": {"bid": 10.0}, "shares": {}, "state": {},
        "prices": {"GroupBy1": []},
    }  # fmt: skip
    assert planned(TEXT, costs=costs).estimated == ("queries that have changed since the run measured them",)


def test_an_application_without_promises_has_the_same_queries() -> None:
    qos = "WITH QOS (LATENCY <= (INTERVAL 1 SECOND AT INTERVAL 0 SECONDS) MUST, LOSS <= 5 PERCENT DROP LOWEST price)"
    text = f"""
        CREATE STREAM s (k BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
        CREATE CQ a WEIGHT 2 {qos} AS SELECT k FROM s WHERE (price > 1);
        CREATE CQ b {qos} SHOW TIMING AS SELECT k, count(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k;
        CREATE CQ c WITH QOS (LOSS <= 5 PERCENT COMPENSATE, LATENCY <= INTERVAL 1 SECOND) AS
          SELECT k, count(*) AS n, sampling_error(count(*)) AS e FROM s [RANGE 1 MINUTE] GROUP BY k;
    """
    before, after = (parse_application(each, "app", now=0) for each in (text, without_promises(text)))
    assert [query.contract and query.contract.expectations for query in after.queries.values()] == [(), (), ()]
    assert [query.plan for query in after.queries.values()] == [query.plan for query in before.queries.values()]
    assert build_job(after, 2).fingerprint == build_job(before, 2).fingerprint


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_without_outputs_are_the_same_queries_with_answers_in_memory(name: str) -> None:
    text = read_text(name)[0]
    before, after = (parse_application(each, name, now=0) for each in (text, without_outputs(text)))
    assert list(before.queries) == list(after.queries)
    assert [repr(query.plan) for query in before.queries.values()] == [repr(query.plan) for query in after.queries.values()]
    assert not any(query.destinations for query in after.queries.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_planned(name: str) -> None:
    text = read_text(name)[0]
    found = planned(text)
    plan = CapacityPlan(found.at(dict.fromkeys(found.rates, 1000.0)), Machine(4))
    assert plan.highest_factor > 0
    assert {query.query for query in plan.queries} == set(found.queries)
    assert all(rate >= 0 for rate in plan.flow.leaving.values())
