"""Plans as text: one line per node, inputs indented below. Golden tests compare it, `explain` prints it."""

from __future__ import annotations

from penstock.plan.nodes.base import Node


def tree(plan: Node) -> str:
    """The plan as indented text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.expressions.nodes import Column
    >>> from penstock.model.declarations import Source, StreamDeclaration
    >>> from penstock.model.schema import Schema
    >>> from penstock.model.windows import Framed
    >>> from penstock.plan.nodes.relational import Distinct, Project, Scan
    >>> bid = StreamDeclaration("bid", Schema.of(item=pa.int64(), ts=pa.int64()), Source("feed"), "ts")
    >>> print(tree(Distinct(Project(Scan(bid), (("item", Column("item")),)), Framed(60, 60, 60))))
    Distinct [tumbling 60]
      Project item
        Scan bid
    """
    return "\n".join(_lines(plan, 0))


def _lines(node: Node, depth: int) -> list[str]:
    first, *more = node.describe()
    head = ["  " * depth + first, *("  " * depth + "  . " + line for line in more)]
    return head + [line for part in node.inputs for line in _lines(part, depth + 1)]
