"""`WITH QOS (…)`: what may stand there, what it means, and what is refused."""

from __future__ import annotations

import pytest

from penstock.errors import UserError
from penstock.language.application import parse_application
from penstock.language.contract_clauses import contract
from penstock.language.dialect import parse_statements
from penstock.language.syntax import QueryStatement
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.model.qos import Measure, Priority, QoSGraph, QoSSpecification

STREAM = "CREATE STREAM tick (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);"


def contract_of(clause: str) -> QoSSpecification | None:
    text = f"{STREAM} CREATE CQ q {clause} AS SELECT symbol FROM tick WHERE price > 3"
    return parse_application(text).queries["q"].contract


def written(clause: str) -> tuple[QoSSpecification | None, list[str]]:
    """What a clause means, and warnings, whether an application could make use of it or not."""
    statement = parse_statements(f"CREATE CQ q {clause} AS SELECT symbol FROM tick", "a test")[0]
    assert isinstance(statement, QueryStatement)
    assert statement.terms is not None
    warnings: list[str] = []
    return contract(statement.terms.contract, warnings.append), warnings


def test_a_query_without_a_contract_promises_nothing() -> None:
    assert contract_of("WEIGHT 3") is None


def test_all_promises_with_their_classes() -> None:
    found, _ = written(
        "WEIGHT 2 WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST, MEMORY <= '200 MB' BEST EFFORT, THROUGHPUT >= 500 DONT CARE, "
        "LOSS <= 5 PERCENT) SHOW TIMING"
    )
    assert found is not None
    assert [(item.measure, item.graph.expected(0), item.priority) for item in found.expectations] == [
        (Measure.LATENCY, 2.0, Priority.MUST_SATISFY),
        (Measure.MEMORY, 200e6, Priority.BEST_EFFORT),
        (Measure.THROUGHPUT, 500.0, Priority.DONT_CARE),
    ]
    assert (found.max_latency, found.max_relative_error, found.drop) == (2.0, 0.05, DropPreference())


def test_without_a_class_a_promise_must_be_kept() -> None:
    found = contract_of("WITH QOS (LATENCY <= INTERVAL 1500 MILLISECONDS)")
    assert found is not None
    assert found.expectations[0].priority is Priority.MUST_SATISFY
    assert found.max_latency == 1.5


def test_a_bound_that_changes_with_time() -> None:
    pieces = "'10 MB' AT INTERVAL 0 SECONDS TO '10 MB' AT INTERVAL 500 SECONDS, '1 MB' AT INTERVAL 500 SECONDS"
    found = contract_of(f"WITH QOS (MEMORY <= ({pieces}) DONT CARE)")
    assert found is not None
    graph = found.expectations[0].graph
    assert [graph.expected(x) for x in (0, 499.9, 500, 2000)] == [10e6, 10e6, 1e6, 1e6]
    rising = contract_of(
        "WITH QOS (LATENCY <= (INTERVAL 1 SECOND AT INTERVAL 0 SECONDS TO INTERVAL 3 SECONDS AT INTERVAL 1 MINUTE))"
    )
    assert rising is not None
    assert rising.expectations[0].graph == QoSGraph.of((0, 1, 60, 3))
    assert rising.max_latency == 1.0  # the strictest


@pytest.mark.parametrize(
    ("preference", "meant"),
    [
        ("DROP RANDOM COMPENSATE", DropPreference(compensate=True)),
        ("DROP LOWEST price", DropPreference(DropKind.LOWEST, "price")),
        ("DROP HIGHEST volume BY RANGE", DropPreference(DropKind.HIGHEST, "volume", mode=DropMode.RANGE)),
        ("DROP CENTER price AROUND -2.5 ANYWHERE", DropPreference(DropKind.CENTER, "price", -2.5, anywhere=True)),
        ("DROP OUTLIER price", DropPreference(DropKind.OUTLIER, "price")),
        ("ANYWHERE COMPENSATE", DropPreference(compensate=True, anywhere=True)),
    ],
)
def test_what_is_dropped_first(preference: str, meant: DropPreference) -> None:
    found, _ = written(f"WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 10 PERCENT {preference})")
    assert found is not None
    assert found.drop == meant


def test_loss_that_nothing_asks_for_is_warned_about() -> None:
    for other in ("", "LATENCY <= INTERVAL 1 SECOND BEST EFFORT, "):
        _, warnings = written(f"WITH QOS ({other}LOSS <= 5 PERCENT)")
        assert any("no LATENCY" in warning for warning in warnings)


def test_columns_of_streams_behind_other_queries_count() -> None:
    text = (
        f"{STREAM} CREATE CQ symbols AS SELECT symbol FROM tick WHERE price > 3;"
        "CREATE CQ q WITH QOS (LATENCY <= INTERVAL 1 SECOND, LOSS <= 0 PERCENT DROP LOWEST volume) AS SELECT symbol FROM symbols"
    )
    found = parse_application(text).queries["q"].contract
    assert found is not None
    assert found.drop.column == "volume"


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("WITH QOS ()", "expected LATENCY"),
        ("WITH QOS LATENCY <= INTERVAL 1 SECOND", "expected ("),
        ("WITH CARE (LATENCY <= INTERVAL 1 SECOND)", "expected QOS"),
        ("WITH QOS (SPEED <= 3)", "expected LATENCY, MEMORY, THROUGHPUT or LOSS"),
        ("WITH QOS (LATENCY >= INTERVAL 1 SECOND)", "LATENCY <= INTERVAL 2 SECONDS"),
        ("WITH QOS (THROUGHPUT <= 3)", "THROUGHPUT >= 500"),
        ("WITH QOS (LATENCY <= 2 MUST)", "write for example INTERVAL 2 SECONDS"),
        ("WITH QOS (LATENCY <= INTERVAL 0 SECONDS)", "longer than 0"),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND SHOULD)", "expected MUST, BEST EFFORT or DONT CARE"),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND, LATENCY <= INTERVAL 2 SECONDS)", "LATENCY stands twice"),
        ("WITH QOS (LOSS <= 1 PERCENT, LOSS <= 2 PERCENT)", "LOSS stands twice"),
        ("WITH QOS (MEMORY <= 200)", "a size such as '200 MB'"),
        ("WITH QOS (MEMORY <= '200 apples')", "is no size of memory"),
        ("WITH QOS (THROUGHPUT >= -1)", "0 or more; found -1"),
        ("WITH QOS (LOSS <= 5)", "expected PERCENT"),
        ("WITH QOS (LOSS <= 101 PERCENT)", "from 0 to 100 PERCENT; found 101"),
        ("WITH QOS (LOSS <= -1 PERCENT)", "from 0 to 100 PERCENT; found -1"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP ALL)", "expected RANDOM, LOWEST, HIGHEST, CENTER or OUTLIER"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP LOWEST prise)", "which no stream of this query has; numbers are price, volume"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP LOWEST symbol)", "which is no number; numbers are price, volume"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP LOWEST price AROUND 3)", "AROUND belongs to CENTER and OUTLIER"),
        ("WITH QOS (LOSS <= 5 PERCENT DROP LOWEST price COMPENSATE)", "no fair sample"),
        ("WITH QOS (LOSS <= 5 PERCENT COMPENSATE COMPENSATE)", "found 'COMPENSATE'"),
        ("WITH QOS (LOSS <= 5 PERCENT COMPENSATE)", "COMPENSATE scales COUNT, SUM and AVG, and the query has none"),
        ("WITH QOS (LATENCY <= (INTERVAL 1 SECOND))", "expected AT"),
        (
            "WITH QOS (LATENCY <= (INTERVAL 1 SECOND AT INTERVAL 5 SECONDS TO INTERVAL 1 SECOND AT INTERVAL 1 SECOND))",
            "ends before it begins",
        ),
        (
            "WITH QOS (MEMORY <= ('1 MB' AT INTERVAL 0 SECONDS TO '1 MB' AT INTERVAL 9 SECONDS, '2 MB' AT INTERVAL 5 SECONDS))",
            "overlap",
        ),
        ("WITH QOS (LATENCY <= (INTERVAL 1 SECOND AT 5))", "write for example INTERVAL 5 SECONDS"),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND) WITH QOS (LOSS <= 3 PERCENT)", "this clause stands twice"),
    ],
)
def test_mistakes_are_shown_where_they_are(clause: str, said: str) -> None:
    with pytest.raises(UserError) as failure:
        contract_of(clause)
    assert said in str(failure.value)
    assert failure.value.place is not None
    assert failure.value.place.line
