"""What a join of windows and punctuations costs per unit of time: the model of the source, corrected.

Rates are per unit of time, costs in whatever unit the caller chooses. The model assumes that the operator keeps up with its
input, and that every value occurs for a finite time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

from penstock.plan.analysis.lifetimes import mean_residence


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Cost of one equality test, of inserting or deleting a tuple in one list or a schedule item, of one tuple's results."""

    equality: float = 1.0
    tuple_insert: float = 0.5
    tuple_delete: float = 0.5
    schedule_insert: float = 0.5
    schedule_delete: float = 0.5
    results: float = 10.0


@dataclass(frozen=True, slots=True)
class StreamProfile:
    """What the model knows of an input.

    Parameters
    ----------
    rate, punctuation_rate
        Tuples and punctuations per unit of time.
    window
        Length of its window; may be infinite. Of a window of C rows: `row_window_length`.
    lifespan
        Time from the first tuple of a value to its punctuation.
    lag
        When the others close the value, in lifespans after its first tuple; negative: before it.
    scheduled_share
        Share of its punctuations that wait in the schedule.
    """

    rate: float
    punctuation_rate: float
    window: float
    lifespan: float
    lag: float
    scheduled_share: float = 0.5

    @property
    def state(self) -> float:
        """Tuples in the state of PWJoin: rate times mean residence."""
        return self.rate * mean_residence(self.window, self.lifespan, self.lag)

    @property
    def window_state(self) -> float:
        """Tuples in the state of a plain window join."""
        return self.rate * self.window

    @property
    def purged_on_the_fly(self) -> float:
        """Share of its tuples that are not stored, because the others have closed their value.

        Examples
        --------
        >>> [StreamProfile(1, 1, 10, 10, lag).purged_on_the_fly for lag in (-0.5, 0.25, 3)]
        [1.0, 0.75, 0.0]
        """
        return max(0.0, 1.0 - self.lag) if self.lag >= 0 else 1.0


def probe_cost(streams: Sequence[StreamProfile], buckets: int, tuples_per_value: float, costs: UnitCosts) -> float:
    """Comparisons of one look-up in the index of PWJoin: half a chain of I-Nodes."""
    return sum(stream.state for stream in streams) / (2 * buckets * tuples_per_value) * costs.equality


def tuple_cost(streams: Sequence[StreamProfile], at: int, buckets: int, tuples_per_value: float, costs: UnitCosts) -> float:
    """Cost of a tuple of input `at` in PWJoin (equation 6.2); a stored one is in two lists."""
    maintenance = 2 * (1 - streams[at].purged_on_the_fly) * (costs.tuple_insert + costs.tuple_delete)
    return probe_cost(streams, buckets, tuples_per_value, costs) + maintenance + costs.results


def punctuation_cost(streams: Sequence[StreamProfile], at: int, buckets: int, tuples_per_value: float, costs: UnitCosts) -> float:
    """Cost of a punctuation of input `at` in PWJoin (equation 6.3)."""
    scheduling = streams[at].scheduled_share * (costs.schedule_insert + costs.schedule_delete)
    return probe_cost(streams, buckets, tuples_per_value, costs) + scheduling


def pwjoin_cost(streams: Sequence[StreamProfile], at: int, buckets: int, tuples_per_value: float, costs: UnitCosts) -> float:
    """Cost of input `at` of PWJoin per unit of time, for any number of inputs (equations 6.5 and 7.1).

    Examples
    --------
    >>> both = [StreamProfile(500, 5, window=15, lifespan=4, lag=0.5)] * 2
    >>> round(pwjoin_cost(both, 0, 1024, 40, UnitCosts()), 4), round(window_join_cost(both, 0, 1024, UnitCosts()), 4)
    (5505.5823, 9162.1094)
    """
    stream = streams[at]
    return stream.rate * tuple_cost(streams, at, buckets, tuples_per_value, costs) + stream.punctuation_rate * punctuation_cost(
        streams, at, buckets, tuples_per_value, costs
    )


def window_join_cost(streams: Sequence[StreamProfile], at: int, buckets: int, costs: UnitCosts) -> float:
    """Cost of input `at` of the hash window join of two inputs per unit of time (equation 6.6)."""
    other = streams[1 - at]
    probe = other.window_state / buckets * costs.equality
    return streams[at].rate * (probe + costs.tuple_insert + costs.tuple_delete + costs.results)


def expected_lookups(mean_matches: float, streams: int) -> float:
    """Tables that MWJoin probes for a tuple, when the matches in each are Poisson distributed; the cluster index needs one.

    Examples
    --------
    >>> round(expected_lookups(2, 4), 2), round(expected_lookups(10, 4), 2)
    (2.61, 3.0)
    """
    found = 1 - exp(-mean_matches)
    return sum(found**probed for probed in range(streams - 1))


def closing_time(others: Sequence[tuple[float, float, float]]) -> float:
    """When a value is closed for one input of a multiway join, given (last tuple, window, punctuation) of each other input.

    Either the last tuple of some other input that has announced the value leaves its window, or all others have announced
    it. The source takes the punctuation plus the window for the former, which is an upper bound.

    Examples
    --------
    >>> closing_time([(2, 10, 5), (3, 20, 30)])
    12
    >>> closing_time([(2, 100, 5), (3, 20, 6)])
    6
    """
    expires = min(max(last + window, announced) for last, window, announced in others)
    return min(expires, max(announced for _, _, announced in others))


def closing_time_bound(others: Sequence[tuple[float, float, float]]) -> float:
    """The source's bound of `closing_time`: punctuation plus window instead of last tuple plus window."""
    return min(min(announced + window for _, window, announced in others), max(announced for _, _, announced in others))


def row_window_length(rows: float, rate: float) -> float:
    """Time that a window of so many rows spans; infinite for an idle input, whose rows never leave."""
    return rows / rate if rate > 0 else inf


def first_published_state(rate: float, window: float, partner_punctuation_rate: float, elapsed: float, values: float) -> float:
    """State of an input in the model of the first publication: a value is closed with the share of those closed so far.

    Use it to compare with that publication only; the two models disagree on the role of the rate of punctuations.

    References
    ----------
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004, section 5.

    Examples
    --------
    >>> first_published_state(100, 15, 1, 60, 100), first_published_state(100, 15, 1, 60, 60)
    (600.0, 0.0)
    """
    return rate * window * min(1.0, max(0.0, 1 - partner_punctuation_rate * elapsed / values))
