"""How the search for row patterns is run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.kernel.contracts import Operator
from penstock.operators.patterns.rows.conditions import RowConditions
from penstock.operators.patterns.rows.operator import RowPatternMatch
from penstock.operators.patterns.rows.program import Program
from penstock.operators.patterns.rows.row_pattern_engine import RowPatternEngine
from penstock.plan.nodes import row_patterns as nodes


def explained_search(node: nodes.RowPatternMatch) -> list[str]:
    """The automaton, and how conditions are tested, for explain."""
    program, conditions = Program(node.query.pattern), RowConditions(node.query, node.input.schema)
    defined = dict(node.query.definitions)
    direct = [name for name, expr in zip(node.query.variables, conditions.direct, strict=True) if expr is not None]
    dependent = [name for name in node.query.variables if name in defined and name not in direct]
    tested = [f"for all rows at once: {', '.join(direct)}"] if direct else []
    tested += [f"row by row, as they depend on the match: {', '.join(dependent)}"] if dependent else []
    work = "; a place that failed is not tried again" if not dependent else ""
    automaton = f"automaton: {str(program).replace(': ', ' ').replace(chr(10), ' · ')}{work}"
    return [automaton, *([f"conditions {'; '.join(tested)}"] if tested else [])]


def row_pattern_recipe(node: nodes.RowPatternMatch) -> Callable[[], Operator]:
    """How to make the operator; a condition that the compiled loops cannot test is refused now, not in a worker."""
    RowPatternEngine(node.query, node.input.schema)
    return partial(RowPatternMatch, node.query, node.input.schema.arrow)
