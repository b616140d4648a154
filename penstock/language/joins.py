"""Several inputs to window joins: which conditions are keys, which are pushed below, which remain.

All inputs joined on one common key become one join of n inputs. Without one, inputs that all have windows become a multiway
join, whose probes change places with the data, unless something is declared of them that closes values: that is worth more, and
the multiway join would not hear of it. The rest is joined two by two in the order of FROM, each step with at least one
equality; a step then also has to say that *every* earlier row is recent enough, because the window of an intermediate result
only sees its newest row.

A window of rows counts every row of its source: conditions on such a source choose among the pairs, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import pyarrow as pa

from penstock.errors import InvalidPlan, InvalidWindow, Place
from penstock.expressions.nodes import Call, Column, Expr, Literal, columns_of, conjoin
from penstock.language.resolve import Input, Scope
from penstock.language.windows import join_window
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.windows import Framed, Lifespan, Rows, Sliding, Unbounded, Window
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.multiway import Link, MJoin
from penstock.plan.nodes.relational import Project, Scan, Select, scans_of

_DISJOINT = ("tumbling", "hopping", "fixed")


@dataclass(frozen=True, slots=True)
class Equality:
    """`left = right` between columns of two inputs; `condition` is what was written."""

    inputs: tuple[int, int]
    columns: tuple[str, str]
    condition: Expr


@dataclass
class _Conditions:
    """The conjuncts of WHERE and ON, sorted by what the join can do with them."""

    local: list[list[Expr]]
    computed: list[dict[str, Expr]]
    equalities: list[Equality] = field(default_factory=list)
    rest: list[tuple[frozenset[int], Expr]] = field(default_factory=list)


def join(
    scope: Scope, conditions: list[Expr], clock: bool, life: Lifespan, hint: JoinHint | None = None
) -> tuple[Node, tuple[Window, ...]]:
    """The plan that joins all inputs of a select, and the windows of the inputs."""
    windows = tuple(join_window(part.window, clock, life) for part in scope.inputs)
    sorted_ = _sort(scope, conditions, windows)
    parts = [_prepared(part.node, sorted_.local[i], sorted_.computed[i]) for i, part in enumerate(scope.inputs)]
    keys = _common_keys(sorted_.equalities, len(parts))
    if _is_multiway(parts, windows, bool(keys), hint):
        return _multiway(scope, parts, windows, sorted_, life, hint), windows
    if keys:
        return _one_join(parts, keys, windows, sorted_, life, hint), windows
    return _join_two_by_two(scope, parts, windows, sorted_, life, hint), windows


def _sort(scope: Scope, conditions: list[Expr], windows: tuple[Window, ...]) -> _Conditions:
    size = len(scope.inputs)
    found = _Conditions([[] for _ in range(size)], [{} for _ in range(size)])
    for condition in conditions:
        used = frozenset(scope.input_of(name) for name in columns_of(condition))
        owner = next(iter(used), 0)  # a condition without columns holds for all rows or none: any input will do
        if len(used) <= 1 and isinstance(windows[owner], Rows):
            found.rest.append((frozenset({owner}), condition))
        elif len(used) <= 1:
            found.local[owner].append(condition)
        elif equality := _equality(scope, condition, found.computed):
            found.equalities.append(equality)
        else:
            found.rest.append((used, condition))
    return found


def _equality(scope: Scope, condition: Expr, computed: list[dict[str, Expr]]) -> Equality | None:
    """The equality of one value of each of two inputs; a side that is no column is computed below the join."""
    if not (isinstance(condition, Call) and condition.op == "="):
        return None
    sides: list[tuple[int, str]] = []
    for side in condition.args:
        owners = {scope.input_of(name) for name in columns_of(side)}
        if len(owners) != 1:
            return None
        owner = owners.pop()
        if not isinstance(side, Column):
            computed[owner][str(side)] = side
        sides.append((owner, side.name if isinstance(side, Column) else str(side)))
    (left, right) = sides
    return Equality((left[0], right[0]), (left[1], right[1]), condition)


def _prepared(node: Node, conditions: list[Expr], computed: dict[str, Expr]) -> Node:
    if conditions:
        node = Select(node, conjoin(conditions))
    return with_columns(node, computed)


def with_columns(node: Node, computed: dict[str, Expr]) -> Node:
    """The node with further columns, so that keys are always columns."""
    if not computed:
        return node
    return Project(node, (*((name, Column(name)) for name in node.schema.names), *computed.items()))


def _common_keys(equalities: list[Equality], size: int) -> list[tuple[str, ...]]:
    """For each class of equal columns that reaches all inputs, one column of every input."""
    classes: list[dict[str, int]] = []
    for equality in equalities:
        joined = dict(zip(equality.columns, equality.inputs, strict=True))
        apart = []
        for known in classes:
            if known.keys() & joined.keys():
                joined = {**known, **joined}
            else:
                apart.append(known)
        classes = [*apart, joined]
    chosen = [{owner: name for name, owner in reversed(members.items())} for members in classes]
    return [tuple(one[i] for i in range(size)) for one in chosen if len(one) == size]


def _one_join(
    parts: list[Node], keys: list[tuple[str, ...]], windows: tuple[Window, ...], found: _Conditions, life: Lifespan,
    hint: JoinHint | None,
) -> Node:  # fmt: skip
    implied = [set(key) for key in keys]
    extra = [e.condition for e in found.equalities if not any(set(e.columns) <= key for key in implied)]
    residual = [*extra, *(condition for _, condition in found.rest)]
    by_input = tuple(tuple(key[i] for key in keys) for i in range(len(parts)))
    return WindowJoin(tuple(parts), by_input, windows, conjoin(residual) if residual else None, life, hint=hint)


def _is_multiway(parts: list[Node], windows: tuple[Window, ...], has_common_key: bool, hint: JoinHint | None) -> bool:
    """Whether the inputs are joined in one step although they have no key in common, or because a hint asks for it."""
    if hint is not None or len(parts) < 3:
        return hint is not None and hint.variant is JoinVariant.MJOIN and len(parts) > 2
    if has_common_key or not all(isinstance(window, Sliding) for window in windows):
        return False
    streams = [found.stream for part in parts for found in scans_of(part)]
    return not any(stream.punctuations or stream.constraints or stream.generators for stream in streams)


def _multiway(
    scope: Scope, parts: list[Node], windows: tuple[Window, ...], found: _Conditions, life: Lifespan, hint: JoinHint | None
) -> Node:
    joined = [0]
    while len(joined) < len(parts):
        waiting = [new for new in range(len(parts)) if new not in joined]
        linked = [new for new in waiting if _links(found.equalities, joined, new)]
        if not linked:
            raise _no_key(scope, joined, waiting[0])
        joined += linked
    links = dict.fromkeys(Link(e.inputs[0], e.columns[0], e.inputs[1], e.columns[1]) for e in found.equalities)
    residual = [condition for _, condition in found.rest]
    keys = tuple(() for _ in parts)
    return MJoin(tuple(parts), keys, windows, conjoin(residual) if residual else None, life, hint=hint, links=tuple(links))


def _join_two_by_two(
    scope: Scope, parts: list[Node], windows: tuple[Window, ...], found: _Conditions, life: Lifespan, hint: JoinHint | None
) -> Node:
    refuse_frames_in_steps(windows, scope.inputs[0].place)
    refuse_rows(scope.inputs, windows, "a join of more than two inputs without a common key")
    node, joined = parts[0], [0]
    waiting = list(range(1, len(parts)))
    while waiting:
        new = next((i for i in waiting if _links(found.equalities, joined, i)), None)
        if new is None:
            raise _no_key(scope, joined, waiting[0])
        waiting.remove(new)
        links = _links(found.equalities, joined, new)
        keys = tuple(left for left, _ in links), tuple(right for _, right in links)
        residual = [c for used, c in found.rest if new in used and used <= {*joined, new}]
        left = windows[joined[0]]
        if len(joined) > 1:
            residual += _recent_enough(scope, windows, joined, new)
            left = _shortest([windows[i] for i in joined])
        both = left, windows[new]
        node = WindowJoin((node, parts[new]), keys, both, conjoin(residual) if residual else None, life, hint=hint)
        joined.append(new)
    return node


def _links(equalities: list[Equality], joined: list[int], new: int) -> list[tuple[str, str]]:
    """Pairs (column so far, column of the new input) that must be equal, each once."""
    found: dict[tuple[str, str], None] = {}
    for equality in equalities:
        (a, b), (x, y) = equality.inputs, equality.columns
        if b == new and a in joined:
            found[x, y] = None
        elif a == new and b in joined:
            found[y, x] = None
    return list(found)


def _shortest(windows: list[Window]) -> Window:
    # A new row must be recent enough for every member, and no member is younger than the newest one.
    sizes = [window.size for window in windows if isinstance(window, Sliding)]
    return Sliding(min(sizes)) if sizes else windows[0]


def _recent_enough(scope: Scope, windows: tuple[Window, ...], joined: list[int], new: int) -> list[Expr]:
    """Conditions that keep the new row within the window of every member of an intermediate result."""
    limits: list[Expr] = []
    for member in joined:
        window = windows[member]
        if isinstance(window, Sliding):
            limits.append(no_later_than(scope.inputs[new], scope.inputs[member], window.size))
    return limits


def no_later_than(new: Input, member: Input, size: int) -> Expr:
    """The row of `new` is at most `size` newer than that of `member`."""
    until = Call("+", (time_column(member), Literal(size, pa.int64())))
    return Call("<=", (time_column(new), until))


def time_column(part: Input) -> Column:
    """The column with the event time of a source."""
    if not isinstance(part.node, Scan):
        text = (
            f"'{part.alias}' is the result of a query and has no timestamp column to compare; "
            "write the join with it as a query of its own"
        )
        raise InvalidPlan(text, part.place)
    return Column(part.plan_name(part.node.stream.timestamp))


def refuse_frames_in_steps(windows: tuple[Window, ...], place: Place | None) -> None:
    """Refuse windows with ADVANCE in which an intermediate row would be in other windows than its parts."""
    framed = [window for window in windows if isinstance(window, Framed)]
    if framed and not (len(set(windows)) == 1 and framed[0].kind in _DISJOINT):
        text = (
            "a join of more than two inputs without a common key takes windows with ADVANCE only if all are equal "
            "and do not overlap; leave ADVANCE out, or join on one key"
        )
        raise InvalidWindow(text, place)


def refuse_rows(inputs: Sequence[Input], windows: Sequence[Window], where: str) -> None:
    """Refuse windows that count rows where an intermediate row, or one without partner, would have to be counted."""
    for part, window in zip(inputs, windows, strict=True):
        if isinstance(window, Rows):
            place = part.window.place if part.window is not None else part.place
            raise InvalidWindow(f"{where} takes no ROW windows; use RANGE", place)


def _no_key(scope: Scope, joined: list[int], missing: int) -> InvalidPlan:
    new = scope.inputs[missing]
    other = scope.inputs[joined[0]]
    shared = [name for name in new.bare.names if any(name in scope.inputs[i].bare for i in joined)]
    column = shared[0] if shared else new.bare.names[0]
    text = (
        f"'{new.alias}' is joined without an equality: every row would meet every row. "
        f"Add a condition such as {other.alias}.{column} = {new.alias}.{column} to WHERE or ON"
    )
    return InvalidPlan(text, new.place)


def window_over_join(windows: tuple[Window, ...], life: Lifespan, place: Place | None) -> Framed | Unbounded:
    """The window of an aggregate or DISTINCT over a join: it follows from what was written at the inputs alone."""
    if any(isinstance(window, Unbounded) for window in windows):
        return Unbounded()
    if any(isinstance(window, Rows) for window in windows):
        text = (
            "an aggregate, DISTINCT or UNION over a join with ROW windows has no window to follow; "
            "write the join as a query of its own and give its result a window"
        )
        raise InvalidWindow(text, place)
    sizes = [window.size for window in windows if isinstance(window, Sliding)]
    if sizes:
        return Framed(max(sizes), max(sizes), max(sizes)).check(life, place)
    first = windows[0]
    same = all(one == other for one, other in combinations(windows, 2))
    if isinstance(first, Framed) and same and first.kind in _DISJOINT:
        return first
    text = (
        "an aggregate, DISTINCT or UNION over a join needs inputs with equal windows that do not overlap; "
        "write the join as a query of its own and give its result a window"
    )
    raise InvalidWindow(text, place)
