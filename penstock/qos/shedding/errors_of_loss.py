"""How much answers suffer from loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penstock.errors import InvalidDeclaration


@dataclass(frozen=True, slots=True)
class ErrorCurve:
    """Relative error of answers by the share of rows that is lost: straight lines between points.

    Without points the error is the share itself, which is right for random loss.

    Parameters
    ----------
    points
        (share, error) pairs; both grow. (0, 0) is always one of them, and behind the last one the error stays.

    Examples
    --------
    >>> curve = ErrorCurve(((0.5, 0.1), (1.0, 0.4)))
    >>> curve.error(0.25), curve.share(0.25), curve.share(0.4)
    (0.05, 0.75, 1.0)
    """

    points: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    def __post_init__(self) -> None:
        grows = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise([(0.0, 0.0), *self.points]))
        if not self.points or not grows or self.points[-1][0] > 1.0:
            raise InvalidDeclaration(
                f"the points {list(self.points)} are no error curve; give (share, error) with shares that grow, 0 < share <= 1, "
                "and errors that do not fall"
            )

    def error(self, share: float) -> float:
        for (x1, y1), (x2, y2) in self._pieces():
            if share <= x2:
                return y1 + (y2 - y1) * (share - x1) / (x2 - x1)
        return self.points[-1][1]

    def share(self, error: float) -> float:
        """The greatest share that causes no more than this error."""
        found = 0.0
        for (x1, y1), (x2, y2) in self._pieces():
            if error < y1:
                break
            found = x2 if error >= y2 else x1 + (x2 - x1) * (error - y1) / (y2 - y1)
        return found if error < self.points[-1][1] else 1.0

    def _pieces(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        return list(pairwise([(0.0, 0.0), *self.points]))


#: Of random loss.
EVEN = ErrorCurve()
