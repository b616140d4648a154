"""Constraints under a name, as an application declares them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import InvalidConstraint
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.violations import ViolationPolicy


@dataclass(frozen=True, slots=True)
class DeclaredConstraints:
    """What holds for the traces of one stream of events.

    Parameters
    ----------
    stream
        The stream with a column of types; "" where every type is a stream of its own.
    on_violation
        What happens to events that break them.
    reuse_keys
        Whether a key names a new trace after a type that ends one. Otherwise what comes then breaks the constraint.
    lists_all_types
        Whether the stream has no events of other types than those of the rules, as where they come from a workflow.
    shows_violations
        Whether somebody has said what happens to such events, and so wants to see them. Otherwise constraints are watched only
        where that pays.
    """

    name: str
    stream: str
    rules: ConstraintSet
    on_violation: ViolationPolicy = ViolationPolicy.RECORD
    reuse_keys: bool = False
    lists_all_types: bool = False
    shows_violations: bool = True

    def is_about(self, stream: str) -> bool:
        return self.stream.lower() == stream.lower()

    def has_key(self, key: Iterable[str]) -> bool:
        return {name.lower() for name in self.rules.key} == {name.lower() for name in key}


def united(declared: Iterable[DeclaredConstraints], key: tuple[str, ...]) -> DeclaredConstraints | None:
    """All of them as one, for traces with this key; None for none.

    Raises
    ------
    InvalidConstraint
        They ask for different things when they are broken.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> one = DeclaredConstraints("one", "s", ConstraintSet(("id",), ("A", "B"), (prior("A", "B"),)))
    >>> other = DeclaredConstraints("other", "s", ConstraintSet(("id",), ("B", "C"), (prior("B", "C"),)))
    >>> united([one, other], ("id",)).rules.event_types
    ('A', 'B', 'C')
    """
    found = list(declared)
    if not found:
        return None
    first = found[0]
    for other in found[1:]:
        if other.on_violation is not first.on_violation:
            raise InvalidConstraint(
                f"'{first.name}' and '{other.name}' speak of the same traces and meet violations by {first.on_violation} and by "
                f"{other.on_violation}; choose one"
            )
    types = tuple(dict.fromkeys(name for each in found for name in each.rules.event_types))
    constraints = tuple(dict.fromkeys(one for each in found for one in each.rules.constraints))
    rules = ConstraintSet(key, types, constraints, all(each.rules.is_trusted for each in found))
    reuse_keys = any(each.reuse_keys for each in found)
    shows = any(each.shows_violations for each in found)
    names = ", ".join(each.name for each in found)
    return DeclaredConstraints(names, first.stream, rules, first.on_violation, reuse_keys, shows_violations=shows)
