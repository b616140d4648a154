"""Contracts that no run could keep."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidDeclaration
from penstock.language.application import parse_application
from penstock.qos.contract_checks import refuse_unkeepable


def application(contract: str) -> str:
    return (
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);"
        f"CREATE CQ q WITH QOS ({contract}) AS SELECT k FROM s"
    )


@pytest.mark.parametrize("trigger", ["1 second", "2 seconds"])
def test_a_latency_below_the_trigger_is_refused_with_the_inequality(trigger: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"query 'q'[\s\S]*s \+ work > 1 s; choose a trigger of at most 0.33 s"):
        refuse_unkeepable(parse_application(application("LATENCY <= INTERVAL 1 SECOND MUST")), trigger)


@pytest.mark.parametrize(
    ("contract", "trigger"),
    [
        ("LATENCY <= INTERVAL 1 SECOND MUST", "500 milliseconds"),
        ("LATENCY <= INTERVAL 1 SECOND MUST", None),
        ("LATENCY <= INTERVAL 1 SECOND BEST EFFORT", "2 seconds"),
        ("MEMORY <= '1 MB' MUST", "2 seconds"),
    ],
)
def test_others_are_not(contract: str, trigger: str | None) -> None:
    refuse_unkeepable(parse_application(application(contract)), trigger)


def test_the_strictest_moment_of_a_graph_counts() -> None:
    graph = "LATENCY <= (INTERVAL 5 SECONDS AT INTERVAL 0 SECONDS TO INTERVAL 1 SECOND AT INTERVAL 1 MINUTE)"
    with pytest.raises(InvalidDeclaration, match="LATENCY <= 1 s"):
        refuse_unkeepable(parse_application(application(graph)), "1 second")
