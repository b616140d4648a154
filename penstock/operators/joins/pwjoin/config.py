"""What a join of the PWJoin family is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from penstock.errors import InvalidPlan
from penstock.model.windows import Rows, Sliding, Unbounded

#: One bit per input in a machine word, of which we use half.
MOST_STREAMS = 32

StateKind: TypeAlias = Literal["cluster", "split", "tables"]
Clock: TypeAlias = Literal["global_order", "source_order", "frontier"]


JoinWindow: TypeAlias = Sliding | Unbounded | Rows


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """Windows, state and strategies of one join.

    Parameters
    ----------
    windows
        One per input, 2 to 32 inputs. Time windows include their boundary; 0 and infinity are legal.
    state
        `cluster`: one index over all inputs (PWJoin and its multiway form). `split`: an index per input, as in the first
        publication; two inputs only. `tables`: hash tables without punctuations, the baselines WJoin and MWJoin.
    buckets
        Buckets of each hash table. 0: as many as it needs (`tables`: 1024). Published costs depend on it.
    early_propagation
        Whether a value leaves when the last row of an announcing input has expired (Lemma 4). Off: only when all inputs
        have announced it.
    drop
        Whether rows of a value that has left are refused unprocessed (Lemma 5).
    on_violation
        What happens to a row its own input's punctuation excludes: `error`, `quarantine`, or `trust_tuple`: it joins what
        is still stored and is not stored itself.
    on_late
        What happens to a row behind its input's frontier.
    max_drop_markers
        Most intervals of values remembered without a row; the oldest are forgotten first. That costs speed and perhaps a
        repeated punctuation, never a wrong result.
    forget_closed
        `never`: values that all inputs have closed are remembered, and violations of them noticed. `when_all_announced`:
        they are forgotten.
    loner_ttl
        How long an index entry without rows and punctuations is kept, in units of time; 0: not at all.
    clock
        `global_order`: items of all inputs come by ascending time. `source_order`: each input ascends. `frontier`: only
        heartbeats say how far an input has come. Windows of rows need `global_order`.
    probe_order
        Of `tables`: inputs are probed by number, or the most selective first.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 6 and 7.
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004.
    [golab2003] Golab, Özsu. Processing Sliding Window Multi-Joins in Continuous Queries over Data Streams. VLDB 2003.

    Examples
    --------
    >>> JoinConfig.within(10, 5).windows
    (Sliding(size=10), Sliding(size=5))
    >>> JoinConfig.within(10, None, state="split").baseline(buckets=64).state
    'tables'
    """

    windows: tuple[JoinWindow, ...]
    state: StateKind = "cluster"
    buckets: int = 0
    early_propagation: bool = True
    drop: bool = True
    on_violation: Literal["error", "quarantine", "trust_tuple"] = "error"
    on_late: Literal["error", "quarantine"] = "quarantine"
    max_drop_markers: int = 1_000_000
    forget_closed: Literal["never", "when_all_announced"] = "never"
    loner_ttl: int = 0
    clock: Clock = "global_order"
    probe_order: Literal["fixed", "selectivity"] = "fixed"

    def __post_init__(self) -> None:
        if not 2 <= len(self.windows) <= MOST_STREAMS:
            raise InvalidPlan(f"a join has 2 to {MOST_STREAMS} inputs, not {len(self.windows)}; chain joins for more")
        if self.state == "split" and len(self.windows) != 2:
            raise InvalidPlan(f"split state joins two inputs, not {len(self.windows)}; choose state='cluster'")
        for window in self.windows:
            if not isinstance(window, Unbounded):
                window.check()
        if self.counts_rows and self.clock != "global_order":
            raise InvalidPlan("windows of rows need one order of all inputs; choose clock='global_order'")
        for name in ("buckets", "max_drop_markers", "loner_ttl"):
            if getattr(self, name) < 0:
                raise InvalidPlan(f"{name} is {getattr(self, name)}; it must not be negative")

    @classmethod
    def within(cls, *sizes: int | None, state: StateKind = "cluster", buckets: int = 0) -> Self:
        """Time windows of these sizes; None is infinite."""
        windows = tuple(Unbounded() if size is None else Sliding(size) for size in sizes)
        return cls(windows, state, buckets)

    def baseline(self, buckets: int = 0) -> JoinConfig:
        """WJoin or MWJoin with the same windows: hash tables, blind to punctuations."""
        return replace(self, state="tables", buckets=buckets)

    @property
    def streams(self) -> int:
        """Number of inputs."""
        return len(self.windows)

    @property
    def counts_rows(self) -> bool:
        """Whether some window counts rows."""
        return any(isinstance(window, Rows) for window in self.windows)
