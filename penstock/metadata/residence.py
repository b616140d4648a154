"""How long rows of a value stay in the state of a join, given when the partners close the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


def mean_residences(window: float, lifespans: Sequence[float] | Floats, delays: Sequence[float] | Floats) -> Floats:
    """Mean time a row of each value stays in state.

    Rows of a value come evenly over its lifespan and stay until the partners have closed the value, at most for the
    window; rows that come behind that moment are not stored.

    Parameters
    ----------
    window
        Length of the input's own window; may be infinite.
    lifespans
        From the first row to the last, for each value; 0: there is one row.
    delays
        From the first row to the moment when the partners have closed the value; negative: they had closed it before.

    Notes
    -----
    Differs from the source in two of six cases, which the source has wrong. With lifespan L and lag γ, the delay in lifespans: for
    0 < γ ≤ 1 and γL ≤ W it averages over stored rows only, γL/2 instead of γ²L/2. For γ > 1 and (γ-1)L ≤ W ≤ γL it has a wrong
    sign, so that rows would outlive their window. The function here is continuous, never decreases in delay or window, and is at
    most the window.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, equation 6.1, corrected.

    Examples
    --------
    >>> mean_residences(5, lifespans=[0, 0, 4], delays=[3, 9, -1]).tolist()
    [3.0, 5.0, 0.0]
    """
    life, delay = np.asarray(lifespans, np.float64), np.asarray(delays, np.float64)
    stored = np.clip(delay, 0.0, life)  # rows that come later are not stored
    whole = np.clip(delay - window, 0.0, stored)  # rows that come earlier leave by their window
    in_full = np.where(whole > 0, whole * min(window, np.finfo(np.float64).max), 0.0)
    until_closed = delay * (stored - whole) - (stored**2 - whole**2) / 2
    at_once = life <= 0
    spread = (in_full + until_closed) / np.where(at_once, 1.0, life)
    result: Floats = np.where(at_once, np.clip(delay, 0.0, window), spread)
    return result
