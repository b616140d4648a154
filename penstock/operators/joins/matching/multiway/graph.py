"""The join graph: which columns are equal, and the tree along which the rows of one input look for partners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeAlias

from penstock.errors import InvalidPlan
from penstock.model.equal_columns import Attribute, classes_of

#: Columns of one input and those of another that must equal them.
Keys: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Edge:
    """A join predicate: columns of one input equal columns of another."""

    left: int
    left_columns: tuple[str, ...]
    right: int
    right_columns: tuple[str, ...]

    def pairs(self) -> Iterable[tuple[Attribute, Attribute]]:
        for one, other in zip(self.left_columns, self.right_columns, strict=True):
            yield (self.left, one), (self.right, other)


@dataclass(frozen=True, slots=True)
class Vertex:
    """An input as a place in the tree: rows of `parent` find partners here if `parent_key` equals `key`."""

    port: int
    key: tuple[str, ...]
    parent: int
    parent_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """How the rows of one input are processed.

    Parameters
    ----------
    root
        The input.
    lead
        Inputs that are joined first, because every path goes through them; each combination is then processed by itself.
    probes
        The inputs whose order is free, but for a parent's being before its children. A probe's number is its place here.
    residuals
        Columns that must be equal and are not compared along the tree.
    """

    root: int
    lead: tuple[Vertex, ...]
    probes: tuple[Vertex, ...]
    residuals: tuple[tuple[Attribute, Attribute], ...] = ()

    @property
    def bound(self) -> frozenset[int]:
        """Inputs whose rows are known before the first probe."""
        return frozenset({self.root, *(vertex.port for vertex in self.lead)})

    @property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """For each probe the numbers of those before it on its path, nearest the root first."""
        numbers = {vertex.port: number for number, vertex in enumerate(self.probes)}
        found: list[tuple[int, ...]] = []
        for vertex in self.probes:
            path: list[int] = []
            while vertex.parent in numbers:
                path.insert(0, numbers[vertex.parent])
                vertex = self.probes[path[0]]
            found.append(tuple(path))
        return tuple(found)

    def repaired(self, order: Sequence[int]) -> tuple[int, ...]:
        """The order with each probe's ancestors put before it, which never costs more.

        Examples
        --------
        >>> chain = (Vertex(1, ("x",), 0, ("x",)), Vertex(2, ("y",), 1, ("y",)), Vertex(3, ("z",), 0, ("z",)))
        >>> PipelinePlan(0, (), chain).repaired([2, 1, 0])
        (2, 0, 1)
        """
        if sorted(order) != list(range(len(self.probes))):
            raise InvalidPlan(
                f"the probe order {list(order)} of input {self.root} does not name each of its {len(self.probes)} probes once"
            )
        placed: dict[int, None] = {}
        ancestors = self.ancestors
        for number in order:
            placed.update(dict.fromkeys((*ancestors[number], number)))
        return tuple(placed)


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Inputs and the columns in which they must agree.

    Equality is transitive: three inputs joined on one column are all neighbours, whichever two predicates were written.

    Parameters
    ----------
    ports
        Number of inputs.
    edges
        Join predicates in the order they were written. The graph must be connected; of a cyclic one the shallowest tree is
        probed, of several the one written first.

    Examples
    --------
    >>> star = JoinGraph(3, (Edge(0, ("a",), 1, ("a",)), Edge(0, ("b",), 2, ("b",))))
    >>> [vertex.port for vertex in star.plan(1).lead], [vertex.port for vertex in star.plan(1).probes]
    ([0], [2])
    """

    ports: int
    edges: tuple[Edge, ...]
    #: Columns that must all be equal, class by class, in the order they were written.
    classes: list[list[Attribute]] = field(init=False, repr=False, compare=False)
    _keys: dict[tuple[int, int], Keys] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {port for edge in self.edges for port in (edge.left, edge.right)}
        if self.ports < 2 or not named <= set(range(self.ports)) or any(edge.left == edge.right for edge in self.edges):
            raise InvalidPlan(f"a join of {self.ports} inputs cannot have predicates between inputs {sorted(named)}")
        object.__setattr__(self, "classes", classes_of(pair for edge in self.edges for pair in edge.pairs()))
        object.__setattr__(self, "_keys", _common_keys(self.classes))
        reached = {vertex.port for vertex in self._tree(0)} | {0}
        if len(reached) < self.ports:
            missing = ", ".join(str(port) for port in range(self.ports) if port not in reached)
            raise InvalidPlan(
                f"no join predicate connects input {missing} with input 0: the join would be a Cartesian product; "
                "add a predicate between them, or write two queries"
            )

    @classmethod
    def natural(cls, keys: Sequence[Sequence[str]]) -> JoinGraph:
        """All inputs have equal keys."""
        first, *others = (tuple(key) for key in keys)
        return cls(len(keys), tuple(Edge(0, first, port + 1, other) for port, other in enumerate(others)))

    def common(self, one: int, other: int) -> Keys:
        """Columns in which two inputs must agree, those of the one and those of the other."""
        return self._keys.get((one, other), ((), ()))

    # -- trees --------------------------------------------------------------------------------------------------------

    def _tree(self, root: int) -> list[Vertex]:
        """A spanning tree, parents before children; stops where the graph is not connected."""
        tree, left, layer = list[Vertex](), set(range(self.ports)) - {root}, [root]
        while layer:
            offers = [(self._written(near, far), far, near) for near in layer for far in left if self.common(near, far)[0]]
            layer = []
            for _, far, near in sorted(offers):
                if far in left:
                    near_key, far_key = self.common(near, far)
                    tree.append(Vertex(far, far_key, near, near_key))
                    left.remove(far)
                    layer.append(far)
        return tree

    def _written(self, one: int, other: int) -> int:
        """Where the first predicate between two inputs stands; behind all others if it follows from others only."""
        places = [at for at, edge in enumerate(self.edges) if {edge.left, edge.right} == {one, other}]
        return places[0] if places else len(self.edges)

    @property
    def is_star(self) -> bool:
        """Whether some input is a neighbour of all others."""
        return any(all(self.common(root, port)[0] for port in range(self.ports) if port != root) for root in range(self.ports))

    def plan(self, root: int) -> PipelinePlan:
        """How rows of the input `root` are processed.

        In a star each pair with a row of the only neighbour is processed on its own, which is exact; in a tree each row by the
        paths that begin with it, with one decision for all its pairs.
        """
        tree = self._tree(root)
        lead: list[Vertex] = []
        if self.is_star:
            bound = {root}
            while len(tree) > 1 and sum(vertex.parent in bound for vertex in tree) == 1:
                first = next(vertex for vertex in tree if vertex.parent in bound)
                tree.remove(first)
                lead.append(first)
                bound.add(first.port)
        tree.sort(key=lambda vertex: vertex.port)
        return PipelinePlan(root, tuple(lead), tuple(tree), self._residuals([*lead, *tree]))

    def _residuals(self, tree: Sequence[Vertex]) -> tuple[tuple[Attribute, Attribute], ...]:
        compared = [
            ((vertex.parent, one), (vertex.port, other))
            for vertex in tree
            for one, other in zip(vertex.parent_key, vertex.key, strict=True)
        ]
        members = [(member, member) for group in self.classes for member in group]
        parts = classes_of([*members, *compared])
        found: list[tuple[Attribute, Attribute]] = []
        for group in self.classes:
            first, *others = [part[0] for part in parts if part[0] in group]
            found += [(first, other) for other in others]
        return tuple(found)


def _common_keys(classes: Sequence[Sequence[Attribute]]) -> dict[tuple[int, int], Keys]:
    """For each two inputs that share a class the columns in which they must agree, class by class."""
    found: dict[tuple[int, int], Keys] = {}
    for members in classes:
        # An input may have several columns in a class; the first stands for all, the others are compared as residuals.
        columns = dict(reversed(members))
        for one, other in permutations(columns, 2):
            left, right = found.get((one, other), ((), ()))
            found[one, other] = ((*left, columns[one]), (*right, columns[other]))
    return found
