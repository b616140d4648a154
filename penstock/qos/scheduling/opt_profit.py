"""Which parts of a tree of jobs earn most for their cost: pure functions on small trees."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

#: Costs and profits are floats in the kernel; exact numbers are welcome too.
Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Job:
    """The processing of a batch by one operator.

    Parameters
    ----------
    cost, profit
        For a row that enters the tree. Profit is earned by jobs that answer queries.
    parent
        Place in the list of jobs of the one whose output this job reads; None for a root.
    """

    cost: Number
    profit: Number = 0
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """Jobs that are worth running together, in the order in which they run."""

    jobs: tuple[int, ...]
    cost: Number
    profit: Number

    @property
    def density(self) -> Number:
        """Profit for its cost."""
        return density(self.profit, self.cost)


def density(profit: Number, cost: Number) -> Number:
    if cost > 0:
        return profit / cost
    return inf if profit else 0


def fragments(jobs: Sequence[Job], published: bool = False) -> list[Fragment]:
    """All jobs as fragments, in the order in which they should run (OptProfit).

    Run in this order until time is up, the last one for a part of the rows only, they earn as much as is possible within any
    time at all. Jobs without profit that no job with profit needs come last, each for itself.

    Parameters
    ----------
    jobs
        A tree or several, parents before their children.
    published
        Choose what is merged as the source does, by the density of the merged pair. This may earn less: it looks only one
        level ahead, so it runs a root too early or ties a mediocre child to a dense parent.

    References
    ----------
    [wu2010] Wu. Exploring Time Related Issues in Data Stream Processing. NUS 2010, chapter 4, Algorithms 3-5. Theorem 4.6.1
    does not hold for the published rule; merging the node of the highest own density into its parent repairs it, as in
    Horn's rule for trees.

    Examples
    --------
    >>> tree = [Job(3), Job(4, 11, 0), Job(6, 0, 0), Job(1, 10, 2), Job(4, 10, 2)]
    >>> [(fragment.jobs, fragment.profit, fragment.cost) for fragment in fragments(tree)]
    [((0, 1, 2, 3, 4), 31, 18)]
    >>> [(fragment.jobs, fragment.profit, fragment.cost) for fragment in fragments(tree, published=True)]
    [((0, 1), 11, 7), ((2, 3, 4), 20, 11)]
    """
    merging = _Merging(jobs)
    return merging.as_published() if published else merging.by_own_density()


def affordable(found: Iterable[Fragment], budget: Number, rows: int) -> list[tuple[Fragment, int]]:
    """Fragments with the rows of a batch that can go through them within a budget; the last one perhaps with fewer.

    Examples
    --------
    >>> [rows for _, rows in affordable(fragments([Job(3, 6), Job(8, 10)]), budget=420, rows=60)]
    [60, 30]
    """
    chosen = []
    for fragment in found:
        possible = rows if fragment.cost * rows <= budget else int(budget // fragment.cost)
        if possible <= 0:
            break
        chosen.append((fragment, possible))
        budget -= fragment.cost * possible
        if possible < rows:
            break
    return chosen


def earned(found: Iterable[Fragment], budget: Number) -> Number:
    """Profit of one row within a budget if the last fragment may be run for a fraction of it."""
    profit: Number = 0
    for fragment in found:
        share = 1 if fragment.cost <= budget else Fraction(budget) / Fraction(fragment.cost)
        profit += fragment.profit * share
        budget -= fragment.cost * share
        if budget <= 0:
            break
    return profit


@dataclass(slots=True, eq=False)
class _Node:
    """Merged jobs."""

    id: int
    jobs: list[int]
    cost: Number
    profit: Number
    parent: _Node | None
    children: list[_Node] = field(default_factory=list)
    #: Counts changes, so that old entries of a heap are recognised; negative once it is gone.
    version: int = 0

    @property
    def density(self) -> Number:
        return density(self.profit, self.cost)

    @property
    def fragment(self) -> Fragment:
        return Fragment(tuple(self.jobs), self.cost, self.profit)

    @property
    def rank(self) -> tuple[Number, bool, int]:
        """Smaller is merged or run first."""
        return -self.density, self.parent is not None, self.id


class _Merging:
    """A tree whose nodes are merged and leave, root by root."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._nodes: list[_Node] = []
        for number, job in enumerate(jobs):
            parent = None if job.parent is None else self._nodes[job.parent]
            node = _Node(number, [number], job.cost, job.profit, parent)
            if parent is not None:
                parent.children.append(node)
            self._nodes.append(node)

    def by_own_density(self) -> list[Fragment]:
        """The node of the highest density runs if it is a root, and is merged into its parent otherwise."""
        found = []
        heap = [(*node.rank, node.version) for node in self._nodes if node.profit > 0]
        heapq.heapify(heap)
        while heap:
            *_, number, version = heapq.heappop(heap)
            node = self._nodes[number]
            if version != node.version:
                continue
            if node.parent is None:
                found.append(node.fragment)
                changed = self._release(node)
            else:
                changed = [self._merge(node)]
            for other in changed:
                if other.profit > 0:
                    heapq.heappush(heap, (*other.rank, other.version))
        return found + self._unprofitable()

    def as_published(self) -> list[Fragment]:
        """The pair of child and parent with the highest common density is merged, unless a root has a higher one."""
        found = []
        profitable = [node for node in self._nodes if node.profit > 0]
        while profitable:
            winner = _published_choice(profitable)
            if winner.parent is None:
                found.append(winner.fragment)
                self._release(winner)
            else:
                self._merge(winner)
            profitable = [node for node in self._nodes if node.version >= 0 and node.profit > 0]
        return found + self._unprofitable()

    def _release(self, root: _Node) -> list[_Node]:
        """Take out a root; the roots this makes are returned."""
        root.version = -1
        for child in root.children:
            child.parent = None
            child.version += 1
        return root.children

    def _merge(self, child: _Node) -> _Node:
        """The parent, followed by the child. The children of both are children of what it has become."""
        parent = child.parent
        assert parent is not None
        child.version = -1
        parent.version += 1
        parent.jobs += child.jobs
        parent.cost += child.cost
        parent.profit += child.profit
        parent.children.remove(child)
        parent.children += child.children
        for grandchild in child.children:
            grandchild.parent = parent
        return parent

    def _unprofitable(self) -> list[Fragment]:
        return [node.fragment for node in self._nodes if node.version >= 0]


def _published_choice(profitable: list[_Node]) -> _Node:
    best: Number = 0
    winner = profitable[0]
    for node in sorted(profitable, key=lambda node: (-node.density, node.id)):
        if node.density <= best:
            break
        parent = node.parent
        value = node.density if parent is None else density(node.profit + parent.profit, node.cost + parent.cost)
        if value > best:
            best, winner = value, node
    return winner
