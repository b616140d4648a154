"""How many rows are in an operator with classes of constant service times: the whole distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.qos.capacity.distributions import deterministic
from penstock.qos.capacity.single_server import pooled

Floats = npt.NDArray[np.float64]
#: Beyond the last number of rows all arrivals during a service have less than this probability.
_NEGLIGIBLE = 1e-18


def length_probabilities(rates: Sequence[float], services: Sequence[float], longest: int) -> Floats:
    """Probabilities that 0, 1, 2, … rows are waiting or being served, up to `longest`.

    Notes
    -----
    The recursion of the source subtracts, and returns tiny negative probabilities far out. This one adds positive terms only.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.3.3, theorem 2.

    Examples
    --------
    >>> length_probabilities((200, 100), (1 / 440, 1 / 220), 2).round(8).tolist()
    [0.09090909, 0.12432445, 0.11797961]
    """
    load = pooled(*((rate, deterministic(time)) for rate, time in zip(rates, services, strict=True))).load
    arriving = _arrivals_in_service(rates, services, longest + 2)
    tails = np.cumsum(arriving[::-1])[::-1]
    found = np.empty(longest + 1)
    found[0] = 1 - load
    for rows in range(1, longest + 1):
        # How the last service ended with more rows than this: what was there before, and what came meanwhile.
        found[rows] = (found[0] * tails[rows] + found[1:rows] @ tails[rows:1:-1]) / arriving[0]
    return found


def _arrivals_in_service(rates: Sequence[float], services: Sequence[float], least: int) -> Floats:
    """Probabilities of 0, 1, 2, … arrivals during a service; in logarithms, as factorials overflow."""
    total = sum(rates)
    means = [total * time for time in services]
    # A tail of what is left out would be missing in every sum, so go on until there is none.
    length = least + int(max(means) + 12 * max(means) ** 0.5 + 60)
    numbers = np.arange(length)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(numbers[1:]))])
    found = np.zeros(length)
    for rate, mean in zip(rates, means, strict=True):
        if mean > 0:
            found += rate / total * np.exp(numbers * np.log(mean) - mean - factorials)
        else:
            found[0] += rate / total
    assert found[-1] < _NEGLIGIBLE
    return found
