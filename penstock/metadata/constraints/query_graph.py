"""What a reasoner needs of a pattern: leaves, the order between them, and the partitions that its disjunctions make.

Only the positive part counts: which types must occur, and in which order. Predicates, windows, absent events and selection
strategies only remove matches, so a proof that this part cannot match holds for the whole query. `E+` counts as `E`; `E*` is
a disjunction of `E` and nothing, `ANY(A, B)` one of `A` and `B`.

Leaves are numbered from left to right, and after them the disjunctions as *virtual* leaves, which are matched as soon as one
of their branches is. Each branch of a disjunction is a *partition*: leaves (real and virtual) that must all be matched
together. The query without its branches is the root partition, number 0. Sets of leaves, partitions and terms are integers,
one bit each.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, sections 25.3, 26.4. Differs: every occurrence
of a type is a leaf of its own; the disjunctive normal form is an addition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from penstock.metadata.constraints.theory import bits
from penstock.model.event_patterns import Absent, And, Atom, EventPattern, Or, Repeat, Seq, leaves_of


@dataclass(frozen=True, slots=True)
class Partition:
    """Leaves that must all be matched: a branch of a disjunction, or the root.

    Attributes
    ----------
    leaves
        Real and virtual leaves of the partition itself, not those of partitions below.
    parent
        Partition that holds the disjunction; -1 for the root.
    disjunction
        Virtual leaf whose branch this is; -1 for the root.
    """

    leaves: int
    parent: int = -1
    disjunction: int = -1


@dataclass(frozen=True, slots=True)
class QueryGraph:
    """Leaves, order and partitions of one query.

    Attributes
    ----------
    types
        Event type of each real leaf.
    engine_leaves
        The atom of the pattern each real leaf came from, by its place in `atoms_of`; the types of one `ANY` share it.
    before
        `before[n]`: leaves, real and virtual, that must be matched strictly earlier than leaf n; for virtual ones too.
    partitions
        Number 0 is the root; a parent stands before its children.
    branches
        `branches[v]`: partitions that are branches of the virtual leaf v.
    """

    pattern: EventPattern
    types: tuple[str, ...]
    engine_leaves: tuple[int, ...]
    before: tuple[int, ...]
    partitions: tuple[Partition, ...]
    branches: dict[int, tuple[int, ...]]

    @property
    def leaf_count(self) -> int:
        """Number of real leaves."""
        return len(self.types)

    @property
    def real_leaves(self) -> int:
        """All real leaves as bits."""
        return (1 << len(self.types)) - 1

    def below(self, partition: int) -> int:
        """A partition and all that hang below it."""
        result = 1 << partition
        for number in range(partition + 1, len(self.partitions)):
            if result >> self.partitions[number].parent & 1:
                result |= 1 << number
        return result

    def above(self, partition: int) -> int:
        """A partition and all that hold it."""
        result = 0
        while partition >= 0:
            result |= 1 << partition
            partition = self.partitions[partition].parent
        return result

    def leaves_of(self, partitions: int) -> int:
        """Real leaves of a set of partitions."""
        leaves = 0
        for number in bits(partitions):
            leaves |= self.partitions[number].leaves
        return leaves & self.real_leaves

    def sinks_of(self, partitions: int) -> int:
        """Real leaves of these partitions that no other leaf must follow: every match of theirs ends in one."""
        result = 0
        for number in bits(partitions):
            for leaf in bits(self.partitions[number].leaves & self.real_leaves):
                if not any(self.precedes(leaf, other) for other in self._mandatory(number)):
                    result |= 1 << leaf
        return result

    def _mandatory(self, partition: int) -> list[int]:
        """Leaves that a match with this partition has, whatever branches it takes; disjunctions that may stay empty are none."""
        leaves = 0
        for number in bits(self.above(partition)):
            leaves |= self.partitions[number].leaves
        return [leaf for leaf in bits(leaves) if leaf < self.leaf_count or not self.completed(0) >> leaf & 1]

    def precedes(self, first: int, second: int) -> bool:
        """Whether every match has leaf `first` strictly before leaf `second`, if it has both."""
        if self.before[second] >> first & 1:
            return True
        holder = next(p for p in self.partitions if p.leaves >> first & 1)
        while holder.parent >= 0:  # the disjunction around the first leaf may stand before the second one
            if self.before[second] >> holder.disjunction & 1:
                return True
            holder = self.partitions[holder.parent]
        return False

    def completed(self, matched: int) -> int:
        """Matched leaves together with the virtual leaves that follow from them."""
        for number in range(len(self.partitions) - 1, 0, -1):  # inner disjunctions first
            partition = self.partitions[number]
            if not partition.leaves & ~matched:
                matched |= 1 << partition.disjunction
        return matched

    def is_matched(self, matched: int) -> bool:
        """Whether the whole query is matched."""
        return not self.partitions[0].leaves & ~matched

    def terms(self) -> list[int]:
        """Disjunctive normal form: each term is the set of partitions that one choice of branches uses."""
        return sorted(term for term in self._terms_of(0) if self.leaves_of(term))  # no match is without events

    def term_count(self) -> int:
        """Number of terms, without building them."""
        counts = [1] * len(self.partitions)
        for number in range(len(self.partitions) - 1, -1, -1):
            for leaf in bits(self.partitions[number].leaves >> self.leaf_count):
                counts[number] *= sum(counts[branch] for branch in self.branches[leaf + self.leaf_count])
        return counts[0]

    def _terms_of(self, partition: int) -> list[int]:
        virtual = [leaf + self.leaf_count for leaf in bits(self.partitions[partition].leaves >> self.leaf_count)]
        choices = [[term for branch in self.branches[leaf] for term in self._terms_of(branch)] for leaf in virtual]
        found = []
        for choice in product(*choices):
            term = 1 << partition
            for part in choice:
                term |= part
            found.append(term)
        return found


@dataclass(slots=True)
class _Builder:
    before: list[int]
    types: list[str] = field(default_factory=list)
    engine_leaves: list[int] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=lambda: [Partition(0)])
    branches: dict[int, tuple[int, ...]] = field(default_factory=dict)
    atoms: int = 0

    def place(self, pattern: EventPattern, before: int, partition: int) -> int:
        """Number the leaves of a part of a partition; returns them, disjunctions as their virtual leaf."""
        match pattern:
            case Atom():
                return self._place_atom(pattern, before, partition)
            case Absent():
                return 0
            case Seq(parts):
                placed, earlier = 0, before
                for part in parts:
                    own = self.place(part, earlier, partition)
                    placed, earlier = placed | own, earlier | own
                return placed
            case And(parts):
                return sum(self.place(part, before, partition) for part in parts)
            case Or(parts):
                virtual = self._open_disjunction(before)
                for part in parts:
                    self.place(part, before, self._open_branch(virtual, partition))
                return self._own(partition, virtual)

    def _place_atom(self, atom: Atom, before: int, partition: int) -> int:
        number, self.atoms = self.atoms, self.atoms + 1
        if len(atom.types) == 1 and atom.repeat is not Repeat.STAR:
            return self._place_leaf(atom.types[0], number, before, partition)
        virtual = self._open_disjunction(before)
        for name in atom.types:
            self._place_leaf(name, number, before, self._open_branch(virtual, partition))
        if atom.repeat is Repeat.STAR:
            self._open_branch(virtual, partition)  # a branch without leaves is matched from the start
        return self._own(partition, virtual)

    def _place_leaf(self, name: str, atom: int, before: int, partition: int) -> int:
        leaf = len(self.types)
        self.types.append(name)
        self.engine_leaves.append(atom)
        self.before[leaf] = before
        return self._own(partition, leaf)

    def _open_disjunction(self, before: int) -> int:
        self.before.append(before)
        self.branches[len(self.before) - 1] = ()
        return len(self.before) - 1

    def _open_branch(self, virtual: int, partition: int) -> int:
        self.partitions.append(Partition(0, partition, virtual))
        self.branches[virtual] += (len(self.partitions) - 1,)
        return len(self.partitions) - 1

    def _own(self, partition: int, leaf: int) -> int:
        old = self.partitions[partition]
        self.partitions[partition] = Partition(old.leaves | 1 << leaf, old.parent, old.disjunction)
        return 1 << leaf


def query_graph(pattern: EventPattern) -> QueryGraph:
    """Number the leaves of a pattern and find its partitions.

    Examples
    --------
    >>> from penstock.model.event_patterns import either, seq
    >>> graph = query_graph(seq("A", either(seq("B", "C"), "D"), "I"))
    >>> graph.types, len(graph.partitions), graph.terms()
    (('A', 'B', 'C', 'D', 'I'), 3, [3, 5])
    """
    count = sum(len(leaf.types) for leaf in leaves_of(pattern) if isinstance(leaf, Atom))
    builder = _Builder([0] * count)
    builder.place(pattern, 0, 0)
    return QueryGraph(
        pattern,
        tuple(builder.types),
        tuple(builder.engine_leaves),
        tuple(builder.before),
        tuple(builder.partitions),
        builder.branches,
    )
