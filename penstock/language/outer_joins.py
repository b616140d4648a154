"""Selects with outer, semi or anti joins: two by two, in the order written.

Only the inner joins in front of the first other one are free to become one join of n inputs. Each step takes its keys and
its further conditions from its own ON, because there they decide who is a partner; WHERE filters what comes out of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from penstock.errors import InvalidPlan
from penstock.expressions.nodes import Call, Column, Expr, columns_of, conjoin
from penstock.language.joins import join, no_later_than, refuse_frames_in_steps, refuse_rows, time_column, with_columns
from penstock.language.resolve import Input, Scope
from penstock.language.syntax import Text
from penstock.language.windows import join_window
from penstock.model.join_kinds import JoinKind
from penstock.model.windows import Lifespan, Sliding, Unbounded, Window
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin


@dataclass(frozen=True)
class Step:
    """One JOIN: its kind, the source it adds, and the conjuncts of its ON."""

    kind: JoinKind
    new: Input
    conditions: list[Expr]


@dataclass(frozen=True)
class _Member:
    """A source that is part of the rows so far; an optional one may be missing in them."""

    part: Input
    window: Window
    is_optional: bool = False


def join_in_order(first: Input, steps: Sequence[Step], text: Text, clock: bool, life: Lifespan) -> tuple[Node, tuple[Window, ...]]:
    """The plan of all steps, and the windows of all sources."""
    inputs = (first, *(step.new for step in steps))
    windows = tuple(join_window(part.window, clock, life) for part in inputs)
    refuse_rows(inputs, windows, "a query with outer, semi or anti joins")
    if len(inputs) > 2:
        refuse_frames_in_steps(windows, first.place)
    leading = len(list(takewhile(lambda step: step.kind is JoinKind.INNER, steps)))
    node = first.node
    if leading:
        conditions = [condition for step in steps[:leading] for condition in step.conditions]
        node, _ = join(Scope(inputs[: leading + 1], text), conditions, clock, life)
    members = [_Member(*known) for known in zip(inputs[: leading + 1], windows, strict=False)]
    for step, window in zip(steps[leading:], windows[leading + 1 :], strict=True):
        node = _joined(node, members, step, window, life)
        members = _members_after(members, step, window)
    return node, windows


def _members_after(members: list[_Member], step: Step, window: Window) -> list[_Member]:
    if not step.kind.shows_pairs:
        return members
    before = [replace(member, is_optional=True) for member in members] if 0 in step.kind.extended else members
    return [*before, _Member(step.new, window, 1 in step.kind.extended)]


def _joined(node: Node, members: list[_Member], step: Step, window: Window, life: Lifespan) -> Node:
    keys: dict[tuple[str, str], None] = {}
    computed: tuple[dict[str, Expr], dict[str, Expr]] = ({}, {})
    residual: list[Expr] = []
    for condition in step.conditions:
        sides = _sides_of_equality(condition, step.new)
        if sides is None:
            residual.append(condition)
        else:
            keys[_named(sides[0], computed[0]), _named(sides[1], computed[1])] = None
    if not keys:
        raise _no_key(step)
    residual += _recent_enough(members, step.new)
    parts = with_columns(node, computed[0]), with_columns(step.new.node, computed[1])
    by_input = tuple(left for left, _ in keys), tuple(right for _, right in keys)
    windows = _window_so_far(members), window
    return WindowJoin(parts, by_input, windows, conjoin(residual) if residual else None, life, step.kind)


def _sides_of_equality(condition: Expr, new: Input) -> tuple[Expr, Expr] | None:
    """What must be equal: a value of the rows so far, and one of the new source."""
    if not (isinstance(condition, Call) and condition.op == "="):
        return None
    left, right = condition.args
    owners = [{name in new.node.schema for name in columns_of(side)} for side in (left, right)]
    if owners == [{False}, {True}]:
        return left, right
    return (right, left) if owners == [{True}, {False}] else None


def _named(side: Expr, computed: dict[str, Expr]) -> str:
    """The column a side is; one that is none is computed below the join."""
    if isinstance(side, Column):
        return side.name
    computed[str(side)] = side
    return str(side)


def _window_so_far(members: list[_Member]) -> Window:
    """How long a row so far may wait: as the shortest window of the sources it surely has, by its newest part.

    If any of them may be missing, the longest has to be taken; `_recent_enough` is exact in both cases.
    """
    if len(members) == 1 or not all(isinstance(member.window, Sliding | Unbounded) for member in members):
        return members[0].window
    certain = [member for member in members if not member.is_optional]
    sizes = [member.window.size for member in certain or members if isinstance(member.window, Sliding)]
    if certain:
        return Sliding(min(sizes)) if sizes else Unbounded()
    return Sliding(max(sizes)) if len(sizes) == len(members) else Unbounded()


def _recent_enough(members: list[_Member], new: Input) -> list[Expr]:
    """Conditions that keep the new row within the window of every source the row so far has."""
    limits: list[Expr] = []
    for member in members if len(members) > 1 else ():
        if isinstance(member.window, Sliding):
            limit = no_later_than(new, member.part, member.window.size)
            missing = Call("is_null", (time_column(member.part),))
            limits.append(Call("or", (missing, limit)) if member.is_optional else limit)
    return limits


def _no_key(step: Step) -> InvalidPlan:
    words = f"{step.kind.words} JOIN".strip()
    text = (
        f"{words} {step.new.alias} has no equality in its ON: every row would meet every row. "
        f"Add a condition such as a.x = {step.new.alias}.{step.new.bare.names[0]}"
    )
    return InvalidPlan(text, step.new.place)
