"""Constraints over numbered event types: sets are integers, one bit for each type, so that any number of types will do.

Closure under the occurrence clauses is forward chaining (the clauses are Horn clauses, so it is complete). Order constraints
are **not** closed: "no A after a B" and "no B after a C" do not give "no A after a C", because no B need occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.metadata.constraints.clauses import Constraint
from penstock.metadata.constraints.constraint_set import ConstraintSet


@dataclass(frozen=True, slots=True)
class Proof:
    """Why something holds: one line for each step, and the constraints that were used."""

    lines: tuple[str, ...]
    used: tuple[Constraint, ...]

    def __str__(self) -> str:
        return "; ".join(self.lines)


@dataclass(frozen=True, slots=True)
class MaskedClause:
    """A clause over bits; `head` is the bit of the needed type, or of falsity."""

    body: int
    head: int
    source: Constraint


class Theory:
    """The reduced constraints of one process, ready for reasoning.

    Attributes
    ----------
    names
        Declared event types; type `names[i]` is bit `1 << i`.
    falsity
        The bit that stands for a contradiction.
    kills
        `kills[x]`: types that do not come after a type x.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive, require
    >>> theory = Theory(ConstraintSet((), ("J", "K", "E"), (require("J", "K"), exclusive("K", "E"))))
    >>> theory.is_contradiction(theory.mask(["J", "E"]))
    True
    >>> print(theory.proof(theory.mask(["J", "E"]), theory.falsity))
    J needs K by require(J, K); K and E never occur together by exclusive(K, E)
    """

    __slots__ = ("_closures", "clauses", "code", "falsity", "kills", "names", "order_sources")

    def __init__(self, rules: ConstraintSet) -> None:
        self.names = rules.event_types
        self.code = {name: number for number, name in enumerate(self.names)}
        self.falsity = 1 << len(self.names)
        kills = [0] * len(self.names)
        self.order_sources: dict[tuple[int, int], Constraint] = {}
        for order in rules.orders():
            first, second = self.code[order.first], self.code[order.second]
            kills[second] |= 1 << first
            self.order_sources[first, second] = order.source
        self.kills = tuple(kills)
        self.clauses = tuple(
            MaskedClause(
                self.mask(clause.body), self.falsity if clause.head is None else 1 << self.code[clause.head], clause.source
            )
            for clause in rules.clauses()
        )
        self._closures: dict[int, int] = {}

    def mask(self, names: Iterable[str]) -> int:
        """The types as bits."""
        result = 0
        for name in names:
            result |= 1 << self.code[name]
        return result

    def members(self, types: int) -> list[str]:
        """Names of the types in a set, in order of declaration; falsity is left out."""
        return [self.names[number] for number in bits(types & (self.falsity - 1))]

    def closure(self, given: int) -> int:
        """All types that must occur in a trace with the given ones, these included; and falsity, if there is no such trace."""
        known = self._closures.get(given)
        if known is None:
            known = given
            for clause in self._firing(given):
                known |= clause.head
            self._closures[given] = known
        return known

    def is_contradiction(self, given: int) -> bool:
        """Whether no consistent trace contains all given types, for reasons of occurrence alone."""
        return bool(self.closure(given) & self.falsity)

    def excludes(self, one: int, other: int) -> bool:
        """Whether two types, by number, never occur in one trace although the first alone may."""
        return self.is_contradiction(1 << one | 1 << other) and not self.is_contradiction(1 << one)

    def killed_by(self, seen: int) -> int:
        """Types that cannot come any more once these were seen."""
        dead = 0
        for number in bits(seen):
            dead |= self.kills[number]
        return dead

    @property
    def constrained(self) -> int:
        """Types of which some constraint speaks."""
        result = 0
        for first, second in self.order_sources:
            result |= 1 << first | 1 << second
        for clause in self.clauses:
            result |= clause.body | clause.head
        return result & (self.falsity - 1)

    @property
    def terminals(self) -> int:
        """Types after which no declared type comes, themselves included."""
        every = self.falsity - 1
        return sum(1 << number for number, killed in enumerate(self.kills) if killed == every)

    def proof(self, given: int, goal: int) -> Proof:
        """The clauses that lead from the given types to a type (or falsity) of their closure, and no others."""
        reached, steps = given, list[MaskedClause]()
        for clause in self._firing(given):
            if not clause.head & reached:
                steps.append(clause)
                reached |= clause.head
        wanted, kept = goal & ~given, list[MaskedClause]()
        for clause in reversed(steps):
            if clause.head & wanted:
                wanted = (wanted & ~clause.head) | (clause.body & ~given)
                kept.append(clause)
        kept.reverse()
        return Proof(tuple(map(self._sentence, kept)), tuple(dict.fromkeys(clause.source for clause in kept)))

    def order_line(self, first: int, second: int) -> str:
        """One order constraint as a sentence."""
        return f"no {self.names[first]} comes after a {self.names[second]} by {self.order_sources[first, second]}"

    def _sentence(self, clause: MaskedClause) -> str:
        body = " and ".join(self.members(clause.body))
        if clause.head != self.falsity:
            return f"{body} needs {self.members(clause.head)[0]} by {clause.source}"
        never = "never occurs" if clause.body.bit_count() == 1 else "never occur together"
        return f"{body} {never} by {clause.source}"

    def _firing(self, given: int) -> Iterator[MaskedClause]:
        """Clauses whose body holds, each once, in an order in which they can be applied."""
        waiting, reached = list(self.clauses), given
        progress = True
        while progress:
            progress, left = False, []
            for clause in waiting:
                if clause.body & ~reached:
                    left.append(clause)
                else:
                    progress = True
                    reached |= clause.head
                    yield clause
            waiting = left


def bits(mask: int) -> Iterator[int]:
    """Numbers of the bits that are set, lowest first.

    Examples
    --------
    >>> list(bits(0b10110))
    [1, 2, 4]
    """
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
