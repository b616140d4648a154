"""Load that comes in waves: heavy, standard and light phases, a little more with every repetition."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.workloads.arrivals import RateSchedule

#: Multiples of the standard rate in the phases of one repetition.
HEAVY_STANDARD_LIGHT = (2.0, 1.0, 0.25)


def waves(
    rate: float, phase_s: float, repetitions: int, growth: float = 0.05, multiples: tuple[float, ...] = HEAVY_STANDARD_LIGHT
) -> RateSchedule:
    """Phases of equal length, repeated; the standard rate grows from one repetition to the next.

    Examples
    --------
    >>> waves(100.0, phase_s=40.0, repetitions=2, growth=0.5).changes
    ((0.0, 2.0), (40.0, 1.0), (80.0, 0.25), (120.0, 3.0), (160.0, 1.5), (200.0, 0.375))
    """
    return RateSchedule(rate, tuple(_changes(phase_s, repetitions, growth, multiples)))


def _changes(phase_s: float, repetitions: int, growth: float, multiples: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    for turn in range(repetitions):
        for place, multiple in enumerate(multiples):
            yield (turn * len(multiples) + place) * phase_s, multiple * (1.0 + growth) ** turn


def heavy_spans(
    phase_s: float, repetitions: int, multiples: tuple[float, ...] = HEAVY_STANDARD_LIGHT
) -> tuple[tuple[float, float], ...]:
    """From when to when the heaviest phases last, in seconds.

    Examples
    --------
    >>> heavy_spans(40.0, 2)
    ((0.0, 40.0), (120.0, 160.0))
    """
    heavy = multiples.index(max(multiples))
    starts = [(turn * len(multiples) + heavy) * phase_s for turn in range(repetitions)]
    return tuple((start, start + phase_s) for start in starts)
