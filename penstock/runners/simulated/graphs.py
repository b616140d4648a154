"""From the sketch of a query graph to one that a kernel runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.kernel.graph import Graph, GraphNode, Port
from penstock.kernel.ingress import EntrySpec
from penstock.kernel.work import Price, Terms
from penstock.model.elements import STATISTICS, Control
from penstock.runners.simulated.operators import Passing
from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph

_MICROS = 1_000_000


def graph_of(sketch: QueryGraph) -> Graph:
    """Operators that let their share of the rows through, as many as the sketch has."""
    streams = sketch.shares.keys()
    asked: dict[str, set[str]] = {operator.id: set() for operator in sketch.operators}
    for query in sketch.queries:
        asked[query.operator].add(query.id)
    for operator in reversed(sketch.operators):
        for port in operator.ports:
            if port.source not in streams:
                asked[port.source] |= asked[operator.id]
    nodes = tuple(
        GraphNode(
            operator.id, partial(_passing, operator), tuple(_source(port) for port in operator.ports), frozenset(asked[operator.id])
        )
        for operator in sketch.operators
    )
    entries = tuple(EntrySpec(stream, stream, pa.schema([])) for stream in streams)
    outputs = {query.id: (query.operator, "") for query in sketch.queries}
    return Graph(nodes, entries, outputs, terms=terms_of(sketch))


def _source(port: PortSketch) -> Port:
    return port.source, ""


def _passing(operator: OperatorSketch) -> Passing:
    return Passing(operator.id, [port.selectivity for port in operator.ports])


def terms_of(sketch: QueryGraph) -> Mapping[str, Terms]:
    """What each query asks for: its weight, and answers before the first of its streams' rows are of no more use."""
    reached = sketch.outputs_per_row
    found = {}
    for query in sketch.queries:
        known = [seconds for stream, seconds in sketch.validity_s.items() if reached[stream][query.operator] > 0]
        found[query.id] = Terms(query.weight, round(min(known) * _MICROS) if known else None)
    return found


def prices_of(sketch: QueryGraph, page_rows: int) -> Control:
    """The decision that tells a kernel what operators cost.

    Parameters
    ----------
    page_rows
        Rows that enter together.
    """
    told: dict[str, list[dict[str, Any]]] = {}
    for operator in sketch.operators:
        told[operator.id] = [
            asdict(Price(0.0, port.row_ns, port.selectivity, port.row_bytes, float(page_rows))) for port in operator.ports
        ]
    return Control(0, STATISTICS, {"operators": told})
