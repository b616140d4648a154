"""Selects to plans.

The order of work is that of SQL: sources, conditions, join, grouping, select list, DISTINCT. Every step builds plan
nodes; what may be wrong with the text is found while its words are still at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.errors import InvalidPlan, InvalidWindow, Place, SyntaxMistake, UnknownColumn
from penstock.expressions.nodes import Column, Expr, conjoin, conjuncts
from penstock.expressions.user_functions import UserFunction
from penstock.language.contract_clauses import ContractText, contract, refuse_unknown_column
from penstock.language.event_clauses import EventText
from penstock.language.event_time import event_time_of, refuse_other_time
from penstock.language.events import EventContext, build_event, refuse_nested
from penstock.language.grouping import Grouping, Item, needs_grouping, refuse_aggregates, select_list
from penstock.language.hints import read_hints
from penstock.language.joins import join, window_over_join
from penstock.language.lifetimes import bounded, with_partial_windows
from penstock.language.match_clauses import MatchText, match_of
from penstock.language.match_recognize import row_query
from penstock.language.outer_joins import Step, join_in_order
from penstock.language.quality_clauses import TermsText, late_answers, validity, weight
from penstock.language.resolve import Input, Scope, check_condition, named, renamed
from penstock.language.sampling import Sampling
from penstock.language.syntax import QueryStatement, Text, WindowClause, Word, window_of
from penstock.language.unions import aligned
from penstock.language.windows import aggregate_window, lifespan
from penstock.metadata.constraints.declared import DeclaredConstraints
from penstock.model.declarations import Destination, StreamDeclaration
from penstock.model.join_kinds import JoinKind
from penstock.model.qos import QoSSpecification
from penstock.model.schema import Schema
from penstock.model.service import TIMING_COLUMNS
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded, Window
from penstock.plan.analysis.filtering import FEWEST, is_orderable
from penstock.plan.analysis.validities import streams_read, validities
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.relational import Announced, Distinct, Hushed, Project, Reference, Scan, Select, Union
from penstock.plan.nodes.row_patterns import RowPatternMatch

Find = Callable[[Word], StreamDeclaration | ContinuousQuery]


@dataclass(frozen=True)
class Context:
    """What a select needs to know beyond its own words."""

    text: Text
    find: Find
    clock: bool
    life: Lifespan
    emit_partial: bool
    warnings: list[str] = field(default_factory=list)
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    constraints: tuple[DeclaredConstraints, ...] = ()
    #: Of the queries before this one, by name in lower case.
    plans: Mapping[str, Node] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)

    def warn(self, message: str) -> None:
        self.warnings.append(f"{self.text.source}: {message}")


@dataclass(frozen=True)
class Built:
    """A select's plan, and the window its rows were taken from (for a UNION around it)."""

    node: Node
    window: Framed | Unbounded
    is_grouped: bool = False


def build(statement: QueryStatement, find: Find, now: int | None, catalog: Catalog) -> ContinuousQuery:
    """The continuous query a statement defines; `catalog` has functions and constraints, and gets warnings."""
    clock = _clock_of(statement, find)
    life = lifespan(statement.begin, statement.end, clock, now)
    context = Context(
        statement.text,
        find,
        clock,
        life,
        statement.emit_partial,
        catalog.warnings,
        catalog.functions,
        tuple(catalog.constraints.values()),
        {name: query.plan for name, query in catalog.queries.items()},
        Sampling(statement.terms.contract.loss if statement.terms and statement.terms.contract else None),
    )
    if now is not None and statement.begin and clock and life.begin < now:
        context.warn("BEGIN lies in the past: only rows with such old timestamps are new to it")
    plan = _event(statement, statement.event, context) if statement.event else bounded(_select(statement, context), life)
    destinations = tuple(Destination(output.name.text.lower(), output.options) for output in statement.outputs)
    terms = statement.terms or TermsText()
    _refuse_columns_of_timing(statement, terms, plan)
    query = ContinuousQuery(
        statement.name.text, plan, life, destinations, weight(terms.weight), validity(terms.validity, clock), terms.shows_timing
    )
    promised = _contract(terms.contract, query, catalog, context)
    return replace(query, late_answers=late_answers(terms.late, list(validities(catalog, query))), contract=promised)


def _contract(text: ContractText | None, query: ContinuousQuery, catalog: Catalog, context: Context) -> QoSSpecification | None:
    found = contract(text, context.warn)
    if found is not None and text is not None and text.loss is not None:
        streams = streams_read(catalog, query)
        refuse_unknown_column(text.loss, [field for stream in streams for field in stream.schema])
        context.sampling.refuse_idle()
    return found


def _refuse_columns_of_timing(statement: QueryStatement, terms: TermsText, plan: Node) -> None:
    taken = [name for name in TIMING_COLUMNS if name in plan.schema]
    if terms.shows_timing and taken:
        text = f"SHOW TIMING adds the columns {', '.join(TIMING_COLUMNS)}, and the select has {' and '.join(taken)} already"
        raise InvalidPlan(f"{text}; call its own otherwise", statement.name.place)


def _select(statement: QueryStatement, context: Context) -> Node:
    plan = build_select(statement.select, context).node
    return with_partial_windows(plan, statement.name.place) if statement.emit_partial else plan


def _event(statement: QueryStatement, event: EventText, context: Context) -> Node:
    if statement.begin or statement.end or statement.emit_partial:
        place = (statement.begin or statement.end or statement.name).place
        raise SyntaxMistake("BEGIN, END and EMIT PARTIAL are for windows; a pattern has WITHIN", place)
    node = build_event(
        event,
        EventContext(
            context.text,
            context.clock,
            lambda source: _event_input(source, context),
            context.warn,
            context.functions,
            context.constraints,
            context.plans,
        ),
    )
    refuse_nested(node.schema, statement.outputs)
    return node


def _event_input(source: exp.Expr, context: Context) -> Input:
    part = _input(source, False, context)
    _refuse_other_time(part, context)
    return part


def _clock_of(statement: QueryStatement, find: Find) -> bool:
    """Whether the sources have clock time; they must agree, or no window would fit all of them."""
    kinds: dict[bool, exp.Expr] = {}
    for table in statement.select.find_all(exp.Table):
        if table.find_ancestor(exp.Hint):
            continue  # a hint that names a table is refused where hints are read
        source = find(_word(table, statement.text))
        clock = source.has_clock_time if isinstance(source, StreamDeclaration) else source.plan.has_clock_time
        kinds.setdefault(clock, table)
    if len(kinds) == 2:
        clocked, counted = kinds[True].name, kinds[False].name
        text = f"'{clocked}' has clock time and '{counted}' an integer timestamp; one query cannot compare them"
        raise InvalidPlan(text, statement.text.place_of(kinds[False]))
    return next(iter(kinds), True)


def _word(table: exp.Expr, text: Text) -> Word:
    place = text.place_of(table)
    assert place is not None
    return Word(table.name, place)


def build_select(tree: exp.Expr, context: Context, in_union: bool = False) -> Built:
    """The plan of a select, a union or a parenthesised one; `in_union`: a UNION removes duplicates in its window."""
    if isinstance(tree, exp.Subquery):
        return build_select(tree.this, context, in_union)
    if isinstance(tree, exp.SetOperation):
        return _union(tree, context, in_union)
    if not isinstance(tree, exp.Select):
        raise SyntaxMistake("expected SELECT", context.text.place_of(tree))
    scope, node, windows, conditions = _sources(tree, context)
    items = _items(tree, scope)
    grouped = needs_grouping(tree)
    is_distinct = bool(tree.args.get("distinct"))
    if grouped or is_distinct or in_union:
        frame = _window_of_rows(scope, windows, context)
    else:
        frame = Unbounded()
        _refuse_idle_window(None if windows else scope.inputs[0].window)
    if grouped:
        if isinstance(frame, Framed) and frame.in_rows and conditions:
            context.warn("the ROW window counts the rows that pass WHERE")
        node = _grouped(Grouping(tree, scope, items, context.sampling), node, scope, frame, context)
    else:
        node = select_list(items, node, scope, context.sampling)
    assert node.schema  # types are judged here, while the statement is at hand
    if is_distinct:
        node = _distinct(node, frame, items, grouped, context)
    return Built(node, frame, grouped)


def _refuse_idle_window(clause: WindowClause | None) -> None:
    """Each row of a plain select stands for itself: no operator would look at a window."""
    if clause is not None and clause.measure != "UNBOUNDED":
        text = (
            "a select without aggregate, DISTINCT or UNION passes on every row by itself, and its window would do nothing; "
            "leave the window out, or use BEGIN and END to choose a stretch of time"
        )
        raise InvalidWindow(text, clause.place)


def _sources(tree: exp.Select, context: Context) -> tuple[Scope, Node, tuple[Window, ...], list[Expr]]:
    """The rows FROM and WHERE leave, and how they are called; windows are those of a join's inputs, none for a single one."""
    inputs = _inputs(tree, context)
    hints = read_hints(tree, len(inputs), context.text)
    hint = hints.join
    joins = tree.args.get("joins") or ()
    kinds = [_join_kind(joined, context.text) for joined in joins]
    if any(kind is not JoinKind.INNER for kind in kinds):
        if hint is not None:
            raise SyntaxMistake(f"{hint.variant.value} runs inner joins only; leave the hint out", hint.place)
        return _joined_in_order(tree, inputs, kinds, context)
    scope = Scope(inputs, context.text, functions=context.functions)
    written = [joined.args["on"] for joined in joins if joined.args.get("on")]
    conditions = _read([*written, *_filters(tree, context)], scope)
    if scope.is_qualified:
        return scope, *join(scope, conditions, context.clock, context.life, hint), conditions
    only = scope.inputs[0].node
    if hints.order is not None and len([part for part in conditions if is_orderable(part)]) < FEWEST:
        text = "the hint ORDER needs two conditions or more that call functions, or search texts by LIKE or RLIKE"
        raise SyntaxMistake(text, hints.order.place)
    return scope, Select(only, conjoin(conditions), hints.order) if conditions else only, (), conditions


def _joined_in_order(
    tree: exp.Select, inputs: tuple[Input, ...], kinds: list[JoinKind], context: Context
) -> tuple[Scope, Node, tuple[Window, ...], list[Expr]]:
    scope = Scope(inputs[:1], context.text, functions=context.functions)
    steps: list[Step] = []
    for new, kind, joined in zip(inputs[1:], kinds, tree.args["joins"], strict=True):
        if not joined.args.get("on"):
            text = (
                f"beside outer, semi and anti joins every source has its own condition; "
                f"write JOIN {new.alias} ON … instead of a comma or CROSS JOIN"
            )
            raise SyntaxMistake(text, new.place)
        wider = replace(scope, inputs=(*scope.inputs, new))
        steps.append(Step(kind, new, _read([joined.args["on"]], wider)))
        scope = wider if kind.shows_pairs else replace(scope, hidden=scope.hidden | {new.alias.lower()})
    node, windows = join_in_order(inputs[0], steps, context.text, context.clock, context.life)
    conditions = _read(_filters(tree, context), scope)
    return scope, Select(node, conjoin(conditions)) if conditions else node, windows, conditions


def _window_of_rows(scope: Scope, windows: tuple[Window, ...], context: Context) -> Framed | Unbounded:
    if not windows:
        return _window_of_input(scope.inputs[0], context)
    if all(isinstance(window, Sliding) for window in windows):
        context.warn(
            "the aggregate, DISTINCT or UNION over the join uses tumbling windows as long as the longest of its inputs; "
            "for another one write the join as a query of its own and give its result a window"
        )
    return window_over_join(windows, context.life, scope.inputs[0].place)


def _union(tree: exp.SetOperation, context: Context, in_union: bool) -> Built:
    """All selects of `a UNION b UNION c …` in one step; those in brackets have a step of their own."""
    steps = [tree]
    while isinstance(steps[-1].this, exp.SetOperation):
        steps.append(steps[-1].this)
    distinct = [bool(step.args.get("distinct")) for step in steps]  # the last of the text first
    left = build_select(steps[-1].this, context, in_union or any(distinct))
    parts: list[Node] = list(left.node.parts) if isinstance(left.node, Union) else [left.node]
    was_distinct = False
    for position in reversed(range(len(steps))):
        step, is_judged = steps[position], in_union or any(distinct[: position + 1])
        right = build_select(step.expression, context, is_judged)
        window = _common_window(left, right, context.text.place_of(step)) if is_judged else Unbounded()
        if was_distinct and not distinct[position]:
            parts = [Distinct(Union(tuple(parts)), left.window, context.life)]
        was_distinct = distinct[position]  # duplicates of several sides are removed at once
        parts.append(aligned(parts[0], right.node, step, context.text))
        left = Built(parts[0], window, left.is_grouped or right.is_grouped)
    node: Node = Union(tuple(parts))
    return replace(left, node=Distinct(node, left.window, context.life) if was_distinct else node)


def _common_window(left: Built, right: Built, place: Place | None) -> Framed | Unbounded:
    """The window in which UNION removes duplicates of its sides."""
    window, advice = left.window, "write the UNION ALL as a query of its own, and SELECT DISTINCT … FROM it [window]"
    if window != right.window:
        text = f"the sides of UNION have different windows ({window}; {right.window}): duplicates have none in common"
        raise InvalidWindow(f"{text}. Give both sides the same, or {advice}", place)
    if isinstance(window, Unbounded):
        return window
    if window.in_rows or window.partition_by:
        raise InvalidWindow(f"UNION takes windows of time for all values; use RANGE without PARTITION BY, or {advice}", place)
    if (left.is_grouped or right.is_grouped) and window.kind != "tumbling":
        raise InvalidWindow(f"UNION of groupings needs tumbling windows; leave ADVANCE out, or {advice}", place)
    return window


def _join_kind(joined: exp.Join, text: Text) -> JoinKind:
    words = [joined.args[part].upper() for part in ("method", "side", "kind") if joined.args.get(part)]
    kind = JoinKind.called("".join(words) or "inner")
    if kind is None:
        raise SyntaxMistake(f"{' '.join(words)} JOIN is not available; write JOIN … ON a.x = b.y", text.place_of(joined))
    return kind


# -- sources -----------------------------------------------------------------------------------------------------------


def _inputs(tree: exp.Select, context: Context) -> tuple[Input, ...]:
    if not tree.args.get("from_"):
        raise SyntaxMistake("the select has no FROM; name the stream it reads", context.text.place_of(tree))
    if not tree.expressions:
        text = "the select list is empty; write *, or the columns you need"
        raise SyntaxMistake(text, context.text.place_of(tree.args["from_"]))
    sources = [tree.args["from_"].this, *(joined.this for joined in tree.args.get("joins") or ())]
    several = len(sources) > 1
    inputs: list[Input] = []
    for source in sources:
        made = _input(source, several, context)
        if any(made.alias.lower() == other.alias.lower() for other in inputs):
            text = f"'{made.alias}' stands twice in FROM; give each its own alias: {made.alias} a, {made.alias} b"
            raise SyntaxMistake(text, made.place)
        inputs.append(made)
    return tuple(inputs)


def _input(source: exp.Expr, several: bool, context: Context) -> Input:
    found = renamed(_source(source, several, context), source, several, context.text)
    is_windowed = found.window is not None and found.window.measure != "UNBOUNDED"
    if is_windowed or context.life != Lifespan():
        _refuse_other_time(found, context)
    return found


def _refuse_other_time(part: Input, context: Context) -> None:
    place = part.place or Place(context.text.source)
    refuse_other_time(part.node, lambda name: context.find(Word(name, place)), place)


def _source(source: exp.Expr, several: bool, context: Context) -> Input:
    place = context.text.place_of(source)
    alias = source.alias_or_name
    if (match := match_of(source)) is not None:
        return _matched(match, source, several, context)
    if isinstance(source, exp.Subquery):
        if several and not alias:
            raise SyntaxMistake("a select in FROM beside other sources needs a name: (SELECT …) AS a", place)
        inner = build_select(source.this, context).node
        bare = inner.schema.named(f"the select '{alias}'" if alias else "the select in FROM")
        pairs = tuple((f"{alias}.{name}", Column(name)) for name in bare.names)
        return Input(alias, Project(inner, pairs) if several else inner, bare, window_of(source), place)
    found = context.find(_word(source, context.text))
    prefix = alias if several else ""
    if isinstance(found, StreamDeclaration):
        if source.meta.get("announced"):
            text = f"'{found.name}' is a stream; PUNCTUATIONS OF shows those of a query, for example one that selects from it"
            raise SyntaxMistake(text, place)
        return Input(alias, Scan(found, prefix), found.schema.named(f"stream '{found.name}'"), window_of(source), place)
    if source.meta.get("announced"):
        return _announced(found, several, source, context)
    bare = found.plan.schema.named(f"query '{found.name}'")
    node = Reference(found.name, bare, prefix, found.plan.has_clock_time)
    return Input(alias, node, bare, window_of(source), place)


def _matched(match: MatchText, source: exp.Expr, several: bool, context: Context) -> Input:
    """The matches of a row pattern as a source."""
    inner, alias = _input(source.meta["matched"], False, context), source.alias_or_name
    if inner.window is not None:
        raise SyntaxMistake("a window does not go before MATCH_RECOGNIZE; write WITHIN behind its pattern", inner.window.place)
    time = event_time_of(inner.node, lambda name: context.find(Word(name, match.place)))
    if time is None:
        text = "MATCH_RECOGNIZE must know the column of event time; select it in the query it reads, under any name"
        raise SyntaxMistake(text, match.place)
    node = RowPatternMatch(inner.node, row_query(match, inner.bare, time, context.clock, context.text, context.functions))
    if not len(node.schema):
        raise SyntaxMistake("the matches have no columns; write MEASURES … AS name, or ALL ROWS PER MATCH", match.place)
    bare = node.schema.named("the matches")
    pairs = tuple((f"{alias}.{name}", Column(name)) for name in bare.names)
    return Input(alias, Project(node, pairs) if several else node, bare, window_of(source), inner.place)


def _announced(query: ContinuousQuery, several: bool, source: exp.Expr, context: Context) -> Input:
    """The punctuations of a query as rows."""
    place = context.text.place_of(source)
    if several:
        raise SyntaxMistake("PUNCTUATIONS OF a query stand alone in FROM; write a query of their own to join them", place)
    node = Announced(Hushed(Reference(query.name, query.plan.schema, "", query.plan.has_clock_time)))
    bare = node.schema.named(f"punctuations of query '{query.name}'")
    return Input(source.alias_or_name, node, bare, window_of(source), place)


def _window_of_input(part: Input, context: Context) -> Framed | Unbounded:
    frame = aggregate_window(part.window, context.clock, context.life)
    if part.window and part.window.partition_by and isinstance(frame, Framed):
        for word in part.window.partition_by:
            if word.text not in part.bare:
                raise UnknownColumn(part.bare.owner, word.text, part.bare.names, word.place)
        names = tuple(part.plan_name(word.text) for word in part.window.partition_by)
        frame = replace(frame, partition_by=names)
    return frame


# -- conditions --------------------------------------------------------------------------------------------------------


def _filters(tree: exp.Select, context: Context) -> list[exp.Expr]:
    """WHERE, and what acts like it."""
    written = [tree.args["where"].this] if tree.args.get("where") else []
    having = tree.args.get("having")
    if having and not needs_grouping(tree):
        if having.meta.get("word") != "GFILTER":
            raise SyntaxMistake("HAVING needs GROUP BY or an aggregate; use WHERE for rows", context.text.place_of(having))
        context.warn("GFILTER stands on a select without GROUP BY and acts like WHERE")
        written.append(having.this)
    return written


def _read(written: list[exp.Expr], scope: Scope) -> list[Expr]:
    """The conjuncts of conditions."""
    found: list[Expr] = []
    for condition in written:
        refuse_aggregates(condition, scope.text)
        expression = scope.expression(condition)
        check_condition(expression, _all_columns(scope))
        found += conjuncts(expression)
    return found


def _all_columns(scope: Scope) -> Schema:
    fields = tuple(item for part in scope.inputs for item in part.node.schema)
    return Schema(fields, scope.inputs[0].node.schema.owner if len(scope.inputs) == 1 else "the query")


# -- select list -------------------------------------------------------------------------------------------------------


def _items(tree: exp.Select, scope: Scope) -> list[Item]:
    """The select list with stars expanded; an empty name means "call it by its text"."""
    items: list[Item] = []
    for written in tree.expressions:
        place = scope.text.place_of(written)
        stars = scope.stars(written)
        if stars is not None:
            items += [Item(scope.bare_name(name), named(name, written), place) for name in stars]
        elif isinstance(written, exp.Alias):
            items.append(Item(written.alias, scope.resolved(written.this), place))
        else:
            resolved = scope.resolved(written)
            name = scope.bare_name(resolved.name) if isinstance(resolved, exp.Column) else ""
            items.append(Item(name, resolved, place))
    if not items:
        raise SyntaxMistake("EXCEPT leaves no column; the answer needs one", scope.text.place_of(tree.expressions[0]))
    return items


# -- grouping and distinct ---------------------------------------------------------------------------------------------


def _grouped(grouping: Grouping, node: Node, scope: Scope, frame: Framed | Unbounded, context: Context) -> Node:
    if isinstance(frame, Unbounded):
        _refuse_blocking(node, grouping.keys, scope, context)
    return grouping.plan(node, frame, context.life, context.emit_partial)


def _refuse_blocking(node: Node, keys: tuple[str, ...], scope: Scope, context: Context) -> None:
    """An aggregate without window needs something that can tell when a group is complete."""
    scans = _scans(node, context)
    knowledge = any(scan.stream.closes_values for scan in scans)
    by_time = any(key.rsplit(".", 1)[-1] == scan.stream.timestamp for key in keys for scan in scans)
    if knowledge or by_time:
        return
    first = scope.inputs[0]
    sample = "1 MINUTE" if context.clock else "100"
    text = (
        f"the aggregate has no window and nothing tells when a group is complete: it would block for ever. "
        f"Write a window, such as {first.alias or 'source'} [RANGE {sample}], or declare on '{scans[0].stream.name}' "
        f"UNIQUE, CLUSTERED or ORDERED (column), PUNCTUATIONS FROM column or PUNCTUATE column WHEN condition"
    )
    raise InvalidWindow(text, first.place)


def _scans(node: Node, context: Context) -> list[Scan]:
    found: list[Scan] = []
    for leaf in walk(node):
        if isinstance(leaf, Scan):
            found.append(leaf)
        elif leaf.query_read:
            query = context.find(Word(leaf.query_read, context.text.place(0, 0)))
            assert isinstance(query, ContinuousQuery)
            found += _scans(query.plan, context)
    return found


def _distinct(node: Node, frame: Framed | Unbounded, items: list[Item], grouped: bool, context: Context) -> Node:
    if isinstance(frame, Framed):
        place = items[0].place
        if grouped and (frame.in_rows or frame.kind != "tumbling" or frame.partition_by):
            text = (
                "DISTINCT over a grouping needs a tumbling time window; "
                "write the grouping as a query of its own and select DISTINCT from it"
            )
            raise InvalidWindow(text, place)
        frame = replace(frame, partition_by=tuple(_output_name(name, items, context) for name in frame.partition_by))
    return Distinct(node, frame, context.life)


def _output_name(plan_name: str, items: list[Item], context: Context) -> str:
    for item in items:
        if isinstance(item.tree, exp.Column) and item.tree.name == plan_name:
            return item.name
    text = f"the window of SELECT DISTINCT is partitioned by '{plan_name}'; add it to the select list"
    raise InvalidWindow(text, items[0].place)
