"""How the search for event patterns is run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.kernel.contracts import Operator
from penstock.operators.patterns.engine import PatternEngine
from penstock.operators.patterns.operator import PatternMatch
from penstock.plan.nodes import patterns as nodes


def pattern_recipe(node: nodes.PatternMatch) -> Callable[[], Operator]:
    """How to make the operator; a condition that the compiled loops cannot test is refused now, not in a worker."""
    events = node.input.schema.arrow
    PatternEngine(node.query, events)
    return partial(PatternMatch, node.query, events, node.output, node.time_type)
