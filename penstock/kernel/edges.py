"""What declared order says across tasks: ordered and clustered attributes of a source partition, from the edges of its pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from penstock.kernel.packets import LAST, Packet
from penstock.metadata.generation import ClusterEdge, OpenClusters, coded_clusters, decoded_clusters
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import decode, encode
from penstock.model.value_sets import Pattern, between, constant, one_of


class Edges:
    """Remembers for each source partition the values that are open; a packing task sees only a piece of it.

    Parameters
    ----------
    names
        Attributes of the entry.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._clustered: dict[str, dict[int, Any]] = {}
        self._open: dict[str, dict[int, OpenClusters]] = {}

    def together(self, partition: int, pieces: Sequence[Packet]) -> list[Punctuation]:
        """Ordered and clustered attributes: what the headers of a partition say together, and with earlier ones."""
        marks: list[Punctuation] = []
        edges: dict[str, list[Any]] = {}
        for packet in pieces:
            for label, edge in packet.edges.items():
                edges.setdefault(label, []).append(edge)
        for label, found in edges.items():
            kind, column = label.split(":", 1)
            if kind == "ordered":
                # The range ends below the newest value; the packing task has judged the rows it was learnt from.
                marks += [self._mark(column, between(None, decode(most), True, False), position) for most, position in found]
            elif kind == "clustered":
                marks += self._next_cluster(column, partition, [end for edge in found for end in edge])
            elif kind in ("within", "together"):
                clusters = self._open.setdefault(column, {}).setdefault(partition, OpenClusters())
                behind = [packet.sequence - 1 for packet in pieces if label in packet.edges]
                closed = _followed(clusters, kind, list(zip(behind, found, strict=True)), overlap(pieces))
                marks += [self._mark(column, one_of(values), at) for at, values in closed if values]
        return marks

    def _next_cluster(self, column: str, partition: int, ends: Sequence[tuple[Any, int]]) -> list[Punctuation]:
        """A value that another one follows is closed from that one on. `ends` are those of all pieces: value and position."""
        known = self._clustered.setdefault(column, {})
        marks = []
        for coded_value, position in sorted(ends, key=itemgetter(1)):
            value = decode(coded_value)
            before = known.get(partition)
            if before is not None and not constant(before).matches(value):
                marks.append(self._mark(column, constant(before), position))
            known[partition] = value
        return marks

    def _mark(self, column: str, pattern: Pattern, pos: int) -> Punctuation:
        return Punctuation.of(self._names, 0, pos, **{column: pattern})

    def to_json(self) -> dict[str, Any]:
        """State that `restore` takes back."""
        clustered = {
            column: [[partition, encode(value)] for partition, value in known.items()] for column, known in self._clustered.items()
        }
        return {"clustered": clustered, "open_clusters": coded_clusters(self._open)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._clustered = {name: {key: decode(value) for key, value in known} for name, known in saved["clustered"].items()}
        # Shards saved before there were scopes have no open ones.
        self._open = decoded_clusters(saved.get("open_clusters", {}))


def overlap(pieces: Sequence[Packet]) -> bool:
    """Whether tasks hold rows of one partition of which none are all before the others; pieces come by their first position."""
    return any(following.sequence <= packet.last for packet, following in pairwise(pieces))


def _followed(clusters: OpenClusters, kind: str, found: Sequence[tuple[int, Any]], is_mixed: bool) -> list[tuple[int, list[Any]]]:
    """Values that pieces of a partition turn out to have closed, and behind which position. `found` has pieces' edges by it."""
    if kind == "together":
        seen = {decode(value) for _, edge in found for value in edge[2]}
        return [(LAST, clusters.follow_together(found[0][1][0], sum(edge[1] for _, edge in found), seen))]
    edges = [(behind, ClusterEdge.from_json(edge)) for behind, edge in found]
    if not is_mixed:
        return [(behind, clusters.follow(edge)) for behind, edge in edges]
    seen = {value for _, edge in edges for value, _ in (*edge.head, *edge.tail)}
    return [(LAST, clusters.follow_together(edges[0][1].within, sum(edge.rows for _, edge in edges), seen))]
