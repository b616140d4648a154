"""What the driver knows of prices is what shards know, also after a restart and when queries come or go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.scheduling import remembered_prices
from penstock.lowering.stages import build_job
from penstock.runners.prices import PriceLearning

TEXT = """
CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ busy AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] GROUP BY item;
CREATE CQ above AS SELECT item, price FROM bid WHERE price > 10;
"""
ROWS, CALLS, NS_A_ROW, BATCHES = 1_000, 10, 700, 30


@pytest.fixture
def job() -> Job:
    return build_job(parse_application(TEXT), 1)


def measured(job: Job, ns_a_row: int) -> Mapping[str, Any]:
    """Sums of calls with equally many rows: calls, rows, ns, squares of rows, ns x rows, rows made, rows weighed, their bytes."""
    each = ROWS // CALLS
    sums = [CALLS, ROWS, ROWS * ns_a_row, CALLS * each**2, ROWS * ns_a_row * each, ROWS // 2, ROWS, ROWS * 40]
    return {node.id: [sums for _ in node.prices] for stage in job.stages for node in stage.graph.nodes}


def decisions(learning: PriceLearning, job: Job, ns_a_row: int = NS_A_ROW) -> list[dict[str, Any]]:
    """What is decided while all operators cost the same."""
    found = []
    for epoch in range(BATCHES):
        entries = {entry.name: {"used": ROWS * epoch} for stage in job.stages for entry in stage.graph.entries}
        decision = learning.hear(epoch, [measured(job, ns_a_row)], entries, epoch * 10**9)
        if decision is not None:
            found.append(dict(decision.detail))
    return found


def test_a_run_goes_on_with_the_prices_that_an_earlier_one_decided(job: Job) -> None:
    before = PriceLearning(job)
    said = decisions(before, job)
    assert said
    after = PriceLearning(job, said)
    assert {node: [round(price.share_ns) for price in prices] for node, prices in after.prices.items()} == {
        node: [NS_A_ROW for _ in prices] for node, prices in before.prices.items()
    }
    assert decisions(after, job) == [], "shards know them already"
    assert decisions(PriceLearning(job, said), job, 3 * NS_A_ROW), "what moves afterwards is told"


def test_an_operator_that_took_over_the_state_of_another_has_its_prices(job: Job) -> None:
    (stage,) = job.stages
    node = stage.graph.nodes[0]
    told = {**asdict(node.prices[0]), "row_ns": 12_345.0}
    said = [{"operators": {"of before": [told] * len(node.prices), "of nobody": [None]}}]
    following = replace(stage, graph=replace(stage.graph, heirs={node.id: "between", "between": "of before"}))
    prices = remembered_prices(replace(job, stages=(following,)), said)
    assert {price.row_ns for price in prices[node.id]} == {12_345.0}
    assert prices.keys() == {each.id for each in stage.graph.nodes}
