"""A pattern as alternatives: each choice among `Or` and `E*` gives one term, a partial order of events.

A match belongs to exactly one term, so engines, reasoners and explanations can treat a pattern as the union of its terms.

Examples
--------
>>> from penstock.model.event_patterns import absent, both, either, normalised, seq
>>> [term] = terms_of(normalised(seq("A", both("B", "C"), absent("N"), "D")))
>>> term.leaves, term.predecessors
((0, 1, 2, 3), ((), (0,), (0,), (1, 2)))
>>> term.absences
(Absence(number=0, after=(1, 2), before=(3,)),)
>>> [term.leaves for term in terms_of(normalised(either("A", seq("B", "C"))))]
[(0,), (1, 2)]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from penstock.errors import InvalidEventPattern
from penstock.model.event_patterns import Absent, Atom, EventPattern, Or, Repeat, Seq, absences_of, atoms_of

#: More alternatives than this are refused: each has tables of its own.
MOST_TERMS = 4096


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated leaf in a term: none of its events later than all of `after` and earlier than all of `before`.

    `after` empty means from the start of the window, `before` empty until its end; both hold places in `Term.leaves`.
    """

    number: int
    after: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """One way to match a pattern.

    Parameters
    ----------
    leaves
        Numbers of the atoms that take part, ascending; an atom's number is its place in `atoms_of(pattern)`.
    predecessors
        For each of `leaves`, the places (in `leaves`) of those directly before it; all are strictly earlier.
    absences
        Negated leaves that apply.
    branch
        Which alternative was chosen at each `Or` and `E*` met, left to right; 0 for an `E*` left out, 1 for one taken.
    """

    leaves: tuple[int, ...]
    predecessors: tuple[tuple[int, ...], ...]
    absences: tuple[Absence, ...] = ()
    branch: tuple[int, ...] = ()

    @property
    def sinks(self) -> tuple[int, ...]:
        """Places of leaves that nothing follows: a match ends in one of them."""
        followed = {place for places in self.predecessors for place in places}
        return tuple(place for place in range(len(self.leaves)) if place not in followed)

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(place for place, before in enumerate(self.predecessors) if not before)

    @property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        places = range(len(self.leaves))
        return tuple(tuple(later for later in places if place in self.predecessors[later]) for place in places)

    @property
    def is_chain(self) -> bool:
        """Whether the term is a sequence of atoms, without `And`."""
        return all(before == ((place - 1,) if place else ()) for place, before in enumerate(self.predecessors))


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A term being put together; leaves by number, not by place."""

    leaves: tuple[int, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    sources: tuple[int, ...] = ()
    sinks: tuple[int, ...] = ()
    absences: tuple[Absence, ...] = ()
    branch: tuple[int, ...] = ()


def terms_of(pattern: EventPattern) -> tuple[Term, ...]:
    """The alternatives of a normalised pattern, in the order of their branches.

    Raises
    ------
    InvalidEventPattern
        There are more than `MOST_TERMS`.
    """
    atoms = {id(leaf): number for number, leaf in enumerate(atoms_of(pattern))}
    absences = {id(leaf): number for number, leaf in enumerate(absences_of(pattern))}
    found = []
    for fragment in _expanded(pattern, atoms, absences):
        if fragment.leaves:
            found.append(_term(fragment))
        if len(found) > MOST_TERMS:
            raise InvalidEventPattern(f"the pattern has more than {MOST_TERMS} alternatives; use ANY, or fewer OR and E*")
    return tuple(found)


def _term(fragment: _Fragment) -> Term:
    leaves = tuple(sorted(fragment.leaves))
    place = {number: index for index, number in enumerate(leaves)}
    before = tuple(tuple(sorted(place[a] for a, b in fragment.edges if b == number)) for number in leaves)

    def placed(absence: Absence) -> Absence:
        after = tuple(sorted(place[number] for number in absence.after))
        return Absence(absence.number, after, tuple(sorted(place[number] for number in absence.before)))

    return Term(leaves, before, tuple(map(placed, fragment.absences)), fragment.branch)


def _expanded(pattern: EventPattern, atoms: dict[int, int], absences: dict[int, int]) -> Iterator[_Fragment]:
    if isinstance(pattern, Atom):
        number = (atoms[id(pattern)],)
        is_star = pattern.repeat is Repeat.STAR
        if is_star:
            yield _Fragment(branch=(0,))
        yield _Fragment(number, (), number, number, branch=(1,) if is_star else ())
    elif isinstance(pattern, Absent):
        yield _Fragment(absences=(Absence(absences[id(pattern)], (), ()),))
    elif isinstance(pattern, Or):
        for choice, part in enumerate(pattern.parts):
            for fragment in _expanded(part, atoms, absences):
                yield replace(fragment, branch=(choice, *fragment.branch))
    else:
        join = _in_sequence if isinstance(pattern, Seq) else _side_by_side
        for parts in product(*(list(_expanded(part, atoms, absences)) for part in pattern.parts)):
            whole = _Fragment()
            for fragment in parts:
                whole = join(whole, fragment)
            yield whole


def _side_by_side(one: _Fragment, other: _Fragment) -> _Fragment:
    return _Fragment(
        one.leaves + other.leaves,
        one.edges + other.edges,
        one.sources + other.sources,
        one.sinks + other.sinks,
        one.absences + other.absences,
        one.branch + other.branch,
    )


def _in_sequence(one: _Fragment, other: _Fragment) -> _Fragment:
    """`other` after `one`; absences that are open towards each other get the neighbours they lacked."""
    joined = _side_by_side(one, other)
    before = [replace(item, before=item.before or other.sources) for item in one.absences]
    after = [replace(item, after=item.after or one.sinks) for item in other.absences]
    joined = replace(joined, absences=(*before, *after))
    if not one.leaves or not other.leaves:
        return joined
    edges = (*joined.edges, *((sink, source) for sink in one.sinks for source in other.sources))
    return replace(joined, edges=edges, sources=one.sources, sinks=other.sinks)
