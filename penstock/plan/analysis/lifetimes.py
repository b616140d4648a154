"""Equation 6.1, corrected: how long a row stays in the state of a join whose partner closes values.

Rows of a value come evenly over its *lifespan*, from the first one to the value's own punctuation. The partner's
punctuation on the value comes some time after the first row; in lifespans this is the *lag* γ. A row stays until that
punctuation, at most for its window. Below γ = 1 the partner closes the value before its last row has come, and the rows
behind the punctuation are not stored at all.
"""

from __future__ import annotations

from penstock.metadata.residence import mean_residences


def mean_residence(window: float, lifespan: float, lag: float) -> float:
    """Mean time a row of a value stays in state.

    Parameters
    ----------
    window
        Length of the input's own window; may be infinite.
    lifespan
        Time from the value's first row to its own punctuation, greater than 0.
    lag
        When the partner closes the value, in lifespans after the first row; negative: before it.

    Notes
    -----
    Differs from the source in two of six cases, which the source has wrong. For 0 < γ ≤ 1 and γL ≤ W it averages over
    stored rows only: γL/2 instead of γ²L/2. For γ > 1 and (γ-1)L ≤ W ≤ γL it has a wrong sign, so that rows would outlive
    their window. The function here is continuous, never decreases in `lag` or `window`, and is at most `window`.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, equation 6.1.

    Examples
    --------
    >>> mean_residence(window=10, lifespan=10, lag=1.5), mean_residence(window=20, lifespan=10, lag=0.5)
    (8.75, 1.25)
    """
    return float(mean_residences(window, [lifespan], [lag * lifespan])[0])


def relative_state(window: float, lifespan: float, lag: float) -> float:
    """Share of a plain window join's state that remains; it falls as the window grows, while the state itself does not.

    Examples
    --------
    >>> relative_state(20, 10, 0.8) < relative_state(5, 10, 0.8)
    True
    """
    return mean_residence(window, lifespan, lag) / window if window > 0 else 1.0
