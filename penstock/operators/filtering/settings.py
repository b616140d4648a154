"""Parameters of adaptive orders: one frozen value with the published defaults, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.errors import InvalidConfiguration, suggestion

_PLACE = "configuration of an adaptive filter"

#: Profile rows are words of 64 bits.
MOST_FILTERS = 64


class Algorithm(StrEnum):
    """Which policy keeps the order."""

    FIXED = "fixed"
    RANDOM = "random"
    AGREEDY = "agreedy"
    SWEEP = "sweep"
    INDEPENDENT = "independent"
    LOCAL_SWAPS = "local_swaps"


class Move(StrEnum):
    """How a filter is brought forward."""

    #: The filters between move back by one place; reproduces the paper's worked example.
    ROTATE = "rotate"
    #: It changes places with the filter there, as in the paper's pseudo-code.
    SWAP = "swap"


class Check(StrEnum):
    """When Sweep compares."""

    STAGE_END = "stage_end"
    #: With every profiled row from `min_fill` on: reacts sooner and errs more often.
    CONTINUOUS = "continuous"


class WindowKind(StrEnum):
    """What bounds the profile window."""

    ROWS = "rows"
    #: `max_age` alone; nothing is tested below `min_fill` rows.
    TIME = "time"


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """How an order is kept; the rows that pass never depend on it.

    Parameters
    ----------
    algorithm
        The policy. A-Greedy follows correlations at once; Sweep and LocalSwaps cost less and react later; Independent
        ignores correlations.
    probability
        Share of the rejected rows that is profiled; 0 freezes the order. None: 0.01, for Independent 0.005.
    window_rows
        Profile rows remembered. None: 1000.
    alpha
        An order is repaired when a filter does worse than this share of what a later one would do: less is calmer.
    stage_rows
        Profile rows for which Sweep watches one position.
    min_fill
        Profile rows before anything is compared. None: 100, for LocalSwaps 500; at most the window.
    min_support
        A filter that rejects fewer profile rows than this challenges nobody.
    max_age
        Profile rows older than this, in the unit of event time, are forgotten even when no new ones come; None: never.
    seed
        Of the random order.

    References
    ----------
    [babu2004] Table 1.

    Examples
    --------
    >>> OrderSettings(algorithm="local_swaps").least_rows
    500
    """

    algorithm: Algorithm = Algorithm.AGREEDY
    probability: float | None = None
    window_rows: int | None = None
    alpha: float = 0.9
    stage_rows: int = 500
    min_fill: int | None = None
    min_support: int = 0
    check: Check = Check.STAGE_END
    move: Move = Move.ROTATE
    window: WindowKind = WindowKind.ROWS
    max_age: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("algorithm", Algorithm), ("check", Check), ("move", Move), ("window", WindowKind)):
            object.__setattr__(self, name, _member(kind, name, getattr(self, name)))
        refuse_unless(0.0 <= self.profiled_share <= 1.0, "probability", self.probability, "lie between 0 and 1")
        refuse_unless(0.0 < self.alpha <= 1.0, "alpha", self.alpha, "be greater than 0 and at most 1")
        for name in ("window_rows", "stage_rows", "min_fill", "max_age"):
            value = getattr(self, name)
            refuse_unless(value is None or value >= 1, name, value, "be at least 1")
        refuse_unless(self.min_support >= 0, "min_support", self.min_support, "be at least 0")
        room = self.evidence_rows
        refuse_unless(
            self.min_fill is None or room is None or self.min_fill <= room, "min_fill", self.min_fill,
            f"be at most the {room} rows that are remembered",
        )  # fmt: skip
        if self.window is WindowKind.TIME and self.max_age is None:
            raise InvalidConfiguration("a window by time needs max_age; it is not given", _PLACE)

    @property
    def profiled_share(self) -> float:
        """The profiling probability, or the published default of the algorithm."""
        if self.probability is not None:
            return self.probability
        return 0.005 if self.algorithm is Algorithm.INDEPENDENT else 0.01

    @property
    def kept_rows(self) -> int | None:
        """Profile rows remembered at most; None when only age counts."""
        if self.window_rows is not None:
            return self.window_rows
        return None if self.window is WindowKind.TIME else 1000

    @property
    def evidence_rows(self) -> int | None:
        """Rows among which evidence is gathered: a stage of Sweep, else the window."""
        return self.stage_rows if self.algorithm is Algorithm.SWEEP else self.kept_rows

    @property
    def least_rows(self) -> int:
        """Profile rows before anything is compared."""
        if self.min_fill is not None:
            return self.min_fill
        usual = 500 if self.algorithm is Algorithm.LOCAL_SWAPS else 100
        return usual if self.evidence_rows is None else min(usual, self.evidence_rows)


class OnError(StrEnum):
    """What happens to a row on which a filter raises."""

    FAIL = "fail"
    #: The row goes to the quarantine output with the reason `filter-failed`.
    DEAD_LETTER = "dead_letter"


class Mode(StrEnum):
    """Who decides."""

    #: Shards report profiled rows, the driver decides, and its decisions come back as controls.
    GLOBAL = "global"
    #: Each shard for itself, at once, from its own rows; costs are declared or told by a control.
    SHARD = "shard"
    #: As GLOBAL; and between decisions, once costs are known, each shard repairs the order at once, from its own rows.
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """How a conjunction is executed; the rows that pass never depend on it.

    Parameters
    ----------
    order
        How the order is kept.
    chunk_rows
        Rows between two decisions; 1 is the published behaviour. Cheap filters cost little more than the calls, so that
        fewer, larger chunks are faster (eight comparisons took a third of the time of chunks of 8,192 rows).
    seed
        Of the profiling coins.
    trimmed
        Share of the slowest calls that is left out when costs are fitted, against stalls.

    Examples
    --------
    >>> FilterSettings(OrderSettings("sweep"), mode="shard").chunk_rows
    32768
    """

    order: OrderSettings = field(default_factory=OrderSettings)
    chunk_rows: int = 32_768
    seed: int = 0
    on_error: OnError = OnError.FAIL
    mode: Mode = Mode.GLOBAL
    trimmed: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_error", _member(OnError, "on_error", self.on_error))
        object.__setattr__(self, "mode", _member(Mode, "mode", self.mode))
        refuse_unless(self.chunk_rows >= 1, "chunk_rows", self.chunk_rows, "be at least 1")
        refuse_unless(0.0 <= self.trimmed < 1.0, "trimmed", self.trimmed, "be at least 0 and less than 1")

    @property
    def has_driver(self) -> bool:
        """Whether shards report to the driver and obey it."""
        return self.mode is not Mode.SHARD


def refuse_unless(holds: bool, name: str, value: Any, expected: str) -> None:
    """Reject a parameter by name and value."""
    if not holds:
        raise InvalidConfiguration(f"{name} is {value!r}; it must {expected}", _PLACE)


def _member(kind: type[StrEnum], name: str, value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        known = suggestion(str(value), [item.value for item in kind]).replace("it has", "there are", 1)
        raise InvalidConfiguration(f"{name} is {value!r}; {known}", _PLACE) from None
