"""Logical operators of event patterns: events of several streams as one, and the search for matches among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from penstock.errors import InvalidPlan, TypeMistake
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.event_references import references_of
from penstock.expressions.match_output import MatchOutput, RowsPerMatch
from penstock.expressions.match_schema import columns_read, output_schema, reference_schema, spelled
from penstock.expressions.nodes import Column
from penstock.expressions.typing import type_of
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import registered, watched_types, why_unwatched
from penstock.metadata.constraints.registration import Registration, terminal_types
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.event_patterns import EventOrder, LastRun, Lists, Repeat, Strategy, absences_of, atoms_of
from penstock.model.schema import TIMESTAMP, Schema, sql_type
from penstock.plan.nodes.base import Keys, OverOne, RowTimes, Spread, enough
from penstock.plan.nodes.relational import Union
from penstock.plan.nodes.wording import item_text, length_text


@dataclass(frozen=True)
class Merged(Union):
    """Rows of several streams as one stream of events, spread by `keys`; no two rows have the same position.

    A union would go where its inputs are. Here it is known who reads it, so that rows go there at once.
    """

    keys: tuple[str, ...] = ()

    def describe(self) -> list[str]:
        return [f"Merged {len(self.parts)} streams of events"]

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        places = [self.schema.index(name) for name in self.keys]
        return [tuple(part.schema.names[at] for at in places) for part in self.parts]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return (self.keys,)


@dataclass(frozen=True)
class PatternMatch(OverOne):
    """Matches of an event query; whoever builds it gives these fields, everything else follows from them.

    Parameters
    ----------
    input
        The events: one stream with a column of types, or a `Merged` of several streams that are a type each.
    query
        Pattern, key, conditions, window and rules of the search. Names are brought into the spelling of `input` here.
    output
        One row per match or per event, measures, columns shown; resolved here.
    constraints
        What the process behind the events obeys; None: nothing is declared. They end hopeless traces early.
    on_violation
        What happens to events that break a constraint.
    is_exact
        Whether the rest of the query is refuted anew after every event, instead of by tables.
    must_watch
        Whether constraints are watched even where that is estimated to cost more time than it saves: somebody wants to see what
        breaks them.

    Notes
    -----
    The query's key spreads the rows over shards; without key one shard has them all. Output time is the moment a match is
    decided. Punctuations end here.

    Raises
    ------
    UnknownColumn
        Key, type, position, a condition or a measure names a column events do not have.
    TypeMistake
        A condition is neither true nor false.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> from penstock.model.declarations import Source, StreamDeclaration
    >>> from penstock.model.event_patterns import atom, seq
    >>> from penstock.plan.nodes.relational import Scan
    >>> columns = Schema.of(type=pa.string(), id=pa.int64(), price=pa.float64(), ts=pa.int64())
    >>> events = Scan(StreamDeclaration("events", columns, Source("feed"), "ts"))
    >>> rise = EventQuery(seq(atom("A", "a"), atom("B", "b")), ("ID",), (parse("a.price < b.PRICE"),), within=10)
    >>> node = PatternMatch(events, rise, MatchOutput(measures=(("gain", parse("b.price - a.price")),)))
    >>> node.query.key, node.schema.names, node.needs
    (('id',), ('id', 'gain'), ('type', 'id', 'price'))
    """

    query: EventQuery
    output: MatchOutput = field(default_factory=MatchOutput)
    constraints: ConstraintSet | None = None
    on_violation: ViolationPolicy = ViolationPolicy.RECORD
    is_exact: bool = False
    # No part of the node's name: what is kept for a query does not depend on it.
    must_watch: bool = field(default=True, repr=False)
    #: The input has been reduced to events that matter; it means nothing for the answer.
    is_filtered: bool = field(default=False, compare=False, repr=False)
    row_times: ClassVar[RowTimes] = RowTimes.OF_ANSWERS

    def __post_init__(self) -> None:
        events, query = self.input.schema, self.query
        key = tuple(events[name].name for name in query.key)
        position = events[query.position_column].name if query.position_column else ""
        conditions = tuple(spelled(condition, query, events) for condition in query.conditions)
        kind = events[query.type_column].name
        identity = events[query.id_column].name if query.id_column else ""
        query = replace(query, key=key, conditions=conditions, type_column=kind, position_column=position, id_column=identity)
        resolved = self.output.resolved(query)
        measures = tuple((name, spelled(expr, query, events)) for name, expr in resolved.measures)
        shown = tuple(events[name].name for name in resolved.columns)
        own = tuple((name, tuple(events[column].name for column in columns)) for name, columns in resolved.own_columns)
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "output", replace(resolved, measures=measures, columns=shown, own_columns=own))
        self._check()

    @property
    def needs_every_row(self) -> str:
        if self.constraints is not None:
            return "constraints on its events"
        if absences_of(self.query.pattern):
            return "negation"
        # Where events are chosen, another one would be chosen instead of one that is left out.
        repeats = any(atom.repeat is not Repeat.ONCE for atom in atoms_of(self.query.pattern))
        return "" if self.query.strategy is Strategy.ANY and not repeats else f"an event pattern with {self.query.strategy}"

    def _check(self) -> None:
        events, query = self.input.schema, self.query
        if not pa.types.is_string(kind := events[query.type_column].type):
            raise TypeMistake(f"the type of an event is a text; column '{query.type_column}' is {sql_type(kind)}")
        if query.position_column and not pa.types.is_integer(kind := events[query.position_column].type):
            raise TypeMistake(f"the number of an event is an integer; column '{query.position_column}' is {sql_type(kind)}")
        for condition in query.conditions:
            kind = type_of(condition, reference_schema(references_of(condition), events))
            if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
                raise TypeMistake(f"a condition must be true or false; '{condition}' is {sql_type(kind)}", condition.place)
        if self.constraints is not None and not query.key:
            raise InvalidPlan("constraints speak of traces, and a query without key has none; name the key: [order_id]")

    @cached_property
    def schema(self) -> Schema:
        return output_schema(self.query, self.output, self.input.schema, self.time_type)

    @property
    def time_type(self) -> pa.DataType:
        """Type of the times of a match."""
        return TIMESTAMP if self.has_clock_time else pa.int64()

    @property
    def streams(self) -> int:
        """How many streams the events come from."""
        return len(self.input.parts) if isinstance(self.input, Merged) else 1

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the input that the search or its output reads."""
        return columns_read(self.query, self.output, self.input.schema)

    @property
    def reasoning(self) -> ConditionOptions:
        """How constraints are compiled."""
        return ConditionOptions(exact=self.is_exact, is_thrifty=not self.must_watch)

    @cached_property
    def _registration(self) -> Registration | None:
        if self.constraints is None:
            return None
        return registered(self.query, self.constraints, self.reasoning, on_static_unsat="empty")

    @cached_property
    def unwatched(self) -> str:
        """Why constraints are not watched although they are declared; "" if they are, or there are none."""
        registration = self._registration
        return "" if registration is None or self.must_watch else why_unwatched(self.query, registration)

    @property
    def shown_key(self) -> tuple[str, ...]:
        """Key columns that the output shows under their own name."""
        hidden = {name for name, expr in self.output.measures if expr != Column(name)}
        return tuple(name for name in self.query.key if name not in hidden)

    @cached_property
    def relevant_types(self) -> frozenset[str] | None:
        """The only types that can change the answer; None: an event of any type may, as it breaks contiguity.

        Constraints also speak of types that the pattern does not name.
        """
        if self.query.strategy not in (Strategy.ANY, Strategy.NEXT):
            return None
        registration = self._registration
        if registration is None or self.unwatched:
            return self.query.types
        return self.query.types | watched_types(self.query, registration) | frozenset(terminal_types(registration))

    def describe(self) -> list[str]:
        query, clock = self.query, self.has_clock_time
        within = [] if query.within is None else [f"within {length_text(query.within, clock)}"]
        ttl = [] if query.trace_ttl is None else [f"trace_ttl {length_text(query.trace_ttl, clock)}"]
        ends = [f"until {' or '.join(query.terminal)}"] if query.terminal else []
        key = f" by {', '.join(query.key)}" if query.key else ""
        # References are names with brackets; the marks around such a name say nothing here.
        conditions = [f"where {condition}".replace("`", "") for condition in query.conditions]
        head = f"PatternMatch {query.pattern}{key} [{', '.join((*within, *ttl, *ends))}]"
        return [head, ", ".join(_rules(query)), *conditions, *_shown(self.output)]

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        return set(self.needs)

    def keys_of(self, port: int) -> Keys:
        return self.query.key

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        return [enough(self.query.key, known[0])]

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        return tuple(keys for keys in wanted if keys is not None and set(keys) <= set(self.shown_key))


def _rules(query: EventQuery) -> list[str]:
    """How matches are chosen, as far as it is not the usual way."""
    rules = [str(query.strategy)]
    rules += [f"order {query.order}"] if query.order is not EventOrder.TIMESTAMP else []
    rules += [] if query.reuse else ["no event twice in a match"]
    rules += [] if query.last_run is LastRun.EVERY else ["the longest run at the end"]
    rules += [] if query.lists is Lists.ENUMERATE else ["one list of all candidates"]
    rules += [f"each {query.id_column} once"] if query.id_column else []
    return [*rules, *(["alternatives with the same events once"] if query.dedup_branches else [])]


def _shown(output: MatchOutput) -> list[str]:
    rows = ["a row for each event of a match"] if output.rows is RowsPerMatch.ALL else []
    measures = ", ".join(item_text(name, expr) for name, expr in output.measures).replace("`", "")
    return [*rows, *([f"shows {measures}"] if output.measures else [])]
