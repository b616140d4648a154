"""Which columns of declared streams a column of a plan shows unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Scan


@dataclass(frozen=True, slots=True)
class Origins:
    """Columns of streams as (stream, column); `is_complete` unless some of the values come from elsewhere."""

    columns: frozenset[tuple[str, str]] = frozenset()
    is_complete: bool = False


def origins(catalog: Catalog, node: Node, name: str) -> Origins:
    """The stream columns whose values a column holds, through all inputs and other queries.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, t BIGINT, WATERMARK t DELAY OF 0);
    ...   CREATE CQ q AS SELECT k AS item, k + 1 AS next FROM a;
    ... ''')
    >>> plan = catalog.queries["q"].plan
    >>> origins(catalog, plan, "item"), origins(catalog, plan, "next").is_complete
    (Origins(columns=frozenset({('a', 'k')}), is_complete=True), False)
    """
    at = node.schema.index(name)
    if isinstance(node, Scan):
        return Origins(frozenset({(node.stream.name, node.stream.schema.names[at])}), True)
    if node.query_read:
        inner = catalog.queries[node.query_read.lower()].plan
        return origins(catalog, inner, inner.schema.names[at])
    found = [origins(catalog, node.inputs[port], column) for port, column in node.origins_of(name)]
    columns = frozenset[tuple[str, str]]().union(*(part.columns for part in found))
    return Origins(columns, bool(found) and all(part.is_complete for part in found))
