"""Data that break the constraints: found by two mask tests per event and one at the end of a trace, never lost silently.

A trace that was given up matches only if it breaks a constraint. The tests use what follows from the constraints, not only
what is written, and need no other types than a query's relevant ones: whenever giving up lost a match, a violation is found,
at the latest when the trace ends.

Three policies say what then happens. `record` gives traces up and writes every violation, with a note whether matches may be
missing; `error` stops at the first violation; `shadow` gives nothing up, so that the answer is that of an engine without
constraints, and counts what giving up would have saved and which matches it would have lost. Constraints mined from logs are
hypotheses: run them in the shadow first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.theory import Proof, Theory, bits


class ViolationPolicy(StrEnum):
    """What happens when data break a constraint."""

    RECORD = "record"
    ERROR = "error"
    SHADOW = "shadow"


def policy_for(constraints: ConstraintSet, wanted: ViolationPolicy = ViolationPolicy.RECORD) -> ViolationPolicy:
    """The wanted policy, or the shadow for constraints that nobody vouches for.

    Examples
    --------
    >>> policy_for(ConstraintSet(("id",), ("A",), (), is_trusted=False)).value
    'shadow'
    """
    return wanted if constraints.is_trusted else ViolationPolicy.SHADOW


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken constraint.

    Attributes
    ----------
    kind
        `occurrence`: types that never occur together did; `order`: an event came too late; `missing`: a type that was
        needed had not come when the trace ended.
    event_type
        Type of the event that showed it; for `missing`, the type that did not come.
    other
        The earlier type it contradicts, or "" where several do.
    was_pruned
        The trace was given up before or with it, so matches of it may be missing from the answer.
    was_released
        A match that waited for this event not to come had been reported before, so it may be false.
    """

    kind: Literal["occurrence", "order", "missing"]
    event_type: str
    other: str
    proof: Proof
    was_pruned: bool
    was_released: bool = False

    def __str__(self) -> str:
        lost = "; the trace has been given up, matches of it may be missing" if self.was_pruned else ""
        false = "; its matches no longer waited for such an event, so that one of them may be false" if self.was_released else ""
        return f"{self.kind}: {self.event_type}{' with ' + self.other if self.other else ''}: {self.proof}{lost}{false}"


class ViolationDetector:
    """Finds violations of one set of constraints.

    Attributes
    ----------
    exclusive
        `exclusive[x]`: types that contradict x, itself if it never occurs.
    order
        `order[x]`: types that must not have been seen strictly before an x.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> detector = ViolationDetector(Theory(ConstraintSet((), ("A", "B"), (prior("A", "B"),))))
    >>> [str(found) for found in detector.on_event(0, seen=0b10, together=0b01)]
    ['order: A with B: no A comes after a B by prior(A, B)']
    """

    def __init__(self, theory: Theory, visible: int = -1) -> None:
        self.theory, self.visible = theory, visible
        numbers = range(len(theory.names))
        self.exclusive = tuple(self._contradicted_by(one) for one in numbers)
        self.order = tuple(sum(1 << other for other in numbers if theory.kills[other] >> one & 1) for one in numbers)

    def on_event(self, number: int, seen: int, together: int, was_pruned: bool = False) -> list[Violation]:
        """Pairs that an event breaks, with types seen before its group and with those in it that it reports on."""
        found = [self._occurrence(number, other, was_pruned) for other in bits(self.exclusive[number] & (seen | together))]
        return found + [self._order(number, other, was_pruned) for other in bits(self.order[number] & seen)]

    def on_end(self, seen: int, was_pruned: bool = False, wide: bool = False) -> list[Violation]:
        """Violations shown by the end of a trace that had these types.

        `wide`: also contradictions between three and more types, for a caller that looked at pairs only until now.
        """
        found = []
        if wide and self.theory.is_contradiction(seen) and not any(self.exclusive[number] & seen for number in bits(seen)):
            found.append(Violation("occurrence", "", "", self.theory.proof(seen, self.theory.falsity), was_pruned))
        missing = self.theory.closure(seen) & ~seen & (self.theory.falsity - 1) & self.visible
        return found + [
            Violation("missing", self.theory.names[number], "", self.theory.proof(seen, 1 << number), was_pruned)
            for number in bits(missing)
        ]

    def _contradicted_by(self, one: int) -> int:
        if self.theory.is_contradiction(1 << one):
            return 1 << one
        return sum(1 << other for other in range(len(self.theory.names)) if self._contradict(one, other))

    def _contradict(self, one: int, other: int) -> bool:
        return self.theory.excludes(one, other) and not self.theory.is_contradiction(1 << other)

    def _occurrence(self, number: int, other: int, was_pruned: bool) -> Violation:
        proof = self.theory.proof(1 << number | 1 << other, self.theory.falsity)
        names = self.theory.names
        return Violation("occurrence", names[number], "" if other == number else names[other], proof, was_pruned)

    def _order(self, number: int, other: int, was_pruned: bool) -> Violation:
        proof = Proof((self.theory.order_line(number, other),), (self.theory.order_sources[number, other],))
        return Violation("order", self.theory.names[number], self.theory.names[other], proof, was_pruned)
