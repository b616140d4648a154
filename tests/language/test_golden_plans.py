"""Statements and the plans they become, as text; `--update-golden` rewrites the expected half."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.language.application import parse_application
from penstock.model.elements import FOREVER
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.describe import tree

FOLDER = Path(__file__).parents[1] / "golden" / "language"
#: 1970-01-02 00:00.
NOW = 86_400_000_000


def shown(catalog: Catalog) -> str:
    queries = [_query(query) for query in catalog.queries.values()]
    warnings = [f"warning: {warning}" for warning in catalog.warnings]
    return "\n\n".join([*queries, *(["\n".join(warnings)] if warnings else [])])


def _query(query: ContinuousQuery) -> str:
    begin = f" from {query.life.begin}" if query.life.has_begin else ""
    life = begin + (f" to {query.life.end}" if query.life.end != FOREVER else " for ever" if begin else "")
    outputs = [" ".join([d.format, *(f"{key}={value}" for key, value in d.options.items())]) for d in query.destinations]
    return "\n".join([f"{query.name}{life}", tree(query.plan), *(f"-> {output}" for output in outputs)])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_statements_become_the_plans_of_the_golden_file(path: Path, update_golden: bool) -> None:
    cases = [case.partition("\n----") for case in path.read_text().split("\n====\n")]
    results = [(text, shown(parse_application(text, now=NOW))) for text, _, _ in cases]
    if update_golden:
        path.write_text("\n====\n".join(f"{text}\n----\n{result}\n" for text, result in results))
    for (_, _, expected), (_, result) in zip(cases, results, strict=True):
        assert update_golden or result == expected.strip("\n")
