"""Which rows a query would rather lose, if some must be lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DropKind(StrEnum):
    """Whom a shedder drops first."""

    RANDOM = "random"
    LOWEST = "lowest"
    HIGHEST = "highest"
    #: Values nearest to a centre.
    CENTER = "center"
    #: Values farthest from a centre.
    OUTLIER = "outlier"


class DropMode(StrEnum):
    """How a share becomes a condition on values."""

    #: So many of the rows: the share that is dropped is the share that was asked for.
    QUANTILE = "quantile"
    #: So much of the range of values: what is dropped depends on how values are spread.
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class DropPreference:
    """What a contract says about loss beside its size.

    Parameters
    ----------
    column
        Of a numeric column, unless rows are dropped at random.
    center
        Of CENTER and OUTLIER; the running mean if None.
    compensate
        Whether COUNT, SUM and AVG are estimates for all rows, with those that were dropped; only at random.
    anywhere
        Whether rows may be dropped even where loss changes the meaning of answers: in front of row windows, DISTINCT, outer
        and anti joins, negation.
    """

    kind: DropKind = DropKind.RANDOM
    column: str | None = None
    center: float | None = None
    mode: DropMode = DropMode.QUANTILE
    compensate: bool = False
    anywhere: bool = False
