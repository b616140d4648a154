"""Which columns show event time.

Every row carries its event time beside its columns: that of its stream, the newest of a group or a pair. A select list may show
it under any name, or something else under its name; windows, patterns and the order of rows go by the time a row carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.aggregates import CHOOSING, AggregateCall
from penstock.expressions.nodes import Column
from penstock.plan.catalog import ContinuousQuery
from penstock.plan.nodes.base import Node, SameColumns
from penstock.plan.nodes.relational import GroupBy, Project, Reference, Scan, Select, Union, WindowJoin

Find = Callable[[str], object]


def event_time_of(node: Node, find: Find) -> str | None:
    """The column of a plan's output that is its event time, as far as it can be followed."""
    if isinstance(node, Scan):
        return node.schema.names[node.stream.schema.index(node.stream.timestamp)] if node.stream.timestamp else None
    if isinstance(node, Reference):
        query = find(node.query)
        inner = event_time_of(query.plan, find) if isinstance(query, ContinuousQuery) else None
        return None if inner is None else node.schema.names[node.output.index(inner)]
    if isinstance(node, Select):
        return event_time_of(node.input, find)
    if isinstance(node, Project):
        inner = event_time_of(node.input, find)
        return next((name for name, expr in node.items if inner is not None and expr == Column(inner)), None)
    return None


def refuse_other_time(node: Node, find: Find, place: Place | None) -> None:
    """Refuse rows that show something else under the name of their event time, where somebody goes by that time."""
    for name in sorted(_shown(node, find).others):
        bare = _bare(name)
        raise SyntaxMistake(
            f"'{bare}' of these rows is not their event time, although it has its name: a select computes it anew, and windows "
            f"and patterns go by the time that the rows carry; give the computed column another name, or write it to a destination "
            f"that a stream of its own reads, with WATERMARK {bare}",
            place,
        )


@dataclass(frozen=True)
class _Shown:
    """Columns that show the event time of some row as it is, and those that have its name and show something else.

    `names` are those by which event time has been known on the way here, in lower case.
    """

    times: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def chosen(self, items: Iterable[tuple[str, bool]]) -> _Shown:
        """The same of a select list, of whose items the name is given, and whether it shows a time."""
        listed = list(items)
        times = frozenset(name for name, is_time in listed if is_time)
        others = frozenset(name for name, is_time in listed if not is_time and _bare(name) in self.names)
        return _Shown(times, others, self.names | frozenset(map(_bare, times)))


def _shown(node: Node, find: Find) -> _Shown:
    if isinstance(node, Scan):
        time = event_time_of(node, find)
        return _Shown() if time is None else _Shown(frozenset((time,)), names=frozenset((_bare(time),)))
    if isinstance(node, Reference):
        query = find(node.query)
        inner = _shown(query.plan, find) if isinstance(query, ContinuousQuery) else _Shown()
        spelled = {name: node.schema.names[node.output.index(name)] for name in inner.times | inner.others}
        times, others = (frozenset(spelled[name] for name in names) for names in (inner.times, inner.others))
        return _Shown(times, others, inner.names)
    if isinstance(node, SameColumns):
        return _shown(node.input, find)
    if isinstance(node, Project):
        return _projected(node, _shown(node.input, find))
    if isinstance(node, GroupBy):
        return _grouped(node, _shown(node.input, find))
    if isinstance(node, Union):
        return _united(node, [_shown(part, find) for part in node.parts])
    parts = [_shown(part, find) for part in node.parts] if isinstance(node, WindowJoin) else []
    visible = set(node.schema.names)
    return _Shown(
        frozenset(name for part in parts for name in part.times if name in visible),
        frozenset(name for part in parts for name in part.others if name in visible),
        frozenset(name for part in parts for name in part.names),
    )


def _projected(node: Project, inner: _Shown) -> _Shown:
    return inner.chosen((name, isinstance(expr, Column) and expr.name in inner.times) for name, expr in node.items)


def _grouped(node: GroupBy, inner: _Shown) -> _Shown:
    """The time of one row of the group is a time as it is, though the group has that of the newest; as with a pair."""

    def is_of_a_row(call: AggregateCall) -> bool:
        picks = call.function in ("min", "max", *CHOOSING)
        return picks and isinstance(call.argument, Column) and call.argument.name in inner.times

    keys = [(name, name in inner.times) for name in node.keys]
    windows = [(name, False) for name in node.window_columns if name]
    return inner.chosen([*keys, *((call.name, is_of_a_row(call)) for call in node.aggregates), *windows])


def _united(node: Union, parts: list[_Shown]) -> _Shown:
    """Columns of the parts by their place; named as in the first."""
    names = node.schema.names
    places = [{name: place for place, name in enumerate(part.schema.names)} for part in node.parts]
    times = [{at[name] for name in part.times} for at, part in zip(places, parts, strict=True)]
    others = [{at[name] for name in part.others} for at, part in zip(places, parts, strict=True)]
    return _Shown(
        frozenset(names[place] for place in set.intersection(*times)),
        frozenset(names[place] for place in set.union(*others)),
        frozenset(name for part in parts for name in part.names),
    )


def _bare(name: str) -> str:
    return name.rsplit(".", 1)[-1].lower()
