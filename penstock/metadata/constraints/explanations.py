"""Abduction: which observations would make a query hopeless?

An explanation is a set of types that were seen, and of types that can no longer come although they never came, which
together with the types a query needs contradict the constraints. All inclusion-minimal explanations up to a size are found
by propagating sets of assumptions forward through the clauses until nothing changes; a set that grows beyond the limit, or
that contradicts the constraints by itself, is dropped at once, since whatever contains it is too large or impossible too.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 27.1, with explanations of several
events, which section 32.4 leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from penstock.metadata.constraints.theory import Theory, bits


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of `present` were seen, and all of `absent` never came and cannot come any more."""

    present: int
    absent: int

    @property
    def size(self) -> int:
        return self.present.bit_count() + self.absent.bit_count()


def explanations(theory: Theory, needed: int, largest: int = 3, most: int = 256) -> list[Explanation]:
    """Minimal explanations of why types that a query needs cannot all occur, small ones first.

    Parameters
    ----------
    needed
        Types the query needs. That one of these is itself gone is not listed: the leaf that waits for it tells.
    largest
        Observations an explanation may have.
    most
        Explanations to return; leaving some out costs time at run time, never a match.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import horn
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> theory = Theory(ConstraintSet((), ("A", "B", "C", "X"), (horn("A", "B", "C"),)))
    >>> [theory.members(found.present) for found in explanations(theory, theory.mask(["X", "C"]))]
    [['A', 'B']]
    """
    if theory.is_contradiction(needed):
        return []
    if _has_simple_clauses(theory):
        largest = 1
    width = len(theory.names)
    labels: dict[int, list[int]] = {1 << number: [0 if needed >> number & 1 else 1 << number] for number in range(width)}
    labels[theory.falsity] = []
    rules = [(list(bits(clause.body)), clause.head, 0) for clause in theory.clauses]
    mortal = 0
    for killed in theory.kills:
        mortal |= killed
    # "k never came and cannot come" contradicts k; the assumption is a bit above those of the types.
    rules += [([number], theory.falsity, 1 << (width + number)) for number in bits(mortal & ~needed)]
    changed = True
    while changed:
        changed = False
        for body, head, assumed in rules:
            for parts in product(*(labels[1 << number] for number in body)):
                candidate = assumed
                for part in parts:
                    candidate |= part
                if candidate.bit_count() <= largest and _is_possible(theory, candidate):
                    changed |= _insert(labels[head], candidate)
    present = (1 << width) - 1
    found = [Explanation(label & present, label >> width) for label in labels[theory.falsity] if label]
    return sorted(found, key=lambda item: (item.size, item.absent, item.present))[:most]


def _has_simple_clauses(theory: Theory) -> bool:
    """Whether clauses need one type or exclude two: observations that contradict a query together then contradict each other."""
    return all(clause.body.bit_count() <= (2 if clause.head == theory.falsity else 1) for clause in theory.clauses)


def _is_possible(theory: Theory, assumptions: int) -> bool:
    """Whether a consistent trace can show all this."""
    width = len(theory.names)
    forced = theory.closure(assumptions & ((1 << width) - 1))
    return not forced & (theory.falsity | assumptions >> width)


def _insert(antichain: list[int], candidate: int) -> bool:
    """Keep minimal sets only; whether the candidate is new."""
    if any(not known & ~candidate for known in antichain):
        return False
    antichain[:] = [known for known in antichain if candidate & ~known]
    antichain.append(candidate)
    return True
