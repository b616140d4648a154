"""How the search for event patterns is run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from penstock.expressions.event_queries import EventQuery
from penstock.kernel.contracts import Operator
from penstock.metadata.constraints.describe import describe
from penstock.metadata.constraints.queries import is_forgetful
from penstock.metadata.constraints.registration import Registration
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.event_patterns import Absent, Atom, Lists, Strategy
from penstock.model.pattern_terms import Term
from penstock.operators.patterns.conditions import PatternConditions
from penstock.operators.patterns.operator import PatternMatch
from penstock.plan.nodes import patterns as nodes

#: Alternatives, states and transitions that are listed; of more only the number is said.
_MOST_TERMS, _MOST_STATES = 6, 12


def pattern_recipe(node: nodes.PatternMatch) -> Callable[[], Operator]:
    """How to make the operator; what it refuses, such as a pattern that can never match, is refused now, not in a worker."""
    make = partial(PatternMatch, node.query, node.input.schema.arrow, node.output, node.time_type, streams=node.streams)
    if node.constraints is not None and not node.unwatched:
        make = partial(make, constraints=node.constraints, on_violation=node.on_violation, options=node.reasoning)
    make()
    return make


_ON_VIOLATION = {
    ViolationPolicy.RECORD: "an event that breaks them is set aside with the reason",
    ViolationPolicy.ERROR: "an event that breaks them stops the query",
    ViolationPolicy.SHADOW: "they are only watched, and nothing is given up",
}


def explained_patterns(node: nodes.PatternMatch) -> list[str]:
    """The automaton, when conditions are tested, and what constraints conclude, for explain."""
    query, conditions = node.query, PatternConditions(node.query, node.input.schema)
    return [*_automata(query), *_search(query), *_tests(query, conditions), *_concluded(node)]


def _concluded(node: nodes.PatternMatch) -> list[str]:
    made = pattern_recipe(node)()
    assert isinstance(made, PatternMatch)
    if made.registration is None:
        return [f"{node.unwatched}; ON VIOLATION … or OPTIONS (reasoning 'fast') has them watched"] if node.unwatched else []
    exact = ["the rest of the query is refuted anew after every event"] if node.is_exact else []
    policy = f"constraints; {_ON_VIOLATION[node.on_violation]}"
    return [policy, *describe(made.registration), *exact, *_unchecked(node, made.registration)]


def _unchecked(node: nodes.PatternMatch, registration: Registration) -> list[str]:
    """Which constraints can be broken without anybody noticing, although no answer depends on them."""
    theory, seen = registration.theory, node.relevant_types
    hidden = [] if seen is None else [name for name in theory.members(theory.constrained) if name not in seen]
    found = []
    if hidden:
        found.append(
            f"not checked: constraints on {', '.join(hidden)}, which the search does not look at; OPTIONS (reasoning 'exact') does"
        )
    if is_forgetful(node.query):
        needs = "what REQUIRE and HORN need, and " if any(clause.head != theory.falsity for clause in theory.clauses) else ""
        found.append(f"not checked: {needs}what comes after a silence longer than the window, because a trace is forgotten then")
    return found


# -- automaton --------------------------------------------------------------------------------------------------------


def _automata(query: EventQuery) -> list[str]:
    if len(query.terms) > _MOST_TERMS:
        return [f"automaton: {len(query.terms)} alternatives"]
    name = "automaton" if len(query.terms) == 1 else "automaton of alternative {}"
    return [f"{name.format(number)}: {_automaton(term, query)}" for number, term in enumerate(query.terms)]


def _automaton(term: Term, query: EventQuery) -> str:
    """A chain as a path, anything else as a list of transitions; states are numbered, the last one is a match."""
    absences = [_absence(query.absences[each.number], each.after, each.before, term, query) for each in term.absences]
    atoms = [query.atoms[leaf] for leaf in term.leaves]
    if term.is_chain:
        path = "0" + "".join(f" -{_label(atom)}-> {place + 1}" for place, atom in enumerate(atoms))
        loops = [f"{place + 1} -{_label(atom)}-> {place + 1}" for place, atom in enumerate(atoms) if atom.is_repeated]
        return "; ".join([f"{path} match", *loops, *absences])
    states = list(_states(term))
    if len(states) > _MOST_STATES:
        return "; ".join([f"{len(states)} states over {', '.join(map(_label, atoms))}", *absences])
    number = {state: at for at, state in enumerate(states)}
    steps = [
        f"{number[state]} -{_label(atoms[place])}-> {number[state | {place}]}"
        for state in states
        for place in _enabled(term, state)
    ]
    loops = [
        f"{number[state]} -{_label(atoms[place])}-> {number[state]}"
        for state in states
        for place in sorted(state)
        if atoms[place].is_repeated
    ]
    return "; ".join([f"{', '.join(steps)} match", *loops, *absences])


def _states(term: Term) -> Iterator[frozenset[int]]:
    """Sets of leaves that can have events, smaller ones first."""
    level = {frozenset[int]()}
    while level:
        yield from sorted(level, key=sorted)
        level = {state | {place} for state in level for place in _enabled(term, state)}


def _enabled(term: Term, state: frozenset[int]) -> list[int]:
    places = range(len(term.leaves))
    return [place for place in places if place not in state and set(term.predecessors[place]) <= state]


def _label(leaf: Atom | Absent) -> str:
    types = " or ".join(leaf.types)
    return types if leaf.variable in leaf.types else f"{types} {leaf.variable}"


def _absence(leaf: Absent, after: tuple[int, ...], before: tuple[int, ...], term: Term, query: EventQuery) -> str:
    def named(places: tuple[int, ...]) -> str:
        return " and ".join(query.atoms[term.leaves[place]].variable for place in places)

    if not after or not before:
        return f"no {_label(leaf)} {'before ' + named(before) if before else 'after ' + named(after)} within the window"
    return f"no {_label(leaf)} between {named(after)} and {named(before)}"


# -- conditions -------------------------------------------------------------------------------------------------------


def _search(query: EventQuery) -> list[str]:
    """Which of the two searches runs."""
    enumerates = any(atom.is_repeated for atom in query.atoms) and query.lists is Lists.ENUMERATE
    scanned = query.strategy is Strategy.ANY and not enumerates
    how = "sequence scan and construction over stacks of events" if scanned else "runs, one for each partial match"
    traces = f"a trace for each {', '.join(query.key)}" if query.key else "one trace, in one shard"
    return [f"{how}; {traces}"]


def _tests(query: EventQuery, conditions: PatternConditions) -> list[str]:
    leaves: tuple[Atom | Absent, ...] = (*query.atoms, *query.absences)
    own = [
        f"{leaf.variable}: {' AND '.join(map(str, parts))}" for leaf, parts in zip(leaves, conditions.local, strict=True) if parts
    ]
    growing = [_plain(each.expr) for each in conditions.across if each.program >= 0]
    complete = [_plain(each.expr) for each in conditions.across if each.program < 0]
    found = (("before an event is stored", own), ("while a match grows", growing), ("on complete matches", complete))
    return [f"tested {when}: {'; '.join(texts)}" for when, texts in found if texts]


def _plain(expr: object) -> str:
    """References are names with brackets; the marks around such a name say nothing here."""
    return str(expr).replace("`", "")
