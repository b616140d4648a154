"""Which columns show event time.

Every row carries its event time beside its columns: that of its stream, the newest of a group or a pair. A select list may show
it under any name, or something else under its name; windows, patterns and the order of rows go by the time a row carries.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import Place, SyntaxMistake
from penstock.plan.analysis.shown_times import ShownTimes, bare_name
from penstock.plan.analysis.table import analysis_of
from penstock.plan.catalog import ContinuousQuery
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Scan

Find = Callable[[str], object]


def event_time_of(node: Node, find: Find) -> str | None:
    """The column of a plan's output that is its event time, as far as it can be followed."""
    if isinstance(node, Scan):
        return node.schema.names[node.stream.schema.index(node.stream.timestamp)] if node.stream.timestamp else None
    if node.query_read:
        query = find(node.query_read)
        if not isinstance(query, ContinuousQuery):
            return None
        found = event_time_of(query.plan, find)
        # A reference has the columns of the query in their order.
        return None if found is None else node.schema.names[query.plan.schema.index(found)]
    if node.rows_from is node:
        return None
    inner = event_time_of(node.inputs[0], find)
    return next((name for name in node.schema.names if inner is not None and node.origins_of(name) == ((0, inner),)), None)


def refuse_other_time(node: Node, find: Find, place: Place | None) -> None:
    """Refuse rows that show something else under the name of their event time, where somebody goes by that time."""
    for name in sorted(_shown(node, find).others):
        bare = bare_name(name)
        raise SyntaxMistake(
            f"'{bare}' of these rows is not their event time, although it has its name: a select computes it anew, and windows "
            f"and patterns go by the time that the rows carry; give the computed column another name, or write it to a destination "
            f"that a stream of its own reads, with WATERMARK {bare}",
            place,
        )


def _shown(node: Node, find: Find) -> ShownTimes:
    if not node.query_read:
        return analysis_of(node).times(node, [_shown(part, find) for part in node.inputs])
    query = find(node.query_read)
    inner = _shown(query.plan, find) if isinstance(query, ContinuousQuery) else ShownTimes()
    return analysis_of(node).times(node, [inner])
