"""How many windows one row may make an operator answer at once."""

from __future__ import annotations

import numpy as np

from penstock.errors import TooManyWindows
from penstock.model.batch import Int64s

#: Windows that one step may answer for one row.
MOST_AT_ONCE = 1_000_000


def refuse_too_many(first: Int64s, last: Int64s, window: object) -> None:
    """Windows that keep or gain rows may have to answer for a row without end: a single time far ahead suffices.

    Raises
    ------
    TooManyWindows
        Some row is in too many windows from `first` to `last`.
    """
    most = int(np.max(last - first, initial=-1)) + 1
    if most > MOST_AT_ONCE:
        raise TooManyWindows(
            f"event time went so far at once that {most:,} windows ({window}) have to be answered for one row or group; "
            f"{MOST_AT_ONCE:,} are allowed. Look for a wrong timestamp in the source; give the query an END, "
            f"or the window larger steps"
        )
