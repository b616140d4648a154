"""What a join of the PWJoin family is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from penstock.errors import InvalidOption
from penstock.model.windows import Rows, Sliding, Unbounded

#: One bit per input in a machine word, of which we use half.
MOST_STREAMS = 32

StateKind: TypeAlias = Literal["cluster", "split", "tables"]
JoinWindow: TypeAlias = Sliding | Unbounded | Rows


@dataclass(frozen=True, slots=True)
class PWJoinConfig:
    """Windows, state and strategies of one join.

    Parameters
    ----------
    windows
        One per input, 2 to 32 inputs. Time windows include their boundary; 0 and infinity are legal.
    state
        `cluster`: one index over all inputs (PWJoin and its multiway form). `split`: an index per input, as in the first
        publication; two inputs only. `tables`: hash tables without punctuations, the baselines WJoin and MWJoin.
    buckets
        Buckets of each hash table; costs depend on it.
    early_propagation
        Whether a key leaves when the last tuple of an announcing input has expired (Lemma 4). Off: only when all inputs
        have announced it.
    most_markers
        Most intervals of keys remembered without a tuple; the oldest are forgotten first. That costs speed and perhaps a
        repeated punctuation, never a wrong result.
    forgets_closed
        Whether keys that all inputs have closed are forgotten, as in the source; a violation is then no longer noticed.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapters 6 and 7.
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004.
    [golab2003] Golab, Özsu. Processing Sliding Window Multi-Joins in Continuous Queries over Data Streams. VLDB 2003.

    Examples
    --------
    >>> PWJoinConfig.within(10, 5).windows
    (Sliding(size=10), Sliding(size=5))
    >>> PWJoinConfig.within(10, None, state="split").baseline().state
    'tables'
    """

    windows: tuple[JoinWindow, ...]
    state: StateKind = "cluster"
    buckets: int = 64
    early_propagation: bool = True
    most_markers: int = 1_000_000
    forgets_closed: bool = False

    def __post_init__(self) -> None:
        if not 2 <= len(self.windows) <= MOST_STREAMS:
            raise InvalidOption(f"a join has 2 to {MOST_STREAMS} inputs, not {len(self.windows)}", "PWJoin")
        if self.state == "split" and len(self.windows) != 2:
            raise InvalidOption(f"split state joins two inputs, not {len(self.windows)}; choose state='cluster'", "PWJoin")
        for window in self.windows:
            if not isinstance(window, Unbounded):
                window.check()

    @classmethod
    def within(cls, *sizes: int | None, state: StateKind = "cluster", buckets: int = 64) -> Self:
        """Time windows of these sizes; None is infinite."""
        windows = tuple(Unbounded() if size is None else Sliding(size) for size in sizes)
        return cls(windows, state, buckets)

    def baseline(self) -> PWJoinConfig:
        """WJoin or MWJoin with the same windows: hash tables, blind to punctuations."""
        return replace(self, state="tables")

    @property
    def streams(self) -> int:
        """Number of inputs."""
        return len(self.windows)
