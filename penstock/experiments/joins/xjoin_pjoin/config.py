"""Parameters of PJoin and XJoin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from penstock.errors import InvalidOption
from penstock.experiments.joins.xjoin_pjoin.registry import REFERENCE, XJOIN, Registry


class Access(StrEnum):
    """How a purge finds the tuples that punctuations have made useless."""

    #: Walk the whole state, as published; costs grow with the state.
    SCAN = "scan"
    #: Look up the keys.
    INDEX = "index"


class DiskJoin(StrEnum):
    """How left-over joins of spilled tuples are done."""

    #: A bucket is completed as a whole; one time per bucket tells what has been produced.
    FULL = "full"
    #: XJoin's second stage: tuples on disk probe the partner's memory, and a probe history tells what has been produced.
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class PJoinConfig:
    """How a PJoin works; the answer never depends on it.

    Parameters
    ----------
    buckets
        Hash buckets per input: the unit of relocation, and what a probe scans.
    purge_access
        How a purge finds what it removes.
    purge_threshold
        N of PJoin-N: punctuations that arrive before a purge. 1 is eager.
    memory_rows
        Tuples of both inputs that stay in memory; None: all of them.
    disk_join
        How left-over joins are done while both inputs are idle.
    activation_share, activation_least
        A bucket is worth a disk join when it promises more new results than this share of its tuples, and than this number.
    propagate_count
        Punctuations between two propagations; None: 1 with `Access.INDEX`, otherwise the purge threshold.
    propagate_time
        Time between two propagations; None: off.
    registry
        Which component runs at which event.
    uses_punctuations
        False: punctuations are ignored, as XJoin does.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    [urhan2000] Urhan, Franklin. XJoin: A Reactively-Scheduled Pipelined Join Operator. IEEE Data Engineering Bulletin 2000.

    Examples
    --------
    >>> PJoinConfig.published(purge_threshold=100).propagations_every
    100
    """

    buckets: int = 64
    purge_access: Access = Access.SCAN
    purge_threshold: int = 1
    memory_rows: int | None = None
    disk_join: DiskJoin = DiskJoin.FULL
    activation_share: float = 0.01
    activation_least: float = 1.0
    propagate_count: int | None = None
    propagate_time: int | None = None
    registry: Registry = REFERENCE
    uses_punctuations: bool = True

    def __post_init__(self) -> None:
        for name in ("buckets", "purge_threshold", "memory_rows", "propagate_count", "propagate_time"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidOption(f"{name} is {value}; it must be greater than 0", "PJoin")

    @classmethod
    def published(cls, purge_threshold: int = 1, **changes: Any) -> Self:
        """PJoin-N: lazy index, push by count, left-over joins before a propagation."""
        return cls(purge_threshold=purge_threshold, **({"registry": REFERENCE.with_spilled_state()} | changes))

    @classmethod
    def xjoin(cls, **changes: Any) -> Self:
        """XJoin: the join that ignores punctuations."""
        return cls(registry=XJOIN, uses_punctuations=False, **changes)

    @property
    def propagations_every(self) -> int:
        """The count propagation threshold."""
        if self.propagate_count is not None:
            return self.propagate_count
        return 1 if self.purge_access is Access.INDEX else self.purge_threshold
