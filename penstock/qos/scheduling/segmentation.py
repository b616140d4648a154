"""Segments: parts of paths that release memory fastest when they are served as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import bottom_up, paths, per_ns, release_capacity, time_ns
from penstock.qos.scheduling.explanation import operators_text, release_text
from penstock.qos.scheduling.stretches import Stretch, merged
from penstock.qos.scheduling.trees import Step


@dataclass(frozen=True, slots=True)
class Block:
    """Steps of one tree, with what they release together and the time it takes, for a row that enters the tree."""

    steps: tuple[Step, ...]
    released: float
    time_ns: float

    @property
    def capacity(self) -> float:
        """Bytes per nanosecond."""
        return per_ns(self.released, self.time_ns)

    def __add__(self, other: Block) -> Block:
        return Block((*self.steps, *other.steps), self.released + other.released, self.time_ns + other.time_ns)


#: Cuts a tree into segments.
Cut = Callable[[Step], list[Block]]


def block_of(steps: Iterable[Step]) -> Block:
    found = tuple(steps)
    return Block(found, sum(step.released for step in found), time_ns(found))


def memory_optimal_blocks(tree: Step) -> list[Block]:
    """Cut a tree into segments with decreasing release capacities, each the best part of what is left behind the ones before.

    A step takes to itself the best blocks behind it as long as they release no slower than it does with those it has. In a
    path without branches this is the lower envelope of its progress chart.

    Notes
    -----
    Differs from the book, which tries all prefixes of all orders of the operators: the result is the same, except that
    equal blocks of different branches are not joined.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, algorithms 2 and 3.
    """
    found = block_of([tree])
    # Better blocks come first, so a block is never met before the one it hangs on: that one is strictly better.
    behind = sorted((block for child in tree.children for block in memory_optimal_blocks(child)), key=_by_capacity)
    while behind and behind[0].capacity >= found.capacity:
        found += behind.pop(0)
    return [found, *behind]


def _by_capacity(block: Block) -> float:
    return -block.capacity


def greedy_blocks(tree: Step) -> list[Block]:
    """Cut a tree, in the order bottom-up, wherever an operator releases memory slower than the one before it.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, algorithm 1.
    """
    found: list[Block] = []
    last = None
    for step in bottom_up(tree):
        capacity, single = release_capacity([step]), block_of([step])
        if last is not None and capacity >= last:
            found[-1] += single
        else:
            found.append(single)
        last = capacity
    return found


def two_blocks(tree: Step) -> list[Block]:
    """The first memory-optimal segment, and all that is left.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.
    """
    first, *others = memory_optimal_blocks(tree)
    return [first, block_of(step for other in others for step in other.steps)] if others else [first]


def segments(plan: WorkPlan, cut: Cut) -> list[Stretch]:
    """Segments of all paths; one that is part of another is left out. The order of paths does not matter."""
    found = merged(_stretch(tree, block) for tree in paths(plan) for block in cut(tree))
    sets = [stretch.operators for stretch in found]
    return [stretch for stretch, own in zip(found, sets, strict=True) if not any(own < other for other in sets)]


def _stretch(tree: Step, block: Block) -> Stretch:
    return Stretch(block.steps, block.capacity, partial(block_text, block), tree.price.rate)


def block_text(block: Block) -> str:
    """A segment and its capacity, with the figures it comes from."""
    return f"segment {operators_text(step.operator for step in block.steps)}: {release_text(block.released, block.time_ns)}"
