"""Distributions of service, setup and vacation times: three moments and the Laplace-Stieltjes transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penstock.errors import InvalidModel
from penstock.qos.capacity.figures import required, second_moment

#: E[exp(-s X)] for real or complex s.
Transform: TypeAlias = Callable[[complex], complex]

#: Squared coefficients of variation below this are taken as none.
_HARDLY_VARIES = 0.05


@dataclass(frozen=True, slots=True)
class Distribution:
    """Times that are 0 or more.

    Parameters
    ----------
    mean, second, third
        Raw moments.
    transform
        Laplace-Stieltjes transform.

    Examples
    --------
    >>> round(exponential(2.0).transform(1.0), 6), deterministic(2.0).variance, exponential(2.0).second
    (0.333333, 0.0, 8.0)
    """

    mean: float
    second: float
    third: float
    transform: Transform

    @property
    def variance(self) -> float:
        return max(self.second - self.mean**2, 0.0)


def deterministic(time: float) -> Distribution:
    """Always the same."""
    required("time", time)
    return Distribution(time, time**2, time**3, lambda s: np.exp(-s * time))


def exponential(mean: float) -> Distribution:
    """Without memory."""
    required("mean", mean)
    return Distribution(mean, 2 * mean**2, 6 * mean**3, lambda s: 1 / (1 + s * mean))


def uniform(mean: float) -> Distribution:
    """Anything between 0 and twice the mean."""
    required("mean", mean)
    top = 2 * mean
    return Distribution(mean, top**2 / 3, top**3 / 4, lambda s: -np.expm1(-s * top) / (s * top) if s * top else 1.0)


def gamma(mean: float, variation: float) -> Distribution:
    """A gamma distribution with a mean and a squared coefficient of variation."""
    required("mean", mean)
    required("variation", variation, above=0)
    return Distribution(
        mean,
        mean**2 * (1 + variation),
        mean**3 * (1 + variation) * (1 + 2 * variation),
        lambda s: (1 + s * mean * variation) ** (-1 / variation),
    )


def of_moments(mean: float, second: float) -> Distribution:
    """What is assumed where two moments are known: always the same where it hardly varies, else gamma.

    Examples
    --------
    >>> of_moments(1.0, 1.01).second, round(of_moments(1.0, 2.0).third, 6)
    (1.01, 6.0)
    """
    required("mean", mean)
    second = second_moment("second", mean, second)
    variation = second / mean**2 - 1 if mean else 0.0
    if variation >= _HARDLY_VARIES:
        return gamma(mean, variation)
    return Distribution(mean, second, mean**3, deterministic(mean).transform)


def mixture(parts: Sequence[tuple[float, Distribution]]) -> Distribution:
    """One of several distributions, each with its weight; weights need not add up to 1.

    Examples
    --------
    >>> mixture([(1.0, deterministic(2.0)), (3.0, deterministic(4.0))]).mean
    3.5
    """
    total = sum(required("weight", weight) for weight, _ in parts)
    if not total:
        raise InvalidModel("all weights of a mixture are 0; give at least one part a weight")
    known = [(weight / total, part) for weight, part in parts if weight]
    mean, second, third = (sum(weight * getattr(part, moment) for weight, part in known) for moment in ("mean", "second", "third"))
    return Distribution(mean, second, third, lambda s: sum(weight * part.transform(s) for weight, part in known))
