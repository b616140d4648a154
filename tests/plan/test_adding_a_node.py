"""What a new node needs: to say what it is, and a row in two tables. Nothing else looks at kinds of nodes."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import Defect
from penstock.expressions.aggregates import AggregateCall
from penstock.kernel.contracts import Operator
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.lowering.table import LOWERINGS, Lowering, recipe_of
from penstock.model.batch import Batch
from penstock.model.declarations import Source, StreamDeclaration
from penstock.model.elements import Elements
from penstock.model.schema import Schema
from penstock.model.windows import Framed
from penstock.operators.base import Stateless
from penstock.plan import nodes
from penstock.plan.analysis.propagate import delays, propagate
from penstock.plan.analysis.safety import check
from penstock.plan.analysis.table import ANALYSES, Analysis, as_input
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.describe import tree
from penstock.plan.nodes.base import Node, SameColumns
from penstock.plan.nodes.relational import GroupBy, Reference, Scan
from penstock.plan.rewrites import table as rewrites
from penstock.plan.rewrites.apply import rewritten
from penstock.runners.local.runner import LocalRunner

ROOT = Path(penstock.__file__).parent
#: A function may know of a pattern of two kinds over each other, and of what Catalyst runs, but not of families of nodes.
MOST_KINDS = 4


def all_nodes() -> set[type[Node]]:
    """Every class of nodes that can be in a plan."""
    modules = [import_module(found.name) for found in pkgutil.iter_modules(nodes.__path__, f"{nodes.__name__}.")]
    classes = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return {kind for kind in classes if issubclass(kind, Node) and not inspect.isabstract(kind)}


# -- the tables are complete -------------------------------------------------------------------------------------------


def test_every_node_has_a_row_in_the_table_of_analyses() -> None:
    assert set(ANALYSES) == all_nodes()


def test_every_node_but_sources_has_a_row_in_the_table_of_operators() -> None:
    assert set(LOWERINGS) == all_nodes() - {Scan, Reference}


@pytest.mark.parametrize("kind", sorted(all_nodes(), key=lambda kind: kind.__name__))
def test_nodes_are_frozen_values(kind: type[Node]) -> None:
    assert is_dataclass(kind)
    assert cast(Any, kind).__dataclass_params__.frozen


def test_every_rewrite_is_in_the_table_under_the_name_of_its_file() -> None:
    files = {path.stem for path in (ROOT / "plan" / "rewrites").glob("*.py")}
    assert files - {"__init__", "apply", "rebuild", "table"} == set(rewrites.RULES_BY_NAME)


# -- a node that is new ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thinned(SameColumns):
    """Every row whose column is a multiple of a number: what somebody adds who has read the documentation."""

    column: str
    divisor: int
    is_prompt: ClassVar[bool] = True

    def describe(self) -> list[str]:
        return [f"Thinned {self.column} by {self.divisor}"]

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return above | {self.column}


class Thin(Stateless):
    """Its operator."""

    def __init__(self, column: str, divisor: int) -> None:
        self._column, self._divisor = column, divisor

    def on_batch(self, port: int, batch: Batch) -> Elements:
        kept = np.asarray(batch.column(self._column)) % self._divisor == 0
        return (batch.filter(kept),) if kept.any() else ()


def thin(node: Thinned) -> partial[Operator]:
    return partial(Thin, node.column, node.divisor)


BID = StreamDeclaration("bid", Schema.of(item=pa.int64(), price=pa.int64(), note=pa.string(), ts=pa.int64()), Source("feed"), "ts")


def counted() -> Catalog:
    """Bids by item, of those with an even price."""
    plan = GroupBy(Thinned(Scan(BID), "price", 2), ("item",), (AggregateCall("count", None),), Framed(10, 10, 10))
    return Catalog("demo", {"bid": BID}, {"q": ContinuousQuery("q", plan)})


@pytest.fixture
def with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[type, Any]", ANALYSES), Thinned, Analysis(as_input, ages=as_input, times=as_input))
    monkeypatch.setitem(cast("dict[type, Any]", LOWERINGS), Thinned, Lowering(thin))


@pytest.mark.usefixtures("with_rows")
def test_a_new_node_is_analysed_and_explained_by_its_row() -> None:
    catalog = counted()
    assert check(catalog).is_bounded
    assert [str(found.node.describe()[0]) for found in propagate(catalog)["q"]][1] == "Thinned price by 2"
    assert delays(catalog.queries["q"].plan, {}).rows == 10
    assert "Thinned price by 2" in str(explain(catalog))


@pytest.mark.usefixtures("with_rows")
def test_rewrites_leave_a_new_node_the_columns_it_needs() -> None:
    assert tree(rewritten(counted()).queries["q"].plan).splitlines() == [
        "GroupBy item: count(*) [tumbling 10]",
        "  Thinned price by 2",
        "    Project item, price",
        "      Scan bid",
    ]


@pytest.mark.usefixtures("with_rows")
@pytest.mark.parametrize("shards", [1, 3])
def test_a_new_node_runs_by_its_row(shards: int) -> None:
    runner = LocalRunner(build_job(counted(), shards))
    columns = {"item": [1, 1, 2, 2], "price": [4, 5, 6, 8], "note": ["", "", "", ""], "ts": [1, 2, 3, 4]}
    runner.run({"bid": pa.RecordBatch.from_pydict(columns, schema=BID.schema.arrow)})
    runner.end()
    assert sorted(tuple(row.values()) for row in runner.collected.rows("q")) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("met", [recipe_of, lambda node: propagate(counted()), lambda node: delays(node, {})])
def test_a_node_without_a_row_is_a_defect_that_names_it(met: Callable[[Node], object]) -> None:
    with pytest.raises(Defect, match="Thinned"):
        met(Thinned(Scan(BID), "price", 2))


def test_windows_of_a_node_that_has_none_are_a_defect() -> None:
    with pytest.raises(Defect, match="Thinned does not say how it gets other windows"):
        Thinned(Scan(BID), "price", 2).with_frames([])


def test_the_list_of_files_for_an_operator_is_short_and_true() -> None:
    text = (ROOT.parent / "docs" / "architecture.md").read_text().partition("## Adding an operator")[2]
    files = re.findall(r"^\d+\. `([^`]+)`", text, re.MULTILINE)
    assert len(files) <= 8
    assert all((ROOT.parent / name).exists() for name in files)


# -- and nothing else --------------------------------------------------------------------------------------------------


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of the packages that work on plans, by file and name."""
    for package in ("plan", "lowering", "language"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for found in ast.walk(ast.parse(path.read_text())):
                if isinstance(found, ast.FunctionDef):
                    yield f"{path.relative_to(ROOT)}: {found.name}", found


def kinds_tested(function: ast.FunctionDef, known: Sequence[str]) -> set[str]:
    """Kinds of nodes a function tells apart."""
    tested: list[ast.AST] = []
    for found in ast.walk(function):
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "isinstance":
            tested.append(found.args[1])
        elif isinstance(found, ast.MatchClass):
            tested.append(found.cls)
    names = {
        part.id if isinstance(part, ast.Name) else part.attr
        for found in tested
        for part in ast.walk(found)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    return names & set(known)


def test_no_function_is_a_chain_over_kinds_of_nodes() -> None:
    known = [kind.__name__ for kind in all_nodes()]
    chains = {name: kinds for name, function in functions() if len(kinds := kinds_tested(function, known)) > MOST_KINDS}
    assert not chains, "let the node say it, or a row of a table"
