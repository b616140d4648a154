"""Which columns of a node show the event time of a row as it is, and which only have its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.expressions.aggregates import CHOOSING, AggregateCall
from penstock.expressions.nodes import Column
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import GroupBy, Project, Reference, Scan, Union


@dataclass(frozen=True)
class ShownTimes:
    """Columns that show the event time of some row as it is, and those that have its name and show something else.

    `names` are those by which event time has been known on the way here, in lower case.
    """

    times: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def chosen(self, items: Iterable[tuple[str, bool]]) -> ShownTimes:
        """The same of a select list, of whose items the name is given, and whether it shows a time."""
        listed = list(items)
        times = frozenset(name for name, is_time in listed if is_time)
        others = frozenset(name for name, is_time in listed if not is_time and bare_name(name) in self.names)
        return ShownTimes(times, others, self.names | frozenset(map(bare_name, times)))


def times_of_stream(node: Scan) -> ShownTimes:
    if not node.stream.timestamp:
        return ShownTimes()
    time = node.schema.names[node.stream.schema.index(node.stream.timestamp)]
    return ShownTimes(frozenset((time,)), names=frozenset((bare_name(time),)))


def times_of_reference(node: Reference, inner: ShownTimes) -> ShownTimes:
    spelled = {name: node.schema.names[node.output.index(name)] for name in inner.times | inner.others}
    times, others = (frozenset(spelled[name] for name in names) for names in (inner.times, inner.others))
    return ShownTimes(times, others, inner.names)


def times_of_join(node: WindowJoin, parts: Sequence[ShownTimes]) -> ShownTimes:
    visible = set(node.schema.names)
    return ShownTimes(
        frozenset(name for part in parts for name in part.times if name in visible),
        frozenset(name for part in parts for name in part.others if name in visible),
        frozenset(name for part in parts for name in part.names),
    )


def times_of_project(node: Project, inner: ShownTimes) -> ShownTimes:
    return inner.chosen((name, isinstance(expr, Column) and expr.name in inner.times) for name, expr in node.items)


def times_of_groups(node: GroupBy, inner: ShownTimes) -> ShownTimes:
    """The time of one row of the group is a time as it is, though the group has that of the newest; as with a pair."""

    def is_of_a_row(call: AggregateCall) -> bool:
        picks = call.function in ("min", "max", *CHOOSING)
        return picks and isinstance(call.argument, Column) and call.argument.name in inner.times

    keys = [(name, name in inner.times) for name in node.keys]
    windows = [(name, False) for name in node.window_columns if name]
    return inner.chosen([*keys, *((call.name, is_of_a_row(call)) for call in node.aggregates), *windows])


def times_of_union(node: Union, parts: Sequence[ShownTimes]) -> ShownTimes:
    """Columns of the parts by their place; named as in the first."""
    names = node.schema.names
    places = [{name: place for place, name in enumerate(part.schema.names)} for part in node.parts]
    times = [{at[name] for name in part.times} for at, part in zip(places, parts, strict=True)]
    others = [{at[name] for name in part.others} for at, part in zip(places, parts, strict=True)]
    return ShownTimes(
        frozenset(names[place] for place in set.intersection(*times)),
        frozenset(names[place] for place in set.union(*others)),
        frozenset(name for part in parts for name in part.names),
    )


def bare_name(name: str) -> str:
    return name.rsplit(".", 1)[-1].lower()
