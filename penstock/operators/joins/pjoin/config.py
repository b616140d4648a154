"""Parameters of PJoin and XJoin: one frozen value, every change of which is a new value."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from penstock.errors import InvalidConfiguration, suggestion
from penstock.model.declarations import RowPolicy
from penstock.operators.joins.pjoin.registry import PROMPT, REFERENCE, STANDARD, XJOIN, Registry, member

#: The purge threshold that the join finds for itself.
AUTO: Literal["auto"] = "auto"
PurgeThreshold: TypeAlias = int | Literal["auto"]

#: What may change while a join runs, besides the registry.
CHANGEABLE = (
    "purge_threshold",
    "memory_rows",
    "memory_bytes",
    "activation_share",
    "activation_least",
    "propagate_count",
    "propagate_time",
    "registry",
)


class UnboundedStateWarning(UserWarning):
    """Nothing in the registry ever purges."""


class Access(StrEnum):
    """How stored rows are found."""

    #: Walk the whole bucket (probe) or the whole state (purge), as published; costs grow with the state.
    SCAN = "scan"
    #: Look up the key; ranges look at the distinct keys.
    INDEX = "index"


class DiskJoin(StrEnum):
    """How left-over joins of spilled rows are done."""

    #: A bucket is completed as a whole; one time per bucket tells what has been produced.
    FULL = "full"
    #: XJoin's second stage: rows on disk probe the partner's memory, and a probe history tells what has been produced.
    PARTIAL = "partial"


class ForgetClosed(StrEnum):
    """When closed values are forgotten."""

    NEVER = "never"
    #: When both inputs have closed them; a later violation is then no longer noticed.
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class PJoinConfig:
    """How a PJoin works; the answer never depends on it.

    The defaults suit production: keys are looked up, each punctuation purges and is passed on at once. `published` gives
    the bucket-scanning join of the literature, `xjoin` the one that ignores punctuations.

    Parameters
    ----------
    buckets
        Hash buckets per input: the unit of relocation, and what a probe scans under `Access.SCAN`.
    probe_access, purge_access
        How partners of a new row, and rows a punctuation makes useless, are found.
    purge_threshold
        N: punctuations (values of a list count one by one) that arrive before a purge. 1 is eager. `auto` starts with the
        optimum of the cost model and climbs from there; with `Access.INDEX` it is 1.
    memory_rows
        Rows of both inputs that stay in memory; None: only `memory_bytes` counts.
    memory_bytes
        The same in bytes of the rows' columns. Ignored where there are no columns (`run_items`).
    activation_share, activation_least
        A bucket is worth a disk join when it promises more new results than this share of its rows, and than this number.
    propagate_count
        Punctuations between two propagations; None: 1 with `Access.INDEX`, otherwise the purge threshold.
    propagate_time
        Time between two propagations, in the unit of the streams; None: off.
    registry
        Which component runs at which event.
    uses_punctuations
        False: punctuations are ignored, as XJoin does.
    on_violation
        What happens to a row that matches a punctuation of its own input before it. `TRUST`: it is joined with what is
        still stored, and not stored itself.
    expand_lists
        Treat a list of keys as that many constants, so that each may leave alone.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 4.
    [urhan2000] Urhan, Franklin. XJoin: A Reactively-Scheduled Pipelined Join Operator. IEEE Data Engineering Bulletin 2000.

    Examples
    --------
    >>> lazy = PJoinConfig.published(purge_threshold=100)
    >>> lazy.purge_access, lazy.buckets
    (<Access.SCAN: 'scan'>, 64)
    >>> lazy.changed({"purge_threshold": 10}).purge_threshold
    10
    """

    buckets: int = 64
    probe_access: Access = Access.INDEX
    purge_access: Access = Access.INDEX
    purge_threshold: PurgeThreshold = AUTO
    memory_rows: int | None = None
    memory_bytes: int = 256 << 20
    disk_join: DiskJoin = DiskJoin.FULL
    activation_share: float = 0.01
    activation_least: float = 1.0
    propagate_count: int | None = None
    propagate_time: int | None = None
    registry: Registry = PROMPT
    uses_punctuations: bool = True
    on_violation: RowPolicy = RowPolicy.ERROR
    forget_closed: ForgetClosed = ForgetClosed.NEVER
    expand_lists: bool = True

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            object.__setattr__(self, name, member(kind, getattr(self, name)))
        for name in ("buckets", "memory_rows", "memory_bytes", "activation_share", "activation_least", "propagate_count"):
            _check_positive(name, getattr(self, name))
        _check_positive("propagate_time", self.propagate_time)
        if self.purge_threshold != AUTO:
            _check_positive("purge_threshold", self.purge_threshold)

    def warn_if_unbounded(self) -> None:
        """Tell whoever chose the registry that nothing in it purges."""
        if self.uses_punctuations and not self.registry.purges:
            text = "no rule of the registry purges: the state of this join is unbounded"
            warnings.warn(text, UnboundedStateWarning, stacklevel=2)

    @classmethod
    def published(cls, purge_threshold: PurgeThreshold = 1, **changes: Any) -> PJoinConfig:
        """PJoin-N of the literature: bucket scans for probe and purge, lazy index, push by count."""
        given: dict[str, Any] = {
            "probe_access": Access.SCAN,
            "purge_access": Access.SCAN,
            "registry": REFERENCE.with_spilled_state(),
        } | changes
        return cls(purge_threshold=purge_threshold, **given)

    @classmethod
    def xjoin(cls, **changes: Any) -> PJoinConfig:
        """XJoin of the literature: bucket scans, punctuations ignored."""
        given: dict[str, Any] = {"probe_access": Access.SCAN, "registry": XJOIN, "uses_punctuations": False} | changes
        return cls(**given)

    def changed(self, detail: Mapping[str, Any]) -> PJoinConfig:
        """The configuration after a control element; `registry` may be a standard name or a list of rules.

        Raises
        ------
        InvalidConfiguration
            When a parameter is unknown, cannot change while the join runs, or has no legal value.
        """
        changes = dict(detail)
        for name in changes:
            if name not in CHANGEABLE:
                known = name in {field.name for field in fields(self)}
                text = f"'{name}' cannot change while the join runs" if known else f"there is no parameter '{name}'"
                raise InvalidConfiguration(f"{text}; {suggestion(name, CHANGEABLE)}", "control of a join")
        if "registry" in changes:
            changes["registry"] = _registry(changes["registry"])
        return replace(self, **changes)

    def changeable_json(self) -> dict[str, Any]:
        """What `changed` takes, as JSON values: the part of a configuration that is state."""
        found = {name: getattr(self, name) for name in CHANGEABLE if name != "registry"}
        return found | {"registry": self.registry.to_json()}


_CHOICES: Mapping[str, type[StrEnum]] = {
    "probe_access": Access,
    "purge_access": Access,
    "disk_join": DiskJoin,
    "on_violation": RowPolicy,
    "forget_closed": ForgetClosed,
}


def named_registry(name: str) -> Registry:
    """A standard registry as a join that may spill needs it: else rows that left memory would hold event time back for ever.

    Examples
    --------
    >>> named_registry("eager") == PROMPT
    True
    """
    if name not in STANDARD:
        raise InvalidConfiguration(f"there is no registry '{name}'; {suggestion(name, STANDARD)}", "control of a join")
    return STANDARD[name].with_spilled_state() if name != "xjoin" else STANDARD[name]


def _registry(value: Any) -> Registry:
    if isinstance(value, Registry):
        return value
    return named_registry(value) if isinstance(value, str) else Registry.from_json(value)


def _check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidConfiguration(f"{name} is {value!r}; it must be a number greater than 0", "configuration of a join")
