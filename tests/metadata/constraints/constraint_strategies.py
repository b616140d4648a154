"""Random constraints, patterns and traces over a small alphabet."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.metadata.constraints.clauses import Exclusive, Horn, Never, Prior, Require, Terminal
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.model.event_patterns import Or, atom, both, either, normalised, seq

ALPHABET = ("A", "B", "C", "D")
names = st.sampled_from(ALPHABET)
different = st.lists(names, min_size=2, max_size=2, unique=True)


def table_constraints():
    """The three constraint types whose failing conditions show in single events, reflexive order included."""
    return st.one_of(
        st.builds(Prior, names, names),
        different.map(lambda pair: Exclusive(tuple(pair))),
        different.map(lambda pair: Require(*pair)),
    )


def any_constraints():
    bodies = st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)
    clauses = st.builds(Horn, bodies, st.one_of(st.none(), names))
    return st.one_of(table_constraints(), table_constraints(), clauses, st.builds(Terminal, names), st.builds(Never, names))


def constraint_sets(constraints=None, largest=4):
    chosen = any_constraints() if constraints is None else constraints
    return st.lists(chosen, max_size=largest).map(lambda found: ConstraintSet(("id",), ALPHABET, tuple(found)))


def patterns(with_or=True, leaves=4):
    """Patterns over the alphabet, in normal form."""

    def grow(parts):
        several = st.lists(parts, min_size=2, max_size=3)
        kinds = [several.map(lambda p: seq(*p)), several.map(lambda p: seq(*p)), several.map(lambda p: both(*p))]
        return st.one_of(*kinds, *([several.map(lambda p: either(*p))] if with_or else []))

    return st.recursive(names.map(atom), grow, max_leaves=leaves).map(normalised)


def has_or(pattern):
    return isinstance(pattern, Or) or any(has_or(part) for part in getattr(pattern, "parts", ()))


def traces(groups=True, longest=6):
    """Groups of simultaneous events; without groups every event has its own time."""
    size = 2 if groups else 1
    return st.lists(st.lists(names, min_size=1, max_size=size).map(tuple), max_size=longest)
