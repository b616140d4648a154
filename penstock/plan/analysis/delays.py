"""How old the times in an answer can be, for whoever must know when no more answers of some time come.

A frontier promises that no older row comes *in*. What comes *out* later may be older: a pair has the time of its newer row, a row
without partner is held until its window has passed, a window is reported with its start. How far behind the frontier each column
of time can fall follows from the windows of the plan alone, so it is known before anything runs and is equal in all shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.expressions.match_output import MATCH_END, MATCH_START
from penstock.expressions.nodes import Column
from penstock.model.join_kinds import JoinKind
from penstock.model.windows import Framed, Sliding, Window
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.nodes.relational import GroupBy, Project, Reference, Scan, Union


@dataclass(frozen=True, slots=True)
class Delay:
    """A column of time: how far below the frontier its later values can be, and how far below the time of its own row."""

    below_frontier: int
    below_row: int = 0

    def later(self, frontier: int, row: int = 0) -> Delay:
        return Delay(self.below_frontier + frontier, self.below_row + row)


@dataclass(frozen=True, slots=True)
class Delays:
    """What is known of the times in the answers of a node.

    Parameters
    ----------
    rows
        How far below the frontier the time of a later row can be; None: there is no bound.
    columns
        Columns of time with a bound.
    row_time
        Columns the greatest of which, NULL left out, is the row's time; none if it is no function of columns.
    """

    rows: int | None = None
    columns: Mapping[str, Delay] = field(default_factory=dict)
    row_time: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Delays:
        """The same under new names; columns that get none are gone."""
        columns = {new: self.columns[old] for new, old in names.items() if old in self.columns}
        new_names = {old: new for new, old in names.items()}
        complete = all(name in new_names for name in self.row_time)
        return Delays(self.rows, columns, tuple(new_names[name] for name in self.row_time) if complete else ())


def of_stream(node: Scan) -> Delays:
    """Every row has its own time."""
    time = node.schema.names[node.stream.schema.index(node.stream.timestamp)]
    return Delays(0, {time: Delay(0)}, (time,))


def of_reference(node: Reference, answers: Delays) -> Delays:
    return answers.renamed(dict(zip(node.schema.names, node.output.names, strict=True)))


def of_project(node: Project, found: Delays) -> Delays:
    return found.renamed({name: expr.name for name, expr in node.items if isinstance(expr, Column)})


def of_union(node: Union, inputs: Sequence[Delays]) -> Delays:
    """A bound must hold in every branch; branches have columns by place, under the names of the first."""
    first = node.schema.names
    parts = [
        found.renamed(dict(zip(first, part.schema.names, strict=True))) for found, part in zip(inputs, node.parts, strict=True)
    ]
    shared = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
    columns = {
        name: Delay(max(part.columns[name].below_frontier for part in parts), max(part.columns[name].below_row for part in parts))
        for name in shared
    }
    is_same = all(part.row_time == parts[0].row_time for part in parts)
    return Delays(_greatest([part.rows for part in parts]), columns, parts[0].row_time if is_same else ())


def of_join(node: WindowJoin, inputs: Sequence[Delays]) -> Delays:
    base, reaches = _greatest([found.rows for found in inputs]), [_reach(window) for window in node.windows]
    shown = inputs if node.kind.shows_pairs else inputs[:1]
    row_time = tuple(name for found in shown for name in found.row_time) if all(found.row_time for found in shown) else ()
    if base is None:
        return Delays(None, {}, row_time)
    longest = _greatest(reaches)
    columns: dict[str, Delay] = {}
    for found, reach in zip(shown, reaches, strict=False):
        if reach is not None and longest is not None:
            behind = {name: delay.below_row for name, delay in found.columns.items()}
            columns |= {name: Delay(base + reach + late, late + longest) for name, late in behind.items()}
    rows = base if node.kind is JoinKind.INNER else None if longest is None else base + longest
    return Delays(rows, columns, row_time)


def of_groups(node: GroupBy, found: Delays) -> Delays:
    """Windows that are still to be reported end after the frontier."""
    reach = _reach(node.window)
    if found.rows is None or reach is None:
        return Delays()
    bounds = (Delay(found.rows + reach, reach), Delay(found.rows))
    return Delays(found.rows + reach, {name: bound for name, bound in zip(node.window_columns, bounds, strict=True) if name})


def of_matches(node: PatternMatch, found: Delays) -> Delays:
    """A match has the time at which it is decided, at most the window after its first event."""
    within = node.query.within
    if found.rows is None:
        return Delays()
    times = (Column(MATCH_START), Column(MATCH_END))
    shown = [name for name, expr in node.output.measures if expr in times] if within is not None else []
    return Delays(found.rows, {name: Delay(found.rows + (within or 0), within or 0) for name in shown})


def _reach(window: Window) -> int | None:
    """How long a row can be part of an answer; None: there is no bound, or it is not known in time."""
    if isinstance(window, Sliding):
        return window.size
    if isinstance(window, Framed) and not window.in_rows and window.move_start == window.move_end > 0:
        return window.size
    return None


def _greatest(found: list[int | None]) -> int | None:
    known = [each for each in found if each is not None]
    return max(known) if len(known) == len(found) else None
