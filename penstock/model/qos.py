"""What a query expects of its answers over time: quality-of-service graphs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from penstock.errors import InvalidDeclaration
from penstock.model.drop_preferences import DropPreference


class Measure(StrEnum):
    """What can be expected, with its unit."""

    #: Seconds from the newest input row of an answer to the answer.
    LATENCY = "latency"
    #: Bytes in queues.
    MEMORY = "memory"
    #: Answers per second.
    THROUGHPUT = "throughput"


class Priority(StrEnum):
    """How serious a violation is; the weight is used when strategies are compared."""

    MUST_SATISFY = "must_satisfy"
    BEST_EFFORT = "best_effort"
    DONT_CARE = "dont_care"

    @property
    def weight(self) -> float:
        return _WEIGHTS[self.value]

    @property
    def next_weight(self) -> float:
        """That of the next lower class, 0 behind the last."""
        return max((weight for weight in _WEIGHTS.values() if weight < self.weight), default=0.0)


_WEIGHTS = {"must_satisfy": 1.0, "best_effort": 0.5, "dont_care": 0.01}


@dataclass(frozen=True, slots=True)
class Interval:
    """A straight piece of a graph, from (x1, y1) to (x2, y2); x is seconds since the query's start."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class QoSGraph:
    """Expected value as a piecewise linear function of time.

    Between two intervals the value runs straight from the end of one to the start of the next; before the first and after
    the last it stays. Where two intervals meet at different values the later one counts.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 10.5.

    Examples
    --------
    >>> graph = QoSGraph.of((0, 1, 100, 1), (200, 2, 300, 3))
    >>> [graph.expected(x) for x in (50, 150, 200, 250, 400)]
    [1.0, 1.5, 2.0, 2.5, 3.0]
    """

    intervals: tuple[Interval, ...]

    def __post_init__(self) -> None:
        if not self.intervals:
            raise InvalidDeclaration("a QoS graph without an interval expects nothing; give at least one: [x1, y1, x2, y2]")
        for piece in self.intervals:
            if piece.x2 < piece.x1:
                raise InvalidDeclaration(f"the interval {_shown(piece)} ends before it begins; x2 must not be less than x1")
            if piece.y1 < 0 or piece.y2 < 0:
                raise InvalidDeclaration(f"the interval {_shown(piece)} expects a negative value; y must be 0 or more")
        for one, other in pairwise(self.intervals):
            if other.x1 < one.x2:
                raise InvalidDeclaration(
                    f"the intervals {_shown(one)} and {_shown(other)} overlap; give them in order, apart or touching"
                )

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Moments at which another piece begins to count."""
        return tuple(piece.x1 for piece in self.intervals[1:])

    @classmethod
    def of(cls, *intervals: Iterable[float]) -> QoSGraph:
        return cls(tuple(Interval(*map(float, piece)) for piece in intervals))

    def expected(self, x: float) -> float:
        """The value expected `x` seconds after the query's start."""
        # The last corner at or before x: at a step that is the start of the later interval.
        corners = [corner for piece in self.intervals for corner in ((piece.x1, piece.y1), (piece.x2, piece.y2))]
        after = bisect_right([at for at, _ in corners], x)
        if after == 0:
            return corners[0][1]
        if after == len(corners):
            return corners[-1][1]
        (x1, y1), (x2, y2) = corners[after - 1], corners[after]
        return y1 + (y2 - y1) * (x - x1) / (x2 - x1)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One measure of a query: its graph and how serious a violation is."""

    measure: Measure
    graph: QoSGraph
    priority: Priority

    def is_violated(self, measured: float, x: float, lookahead: float = 0.0) -> bool:
        """Whether a value measured now is worse than what is expected `lookahead` seconds from now."""
        return self.relative_violation(measured, x, lookahead) > 0

    def relative_violation(self, measured: float, x: float, lookahead: float = 0.0) -> float:
        """By which part of the expected value the measured one is worse; negative when it is better."""
        expected = self.graph.expected(x + lookahead)
        excess = expected - measured if self.measure is Measure.THROUGHPUT else measured - expected
        if expected:
            return excess / expected
        return 0.0 if excess == 0 else float("inf") if excess > 0 else float("-inf")


@dataclass(frozen=True, slots=True)
class QoSSpecification:
    """All expectations of one query.

    Parameters
    ----------
    max_latency
        Greatest tolerated latency in seconds, for planning what to shed; None: not given.
    max_relative_error
        Greatest tolerated relative error of answers; 0 forbids shedding.
    drop
        What may be dropped, if anything.
    """

    expectations: tuple[Expectation, ...] = ()
    max_latency: float | None = None
    max_relative_error: float = 0.0
    drop: DropPreference = field(default_factory=DropPreference)

    def __post_init__(self) -> None:
        named = [item.measure for item in self.expectations]
        if len(set(named)) < len(named):
            raise InvalidDeclaration(f"a measure is given twice among {', '.join(named)}; give each one graph")
        if not 0.0 <= self.max_relative_error <= 1.0:
            raise InvalidDeclaration(f"a relative error of {self.max_relative_error} makes no sense; give a value from 0 to 1")

    def of(self, measure: Measure) -> Expectation | None:
        return next((item for item in self.expectations if item.measure is measure), None)


def _shown(piece: Interval) -> str:
    return f"[{piece.x1:g}, {piece.y1:g}, {piece.x2:g}, {piece.y2:g}]"
