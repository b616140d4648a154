"""When grouping and duplicate elimination forget, and what is known of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.model.windows import Framed, Unbounded
from penstock.plan.analysis.holdings import (
    BoundedBy,
    Growth,
    Holding,
    bound_of,
    ends,
    is_landmark,
    keeps_growing,
    rows_within,
    sum_text,
    until_end,
    waiting,
)
from penstock.plan.analysis.knowledge import Knowledge, Scheme
from penstock.plan.nodes.relational import Distinct, GroupBy
from penstock.plan.nodes.wording import length_text

Stateful = GroupBy | Distinct


def judge_grouping(node: GroupBy, known: Knowledge) -> list[Holding]:
    """Groups, rows that wait for their number, and sets of values behind `count(DISTINCT …)`."""
    held = [waiting(known, node.has_clock_time)] if _in_rows(node) else []
    held.append(_judged(node, known, "groups", _closing_scheme(node, known)))
    counted = [call.name for call in node.aggregates if call.distinct]
    stays = is_landmark(node.window) or (isinstance(node.window, Unbounded) and not node.keys)
    if counted and stays and held[-1].is_bounded and not ends(node.life):
        why = f"{', '.join(counted)} remembers every value, and its group is never closed"
        held.append(Holding("distinct values", why, growth=Growth.KEYS))
    return held


def judge_distinct(node: Distinct, known: Knowledge) -> list[Holding]:
    """Values that were reported, and rows that wait because an equal one may still come before them."""
    scheme = known.within(_counted_by(node) or node.schema.names)
    return [waiting(known, node.has_clock_time), _judged(node, known, "values", scheme)]


def _in_rows(node: Stateful) -> bool:
    return isinstance(node.window, Framed) and node.window.in_rows


def _counted_by(node: Stateful) -> tuple[str, ...]:
    """Columns for each of whose values rows are numbered apart."""
    return node.window.partition_by if isinstance(node.window, Framed) and node.window.in_rows else ()


def _closing_scheme(node: GroupBy, known: Knowledge) -> Scheme | None:
    """A scheme that closes groups: nothing but keys, and over counted partitions nothing but their columns."""
    if is_landmark(node.window):
        return None
    if _in_rows(node):  # without partitions a group's rows fill windows together with others
        return known.within(set(node.keys) & set(_counted_by(node)))
    return known.within(node.keys)


def _judged(node: Stateful, known: Knowledge, what: str, scheme: Scheme | None) -> Holding:
    return (
        _by_window(node, known, what)
        or _by_scheme(node, what, scheme)
        or _single(node, what)
        or (until_end(what) if ends(node.life) else _growing(node, known, what))
    )


def _by_window(node: Stateful, known: Knowledge, what: str) -> Holding | None:
    window = node.window
    if isinstance(window, Unbounded) or is_landmark(window) or keeps_growing(window) or _counted_by(node) or not known.advances:
        return None
    if window.in_rows:
        size = f"{window.size} rows"
        return Holding(what, f"a window holds {size}", BoundedBy.COUNT, None, f"≤ {size}", float(window.size))
    clock = node.has_clock_time
    why = f"a window of {length_text(window.size, clock)} goes when event time has passed it"
    size = f"≤ rate × {sum_text(window.size, known.lag, clock)}"
    return Holding(what, why, BoundedBy.WINDOW, None, size, rows_within(known.rate, window.size + known.lag))


def _by_scheme(node: Stateful, what: str, scheme: Scheme | None) -> Holding | None:
    if scheme is None:
        return None
    columns = ", ".join(sorted(scheme.columns))
    why = f"a punctuation on {columns} closes what it matches ({scheme.origin})"
    size = f"open values of {columns}"
    if isinstance(node.window, Framed) and node.window.in_rows:
        size += f" × {node.window.size} rows"
    conditions = (scheme.condition,) if scheme.condition else ()
    return Holding(what, why, bound_of(scheme), None, size, None, conditions)


def _single(node: Stateful, what: str) -> Holding | None:
    """Without keys there is one group, and rows of it are folded together."""
    folds = isinstance(node.window, Unbounded) or is_landmark(node.window)
    if not node.keys and folds and not _counted_by(node):
        return Holding(what, "there is one group, of one row", BoundedBy.ONE_GROUP, None, "1 row", 1.0)
    return None


def _growing(node: Stateful, known: Knowledge, what: str) -> Holding:
    window = node.window
    columns = ", ".join(node.keys)
    if isinstance(window, Framed) and keeps_growing(window):
        return Holding(what, "its windows grow longer without end", growth=Growth.TIME)
    if isinstance(window, Framed) and _counted_by(node):
        parts = ", ".join(_counted_by(node))
        why = f"{window.size} rows for each {parts}; bounded only if the number of {parts} is bounded"
        return Holding(what, why, growth=Growth.KEYS, size=f"values of {parts} × {window.size} rows")
    if isinstance(window, Unbounded) or is_landmark(window):
        why = f"one row for each {columns}; bounded only if the number of {columns} is bounded"
        if is_landmark(window) and isinstance(node, GroupBy):
            why += " (a landmark window reports every group again, so punctuations close none)"
        return Holding(what, why, growth=Growth.KEYS, size=f"values of {columns}")
    return Holding(what, f"no window ends, because event time does not advance: {known.stalled}", growth=Growth.ROWS)


def through_grouping(node: GroupBy, inputs: Sequence[Knowledge], holdings: Sequence[Holding]) -> Knowledge:
    """Punctuations on keys go on; event time waits for the oldest group that is still open."""
    (known,) = inputs
    groups = next(holding for holding in holdings if holding.what == "groups")
    keys = {name.lower() for name in node.keys}
    schemes = [scheme for scheme in known.schemes if {name.lower() for name in scheme.columns} <= keys]
    if is_landmark(node.window):
        schemes = []
    stalled = known.stalled
    if not stalled and (not groups.is_bounded or (isinstance(node.window, Unbounded) and not node.keys)):
        stalled = f"the oldest group of {', '.join(node.keys) or 'all rows'} that is open holds it back"
    length = node.window.size if isinstance(node.window, Framed) and not node.window.in_rows else 0
    return Knowledge(tuple(schemes), stalled, known.lag + length)


def through_distinct(node: Distinct, known: Knowledge) -> Knowledge:
    """Punctuations go on when no row that waits matches them, so event time must advance for that."""
    return known if known.advances else replace(known, schemes=())
