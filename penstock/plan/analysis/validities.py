"""What a query reads in the end, and how long its answers are therefore of use."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.declarations import StreamDeclaration
from penstock.model.service import Validity
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.relational import Scan


def validities(catalog: Catalog, query: ContinuousQuery) -> Iterator[Validity]:
    """What the query says itself, and what is said of everything it reads; the shortest one counts."""
    if query.validity is not None:
        yield query.validity
    for node in walk(query.plan):
        if isinstance(node, Scan):
            stream = catalog.stream(node.stream.name)
            if stream.validity is not None:
                yield stream.validity
        elif node.query_read:
            yield from validities(catalog, catalog.queries[node.query_read.lower()])


def streams_read(catalog: Catalog, query: ContinuousQuery) -> Iterator[StreamDeclaration]:
    """Also through the queries that it reads; one that is read twice comes twice."""
    for node in walk(query.plan):
        if isinstance(node, Scan):
            yield catalog.stream(node.stream.name)
        elif node.query_read:
            yield from streams_read(catalog, catalog.queries[node.query_read.lower()])
