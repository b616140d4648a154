"""How the search for row patterns is run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.kernel.contracts import Operator
from penstock.operators.patterns.rows.engine import RowEngine
from penstock.operators.patterns.rows.operator import RowPatternMatch
from penstock.plan.nodes import row_patterns as nodes


def row_pattern_recipe(node: nodes.RowPatternMatch) -> Callable[[], Operator]:
    """How to make the operator; a condition that the compiled loops cannot test is refused now, not in a worker."""
    RowEngine(node.query, node.input.schema)
    return partial(RowPatternMatch, node.query, node.input.schema.arrow)
