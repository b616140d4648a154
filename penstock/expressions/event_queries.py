"""An event query: a pattern, the conditions its events meet, and the rules of the search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.errors import InvalidEventPattern, suggestion
from penstock.expressions.event_references import At, Reference, reference, references_of
from penstock.expressions.nodes import Column, Expr, conjuncts, transform
from penstock.model.event_patterns import (
    Absent,
    Atom,
    EventOrder,
    EventPattern,
    LastRun,
    Lists,
    Strategy,
    absences_of,
    atoms_of,
    leaves_of,
    normalised,
)
from penstock.model.pattern_terms import Term, terms_of


@dataclass(frozen=True)
class EventQuery:
    """What is sought in a stream of typed events; checks itself when built.

    Parameters
    ----------
    pattern
        Which events; brought into normal form here.
    key
        Columns on which all events of a match agree: they make the trace. A row with a NULL there is in no trace.
    conditions
        What events must satisfy; columns are references (`event_references`). Conjunctions are split.
    within
        Greatest distance of the last event from the first, inclusive; None for no window.
    strategy, order, reuse, last_run
        The rules of the search. `reuse` lets one event serve in two branches of an AND.
    type_column, position_column
        Where a row says what type it has, and, for strict contiguity, its number in the whole stream.
    trace_ttl
        A trace ends when this much time passes without an event of a type the query names.
    terminal
        Types that end a trace.
    most_runs
        Partial matches one trace may have before the query is stopped.
    lists
        Collapsed, `k` candidates for a list make one match with all of them and not `2^k - 1`; `match_count` tells how many
        it stands for. No condition may compare events of such a list.
    id_column
        Where a row says which event it is: of rows of one trace with the same value only the first counts, those of a window
        where there is one. Nothing: each row is an event of its own.
    dedup_branches
        Whether several alternatives that take the same events make one match, that of the first of them.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> from penstock.model.event_patterns import atom, seq
    >>> query = EventQuery(seq(atom("A", "a"), atom("B", "b")), ("id",), (parse("a.x < b.x AND b.x > 3"),), within=10)
    >>> [str(condition) for condition in query.conditions]
    ['a.x < b.x', 'b.x > 3']
    """

    pattern: EventPattern
    key: tuple[str, ...] = ()
    conditions: tuple[Expr, ...] = ()
    within: int | None = None
    strategy: Strategy = Strategy.ANY
    order: EventOrder = EventOrder.TIMESTAMP
    reuse: bool = True
    last_run: LastRun = LastRun.EVERY
    type_column: str = "type"
    position_column: str = ""
    trace_ttl: int | None = None
    terminal: tuple[str, ...] = ()
    most_runs: int = 100_000
    lists: Lists = Lists.ENUMERATE
    id_column: str = ""
    dedup_branches: bool = False
    terms: tuple[Term, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "pattern", normalised(self.pattern))
        set_field(self, "terms", terms_of(self.pattern))
        parts = tuple(part for condition in self.conditions for part in conjuncts(condition))
        set_field(self, "conditions", tuple(self._resolved(part) for part in parts))
        self._check_bounds()
        self._check_strategy()
        if self.lists is Lists.COLLAPSE:
            check_collapsible(self)
        if self.dedup_branches:
            self._check_branches()

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        return atoms_of(self.pattern)

    @cached_property
    def absences(self) -> tuple[Absent, ...]:
        return absences_of(self.pattern)

    @cached_property
    def leaves(self) -> dict[str, Atom | Absent]:
        """Leaves by variable in lower case."""
        return {leaf.variable.lower(): leaf for leaf in leaves_of(self.pattern)}

    @property
    def types(self) -> frozenset[str]:
        """Types the search needs to see."""
        return frozenset(kind for leaf in self.leaves.values() for kind in leaf.types) | frozenset(self.terminal)

    def _resolved(self, condition: Expr) -> Expr:
        return transform(condition, lambda column: replace(column, name=str(self._known(column))))

    def _known(self, column: Column) -> Reference:
        """The reference with the variable as declared; for a repeated one a plain attribute means every event."""
        found = reference(column.name, column.place)
        leaf = self.leaves.get(found.variable.lower())
        if leaf is None:
            names = [each.variable for each in self.leaves.values()]
            message = f"the pattern has no variable '{found.variable}'; {suggestion(found.variable, names)}"
            raise InvalidEventPattern(message, column.place)
        found = replace(found, variable=leaf.variable)
        if isinstance(leaf, Atom) and leaf.is_repeated:
            return replace(found, at=At.CURRENT) if found.at is At.ONLY and not found.function else found
        if found.at is not At.ONLY or found.function:
            raise InvalidEventPattern(f"'{column.name}' asks for one of several events, but {leaf} is one event", column.place)
        return found

    def _check_bounds(self) -> None:
        if self.within is not None and self.within < 0:
            raise InvalidEventPattern(f"WITHIN {self.within} is negative")
        if self.within is None:
            for term in self.terms:
                if any(not absence.after or not absence.before for absence in term.absences):
                    raise InvalidEventPattern("an absence at the start or end of a pattern needs WITHIN")
            if self.trace_ttl is None and not self.terminal:
                raise InvalidEventPattern("state is unbounded: give WITHIN, a trace_ttl, or types that end a trace")
        for condition in self.conditions:
            negated = {ref.variable for ref in references_of(condition)} & {leaf.variable for leaf in self.absences}
            if len(negated) > 1:
                raise InvalidEventPattern(f"'{condition}' compares two absent events; use one condition for each")
            iterated = {ref.variable for ref in references_of(condition) if ref.is_iterated}
            if len(iterated) > 1 or (iterated and negated):
                raise InvalidEventPattern(f"'{condition}' runs over the events of more than one variable")

    def _check_strategy(self) -> None:
        chains = all(term.is_chain for term in self.terms)
        if self.strategy is not Strategy.ANY and not chains:
            raise InvalidEventPattern(f"AND needs {Strategy.ANY}; {self.strategy} follows one sequence of events")
        if self.strategy is Strategy.STRICT and not self.position_column:
            raise InvalidEventPattern(
                f"{Strategy.STRICT} needs a column with each row's number in the whole stream; use {Strategy.PARTITION} otherwise"
            )
        if self.last_run is LastRun.MAXIMAL and self.strategy is Strategy.ANY:
            raise InvalidEventPattern(f"under {Strategy.ANY} every part of a run is a match: the longest run needs {Strategy.NEXT}")

    def _check_branches(self) -> None:
        """Matches of several alternatives can be compared only where they are decided at the same time."""
        waits = {any(not absence.before for absence in term.absences) for term in self.terms}
        if len(waits) > 1 or self.last_run is LastRun.MAXIMAL:
            raise InvalidEventPattern(
                "dedup_branches compares alternatives as they are decided, and these are decided at different times: an absence "
                f"ends some of them, or {LastRun.MAXIMAL} lists do"
            )


def check_collapsible(query: EventQuery) -> None:
    """Refuse to collapse lists where not every part of all candidates is a match.

    Raises
    ------
    InvalidEventPattern
        Some list must be chosen event by event.
    """
    if query.strategy is not Strategy.ANY:
        raise InvalidEventPattern(f"only {Strategy.ANY} takes every part of a list; {query.strategy} has nothing to collapse")
    repeated = {leaf.variable for leaf in query.atoms if leaf.is_repeated}
    for condition in query.conditions:
        refs = references_of(condition)
        is_own = len({ref.variable for ref in refs}) == 1 and all(ref.at is At.CURRENT and not ref.function for ref in refs)
        if any(ref.variable in repeated for ref in refs) and not is_own:
            raise InvalidEventPattern(f"a collapsed list has all candidates, and '{condition}' chooses among them")
    for term in query.terms:
        places = {place for place, number in enumerate(term.leaves) if query.atoms[number].is_repeated}
        if places:
            _check_collapsible_term(query, term, places)


def _check_collapsible_term(query: EventQuery, term: Term, repeated: set[int]) -> None:
    if any(not term.successors[place] for place in repeated):
        raise InvalidEventPattern("a list at the end of a pattern never stops growing; put an event behind a collapsed list")
    if any(repeated & set(term.predecessors[place]) for place in repeated):
        raise InvalidEventPattern("of two lists one behind the other each limits the other; collapse lists with an event between")
    if any(not absence.before or repeated & {*absence.after, *absence.before} for absence in term.absences):
        raise InvalidEventPattern("a collapsed list has no absence beside it, nor one at the end of the pattern")
    if not query.reuse and not term.is_chain:
        raise InvalidEventPattern("without reuse of events a list in an AND depends on the other events; it cannot be collapsed")
