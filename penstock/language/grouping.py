"""GROUP BY, HAVING and aggregates of a select to plan nodes."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import InvalidWindow, Place, SyntaxMistake
from penstock.expressions.aggregates import AGGREGATES, AggregateCall
from penstock.expressions.nodes import Column, Expr, substitute
from penstock.expressions.parse import split_aggregates
from penstock.language.joins import with_columns
from penstock.language.resolve import Scope, check_condition, named
from penstock.language.sampling import ERROR, FRACTION, OF_SAMPLES, Estimator, Sampling, fraction_of_row
from penstock.language.syntax import Text
from penstock.model.windows import Framed, Lifespan, Unbounded
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import GroupBy, GroupFilter, Project

#: Functions of the select list that name the window's bounds; in a plan they are columns called by their text.
WINDOW_BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True)
class Item:
    """One column of the select list, its names resolved; an empty name means "call it by its text"."""

    name: str
    tree: exp.Expr
    place: Place | None


#: Names Spark gives to aggregates and sqlglot does not know as such.
_OTHER_AGGREGATES = frozenset(name for others in AGGREGATES.values() for name in others)


def finished(pairs: list[tuple[Item, Expr]]) -> tuple[tuple[str, Expr], ...]:
    """Output columns by name; two of one name are refused."""
    seen: set[str] = set()
    result = []
    for item, expression in pairs:
        # Aggregates are columns called `sum(price)`; in a name their quotes only get in the way.
        name = item.name or str(expression).replace("`", "")
        if name.lower() in seen:
            raise SyntaxMistake(f"two columns of the answer are called '{name}'; give one another name with AS", item.place)
        seen.add(name.lower())
        result.append((name, expression))
    return tuple(result)


def needs_grouping(tree: exp.Select) -> bool:
    """Whether the select has GROUP BY or an aggregate of its own (not inside a source)."""
    if tree.args.get("group"):
        return True
    having = tree.args.get("having")
    parts = [*tree.expressions, *([having] if having else [])]
    return any(_is_computed_by_groups(part) for tree in parts for part in tree.walk())


def _is_computed_by_groups(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return _window_bound(node) != "" or node.name.lower() in _OTHER_AGGREGATES
    return isinstance(node, exp.AggFunc)


def _is_inside_aggregate(column: exp.Column) -> bool:
    """Whether the column is an aggregate's argument, or the condition of its FILTER."""
    above = column.parent
    while above is not None:
        if _is_computed_by_groups(above) or isinstance(above, exp.Filter):
            return True
        above = above.parent
    return False


def _window_bound(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) and node.name.lower() in WINDOW_BOUNDS else ""


def refuse_aggregates(condition: exp.Expr, text: Text) -> None:
    for node in condition.walk():
        if _is_of_sample(node):
            message = f"{node.name.lower()}(…) stands in the select list or in HAVING; rows are left out before conditions see them"
            raise SyntaxMistake(message, text.place_of(node))
        if _is_computed_by_groups(node):
            word = node.name if isinstance(node, exp.Anonymous) else node.key
            message = f"{word}(…) is known only after grouping; move this condition from WHERE or ON to HAVING"
            raise SyntaxMistake(message, text.place_of(node))


class Grouping:
    """The keys, aggregates and conditions of one select, ready to become plan nodes."""

    def __init__(self, tree: exp.Select, scope: Scope, items: list[Item], sampling: Sampling) -> None:
        self._scope = scope
        self._sampling = sampling
        self._wants_fraction = False
        self._errors: dict[str, AggregateCall] = {}
        self._computed: dict[str, Expr] = {}
        self._replaced: list[tuple[exp.Expr, str]] = []
        self._bounds: set[str] = set()
        aliases = {item.name.lower(): item.tree for item in items if item.name}
        self.keys = self._read_keys(tree.args.get("group"), aliases)
        self._items = [(item, self._over_groups(item.tree)) for item in items]
        having = tree.args.get("having")
        self._having = self._over_groups(scope.resolved(having.this, aliases)) if having else None

    def _read_keys(self, group: exp.Group | None, aliases: dict[str, exp.Expr]) -> tuple[str, ...]:
        if group is None:
            return ()
        names = [self._read_key(self._scope.resolved(written, aliases)) for written in group.expressions]
        return tuple(dict.fromkeys(names))

    def _read_key(self, tree: exp.Expr) -> str:
        place = self._scope.text.place_of(tree)
        if isinstance(tree, exp.Literal):
            raise SyntaxMistake("GROUP BY takes columns and expressions, no positions of the select list", place)
        of_sample = [node for node in tree.walk() if _is_of_sample(node)]
        if of_sample:
            text = f"{of_sample[0].name.lower()}(…) cannot be a group key; group by columns of the stream"
            raise SyntaxMistake(text, place)
        if any(_is_computed_by_groups(node) for node in tree.walk()):
            raise SyntaxMistake("an aggregate cannot be a group key; group by columns of the stream", place)
        if isinstance(tree, exp.Column):
            return tree.name
        expression = self._scope.read(tree)
        name = str(expression)
        self._computed[name] = expression
        self._replaced.append((tree, name))
        return name

    def _over_groups(self, tree: exp.Expr) -> exp.Expr:
        """The tree over what a grouping puts out: key expressions and window bounds become columns."""

        def change(node: exp.Expr) -> exp.Expr:
            for key, name in self._replaced:
                if node == key:
                    return named(name, node)
            if isinstance(node, exp.AggFunc) and not node.args.get("this"):
                text = f"{node.key}() aggregates nothing; write {node.key}(column)"
                raise SyntaxMistake(text, self._scope.text.place_of(node))
            if isinstance(node, exp.Anonymous) and _is_of_sample(node):
                return self._of_sample(node)
            if bound := _window_bound(node):
                _refuse_arguments(node, self._scope)
                self._bounds.add(bound)
                return named(f"{bound}()", node)
            return node

        changed = tree.copy().transform(change)
        self._refuse_ungrouped(changed)
        return changed

    def _of_sample(self, node: exp.Anonymous) -> exp.Expr:
        """`sampled_fraction()` and `sampling_error(COUNT(*))` become columns."""
        self._sampling.check(node.name.lower(), self._scope.text.place_of(node))
        if node.name.lower() == FRACTION:
            _refuse_arguments(node, self._scope)
            self._wants_fraction = True
            return named(f"{FRACTION}()", node)
        call = self._aggregate_in(node)
        name = f"{ERROR}({call})"
        self._errors[name] = call
        return named(name, node)

    def _aggregate_in(self, node: exp.Anonymous) -> AggregateCall:
        calls: list[AggregateCall] = []
        is_aggregate = len(node.expressions) == 1 and any(map(_is_computed_by_groups, node.expressions[0].walk()))
        if is_aggregate and isinstance(self._split(node.expressions[0], calls), Column):
            (call,) = calls
            if call.function in ("count", "sum") and not call.distinct:
                return call
        text = f"{ERROR}(…) is known of COUNT(*), COUNT(x) and SUM(x); write for example {ERROR}(COUNT(*))"
        raise SyntaxMistake(text, self._scope.text.place_of(node))

    def _refuse_ungrouped(self, tree: exp.Expr) -> None:
        known = {*self.keys, *(f"{bound}()" for bound in WINDOW_BOUNDS), f"{FRACTION}()", *self._errors}
        for column in tree.find_all(exp.Column):
            if column.name not in known and not _is_inside_aggregate(column):
                name = self._scope.bare_name(column.name)
                text = f"column '{name}' is neither in GROUP BY nor inside an aggregate; add it to GROUP BY, or write max({name})"
                raise SyntaxMistake(text, self._scope.text.place_of(column))

    def plan(self, node: Node, frame: Framed | Unbounded, life: Lifespan, emit_partial: bool) -> Node:
        """Grouping, then the filter of groups, then the select list."""
        if self._bounds and isinstance(frame, Unbounded):
            text = f"{max(self._bounds)}() has no value without a window; write one behind the stream"
            raise InvalidWindow(text, self._items[0][0].place)
        if (
            WINDOW_BOUNDS[0] in self._bounds
            and isinstance(frame, Framed)
            and frame.is_landmark
            and not (frame.in_rows or life.has_begin)
        ):
            text = (
                f"{WINDOW_BOUNDS[0]}() has no value: without BEGIN a landmark window holds everything; write BEGIN, or leave it out"
            )
            raise InvalidWindow(text, self._items[0][0].place)
        calls: list[AggregateCall] = []
        items = finished([(_named(item), self._split(tree, calls)) for item, tree in self._items])
        having = self._split(self._having, calls) if self._having is not None else None
        start, end = (f"{bound}()" if bound in self._bounds else "" for bound in WINDOW_BOUNDS)
        found = self._estimator(frame).estimates(node, calls)
        grouped: Node = GroupBy(
            with_columns(found.node, self._computed), self.keys, tuple(calls), frame, life, emit_partial, (start, end), found.names
        )
        if having is not None:
            having = substitute(having, found.replaced)
            check_condition(having, grouped.schema)
            grouped = GroupFilter(grouped, having)
        return Project(grouped, tuple((name, substitute(expr, found.replaced)) for name, expr in items))

    def _estimator(self, frame: Framed | Unbounded) -> Estimator:
        in_rows = isinstance(frame, Framed) and frame.in_rows
        return Estimator(self._sampling, self._wants_fraction, self._errors, in_rows, self._scope.inputs[0].place)

    def _split(self, tree: exp.Expr, calls: list[AggregateCall]) -> Expr:
        text = self._scope.text
        expression, calls[:] = split_aggregates(tree, calls, text.source, text.sql, self._scope.functions)
        return expression


def _named(item: Item) -> Item:
    """`window_start()` leaves the query as `window_start`, and `sampled_fraction()` likewise."""
    bound = _window_bound(item.tree) or (FRACTION if _is_fraction(item.tree) else "")
    return Item(bound, item.tree, item.place) if bound and not item.name else item


def select_list(items: list[Item], node: Node, scope: Scope, sampling: Sampling) -> Node:
    """The select list of a select that groups nothing."""
    asking = [part for item in items for part in item.tree.walk() if _is_of_sample(part)]
    read = finished([(_named(item), scope.read(_with_fraction(item.tree, scope, sampling))) for item in items])
    if not asking:
        return Project(node, read)
    node, fraction = fraction_of_row(node, scope.text.place_of(asking[0]))
    return Project(node, tuple((name, substitute(expr, {f"{FRACTION}()": fraction})) for name, expr in read))


def _with_fraction(tree: exp.Expr, scope: Scope, sampling: Sampling) -> exp.Expr:
    """The tree in which `sampled_fraction()` is a column."""

    def change(node: exp.Expr) -> exp.Expr:
        if not _is_of_sample(node):
            return node
        sampling.check(node.name.lower(), scope.text.place_of(node))
        _refuse_arguments(node, scope)
        return named(f"{FRACTION}()", node)

    return tree.copy().transform(change)


def _refuse_arguments(node: exp.Expr, scope: Scope) -> None:
    """Of functions that take none."""
    if node.expressions:
        raise SyntaxMistake(f"{node.name.lower()}() takes no argument", scope.text.place_of(node))


def _is_of_sample(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in OF_SAMPLES


def _is_fraction(node: exp.Expr) -> bool:
    return _is_of_sample(node) and node.name.lower() == FRACTION
