"""Operators that take turns on one processor: how long a turn of all of them takes, and how long rows wait for theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp

from penstock.errors import InvalidModel
from penstock.qos.capacity.figures import required, second_moment, stable

_DAMPING, _CONVERGED, _ITERATIONS = 0.5, 1e-12, 10_000
#: Rows an operator must get in a cycle at least for the correction under light load to be trusted.
_LEAST_ROWS = 2.0


@dataclass(frozen=True, slots=True)
class Station:
    """An operator as the processor sees it.

    Parameters
    ----------
    rate
        Rows per second.
    service, service_second
        Mean time for a row and mean of its square; None: always the same.
    setup
        Time before the first row is served, where there is one.
    visits
        How often it is visited in a cycle.
    is_external
        Whether its rows come from outside.
    """

    name: str
    rate: float
    service: float
    setup: float
    service_second: float | None = None
    visits: int = 1
    is_external: bool = True

    def __post_init__(self) -> None:
        for name in ("rate", "service", "setup"):
            required(f"{name} of {self.name}", getattr(self, name))
        required(f"visits of {self.name}", self.visits, above=0)
        second_moment(f"service_second of {self.name}", self.service, self.second)

    @property
    def second(self) -> float:
        return self.service**2 if self.service_second is None else self.service_second

    @property
    def load(self) -> float:
        return self.rate * self.service

    @property
    def own_queue_wait(self) -> float:
        """What a row would wait if the processor were always there."""
        return self.rate * self.second / (2 * (1 - self.load))


@dataclass(frozen=True, slots=True)
class Cycle:
    """A turn of all operators.

    Parameters
    ----------
    seconds
        Its mean length; `setups` of it are setups.
    felt_gated, felt_exhaustive
        Its length as a row that comes at random sees it, under either discipline: longer cycles hold more of the rows.
    is_light
        Whether operators often have nothing to do, so that the length is an upper bound.
    """

    seconds: float
    setups: float
    load: float
    felt_gated: float
    felt_exhaustive: float
    is_light: bool

    def busy(self, station: Station) -> float:
        """Time for which an operator serves rows on one visit."""
        return station.load * self.seconds / station.visits

    def rows(self, station: Station) -> float:
        """Rows served on one visit."""
        return station.rate * self.seconds / station.visits

    def vacation(self, station: Station) -> float:
        """Time from the end of one visit to the begin of the next."""
        return self.seconds / station.visits - station.setup - self.busy(station)


def total_load(stations: Sequence[Station]) -> float:
    return sum(station.load for station in stations)


def cycle_of(
    stations: Sequence[Station], kept_back: float = 0.0, is_light_corrected: bool = True, simultaneous: float = 0.0
) -> Cycle:
    """The cycle in steady state.

    Parameters
    ----------
    kept_back
        Share of the processor that other work needs.
    is_light_corrected
        Whether setups that are left out, because nothing waits, shorten the cycle; else every visit is taken to have one.
    simultaneous
        What rows that come at several operators at once add to the second moment of work per second, see
        `ModelPlan.simultaneous`.

    Notes
    -----
    The source solves a linear equation for every operator. All of them have one solution, setups / (1 - load). The length that rows
    feel follows from the conservation law of cyclic polling, which the source does not use: its own form, with cycles of constant
    length, gives waits that are 1 to 14 % too short. Streams that feed several operators bring work to all of them at once; that
    they are taken as independent there makes waits another 7 % too short for five streams and 28 such operators.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 5.4.4.
    [boxma1987] Boxma, Groenendijk. Pseudo-conservation Laws in Cyclic-service Systems. Journal of Applied Probability 24, 1987.

    Examples
    --------
    >>> three = [Station(*each) for each in (("a", 100, 0.002, 0.01), ("b", 50, 0.004, 0.02), ("c", 20, 0.01, 0.03))]
    >>> cycle = cycle_of(three)
    >>> round(cycle.seconds, 6), round(cycle.felt_gated, 7), round(cycle.felt_exhaustive, 7)
    (0.145914, 0.1514696, 0.1542474)
    >>> round(cycle_of(three, is_light_corrected=False).felt_gated, 7)
    0.1555556
    """
    if not 0 <= required("kept_back", kept_back) < 1:
        raise InvalidModel(f"'kept_back' is {kept_back!r}; a share of the processor below 1 must be left for queries")
    for station in stations:
        stable(station.load, f"operator '{station.name}'")
    load = stable(total_load(stations), "all operators together", 1 - kept_back)
    setups = sum(station.visits * station.setup for station in stations if station.rate)
    is_light = _is_light(stations, setups / (1 - kept_back - load))
    if is_light_corrected and not is_light:
        setups = _skipping(stations, setups, 1 - kept_back - load)
    seconds = setups / (1 - kept_back - load)
    gated, exhaustive = (_felt(stations, setups, load, simultaneous, sign) for sign in (1, -1))
    return Cycle(seconds, setups, load, gated, exhaustive, is_light)


def _is_light(stations: Sequence[Station], seconds: float) -> bool:
    return any(
        station.rate * seconds / station.visits < _LEAST_ROWS for station in stations if station.is_external and station.rate
    )


def _skipping(stations: Sequence[Station], setups: float, spare: float) -> float:
    """Setups in a cycle if those are left out that find nothing waiting; the number of rows in a visit is taken as Poisson."""
    found = setups
    for _ in range(_ITERATIONS):
        seconds = found / spare
        following = sum(
            station.visits * station.setup * (1 - exp(-station.rate * seconds / station.visits)) for station in stations
        )
        if abs(following - found) <= _CONVERGED * setups:
            break
        found = _DAMPING * found + (1 - _DAMPING) * following
    return found


def _felt(stations: Sequence[Station], setups: float, load: float, simultaneous: float, sign: int) -> float:
    """Length-biased mean of the cycle: `sign` is 1 under gated and -1 under exhaustive service."""
    weights = sum(station.load * (1 + sign * station.load) for station in stations)
    if not weights:
        return setups / (1 - load)
    squares = sum(station.load**2 for station in stations)
    rows = sum(station.rate * station.second for station in stations)
    # Mean work that waits, by the conservation law; the setups do not vary.
    work = (
        (load * rows + simultaneous) / (2 * (1 - load)) + load * setups / 2 + setups * (load**2 + sign * squares) / (2 * (1 - load))
    )
    alone = sum(station.load * station.own_queue_wait for station in stations)
    return 2 * (work - alone) / weights


def gated_wait(station: Station, felt: float) -> float:
    """Mean time in the queue of an operator that serves what waited when its setup began."""
    return station.own_queue_wait + station.setup + (1 + station.load) * felt / 2


def exhaustive_wait(station: Station, felt: float) -> float:
    """Mean time in the queue of an operator that serves until nothing waits."""
    return station.own_queue_wait + (1 - station.load) * felt / 2


def limited_is_stable(station: Station, cycle: Cycle, most_rows: int) -> bool:
    """Whether an operator that serves at most so many rows on a visit keeps up."""
    return cycle.rows(station) < most_rows


def limit_recommended(station: Station, cycle: Cycle) -> int:
    """Rows on a visit with which waits are within 2 % of those without a limit."""
    return ceil(1.7 * cycle.rows(station))
