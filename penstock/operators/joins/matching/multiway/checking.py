"""What a multiway join refuses when it is built."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import InvalidPlan, InvalidWindow, UnknownColumn
from penstock.model.elements import FOREVER
from penstock.model.windows import Sliding, Unbounded, Window
from penstock.operators.joins.matching.multiway.graph import JoinGraph

#: What is learnt of a row is one word of 64 bits, a bit for each probe.
MOST_PROBES = 64


def check_graph(graph: JoinGraph, schemas: Sequence[pa.Schema]) -> None:
    """A graph must fit the inputs: every column of a predicate must exist, columns that must be equal must have one type."""
    if len(schemas) != graph.ports:
        raise InvalidPlan(f"the join graph has {graph.ports} inputs, but there are {len(schemas)} schemas")
    if graph.ports - 1 > MOST_PROBES:
        raise InvalidPlan(
            f"the join has {graph.ports} inputs, so a row makes up to {graph.ports - 1} probes; it orders at most {MOST_PROBES}"
        )
    for members in graph.classes:
        for port, name in members:
            if name not in schemas[port].names:
                raise UnknownColumn(f"input {port} of the join", name, schemas[port].names)
        types = {str(schemas[port].field(name).type) for port, name in members}
        if len(types) > 1:
            names = ", ".join(f"'{name}' of input {port}" for port, name in members)
            raise InvalidPlan(f"the columns {names} must be equal and have the types {', '.join(sorted(types))}; cast them to one")


def lengths_of(windows: Sequence[Window], ports: int) -> tuple[int, ...]:
    """Lengths of the windows, `FOREVER` where there is none."""
    if len(windows) != ports:
        raise InvalidPlan(f"the join graph has {ports} inputs, but there are {len(windows)} windows")
    lengths = []
    for port, window in enumerate(windows):
        if not isinstance(window, Sliding | Unbounded):
            raise InvalidWindow(f"the window of input {port}, {window}, is numbered; a multiway join takes sliding windows or none")
        lengths.append(window.check().size if isinstance(window, Sliding) else FOREVER)
    return tuple(lengths)
