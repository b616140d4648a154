"""Windows: which rows of a stream an answer is computed over.

One closed formula covers every type (positions are times or sequence numbers, intervals half-open)::

    ws_k = begin + k·move_start        we_k = begin + size + k·move_end        k = 0, 1, 2, …
    W_k  = { t : ws_k ≤ pos(t) < we_k  and  begin ≤ ts(t) < end }

A query without begin counts from 0 (1970) instead. Its windows go on before that, k = …, -2, -1, 0, 1, …, where both bounds move
alike; landmark windows then hold everything before their end.

Three windows are not of this form: `Unbounded` (no window: only metadata can close what is computed over it), and `Sliding`
and `Rows` (a join's "not older than" and "among the last": each row has its own window).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import numpy as np

from penstock.errors import InvalidWindow, Place
from penstock.model.batch import Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.masks import Mask

#: Largest window number that is ever computed, and with a minus the least; protects landmark arithmetic from overflow.
_LAST = 2**62

#: Windows that one row may be in. Each gives an answer: a row in more of them is a mistake sooner than a wish.
MOST_WINDOWS = 100_000


@dataclass(frozen=True, slots=True)
class Lifespan:
    """Begin and end of a query in event time; `end` is exclusive. `NEVER` and `FOREVER`: it has none.

    Examples
    --------
    >>> Lifespan().origin, Lifespan(-7).origin
    (0, -7)
    >>> Lifespan(0, 10).holds(np.array([-1, 0, 9, 10])).tolist()
    [False, True, True, False]
    """

    begin: int = NEVER
    end: int = FOREVER

    @property
    def has_begin(self) -> bool:
        return self.begin != NEVER

    @property
    def origin(self) -> int:
        """Where windows are counted from."""
        return self.begin if self.has_begin else 0

    def holds(self, ts: Int64s) -> Mask:
        """Which times lie within."""
        inside: Mask = (ts >= self.begin) & (ts < self.end)
        return inside

    def check(self, place: Place | str | None = None) -> Lifespan:
        if self.end <= self.begin:
            raise InvalidWindow(
                f"the query ends at {self.end}, not after its begin {self.begin}; give an END later than BEGIN", place
            )
        return self


@dataclass(frozen=True, slots=True)
class Unbounded:
    """No window: state is bounded, and answers come, only by punctuations or the end of the stream."""

    def __str__(self) -> str:
        return "unbounded"


@dataclass(frozen=True, slots=True)
class Sliding:
    """Each row sees the other streams' rows that are at most `size` older than itself (inclusive); joins only."""

    size: int

    def check(self, place: Place | str | None = None) -> Sliding:
        if self.size < 0:
            raise InvalidWindow(f"a window cannot be {self.size} long; write 0 (equal timestamps only) or more", place)
        return self

    def __str__(self) -> str:
        return f"sliding {self.size}"


@dataclass(frozen=True, slots=True)
class Rows:
    """Each row sees the last `size` rows of this input that came before it, whatever their key; None: all of them; joins only.

    Rows of all inputs are in one order: by time, number of the input, position.

    Examples
    --------
    >>> str(Rows(10))
    'rows 10'
    """

    size: int | None

    def check(self, place: Place | str | None = None) -> Rows:
        if self.size is not None and self.size < 0:
            raise InvalidWindow(f"a window cannot hold {self.size} rows; write 0 (nothing joins) or more", place)
        return self

    def __str__(self) -> str:
        return "rows unbounded" if self.size is None else f"rows {self.size}"


@dataclass(frozen=True, slots=True)
class Framed:
    """Numbered windows by size and movement.

    Parameters
    ----------
    size, move_start, move_end
        In the unit of the timestamp, or in rows.
    in_rows
        Positions are sequence numbers of rows in (time, position) order instead of times.
    partition_by
        Independent windows for each value of these columns.

    Examples
    --------
    >>> Framed(size=120, move_start=60, move_end=60).kind
    'sliding'
    >>> Framed(size=4, move_start=4, move_end=4, in_rows=True).windows_of(np.array([0, 3, 4]))
    (array([0, 0, 1]), array([0, 0, 1]))
    """

    size: int
    move_start: int
    move_end: int
    in_rows: bool = False
    partition_by: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Name of the type in the table of the specification."""
        start, end = self.move_start, self.move_end
        if start * end < 0:
            return "mixed"
        if start < 0 or end < 0:
            return "reverse landmark" if start == 0 else "reverse sliding"
        if start == end == 0:
            return "fixed"
        if start == 0:
            return "landmark"
        if start != end:
            return "growing" if start < end else "shrinking"
        if start == self.size:
            return "tumbling"
        return "sliding" if start < self.size else "hopping"

    def check(self, life: Lifespan, place: Place | str | None = None) -> Framed:
        """Refuse windows that cannot be evaluated, and say which forms are legal."""
        unit = "rows" if self.in_rows else "time"
        if self.size <= 0:
            raise InvalidWindow(f"a window of {self.size} {unit} holds nothing; the size must be greater than 0", place)
        legal = "legal movements are (0,0) fixed, (0,m) landmark, (m,m) tumbling, sliding or hopping, (m,n) with m<n growing"
        if self.kind == "mixed":
            raise InvalidWindow(
                f"the window's bounds move in opposite directions ({self.move_start}, {self.move_end}); {legal}", place
            )
        if self.kind.startswith("reverse"):
            raise InvalidWindow(f"a {self.kind} window needs past data, and the stream is not archived; {legal}", place)
        if self.kind == "shrinking" and not self._ends_in_time(life):
            raise InvalidWindow(f"the window shrinks to nothing before the query ends; give an earlier END, or: {legal}", place)
        if (most := self._most_windows(life)) > MOST_WINDOWS:
            advice = "move it in larger steps" if life.end == FOREVER else "move it in larger steps, or give an earlier END"
            raise InvalidWindow(
                f"a row would be in {most:,} windows, each with its own answer, and {MOST_WINDOWS:,} are allowed; {advice}", place
            )
        return self

    def _most_windows(self, life: Lifespan) -> int:
        """The most windows that one row can be in, as far as that is known before the query runs."""
        if self.in_rows or not self.move_start:
            return 1
        if self.move_start == self.move_end:
            return -(-self.size // self.move_start)
        if life.end == FOREVER:
            return 1
        first, last = self.windows_of(np.array([life.end - 1 - life.origin]))
        return int(last[0] - first[0]) + 1

    def _ends_in_time(self, life: Lifespan) -> bool:
        if self.in_rows or life.end == FOREVER:
            return False
        vanishes = -(-self.size // (self.move_start - self.move_end))
        return life.origin + vanishes * self.move_start >= life.end

    @property
    def pane(self) -> int:
        """Length of the pieces every window is made of: partial answers are kept per piece."""
        return gcd(self.size, self.move_start, self.move_end)

    @property
    def is_landmark(self) -> bool:
        """Whether every window begins with the first and ends later than the one before."""
        return not self.move_start and self.move_end > 0

    def least_number(self, life: Lifespan) -> int:
        """Number of the first window of a query, very small where there is none before any other."""
        goes_back = self.is_landmark or self.move_start == self.move_end > 0
        return -_LAST if goes_back and not self.in_rows and not life.has_begin else 0

    def bounds(self, k: int) -> tuple[int, int]:
        """(ws, we) of window `k`, relative to the begin."""
        return k * self.move_start, self.size + k * self.move_end

    def windows_of(self, positions: Int64s, least: int = 0) -> tuple[Int64s, Int64s]:
        """First and last window number of each position, relative to the origin; none where first > last.

        `least` is the number of the first window, see `least_number`.
        """
        if self.move_start:
            last = positions // self.move_start
        else:
            last = np.full_like(positions, _LAST if self.move_end else 0)
        if self.move_end:
            first = np.maximum((positions - self.size) // self.move_end + 1, least)
        else:
            first = np.where((positions >= 0) & (positions < self.size), 0, _LAST + 1)
        return first, last

    def closed_before(self, position: int, least: int = 0) -> int:
        """Windows below this number are complete once no position below `position` is missing."""
        if self.move_end:
            return min(max((position - self.size) // self.move_end + 1, least), _LAST)
        if position < self.size:
            return 0
        return 1 if not self.move_start else min(position, _LAST)

    def __str__(self) -> str:
        unit = " rows" if self.in_rows else ""
        text = f"{self.kind} {self.size}{unit}"
        if self.kind not in ("tumbling", "fixed"):
            text += (
                f" advance {self.move_end}"
                if self.move_start in (0, self.move_end)
                else f" move ({self.move_start}, {self.move_end})"
            )
        return text + (f" partition by {', '.join(self.partition_by)}" if self.partition_by else "")


Window: TypeAlias = Unbounded | Sliding | Rows | Framed
