"""One operator that has a processor to itself: the queue M/G/1."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.qos.capacity.distributions import Distribution, mixture
from penstock.qos.capacity.figures import required, stable


@dataclass(frozen=True, slots=True)
class SingleServer:
    """Rows that come at random and are served in order, one after the other.

    Selections with one condition, projections, joins with a table and incremental aggregates have a constant service time, which
    makes this M/D/1; what tests several conditions or measures its own moments has any other one.

    Parameters
    ----------
    rate
        Rows per second.
    service
        Time for a row.
    name
        What is said of it if it cannot keep up.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.3.

    Examples
    --------
    >>> from penstock.qos.capacity.distributions import deterministic
    >>> select = SingleServer(80.0, deterministic(0.01))
    >>> round(select.in_system, 6), round(select.in_system_variance, 6), round(select.latency, 6)
    (2.4, 5.813333, 0.03)
    """

    rate: float
    service: Distribution
    name: str = "the operator"

    def __post_init__(self) -> None:
        required("rate", self.rate)
        stable(self.load, self.name)

    @property
    def load(self) -> float:
        """Share of the time for which it works."""
        return self.rate * self.service.mean

    @property
    def wait(self) -> float:
        """Mean time in the queue."""
        return self.rate * self.service.second / (2 * (1 - self.load))

    @property
    def latency(self) -> float:
        """Mean time in queue and service."""
        return self.wait + self.service.mean

    @property
    def latency_variance(self) -> float:
        service, spare = self.service, 1 - self.load
        waiting = self.rate * service.third / (3 * spare) + (self.rate * service.second / spare) ** 2 / 4
        return service.variance + waiting

    @property
    def queued(self) -> float:
        """Mean rows that wait (Little's law)."""
        return self.rate * self.wait

    @property
    def in_system(self) -> float:
        """Mean rows that wait or are served."""
        return self.load + self.queued

    @property
    def in_system_variance(self) -> float:
        return self.rate**2 * self.latency_variance + self.in_system


def pooled(*classes: tuple[float, Distribution]) -> SingleServer:
    """Several kinds of rows in one queue, each with its rate and service time: inputs of a join, or streams that are merged.

    Notes
    -----
    The source concludes that the load alone decides how many rows wait. It does not: at a load of 0.9, classes of 4.5 and 4.5 ms
    give 4.95 rows, and classes of 1 and 8 ms give 7.40.

    Examples
    --------
    >>> from penstock.qos.capacity.distributions import deterministic
    >>> classes = ((4.5e-3, 4.5e-3), (1e-3, 8e-3))
    >>> [round(pooled(*((100, deterministic(time)) for time in times)).in_system, 2) for times in classes]
    [4.95, 7.4]
    """
    rate = sum(required("rate", each) for each, _ in classes)
    return SingleServer(rate, mixture(classes) if rate else classes[0][1])
