"""`EVENT SEQ(…) WHERE … WITHIN …` to plans.

Every type of the pattern is a stream or query of that name; their rows are merged into one stream of events. Behind FROM
stands one stream instead, with a column that says the type of each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from penstock.errors import (
    InvalidEventPattern,
    Place,
    SyntaxMistake,
    TypeMistake,
    UnknownColumn,
    UserError,
    suggestion,
)
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import FUNCTIONS, reference
from penstock.expressions.match_output import BRANCH, MATCH_COUNT, MATCH_END, MATCH_ID, MATCH_START, MatchOutput, RowsPerMatch
from penstock.expressions.match_schema import columns_read
from penstock.expressions.nodes import Column, Expr, Literal, transform
from penstock.expressions.parse import from_sqlglot
from penstock.expressions.user_functions import UserFunction
from penstock.language.constraints import applied
from penstock.language.event_clauses import EventText
from penstock.language.event_options import read_options
from penstock.language.event_types import check_types, origin_of, stream_of
from penstock.language.resolve import Input, named
from penstock.language.syntax import Amount, Format, Text, Word
from penstock.language.windows import length
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.declared import DeclaredConstraints
from penstock.metadata.constraints.queries import registered, watched_types, why_unwatched
from penstock.metadata.constraints.theory import Theory
from penstock.model.event_patterns import (
    Absent,
    Atom,
    EventOrder,
    EventPattern,
    LastRun,
    Lists,
    Strategy,
    leaves_of,
    normalised,
    types_of,
)
from penstock.model.schema import Field, Schema, sql_type
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.relational import Project

#: Formats whose columns are plain values.
_FLAT = ("csv", "text")
_OWN = (MATCH_START, MATCH_END, MATCH_ID, BRANCH, MATCH_COUNT)


@dataclass(frozen=True)
class EventContext:
    """What an event query needs to know beyond its own words; `input_of` finds a source, `warn` tells its author something."""

    text: Text
    clock: bool
    input_of: Callable[[exp.Expr], Input]
    warn: Callable[[str], None]
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    constraints: tuple[DeclaredConstraints, ...] = ()
    #: Plans of the queries before this one, by name in lower case: types that they name are no typing mistakes.
    plans: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class _Events:
    """The events as one stream, and what attributes each type has; no types where one stream has them all."""

    schema: Schema
    type_column: str
    types: Mapping[str, Input] = field(default_factory=dict)
    node: Node | None = None


def build_event(event: EventText, context: EventContext) -> PatternMatch:
    """The plan of an event query."""
    try:
        return _Builder(event, context).build()
    except UserError as error:
        if error.place is None or not error.place.line:
            error.at(replace(event.place, source=context.text.source))
        raise


def refuse_nested(schema: Schema, outputs: Iterable[Format]) -> None:
    """Refuse formats without structs for matches that show their events as structs."""
    nested = next((item.name for item in schema if pa.types.is_nested(item.type)), None)
    for output in outputs:
        if nested is not None and output.name.text.lower() in _FLAT:
            text = f"{output.name.text} has no structs, and '{nested}' is one; name measures in RETURN, or write OUTPUT TO json"
            raise SyntaxMistake(text, output.name.place)


class _Builder:
    def __init__(self, event: EventText, context: EventContext) -> None:
        self.event, self.context = event, context
        self.options = read_options(event.options, event.options_place)
        terminal = [part.strip() for part in self.options.get("terminal", "").split(",") if part.strip()]
        self.events = self._one_stream() if event.source is not None else self._streams(terminal)
        self.terminal = tuple(self._type(name) for name in terminal)
        self.pattern = normalised(self._spelled(event.pattern))
        self.leaves = {leaf.variable.lower(): leaf for leaf in leaves_of(self.pattern)}
        self._check_types()
        self.rules = self._constraints()

    def build(self) -> PatternMatch:
        query, output = self._query(), self._output()
        is_ordered = query.order is EventOrder.TIMESTAMP and all(any(term.predecessors) for term in query.terms)
        if query.within == 0 and is_ordered:
            self.context.warn("WITHIN 0 leaves simultaneous events only, and those are in no order: SEQ never matches")
        rules, watched = self.rules, self._watched(query)
        events = self.events.node or self._merged(query, output, watched)
        if rules is None:
            return PatternMatch(events, query, output)
        return PatternMatch(events, query, output, rules.rules, rules.on_violation, self._is_exact, self._must_watch)

    # -- constraints ------------------------------------------------------------------------------------------------------

    def _constraints(self) -> DeclaredConstraints | None:
        """What is declared of the traces of this query."""
        if self.options["reasoning"] == "off":
            return None
        key = tuple(self._column(word) for word in self.event.key)
        stream = "" if self.events.node is None else stream_of(self.events.node)
        notes: list[str] = []
        found = applied(self.context.constraints, stream, key, notes) if self.events.node is None or stream else None
        for note in notes:
            self.context.warn(note)
        return found

    @property
    def _is_exact(self) -> bool:
        return self.options["reasoning"] == "exact"

    @property
    def _must_watch(self) -> bool:
        return self.options["reasoning"] != "auto" or (self.rules is not None and self.rules.shows_violations)

    def _watched(self, query: EventQuery) -> frozenset[str]:
        """Types that constraints need to see; a query that can never match is refused here, with the proof."""
        if self.rules is None:
            return frozenset()
        options = ConditionOptions(exact=self._is_exact, is_thrifty=not self._must_watch)
        registration = registered(query, self.rules.rules, options)
        for notice in registration.notices:
            self.context.warn(notice)
        is_unwatched = not self._must_watch and why_unwatched(query, registration)
        return frozenset() if is_unwatched else watched_types(query, registration)

    # -- sources ----------------------------------------------------------------------------------------------------------

    def _one_stream(self) -> _Events:
        assert self.event.source is not None
        source = self.context.input_of(self.event.source)
        word = self.event.type_column
        name = word.text if word else "type"
        if name not in source.bare:
            place = word.place if word else source.place
            if word is None:
                text = f"{source.bare.owner} has no column 'type'; say which column has the types: FROM … TYPE column"
                raise SyntaxMistake(text, place)
            raise UnknownColumn(source.bare.owner, name, source.bare.names, place)
        return _Events(source.node.schema, source.node.schema[name].name, {}, source.node)

    def _streams(self, terminal: Iterable[str]) -> _Events:
        tables = [table for leaf in self.event.leaves for table in leaf.types]
        types: dict[str, Input] = {}
        for table in (*tables, *(exp.to_table(name, quoted=True) for name in terminal)):
            if table.name.lower() not in types:
                types[table.name.lower()] = self.context.input_of(table)
        fields: dict[str, Field] = {}
        for source in types.values():
            for item in source.bare:
                fields.setdefault(item.name.lower(), Field(item.name, item.type))
        kind = "event_type" if "event_type" not in fields else "_event_type"
        schema = Schema((Field(kind, pa.string()), *fields.values()), "the stream of events")
        return _Events(schema, kind, types)

    def _type(self, name: str) -> str:
        """A type as it is declared; behind FROM types are texts, taken as written."""
        source = self.events.types.get(name.lower())
        return name if source is None else _declared(source)

    def _spelled(self, pattern: EventPattern) -> EventPattern:
        if isinstance(pattern, Atom | Absent):
            return replace(pattern, types=tuple(map(self._type, pattern.types)))
        return replace(pattern, parts=tuple(map(self._spelled, pattern.parts)))

    def _check_types(self) -> None:
        stream = "" if self.events.node is None else origin_of(self.events.node, self.events.type_column, self.context.plans)
        written = {table.name: self.context.text.place_of(table) for leaf in self.event.leaves for table in leaf.types}
        ends = dict.fromkeys(self.terminal, self.event.options_place)
        check_types(ends | written, stream, self.context.constraints, self.context.plans, self.context.warn)

    def _merged(self, query: EventQuery, output: MatchOutput, watched: Iterable[str]) -> Node:
        """The streams with the columns somebody reads; what a type does not have is NULL."""
        wanted = self.events.schema.select(columns_read(query, output, self.events.schema))
        others = sorted(name for name in watched if name.lower() not in self.events.types)
        sources = [*self.events.types.values(), *(self.context.input_of(exp.to_table(name, quoted=True)) for name in others)]
        for source in sources:
            for name in query.key:
                if name not in source.bare:
                    raise UnknownColumn(source.bare.owner, name, source.bare.names, source.place)
        parts = [self._part(source, wanted) for source in sources]
        return parts[0] if len(parts) == 1 else Merged(tuple(parts), tuple(wanted[name].name for name in query.key))

    def _part(self, source: Input, wanted: Schema) -> Node:
        items: list[tuple[str, Expr]] = []
        for item in wanted:
            if item.name == self.events.type_column:
                items.append((item.name, Literal(_declared(source), pa.string())))
            elif item.name not in source.bare:
                items.append((item.name, Literal(None, item.type)))
            else:
                self._check_same(source, item)
                items.append((item.name, Column(source.plan_name(item.name))))
        return Project(source.node, tuple(items))

    def _check_same(self, source: Input, item: Field) -> None:
        found = source.bare[item.name].type
        if found != item.type:
            first = next(other.alias for other in self.events.types.values() if item.name in other.bare)
            kinds = f"{sql_type(item.type)} in {first} and {sql_type(found)} in {source.alias}"
            text = f"'{item.name}' is {kinds}; give one of them another name or type"
            raise TypeMistake(text, source.place)

    # -- query ------------------------------------------------------------------------------------------------------------

    def _query(self) -> EventQuery:
        event, options = self.event, self.options
        key = dict.fromkeys(self._column(word) for word in event.key)
        within = None if event.within is None else self._length(event.within)
        strategy, place = event.strategy or (Strategy.ANY, event.place)
        try:
            return EventQuery(
                self.pattern, tuple(key), tuple(self._conditions()), within, strategy,
                EventOrder(options["order"]), options["reuse"] == "true", LastRun(options["kleene_last"]),
                self.events.type_column, options.get("position", ""), self._ttl(), self._ends(within),
                int(options.get("max_runs_per_key", EventQuery.most_runs)), Lists(options["kleene"]), self._identity(),
                options["dedup_branches"] == "true",
            )  # fmt: skip
        except InvalidEventPattern as error:
            is_located = error.place is not None and error.place.line
            raise error if is_located else error.at(place) from None

    def _ends(self, within: int | None) -> tuple[str, ...]:
        """Types that end a trace, so that the key names another one: those named, and those of constraints with REUSE KEYS."""
        if self.rules is None:
            return self.terminal
        theory = Theory(self.rules.rules.extended(sorted({*types_of(self.pattern), *self.terminal})))
        ends = theory.members(theory.terminals)
        if self.rules.reuse_keys:
            return tuple(dict.fromkeys((*self.terminal, *ends)))
        if ends and within is None and not self.terminal and "trace_ttl" not in self.options:
            raise InvalidEventPattern(
                f"state is unbounded: that nothing comes after {' or '.join(ends)} can be told only while the key is remembered; "
                f"give WITHIN or OPTIONS (trace_ttl '1 day'), or write REUSE KEYS behind constraint '{self.rules.name}' "
                "(ps.match: reuse_keys=True): what comes after the end of a trace then begins a new one"
            )
        return self.terminal

    def _length(self, amount: Amount) -> int:
        return length(amount, self.context.clock)

    def _column(self, word: Word) -> str:
        """A column all events have: they agree on it."""
        if word.text not in self.events.schema:
            raise UnknownColumn(self.events.schema.owner, word.text, self.events.schema.names, word.place)
        for leaf in self.leaves.values():
            for kind in leaf.types:
                self._check_attribute(kind, word.text, word.place)
        return self.events.schema[word.text].name

    def _check_attribute(self, kind: str, name: str, place: Place | None) -> None:
        source = self.events.types.get(kind.lower())
        if source is not None and name not in source.bare:
            raise UnknownColumn(source.bare.owner, name, source.bare.names, place)

    def _conditions(self) -> Iterable[Expr]:
        for leaf, written in zip(leaves_of(self.pattern), self.event.leaves, strict=True):
            if written.condition is not None:
                yield self._checked(self._read(_qualified(written.condition, leaf.variable)))
        for condition in self.event.conditions:
            yield self._checked(self._read(condition))

    def _read(self, tree: exp.Expr) -> Expr:
        for call in tree.find_all(exp.AggFunc):
            name = call.sql_name().lower()
            text = f"{name} takes an attribute of a variable: {name}(a.price), or {name}(a[..i-1].price) of earlier events"
            raise SyntaxMistake(text, self.context.text.place_of(call))
        return from_sqlglot(tree, self.context.text.source, self.context.text.sql, self.context.functions)

    def _checked(self, expr: Expr) -> Expr:
        """The expression, after a look whether each attribute is one of its event's type."""

        def check(column: Column) -> Column:
            if column.name.lower() in (*_OWN, *(word.text.lower() for word in self.event.key)):
                return column
            ref = reference(column.name, column.place)
            leaf = self.leaves.get(ref.variable.lower())
            if leaf is None:
                names = [each.variable for each in self.leaves.values()]
                raise InvalidEventPattern(
                    f"the pattern has no variable '{ref.variable}'; {suggestion(ref.variable, names)}", column.place
                )
            if ref.attribute and not any(self._has(kind, ref.attribute) for kind in leaf.types):
                self._check_attribute(leaf.types[0], ref.attribute, column.place)
            return column

        return transform(expr, check)

    def _has(self, kind: str, attribute: str) -> bool:
        source = self.events.types.get(kind.lower())
        return attribute in (self.events.schema if source is None else source.bare)

    # -- output -----------------------------------------------------------------------------------------------------------

    def _output(self) -> MatchOutput:
        rows = RowsPerMatch.ALL if self.event.returns_events else RowsPerMatch.ONE
        if self.event.returned is None:
            return MatchOutput(rows, (), self._shown(), tuple(self._own_columns()))
        measures = tuple(self._measure(tree) for tree in self.event.returned)
        return MatchOutput(rows, measures, self._shown() if self.event.returns_events else ())

    def _shown(self) -> tuple[str, ...]:
        """Columns of the events; of merged streams what tells the type only where a variable does not."""
        is_known = all(len(leaf.types) == 1 for leaf in self.leaves.values())
        hidden = self.events.type_column if self.events.types and is_known else ""
        names = [name for name in self.events.schema.names if name != hidden]
        kinds = [kind for leaf in self.leaves.values() if isinstance(leaf, Atom) for kind in leaf.types]
        # What only absent events have is nowhere to be seen.
        return tuple(name for name in names if name == self.events.type_column or any(self._has(kind, name) for kind in kinds))

    def _own_columns(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Columns of each variable, where its types do not have those of all others: own_columns of the output."""
        for leaf in self.leaves.values() if self.events.types else ():
            if isinstance(leaf, Atom):
                hidden = self.events.type_column if len(leaf.types) == 1 else ""
                named = [name for name in self.events.schema.names if name != hidden]
                yield leaf.variable, tuple(name for name in named if self._shows(leaf, name))

    def _shows(self, leaf: Atom, name: str) -> bool:
        return name == self.events.type_column or any(self._has(kind, name) for kind in leaf.types)

    def _measure(self, tree: exp.Expr) -> tuple[str, Expr]:
        inner = tree.this if isinstance(tree, exp.Alias) else tree
        expr = transform(self._checked(self._read(inner)), self._measured)
        if isinstance(tree, exp.Alias):
            return tree.alias, expr
        if isinstance(expr, Column):
            return re.sub(r"\W+", "_", expr.name).strip("_"), expr
        raise SyntaxMistake(f"the measure '{expr}' has no name; write {expr} AS name", expr.place)

    def _measured(self, column: Column) -> Column:
        """Key columns and times of the match as they are spelled."""
        known = {name.lower(): name for name in (*_OWN, *(self.events.schema[word.text].name for word in self.event.key))}
        return replace(column, name=known.get(column.name.lower(), column.name))

    # -- options ----------------------------------------------------------------------------------------------------------

    def _identity(self) -> str:
        """The column that tells which event a row is, where rows that repeat an event are to be passed over."""
        place = self.event.options_place or self.event.place
        if self.options["dedup"] == "true":
            return self._column(Word(self.options.get("event_id", "event_id"), place))
        if "event_id" in self.options:
            raise SyntaxMistake("option 'event_id' names the column by which 'dedup true' tells repeated events", place)
        return ""

    def _ttl(self) -> int | None:
        """`trace_ttl '1 hour'`, or a number where time has no units."""
        written, place = self.options.get("trace_ttl"), self.event.options_place
        if written is None or place is None:
            return None
        words = [Word(word, place) for word in written.split()]
        if not words or len(words) > 2:
            raise SyntaxMistake(f"option 'trace_ttl' is '{written}'; write for example '1 hour'", place)
        return self._length(Amount(((words[0], words[1] if len(words) > 1 else None),)))


def _declared(source: Input) -> str:
    """The name of a stream or query as it was declared."""
    node = source.node
    return node.source_name or source.alias


def _qualified(condition: exp.Expr, variable: str) -> exp.Expr:
    """The condition in brackets behind an event: bare names are its attributes."""
    tree = condition.copy()
    for column in list(tree.find_all(exp.Column)):
        if column.table or "." in column.name or any(column.name.lower().startswith(f"{name}(") for name in FUNCTIONS):
            continue
        bound = named(f"{variable}.{column.name}", column)
        if column is tree:
            return bound
        column.replace(bound)
    return tree
