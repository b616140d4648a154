"""Constraints of a process tree: sound for every tree, complete when every task stands in it once.

For two tasks their lowest common ancestor decides: in a choice they exclude each other, in a sequence one is prior to the
other, unless a loop above brings both again. A task requires another if the way from the common ancestor down to the other
passes no choice and no loop that may be left out.

In an interruptible process an order can be abandoned at any moment. What must come *later* is then not required: only tasks
earlier in a sequence are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from penstock.errors import InvalidWorkflow
from penstock.metadata.constraints.clauses import AtMostOnce, Constraint, Exclusive, Prior, Require, Terminal
from penstock.metadata.constraints.workflows.trees import Choice, Interruptible, Loop, Parallel, ProcessTree, Sequence, Task


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A task and the way to it from the root: each ancestor with the place of the child taken."""

    name: str
    way: tuple[tuple[ProcessTree, int], ...]


@dataclass(frozen=True, slots=True)
class Relations:
    """Which constraints of each form hold, as pairs of names; `exclusive` has both directions."""

    names: tuple[str, ...]
    prior: frozenset[tuple[str, str]]
    exclusive: frozenset[tuple[str, str]]
    require: frozenset[tuple[str, str]]

    @property
    def terminal(self) -> tuple[str, ...]:
        """Types after which none comes."""
        return tuple(name for name in self.names if all((other, name) in self.prior for other in self.names))

    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints in their shortest form: no order between tasks that exclude each other, terminals by name."""
        ends = set(self.terminal)
        found: list[Constraint] = [Terminal(name) for name in self.names if name in ends]
        single = (name for name in self.names if (name, name) in self.prior and name not in ends)
        found += map(AtMostOnce, single)
        pairs = [(one, other) for one in self.names for other in self.names if one != other]
        place = {name: number for number, name in enumerate(self.names)}
        found += [Exclusive(pair) for pair in pairs if pair in self.exclusive and place[pair[0]] < place[pair[1]]]
        ordered = self.prior - self.exclusive
        found += [Prior(*pair) for pair in pairs if pair in ordered and pair[1] not in ends]
        found += [Require(*pair) for pair in pairs if pair in self.require]
        return tuple(found)


def tree_relations(tree: ProcessTree) -> Relations:
    """All order, exclusion and requirement between tasks that hold in every run.

    Examples
    --------
    >>> from penstock.metadata.constraints.workflows.trees import optional
    >>> relations = tree_relations(Sequence((Task("A"), optional(Task("B")))))
    >>> sorted(relations.prior), sorted(relations.require)
    ([('A', 'A'), ('A', 'B'), ('B', 'B')], [('B', 'A')])
    """
    body = tree.body if isinstance(tree, Interruptible) else tree
    leaves = list(_leaves(body, ()))
    holders: dict[str, list[_Leaf]] = {}
    for leaf in leaves:
        holders.setdefault(leaf.name, []).append(leaf)
    requires = _requires_earlier if isinstance(tree, Interruptible) else _requires
    found = Relations(
        tuple(holders),
        frozenset(_prior_pairs(holders)),
        frozenset(_for_all(holders, _excludes)),
        frozenset(_required_pairs(holders, requires)),
    )
    return _interrupted(found, tree.by) if isinstance(tree, Interruptible) else found


def duplicated_tasks(tree: ProcessTree) -> list[str]:
    """Tasks that stand in several places; what is extracted then holds, but more might."""
    body = tree.body if isinstance(tree, Interruptible) else tree
    names = [leaf.name for leaf in _leaves(body, ())]
    return sorted({name for name in names if names.count(name) > 1})


def _leaves(tree: ProcessTree, way: tuple[tuple[ProcessTree, int], ...]) -> Iterator[_Leaf]:
    match tree:
        case Task(name, "one"):
            yield _Leaf(name, way)
        case Task(name, "several"):
            yield _Leaf(name, (*way, (Loop(Task(name)), 0)))
        case Sequence(parts) | Choice(parts) | Parallel(parts):
            for number, part in enumerate(parts):
                yield from _leaves(part, (*way, (tree, number)))
        case Loop(body):
            yield from _leaves(body, (*way, (tree, 0)))
        case Interruptible(_, by):
            raise InvalidWorkflow(f"only the whole process can be interruptible; '{by}' interrupts a part of it")
        case _:
            return


def _common(one: _Leaf, other: _Leaf) -> int:
    """Depth of the lowest common ancestor of two leaves."""
    depth = 0
    while one.way[depth][1] == other.way[depth][1]:  # equal places so far, so it is the same node
        depth += 1
    return depth


def _is_looped(leaf: _Leaf, depth: int) -> bool:
    """Whether a loop strictly above this depth repeats what is below it."""
    return any(isinstance(node, Loop) and node.is_repeated for node, _ in leaf.way[:depth])


def _excludes(one: _Leaf, other: _Leaf) -> bool:
    depth = _common(one, other)
    return isinstance(one.way[depth][0], Choice) and not _is_looped(one, depth)


def _precedes(one: _Leaf, other: _Leaf) -> bool:
    depth = _common(one, other)
    node, place = one.way[depth]
    in_order = isinstance(node, Sequence) and place < other.way[depth][1]
    return (in_order or isinstance(node, Choice)) and not _is_looped(one, depth)


def _is_mandatory(leaf: _Leaf, depth: int) -> bool:
    """Whether every run of the node at this depth, entered towards the leaf, performs it."""
    for node, _ in leaf.way[depth + 1 :]:
        if (isinstance(node, Choice) and len(node.parts) > 1) or (isinstance(node, Loop) and node.least == 0):
            return False
    return True


def _requires(one: _Leaf, other: _Leaf) -> bool:
    depth = _common(one, other)
    return isinstance(one.way[depth][0], Sequence | Parallel) and _is_mandatory(other, depth)


def _requires_earlier(one: _Leaf, other: _Leaf) -> bool:
    depth = _common(one, other)
    node, place = one.way[depth]
    return isinstance(node, Sequence) and other.way[depth][1] < place and _is_mandatory(other, depth)


def _prior_pairs(holders: dict[str, list[_Leaf]]) -> Iterator[tuple[str, str]]:
    yield from _for_all(holders, _precedes)
    for name, leaves in holders.items():
        alone = all(not _is_looped(leaf, len(leaf.way)) for leaf in leaves)
        apart = all(_excludes(one, other) for one, other in product(leaves, leaves) if one is not other)
        if alone and apart:
            yield name, name


def _for_all(holders: dict[str, list[_Leaf]], holds: Callable[[_Leaf, _Leaf], bool]) -> Iterator[tuple[str, str]]:
    for one, other in product(holders, holders):
        if one != other and all(holds(*pair) for pair in product(holders[one], holders[other])):
            yield one, other


def _required_pairs(holders: dict[str, list[_Leaf]], requires: Callable[[_Leaf, _Leaf], bool]) -> Iterator[tuple[str, str]]:
    for one, other in product(holders, holders):
        if one != other and all(any(requires(leaf, needed) for needed in holders[other]) for leaf in holders[one]):
            yield one, other


def _interrupted(body: Relations, by: str) -> Relations:
    if by in body.names:
        raise InvalidWorkflow(f"'{by}' interrupts the process and is also a task of it; give the interruption its own name")
    last = frozenset((by, name) for name in body.terminal)
    both = last | frozenset((name, by) for _, name in last)
    order = frozenset((name, by) for name in (*body.names, by))
    # What ends the body leaves nothing to break off, so the two exclude each other and are in any order.
    return Relations((*body.names, by), body.prior | order | last, body.exclusive | both, body.require)
