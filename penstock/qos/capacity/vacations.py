"""An operator that shares its processor: the queue M/G/1 with vacations and setups.

The processor leaves the operator for a vacation. If rows wait when it ends, there is a setup, then rows are served: under gated
service those that waited, under exhaustive service until none is left. A *round* is a vacation with what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.qos.capacity.distributions import Distribution
from penstock.qos.capacity.single_server import SingleServer

#: Iterations end when what is left out is below this.
_LEFT_OUT = 1e-14


class Discipline(StrEnum):
    """Which rows are served in a round."""

    #: Those that waited at the end of the vacation: the gate closes before the setup.
    GATED = "gated"
    #: Those that waited at the end of the setup.
    GATED_AFTER_SETUP = "gated after setup"
    #: All, also those that come during the service.
    EXHAUSTIVE = "exhaustive"


@dataclass(frozen=True, slots=True)
class VacationServer:
    """Rows that come at random to an operator which has the processor from time to time.

    Notes
    -----
    Several formulas of the source hold only if something waits at the end of every vacation; these hold always. They follow from
    the decomposition of the rows in the system into those of M/G/1 and those present at a random moment without service.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.4.1.

    Examples
    --------
    >>> from penstock.qos.capacity.distributions import deterministic, exponential
    >>> served = VacationServer(0.5, exponential(1.0), deterministic(0.5), exponential(1.0), Discipline.EXHAUSTIVE)
    >>> round(served.empty_share, 5), round(served.wait, 5), round(served.service_cycle, 5)
    (0.66667, 2.32143, 7.0)
    """

    rate: float
    service: Distribution
    setup: Distribution
    vacation: Distribution
    discipline: Discipline = Discipline.GATED

    @property
    def server(self) -> SingleServer:
        """The same with a processor of its own."""
        return SingleServer(self.rate, self.service)

    @property
    def empty_share(self) -> float:
        """Share of the vacations at whose end nothing waits."""
        if self.discipline is Discipline.EXHAUSTIVE:
            return float(self.vacation.transform(self.rate).real)
        return self._gated_empty_share()

    def _gated_empty_share(self) -> float:
        """How far back a round without rows must be prepared: each factor says that nothing came of an earlier generation."""
        is_late = self.discipline is Discipline.GATED_AFTER_SETUP
        done, product, missing = 0.0, 1.0, 0.0
        while self.rate * (1 - done) >= _LEFT_OUT:
            following = float(self.service.transform(self.rate * (1 - done)).real)
            setup = float(self.setup.transform(self.rate * (1 - (following if is_late else done))).real)
            vacation = float(self.vacation.transform(self.rate * (1 - done)).real)
            missing += vacation * (1 - setup) * product
            product *= setup * vacation
            if following <= done:
                break
            done = following
        return product / (1 - missing)

    @property
    def idle(self) -> float:
        """Mean time of a round in which no row is served."""
        return (1 - self.empty_share) * self.setup.mean + self.vacation.mean

    @property
    def round(self) -> float:
        """Mean length of a round."""
        return self.idle / (1 - self.server.load)

    @property
    def busy(self) -> float:
        """Mean time of a round in which rows are served."""
        return self.server.load * self.round

    @property
    def served(self) -> float:
        """Mean rows served in a round."""
        return self.rate * self.round

    @property
    def service_cycle(self) -> float:
        """Mean time between two rounds with work; infinite where no row comes."""
        working = 1 - self.empty_share
        return self.round / working if working > 0 else float("inf")

    @property
    def wait(self) -> float:
        """Mean time in the queue."""
        plain = self.server.wait
        return plain + self._away() if self.idle else plain

    def _away(self) -> float:
        """What vacations and setups add to the wait."""
        load, working, idle = self.server.load, 1 - self.empty_share, self.idle
        setup, vacation = self.setup, self.vacation
        if self.discipline is Discipline.GATED_AFTER_SETUP:
            # Integrated over vacation and setup separately, as the gate lies between setup and service.
            waiting = load * idle * vacation.mean / (1 - load) + vacation.second / 2
            starting = setup.mean * (vacation.mean + load * working * setup.mean) / (1 - load) + working * setup.second / 2
            return (waiting + starting) / idle
        together = working * (setup.second + 2 * setup.mean * vacation.mean) + vacation.second
        if self.discipline is Discipline.GATED:
            return (setup.mean + load * vacation.mean) / (1 - load) + together / (2 * idle)
        return (working * setup.second + 2 * setup.mean * vacation.mean + vacation.second) / (2 * idle)

    @property
    def queued(self) -> float:
        """Mean rows that wait (Little's law)."""
        return self.rate * self.wait
