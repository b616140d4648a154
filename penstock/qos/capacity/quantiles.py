"""How long the slowest rows wait: tails and quantiles of the waiting time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, exp, log, pi

import numpy as np

from penstock.errors import InvalidModel
from penstock.qos.capacity.distributions import deterministic
from penstock.qos.capacity.figures import required
from penstock.qos.capacity.single_server import SingleServer, pooled

#: Terms of the alternating sum, and of its average, that give the digits of a double.
_TERMS, _AVERAGED = 30, 11
#: Where the tail is exact enough to be used alone: load and share.
_LOADED, _FAR_OUT = 0.5, 0.9
_ITERATIONS = 200
#: Nothing waits where there is practically no load.
_NO_LOAD = 1e-9


def inverted(transform: Callable[[complex], complex], time: float) -> float:
    """The function with a Laplace transform, at a time above 0.

    References
    ----------
    [abate1995] Abate, Whitt. Numerical Inversion of Laplace Transforms of Probability Distributions. 1995, algorithm Euler.

    Examples
    --------
    >>> round(inverted(lambda s: 1 / (s + 1), 2.0), 8), round(exp(-2.0), 8)
    (0.13533528, 0.13533528)
    """
    scale = 18.4
    places = [complex(scale, 2 * pi * number) / (2 * time) for number in range(_TERMS + _AVERAGED + 1)]
    signs = [(-1) ** number for number in range(len(places))]
    terms = np.array([sign * complex(transform(place)).real for sign, place in zip(signs, places, strict=True)])
    terms[0] /= 2
    sums = np.cumsum(terms)[_TERMS:]
    weights = np.array([comb(_AVERAGED, number) for number in range(_AVERAGED + 1)]) / 2**_AVERAGED
    return float(exp(scale / 2) / time * (weights @ sums))


@dataclass(frozen=True, slots=True)
class Tail:
    """Share of the rows that wait longer than t, for long t: `factor * exp(root * t)`; the root is negative."""

    root: float
    factor: float

    def quantile(self, share: float) -> float:
        """The wait that this share of the rows does not exceed."""
        return max(log((1 - share) / self.factor) / self.root, 0.0)


class JoinWaits:
    """Waiting times of rows of several classes, each with a constant service time, in one queue.

    Parameters
    ----------
    rates, services
        Of each class, such as each input of a join.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.3.3, theorem 4. The
    tail there has the load as its factor; the one used here is exact for long waits.

    Examples
    --------
    >>> waits = JoinWaits((100, 100), (1 / 209.4, 1 / 209.4))
    >>> [round(waits.quantile(share), 5) for share in (0.5, 0.9, 0.99)]
    [0.03472, 0.11903, 0.23964]
    """

    def __init__(self, rates: Sequence[float], services: Sequence[float]) -> None:
        self.server: SingleServer = pooled(*((rate, deterministic(time)) for rate, time in zip(rates, services, strict=True)))
        self._classes = [(required("rate", rate), time) for rate, time in zip(rates, services, strict=True) if rate]

    def tail(self) -> Tail:
        """How the share of rows with long waits falls."""
        root = _root(self._characteristic, -1.0 / self.server.service.mean)
        slope = sum(rate * time * exp(-root * time) for rate, time in self._classes) - 1
        return Tail(root, (1 - self.server.load) / slope)

    def _characteristic(self, s: float) -> float:
        return sum(rate * (exp(min(-s * time, 700.0)) - 1) for rate, time in self._classes) + s

    def exceeding(self, time: float) -> float:
        """Share of the rows that wait longer, exactly."""
        load, rate, service = self.server.load, self.server.rate, self.server.service
        if time <= 0:
            return load

        def transform(s: complex) -> complex:
            waits = (1 - load) * s / (s - rate + rate * service.transform(s))
            return (1 - waits) / s

        return inverted(transform, time)

    def quantile(self, share: float) -> float:
        """The wait that this share of the rows does not exceed."""
        if not 0 <= share < 1:
            raise InvalidModel(f"a quantile of {share!r} does not exist; give a share from 0 to below 1")
        load = self.server.load
        if share <= 1 - load or load < _NO_LOAD:
            return 0.0
        if load >= _LOADED and share >= _FAR_OUT:
            return self.tail().quantile(share)
        high = self.server.service.mean
        while self.exceeding(high) > 1 - share:
            high *= 2
        return _bisected(lambda time: self.exceeding(time) - (1 - share), 0.0, high)


def _root(function: Callable[[float], float], start: float) -> float:
    """The negative root of a convex function that is also 0 at 0 and rises there."""
    low = start
    while function(low) <= 0:
        low *= 2
    high = low
    while function(high) > 0:
        high /= 2
        if high > -1e-300:
            raise InvalidModel("the tail of the waiting time has no rate; there is practically no load: use the mean instead")
    return _bisected(function, 2 * high, high)


def _bisected(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function changes its sign, to the last digit."""
    is_positive = function(low) > 0
    for _ in range(_ITERATIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (function(middle) > 0) == is_positive else (low, middle)
    return (low + high) / 2
