"""Paths of all queries in one structure that shows what they share: clusters of paths with the same first operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.errors import Defect
from penstock.kernel.work import Place


@dataclass(slots=True)
class PathNode:
    """An operator, by one of its ports, as reached on one way from the entrance.

    Parameters
    ----------
    frequency
        Paths that go through it.
    ends
        Paths that end here; one path may be the beginning of another.
    """

    place: Place
    frequency: int = 0
    children: dict[Place, PathNode] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)

    def walk(self) -> Iterator[PathNode]:
        """This node and all behind it, each before those behind itself."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that go through it, in order."""
        return tuple(sorted(path for node in self.walk() for path in node.ends))


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that the same paths go through, up to and including the one behind which they part.

    Parameters
    ----------
    children
        Segments behind this one.
    """

    nodes: tuple[PathNode, ...]
    children: tuple[Segment, ...]

    @property
    def frequency(self) -> int:
        """Paths that go through it; a segment of two or more is shared."""
        return self.nodes[0].frequency

    def walk(self) -> Iterator[Segment]:
        yield self
        for child in self.children:
            yield from child.walk()


class PathClusters:
    """The global operator path structure: a trie of paths for every first operator, in order of name.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.3.1.

    Examples
    --------
    >>> clusters = PathClusters()
    >>> for id, steps in {"1": "ABC", "2": "ABD"}.items():
    ...     clusters.insert(id, [(name, 0) for name in steps])
    >>> [(node.place[0], node.frequency) for head in clusters.heads for node in head.walk()]
    [('A', 2), ('B', 2), ('C', 1), ('D', 1)]
    """

    def __init__(self) -> None:
        self._heads: dict[Place, PathNode] = {}

    @property
    def heads(self) -> list[PathNode]:
        """First operators of all clusters."""
        return [self._heads[place] for place in sorted(self._heads)]

    def insert(self, path: str, steps: Sequence[Place]) -> None:
        """Add a path, from the operator that a stream feeds to the one that answers."""
        siblings = self._heads
        for place in steps:
            node = siblings.setdefault(place, PathNode(place))
            node.frequency += 1
            siblings = node.children
        node.ends.append(path)

    def delete(self, path: str, steps: Sequence[Place]) -> None:
        """Take a path away; operators that no other path goes through are gone."""
        chain, siblings = list[PathNode](), self._heads
        for place in steps:
            if place not in siblings:
                break
            chain.append(siblings[place])
            siblings = chain[-1].children
        if len(chain) < len(steps) or path not in chain[-1].ends:
            raise Defect(f"path '{path}' is to be deleted and was never inserted")
        chain[-1].ends.remove(path)
        above = self._heads
        for node in chain:
            node.frequency -= 1
            if not node.frequency:
                del above[node.place]
                return  # and with it all behind it
            above = node.children


def segment_tree(head: PathNode) -> Segment:
    """Cut a cluster wherever paths part or end. Shared segments are those that two and more paths go through.

    Notes
    -----
    Differs from the book: its loop goes on while a node has more than one child, which would cut at once in front of every
    operator with one child; and it does not say what becomes of paths that end within another one.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Algorithms 4 and 5.

    Examples
    --------
    >>> clusters = PathClusters()
    >>> for id, steps in {"1": "ABC", "2": "ABD"}.items():
    ...     clusters.insert(id, [(name, 0) for name in steps])
    >>> (head,) = clusters.heads
    >>> [("".join(node.place[0] for node in found.nodes), found.frequency) for found in segment_tree(head).walk()]
    [('AB', 2), ('C', 1), ('D', 1)]
    """
    nodes = [head]
    while len(nodes[-1].children) == 1 and not nodes[-1].ends:
        nodes += nodes[-1].children.values()
    return Segment(tuple(nodes), tuple(segment_tree(nodes[-1].children[place]) for place in sorted(nodes[-1].children)))
