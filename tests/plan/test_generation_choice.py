"""Which declared generators are used: those somebody needs, and buffers only where they pay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.model.declarations import EndOfLife, Generator, GeneratorKind
from penstock.plan.analysis.generation import Choice, choices, chosen
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Project, Scan, Select

TEXT = """
CREATE STREAM a (k BIGINT, s STRING, v DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed {a};
CREATE STREAM b (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed {b};
CREATE CQ joined AS SELECT a.k, a.s AS label, a.v FROM a [RANGE {window}], b [RANGE {window}] WHERE a.k = b.k;
CREATE CQ counted AS SELECT label, COUNT(*) AS n FROM joined [RANGE 1 MINUTE] GROUP BY label;
"""


def application(*generators: Generator, rate: str = "1000", window: str = "1 HOUR") -> Catalog:
    options = f"OPTIONS (rate '{rate}')" if rate else ""
    catalog = parse_application(TEXT.format(a=options, b=options, window=window))
    declared = replace(catalog.streams["a"], generators=generators)
    catalog.streams["a"] = declared
    for name, query in catalog.queries.items():
        catalog.queries[name] = ContinuousQuery(query.name, _over(query.plan, declared), query.life)
    return catalog


def _over(node: Node, stream: object) -> Node:
    """The plan with the scan of the stream replaced."""
    if isinstance(node, Scan):
        return replace(node, stream=stream) if node.stream.name == "a" else node  # type: ignore[arg-type]
    if isinstance(node, WindowJoin):
        return replace(node, parts=tuple(_over(part, stream) for part in node.parts))
    if isinstance(node, Project | Select):
        return replace(node, input=_over(node.input, stream))
    return node


def only(generator: Generator, **how: str) -> Choice:
    (choice,) = choices(application(generator, **how))
    return choice


def when(column: str) -> Generator:
    return Generator(GeneratorKind.WHEN, column, condition="s = 'end'")


def test_a_rule_is_used_for_the_key_of_a_join() -> None:
    assert (only(when("k")).is_used, only(when("k")).why) == (True, "query joined works with k")


def test_a_rule_is_used_for_a_column_that_a_query_over_a_query_groups_by_under_another_name() -> None:
    assert only(when("s")).why == "query counted works with s"


def test_a_rule_on_a_column_nobody_works_with_is_not_used() -> None:
    choice = only(when("v"))
    assert (choice.is_used, choice.why) == (False, "no join or grouping works with v")
    assert chosen(application(when("v")), application(when("v")).streams["a"]) == ()


@pytest.mark.parametrize("kind", [GeneratorKind.SORTING, GeneratorKind.PARTITIONING])
def test_a_buffer_is_used_only_if_it_makes_more_cold_than_it_costs(kind: GeneratorKind) -> None:
    small = Generator(kind, "k", rows=1000)
    assert only(small).is_used
    assert "makes about" in only(small).why
    assert not only(small, window="1 SECOND").is_used
    assert not only(Generator(kind, "k", rows=10_000_000)).is_used


def test_without_rates_a_buffer_is_used_as_declared() -> None:
    choice = only(Generator(GeneratorKind.SORTING, "k", rows=1000), rate="")
    assert choice.is_used
    assert "its cost is not weighed" in choice.why


def test_scopes_on_a_grouping_key_are_not_made() -> None:
    choice = only(Generator(GeneratorKind.SORTING, "s", rows=1000))
    assert (choice.is_used, choice.why) == (False, "only joins keep state that a scope can make cold")


def test_a_sample_is_cheap() -> None:
    assert only(Generator(GeneratorKind.SAMPLING, "k", rows=1000), window="1 SECOND").is_used


def test_explain_says_which_generators_are_used_and_why() -> None:
    after = Generator(GeneratorKind.AFTER, "k", reference=EndOfLife("b", "at", "k"))
    text = str(explain(application(when("k"), when("v"), after)))
    assert "  PUNCTUATE k WHEN s = 'end': used, query joined works with k" in text
    assert "  PUNCTUATE v WHEN s = 'end': not used, no join or grouping works with v" in text
    assert "  PUNCTUATE k AFTER b.at ON b.k: used, query joined works with k" in text
    coded = explain(application(when("v"))).to_json()
    assert coded["generators"][0]["used"] is False
