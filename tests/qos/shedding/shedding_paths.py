"""Paths and figures of the golden examples: operators are letters, each with one port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.kernel.work import Place
from penstock.qos.shedding.load import LoadModel, OperatorFigures
from penstock.qos.shedding.paths import PathClusters, Segment, segment_tree
from penstock.qos.shedding.placement import QueryPath

#: Capacity and selectivity.
Figures = Mapping[str, tuple[float, float]]

G2: Figures = {"A": (10_000, 0.5), "B": (5_000, 0.4), "C": (2_000, 1), "D": (1_000, 1)}
G3: Figures = {
    "A": (10_000, 0.8), "B": (8_000, 0.5), "C": (4_000, 0.5), "D": (4_000, 0.5), "E": (2_000, 0.8), "F": (2_000, 1),
    "G": (1_000, 1), "H": (800, 1),
}  # fmt: skip
G5: Figures = {"X": (50_000, 0.1), "Y": (20_000, 0.5), "Z": (1_000, 1)}


def steps(text: str) -> tuple[Place, ...]:
    return tuple((letter, 0) for letter in text)


def path(text: str, error: float = 0.0, latency: float | None = 1.0, id: str = "") -> QueryPath:
    return QueryPath(id or text, id or text, steps(text), error, latency)


#: Q1, Q2 and Q3 with what they tolerate.
G4 = (path("ABDF", 0.15), path("ABCEH", 0.25), path("ABCEG", 0.5))


def clusters_of(paths: Iterable[QueryPath]) -> PathClusters:
    found = PathClusters()
    for each in paths:
        found.insert(each.id, each.steps)
    return found


def model_of(paths: Iterable[QueryPath], figures: Figures, tests_per_s: float = 0.0) -> LoadModel:
    known = {(name, 0): OperatorFigures(*numbers) for name, numbers in figures.items()}
    return LoadModel(clusters_of(paths), known, 1 / tests_per_s if tests_per_s else 0.0)


def shared_segments(clusters: PathClusters) -> list[Segment]:
    """Those that two and more paths go through."""
    return [found for head in clusters.heads for found in segment_tree(head).walk() if found.frequency > 1]


def at(**rates: float) -> dict[Place, float]:
    return {(name, 0): rate for name, rate in rates.items()}
