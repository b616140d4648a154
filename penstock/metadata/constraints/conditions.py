"""Failing conditions of a query, found before the first event: what a run consults per event is a table look-up.

For Table 25.1 constraints every reason why a trace becomes hopeless shows in one event x:

======== ================================================ ==================================================
Kind     Because                                          Condition
======== ================================================ ==================================================
global   x and a needed type never occur together         x was seen
absence  a needed type needs K, and no K comes after x    x was seen and K was not
local    no E comes after x                               x was seen while a leaf of type E is unmatched
joint    several events together (general Horn clauses)   all were seen, and what must be absent is gone
======== ================================================ ==================================================

Conditions name the *partition* they fail: a branch of a disjunction, or the root. Joint conditions may also fail single
terms of the disjunctive normal form.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 27, 28. Differs: the direction of
order constraints is corrected; a local condition asks for unmatched leaves instead of a flag at each state, which is wrong
where a query branches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from penstock.errors import InvalidConstraint
from penstock.metadata.constraints.explanations import Explanation, explanations
from penstock.metadata.constraints.query_graph import QueryGraph
from penstock.metadata.constraints.statics import StaticVerdict, propagated
from penstock.metadata.constraints.theory import Proof, Theory, bits

#: How failed branches of disjunctions are combined: by the tree of partitions, or by the terms of the normal form.
DisjunctionMode: TypeAlias = Literal["hierarchy", "mask"]

#: Up to so many terms the mask is the default: they fit one machine word.
TERMS_OF_A_WORD = 64


@dataclass(frozen=True, slots=True)
class ConditionOptions:
    """What to compile.

    Parameters
    ----------
    disjunctions
        None: `mask` if the terms fit one machine word, else `hierarchy`.
    reflexive
        Whether an event that fails its own leaf, of a type that occurs once, fails the query.
    absences
        Whether what was not seen counts. Not to be used where traces are forgotten before they end.
    exhaustion
        Whether a trace that matched is given up when no match can end in a future event.
    exact
        Whether the rest of the query is refuted anew after every event, by `ExactReasoner`: it finds what the tables do not,
        looks at events of all types that constraints speak of, and costs more. For queries whose partial matches are expensive.
    suffixes
        Whether single events are dropped when what must follow them cannot come any more.
    is_thrifty
        Whether joint conditions are left out that are estimated to cost more than they spare.
    largest_explanation, most_explanations
        Limits for joint conditions; 1 leaves them out.
    """

    disjunctions: DisjunctionMode | None = None
    reflexive: bool = True
    absences: bool = True
    exhaustion: bool = True
    exact: bool = False
    suffixes: bool = True
    is_thrifty: bool = False
    largest_explanation: int = 3
    most_explanations: int = 256


@dataclass(frozen=True, slots=True)
class FailingCondition:
    """One entry of the tables, for people: `trigger` makes `target` fail, because of `proof`.

    `cell` is where it stands: trigger, partition, and the types or leaves of that entry; of a joint condition what was seen, and
    what is gone.
    """

    kind: Literal["global", "absence", "local", "joint"]
    trigger: str
    target: str
    proof: Proof
    cell: tuple[int, int, int] = field(default=(-1, -1, 0), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.trigger} fails {self.target}: {self.proof}"


@dataclass(frozen=True, slots=True)
class JointCondition:
    """An explanation of several observations, and the partitions or terms it fails."""

    explanation: Explanation
    partitions: int
    terms: int = 0


@dataclass(frozen=True, slots=True)
class FailingConditions:
    """The tables of one query.

    Attributes
    ----------
    plus
        `plus[x]`: partitions that fail when x was seen.
    minus
        `minus[x][p]`: types of which one must have been seen before x, or partition p fails.
    local
        `local[x][p]`: leaves that must have been matched when x was seen, or partition p fails.
    joint, joint_of
        Joint conditions, and for each type those it may complete.
    terms
        Live terms in `mask` mode, each as a set of partitions; empty in `hierarchy` mode.
    failed_at_start
        Partitions that never match.
    too_expensive
        Entries of joint conditions that are not watched, because that costs more than it spares.
    """

    theory: Theory
    graph: QueryGraph
    mode: DisjunctionMode
    plus: tuple[int, ...]
    minus: tuple[tuple[int, ...], ...]
    local: tuple[tuple[int, ...], ...]
    joint: tuple[JointCondition, ...]
    joint_of: tuple[tuple[int, ...], ...]
    terms: tuple[int, ...]
    failed_at_start: int
    entries: tuple[FailingCondition, ...]
    is_exact: bool = False
    too_expensive: tuple[FailingCondition, ...] = ()

    @property
    def triggers(self) -> int:
        """Types whose arrival can fail something."""
        result = 0
        for number in range(len(self.theory.names)):
            if self.plus[number] or any(self.minus[number]) or any(self.local[number]) or self.joint_of[number]:
                result |= 1 << number
        return result

    @property
    def relevant(self) -> int:
        """Types a run must see: those of the query, triggers, what must have come before them, and ends of traces."""
        result = self.triggers | self.theory.terminals | self.theory.mask(self.graph.types)
        if self.is_exact:
            result |= self.theory.constrained
        for row in self.minus:
            for types in row:
                result |= types
        for joint in self.joint:
            result |= joint.explanation.present | joint.explanation.absent
        return result

    def watching(self, kept: Iterable[Explanation]) -> FailingConditions:
        """The same without the joint conditions that are not worth their cost; see `worth_watching`."""
        chosen = set(kept)
        numbers = [number for number, item in enumerate(self.joint) if item.explanation in chosen]
        place = {number: at for at, number in enumerate(numbers)}
        joint_of = tuple(tuple(place[number] for number in row if number in place) for row in self.joint_of)
        found = replace(self, joint=tuple(self.joint[number] for number in numbers), joint_of=joint_of)
        entries = tuple(entry for entry in self.entries if found.has(entry))
        expensive = tuple(entry for entry in self.entries if not found.has(entry))
        return replace(found, entries=entries, too_expensive=(*self.too_expensive, *expensive))

    def sure_before(self, late: int) -> int:
        """Other types that an obedient trace has seen, at the latest together with this one."""
        return self.theory.closure(1 << late) & self.theory.kills[late] & ~(1 << late)

    def condensed(self) -> FailingConditions:
        """The same without conditions that never tell anything new about an obedient trace, and so with fewer triggers.

        Where each y needs an x, and no x comes after a y, an x was seen when a y is: that it is missing fails nothing, and
        what both x and y fail has failed already.
        """
        plus, minus, local = list(self.plus), [list(row) for row in self.minus], [list(row) for row in self.local]
        sure = [self.sure_before(late) for late in range(len(self.theory.names))]
        for late, before in enumerate(sure):
            known = 0
            minus[late] = [types & ~before for types in minus[late]]
            for early in bits(before):
                if sure[early] >> late & 1:
                    continue  # always simultaneous: one of them must stay
                known |= self.plus[early]
                minus[late] = [mine & ~other for mine, other in zip(minus[late], self.minus[early], strict=True)]
                local[late] = [mine & ~other for mine, other in zip(local[late], self.local[early], strict=True)]
            plus[late] &= ~known
            # Nothing more needs to be known of what fails anyway.
            failed = [(plus[late] | known) & self.graph.above(partition) for partition in range(len(self.graph.partitions))]
            minus[late] = [0 if fails else types for types, fails in zip(minus[late], failed, strict=True)]
            local[late] = [0 if fails else leaves for leaves, fails in zip(local[late], failed, strict=True)]
        found = replace(self, plus=tuple(plus), minus=tuple(map(tuple, minus)), local=tuple(map(tuple, local)))
        return replace(found, entries=tuple(entry for entry in self.entries if found.has(entry)))

    def has(self, entry: FailingCondition) -> bool:
        """Whether the tables still hold what an entry says."""
        if entry.kind == "joint":
            present, absent, _ = entry.cell
            return any(item.explanation == Explanation(present, absent) for item in self.joint)
        trigger, partition, members = entry.cell
        if entry.kind == "global":
            return bool(self.plus[trigger] >> partition & 1)
        return bool((self.minus if entry.kind == "absence" else self.local)[trigger][partition] & members)

    def settled(self, failed: int, alive: int) -> tuple[int, int]:
        """Failed partitions and live terms with all that follows from them."""
        if self.mode == "hierarchy":
            return propagated(self.graph, failed), alive
        for number, term in enumerate(self.terms):
            if term & failed:
                alive &= ~(1 << number)
        used = 0
        for number in bits(alive):
            used |= self.terms[number]
        return ((1 << len(self.graph.partitions)) - 1) & ~used, alive


def failing_conditions(
    theory: Theory, graph: QueryGraph, verdict: StaticVerdict, options: ConditionOptions | None = None
) -> FailingConditions:
    """Compile the tables of a query.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive, prior
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.query_graph import query_graph
    >>> from penstock.metadata.constraints.statics import static_check
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet((), ("Local", "Remote", "Quote", "Sent"), (exclusive("Local", "Remote"), prior("Quote", "Sent")))
    >>> theory, graph = Theory(rules), query_graph(seq("Remote", "Quote"))
    >>> for entry in failing_conditions(theory, graph, static_check(theory, graph)).entries:
    ...     print(entry)
    Local fails the query: Local and Remote never occur together by exclusive(Local, Remote)
    Sent fails the query: Quote is not matched yet and no Quote comes after a Sent by prior(Quote, Sent)
    """
    chosen = options or ConditionOptions()
    if chosen.disjunctions == "mask" and verdict.terms is None:
        raise InvalidConstraint("the pattern has too many alternatives for the mask mode; take the hierarchy mode")
    mode = chosen.disjunctions or ("mask" if _fits_mask(verdict) else "hierarchy")
    compiler = _Compiler(theory, graph, chosen)
    for partition in range(len(graph.partitions)):
        compiler.add_partition(partition)
    terms = verdict.terms if mode == "mask" and verdict.terms is not None else ()
    for number, term in enumerate(terms):
        compiler.add_term(number, term)
    dead = sum(1 << number for number, _ in verdict.dead_partitions)
    return compiler.finished(mode, terms, dead)


def _fits_mask(verdict: StaticVerdict) -> bool:
    return verdict.terms is not None and len(verdict.terms) + len(verdict.dead_terms) <= TERMS_OF_A_WORD


class _Compiler:
    def __init__(self, theory: Theory, graph: QueryGraph, options: ConditionOptions) -> None:
        self.theory, self.graph, self.options = theory, graph, options
        width, partitions = len(theory.names), len(graph.partitions)
        self.plus = [0] * width
        self.minus = [[0] * partitions for _ in range(width)]
        self.local = [[0] * partitions for _ in range(width)]
        self.joint: dict[Explanation, JointCondition] = {}
        self.entries: dict[tuple[str, str, str, str], FailingCondition] = {}

    def add_partition(self, partition: int) -> None:
        needed = self._types_of(self.graph.above(partition))
        for found in self._explanations(needed):
            if found.size > 1:
                self._join(found, partitions=1 << partition)
                self._note_joint(found, needed, self._name(partition))
            elif found.present:
                self._add_global(found.present.bit_length() - 1, partition, needed)
            else:
                self._add_absence(found.absent.bit_length() - 1, partition, needed)
        self._add_local(partition)

    def add_term(self, number: int, term: int) -> None:
        """Only what the partitions of the term do not know by themselves."""
        known = [found for part in bits(term) for found in self._explanations(self._types_of(self.graph.above(part)))]
        needed = self._types_of(term)
        for found in self._explanations(needed):
            if not any(not (old.present & ~found.present or old.absent & ~found.absent) for old in known):
                self._join(found, terms=1 << number)
                self._note_joint(found, needed, f"alternative {number + 1}")

    def finished(self, mode: DisjunctionMode, terms: tuple[int, ...], dead: int) -> FailingConditions:
        joint = tuple(self.joint.values())
        joint_of: list[list[int]] = [[] for _ in self.theory.names]
        for number, condition in enumerate(joint):
            for trigger in bits(self._triggers_of(condition.explanation)):
                joint_of[trigger].append(number)
        tables = FailingConditions(
            self.theory,
            self.graph,
            mode,
            tuple(self.plus),
            tuple(map(tuple, self.minus)),
            tuple(map(tuple, self.local)),
            joint,
            tuple(map(tuple, joint_of)),
            terms,
            dead,
            tuple(self.entries.values()),
            self.options.exact,
        )
        failed, _ = tables.settled(dead, (1 << len(terms)) - 1)
        return replace(tables, failed_at_start=failed)

    def _triggers_of(self, explanation: Explanation) -> int:
        triggers = explanation.present
        for number, killed in enumerate(self.theory.kills):
            if killed & explanation.absent:
                triggers |= 1 << number
        return triggers

    def _types_of(self, partitions: int) -> int:
        return self.theory.mask(self.graph.types[leaf] for leaf in bits(self.graph.leaves_of(partitions)))

    def _explanations(self, needed: int) -> list[Explanation]:
        found = explanations(self.theory, needed, self.options.largest_explanation, self.options.most_explanations)
        return [each for each in found if self.options.absences or not each.absent]

    def _add_global(self, trigger: int, partition: int, needed: int) -> None:
        self.plus[trigger] |= 1 << partition
        self._note("global", trigger, partition, 0, self.theory.proof(1 << trigger | needed, self.theory.falsity))

    def _add_absence(self, missing: int, partition: int, needed: int) -> None:
        why = self.theory.proof(needed, 1 << missing)
        for trigger, killed in enumerate(self.theory.kills):
            # A type that kills itself is seen when it arrives, so it is never the one that was missing.
            if killed >> missing & 1 and trigger != missing:
                self.minus[trigger][partition] |= 1 << missing
                line = f"{self.theory.names[missing]} was not seen and {self.theory.order_line(missing, trigger)}"
                source = self.theory.order_sources[missing, trigger]
                self._note("absence", trigger, partition, 1 << missing, Proof((*why.lines, line), (*why.used, source)))

    def _add_local(self, partition: int) -> None:
        for leaf in bits(self.graph.leaves_of(1 << partition)):
            number = self.theory.code[self.graph.types[leaf]]
            for trigger, killed in enumerate(self.theory.kills):
                if killed >> number & 1 and (trigger != number or self.options.reflexive):
                    self.local[trigger][partition] |= 1 << leaf
                    line = f"{self.theory.names[number]} is not matched yet and {self.theory.order_line(number, trigger)}"
                    proof = Proof((line,), (self.theory.order_sources[number, trigger],))
                    self._note("local", trigger, partition, 1 << leaf, proof)

    def _join(self, found: Explanation, partitions: int = 0, terms: int = 0) -> None:
        old = self.joint.get(found, JointCondition(found, 0))
        self.joint[found] = JointCondition(found, old.partitions | partitions, old.terms | terms)

    def _note_joint(self, found: Explanation, needed: int, target: str) -> None:
        given = found.present | needed
        goal = self.theory.falsity if self.theory.is_contradiction(given) else self.theory.closure(given) & found.absent
        why = self.theory.proof(given, goal)
        gone = [f"{name} never came and cannot come any more" for name in self.theory.members(found.absent)]
        orders = [source for (first, _), source in self.theory.order_sources.items() if found.absent >> first & 1]
        trigger = " with ".join(
            self.theory.members(found.present) + [f"the loss of {n}" for n in self.theory.members(found.absent)]
        )
        proof = Proof((*why.lines, *gone), tuple(dict.fromkeys((*why.used, *orders))))
        entry = FailingCondition("joint", trigger, target, proof, (found.present, found.absent, 0))
        self.entries.setdefault(("joint", trigger, target, str(proof)), entry)

    def _note(self, kind: Literal["global", "absence", "local"], trigger: int, partition: int, members: int, proof: Proof) -> None:
        name, target = self.theory.names[trigger], self._name(partition)
        known = self.entries.get((kind, name, target, str(proof)))
        members |= known.cell[2] if known else 0
        cell = (trigger, partition, members)
        self.entries[kind, name, target, str(proof)] = FailingCondition(kind, name, target, proof, cell)

    def _name(self, partition: int) -> str:
        if partition == 0:
            return "the query"
        own = [self.graph.types[leaf] for leaf in bits(self.graph.leaves_of(1 << partition))]
        return f"the branch of {', '.join(own) or 'nothing'}"
