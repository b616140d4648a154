"""Where shedders stand: the best place of every segment, then only those that are worth more than the ones behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Place
from penstock.model.drop_preferences import DropPreference
from penstock.qos.shedding.errors_of_loss import EVEN, ErrorCurve
from penstock.qos.shedding.load import LoadModel
from penstock.qos.shedding.paths import PathNode, Segment, segment_tree

#: Budgets below this are used up: what is left of subtracting them.
_NOTHING = 1e-12
#: What contracts prefer that say nothing.
RANDOM = DropPreference()


@dataclass(frozen=True, slots=True)
class QueryPath:
    """One way of rows from a stream to the answers of a query.

    Parameters
    ----------
    steps
        Operators with the ports by which they are reached, that of the stream first.
    max_error
        Relative error that loss on this path may cause; 0: nothing may be lost.
    max_latency_s
        How long answers may take; None: nothing is shed because of this path.
    drop
        Which rows the query would rather lose.
    curve
        What loss means for the error.
    """

    id: str
    query: str
    steps: tuple[Place, ...]
    max_error: float = 0.0
    max_latency_s: float | None = None
    drop: DropPreference = RANDOM
    curve: ErrorCurve = EVEN

    def __post_init__(self) -> None:
        if isnan(self.max_error) or not 0.0 <= self.max_error <= 1.0:
            raise InvalidDeclaration(f"query '{self.query}' has a max_relative_error of {self.max_error}; give a value from 0 to 1")
        if self.max_latency_s is not None and not self.max_latency_s > 0:
            raise InvalidDeclaration(f"query '{self.query}' has a max_latency of {self.max_latency_s} s; give a value > 0")


def error_per_path(max_error: float, paths: int) -> float:
    """What each of several paths that meet in joins may lose, so that no more than `max_error` of the results is lost in all.

    Notes
    -----
    Differs from the book, which gives every path the whole error: of a join of two inputs 1 - 0.85² = 27.75 % may be lost then
    where 15 % are allowed.

    Examples
    --------
    >>> round(error_per_path(0.15, 2), 6), round(error_per_path(0.15, 3), 6), error_per_path(0.15, 1)
    (0.078046, 0.052732, 0.15)
    """
    return max_error if paths <= 1 else 1.0 - (1.0 - max_error) ** (1.0 / paths)


class MergeRule(StrEnum):
    """When one shedder in front of a fan-out is worth more than several behind it."""

    #: By the load it saves for an error of one on every path.
    PATHS = "paths"
    #: As published: by numbers of shedders, whatever the number of paths they cover.
    SHEDDERS = "shedders"


@dataclass(frozen=True, slots=True)
class PlacedShedder:
    """A shedder with its place; which share it drops is decided by the load.

    Parameters
    ----------
    place
        The operator, and port, in front of whose queue it stands.
    head
        First operator of the cluster, whose rate tells how much comes here.
    paths
        Those that lose what it drops.
    capacity
        Greatest share that it may drop.
    worth
        Its weight, work saved for the error caused, at one row per second at the head; it grows with the rate.
    """

    place: Place
    head: Place
    paths: tuple[str, ...]
    capacity: float
    worth: float
    drop: DropPreference = RANDOM


class Placement:
    """Finds places for the shedders of all clusters; needed again when queries, prices or contracts change, not when rates do.

    Parameters
    ----------
    is_legal
        Whether rows can be judged in front of an operator as a query wants it: its column must be there.

    Notes
    -----
    Differs from the book: a shared segment is subtracted each time it is counted twice; the error of a shared random shedder
    is the sum over its paths; error budgets belong to paths and not to shedders. The book's rule for merging is
    `MergeRule.SHEDDERS`.

    A place is used only if all paths through it prefer to lose the same rows, and if one way alone leads there.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Sections 7.4.1 and 7.4.2,
    (7.9) and (7.10).
    """

    def __init__(
        self, model: LoadModel, paths: Iterable[QueryPath], rule: MergeRule = MergeRule.PATHS,
        is_legal: Callable[[Place, DropPreference], bool] = lambda place, drop: True,
    ) -> None:  # fmt: skip
        self._model = model
        self._paths = {path.id: path for path in paths}
        self._rule = rule
        self._is_legal = is_legal

    def shedders(self) -> list[PlacedShedder]:
        """Those of all clusters, from the leaves on; none where it would cost more than it saves."""
        found = []
        for head in self._model.clusters.heads:
            _, kept = self._merged(segment_tree(head))
            budgets = {path: self._paths[path].max_error for path in head.paths}
            found += [placed for node in kept if (placed := self._within(node, budgets)) is not None]
        return found

    def _merged(self, segment: Segment) -> tuple[list[PlacedShedder], list[PathNode]]:
        """The first shedders met on the ways through a segment, and the places of all that are kept, from the leaf on."""
        behind = [self._merged(child) for child in segment.children]
        front = [placed for found, _ in behind for placed in found]
        kept = [node for _, found in behind for node in found]
        best = self.best(segment)
        if best is None or (front and not self._is_worth_more(best[1], front)):
            return front, kept
        return [best[1]], [best[0], *kept]

    def _is_worth_more(self, main: PlacedShedder, branches: Sequence[PlacedShedder]) -> bool:
        if self._rule is MergeRule.SHEDDERS:
            return len(branches) * main.worth > sum(each.worth for each in branches)
        return len(main.paths) * main.worth > sum(len(each.paths) * each.worth for each in branches)

    def _within(self, node: PathNode, budgets: dict[str, float]) -> PlacedShedder | None:
        """A shedder with what shedders nearer to the leaf have left of the errors allowed; it takes its part of them."""
        share = min(self._paths[path].curve.share(budgets[path]) for path in node.paths)
        if share <= _NOTHING:
            return None
        for path in node.paths:
            budgets[path] = max(budgets[path] - self._paths[path].curve.error(share), 0.0)
        return self.weighed(node, share)

    def weighed(self, node: PathNode, capacity: float | None = None) -> PlacedShedder | None:
        """A shedder in front of a node, with the greatest share that all its paths allow, or another one."""
        paths = [self._paths[path] for path in node.paths]
        share = min(path.curve.share(path.max_error) for path in paths) if capacity is None else capacity
        drops = {path.drop for path in paths}
        if share <= _NOTHING or len(drops) > 1 or not self._model.is_reached_once(node.place):
            return None
        (drop,) = drops
        if not self._is_legal(node.place, drop):
            return None
        saved = share * self._model.demand(node) - self._model.test_s
        error = sum(path.curve.error(share) for path in paths)
        worth = self._model.reach(node.place) * saved / max(error, _NOTHING)
        return PlacedShedder(node.place, self._model.chain(node.place)[0].place, node.paths, share, worth, drop)

    def best(self, segment: Segment) -> tuple[PathNode, PlacedShedder] | None:
        """The best place of a segment, the one nearest to the leaf of equal ones; None if none saves anything."""
        found = [(node, placed) for node in segment.nodes if (placed := self.weighed(node)) is not None and placed.worth > 0]
        return max(found, key=lambda each: each[1].worth, default=None)  # max: the first of equal ones
