"""A window join alone: delays, queues and their distribution. E-CP-1 and 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from penstock.experiments.capacity.setup import STATEMENTS, off
from penstock.experiments.contracts import Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import spread_of
from penstock.experiments.parallel import side_by_side
from penstock.qos.capacity.quantiles import JoinWaits
from penstock.qos.capacity.queue_lengths import length_probabilities
from penstock.qos.capacity.window_joins import HashCosts, window_rows

#: Rows per second of both sides, and rows per second that a row of each could be served at, as published.
_EQUAL = {"100 + 100/s": ((100.0, 100.0), (209.4, 209.4)), "90 + 90/s": ((90.0, 90.0), (209.4, 209.4))}
_UNEQUAL = {
    "200 + 100/s": ((200.0, 100.0), (440.0, 220.0)),
    "180 + 90/s": ((180.0, 90.0), (440.0, 220.0)),
    "150 + 75/s": ((150.0, 75.0), (440.0, 220.0)),
}
#: Rows of a stream, and buckets of a hash table with which a row of a window of a million takes 1/209.4 s.
_ROWS, _WARM_UP, _BUCKETS = 4_000_000, 100_000, 419
#: Milliseconds, in figures.
_MS = 1_000.0
_SHARES = (0.5, 0.9, 0.99, 0.999)


def _waits(rates: Sequence[float], services: Sequence[float], rows: int, seed: int) -> tuple[Floats, Floats]:
    """Waits of all rows in one queue, and their service times (Lindley's recursion)."""
    random = np.random.default_rng(seed)
    total = sum(rates)
    served = np.where(random.random(rows) < rates[0] / total, services[0], services[1])
    sums = np.concatenate([[0.0], np.cumsum(served[:-1] - random.exponential(1 / total, rows - 1))])
    waits: Floats = sums - np.minimum.accumulate(sums)
    return waits[_WARM_UP:], served[_WARM_UP:]


def _case(task: tuple[tuple[float, float], tuple[float, float], int, int]) -> list[float]:
    """Mean wait, quantiles, greatest wait, and the largest distance to the exact and to the published distribution."""
    rates, speeds, rows, seed = task
    services = tuple(1 / speed for speed in speeds)
    model, (waits, _) = JoinWaits(rates, services), _waits(rates, services, rows, seed)
    times = np.linspace(0.0, 5 * model.server.wait, 40)
    counted = np.searchsorted(np.sort(waits), times, side="right") / len(waits)
    exact = np.array([1 - model.exceeding(float(time)) for time in times])
    published = 1 - model.server.load * np.exp(model.tail().root * times)
    quantiles: list[float] = np.quantile(waits, _SHARES).tolist()
    return [
        float(waits.mean()), *quantiles, float(waits.max()), float(np.abs(counted - exact)[1:].max()),
        float(np.abs(counted - published)[1:].max()),
    ]  # fmt: skip


@cache
def _counted(name: str, settings: Settings) -> Floats:
    """A row for each stream."""
    rates, speeds = (_EQUAL | _UNEQUAL)[name]
    # Not shorter in a quick look: the longest of few rows does not wait so long.
    return np.array(side_by_side(_case, [(rates, speeds, _ROWS, seed) for seed in settings.seed_numbers()], settings))


def _model(name: str) -> JoinWaits:
    rates, speeds = (_EQUAL | _UNEQUAL)[name]
    return JoinWaits(rates, [1 / speed for speed in speeds])


def equal_windows(settings: Settings) -> ReproductionOutcome:
    """E-CP-1: both windows hold a million rows."""
    found = {name: _counted(name, settings) for name in _EQUAL}
    errors = [off(float(counted[:, 0].mean()), _model(name).server.wait) for name, counted in found.items()]
    exact, published = ([float(counted[:, at].mean()) for counted in found.values()] for at in (-2, -1))
    buckets = HashCosts(hash=1e-6, compare=2e-6).row(window_rows(0.0, rows=1_000_000), _BUCKETS)
    lengths = [_length_error(name) for name in _EQUAL]
    claims = (
        STATEMENTS["E-CP-1a"].judged(
            "E-CP-1a", all(-0.05 <= error <= 0.2 for error in errors),
            " and ".join(f"{100 * error:+.1f} %" for error in errors), error=errors,
        ),
        STATEMENTS["E-CP-1b"].judged(
            "E-CP-1b",
            max(exact) <= 0.03 < max(published) and all(mine < theirs for mine, theirs in zip(exact, published, strict=True)),
            f"{exact[0]:.3f} and {exact[1]:.3f} with the exact one, {published[0]:.3f} and {published[1]:.3f} with the published",
            exact=exact, published=published,
        ),
        STATEMENTS["E-CP-1c"].judged(
            "E-CP-1c", max(lengths) < 1e-6, f"moments differ by {max(lengths):.0e} at most", error=lengths
        ),
        STATEMENTS["E-CP-1d"].judged(
            "E-CP-1d", abs(off(buckets, 1 / 209.4)) < 0.01, f"{1 / buckets:.1f} rows per second", speed=1 / buckets
        ),
    )  # fmt: skip
    panels = tuple(_quantile_panel(name, counted) for name, counted in found.items())
    return ReproductionOutcome(claims, Drawing("Waits in front of a join with equal windows", panels))


def _length_error(name: str) -> float:
    """Of the mean and variance of the numbers of rows, by their distribution and by closed forms."""
    rates, speeds = _EQUAL[name]
    server = _model(name).server
    shares = length_probabilities(
        rates, [1 / speed for speed in speeds], int(server.in_system + 40 * server.in_system_variance**0.5)
    )
    numbers = np.arange(len(shares))
    mean = float(shares @ numbers)
    variance = float(shares @ numbers**2) - mean**2
    return max(abs(off(mean, server.in_system)), abs(off(variance, server.in_system_variance)))


def _quantile_panel(name: str, counted: Floats) -> Panel:
    model = _model(name)
    middle, spread = spread_of(counted[:, 1:5] * _MS)
    load = model.server.load
    published = [_MS * max(np.log((1 - share) / load) / model.tail().root, 0.0) for share in _SHARES]
    places = range(len(_SHARES))
    series = (
        Series("counted", places, middle, spread),
        Series("exact", places, [_MS * model.quantile(share) for share in _SHARES]),
        Series("published tail", places, published),
    )
    ticks = tuple(f"{100 * share:g} %" for share in _SHARES)
    return Panel("share of the rows", "wait within (ms)", series, "bars", ticks, title=f"{name}, load {load:.2f}")


def unequal_windows(settings: Settings) -> ReproductionOutcome:
    """E-CP-2: one window twice as large, so that rows of the other side take twice as long."""
    found = {name: _counted(name, settings) for name in _UNEQUAL}
    waits = [float(counted[:, 0].mean()) for counted in found.values()]
    queued = [_model(name).server.rate * wait for name, wait in zip(_UNEQUAL, waits, strict=True)]
    errors = [off(wait, _model(name).server.wait) for name, wait in zip(_UNEQUAL, waits, strict=True)]
    far = [float((counted[:, 4] / counted[:, 0]).mean()) for counted in found.values()]
    greatest = [float((counted[:, 5] / counted[:, 0]).max()) for counted in found.values()]
    slow, fast = (JoinWaits((100 * times, 100 * times), (1 / (220 * times),) * 2).server.wait for times in (1, 2))
    claims = (
        STATEMENTS["E-CP-2a"].judged(
            "E-CP-2a", waits[0] > waits[1] > waits[2] and queued[0] > queued[1] > queued[2],
            f"{' / '.join(f'{1000 * wait:.2f}' for wait in waits)} ms and {' / '.join(f'{rows:.2f}' for rows in queued)} rows",
            seconds=waits, rows=queued,
        ),
        STATEMENTS["E-CP-2b"].judged(
            "E-CP-2b", abs(fast / slow - 0.5) < 1e-9, f"{fast / slow:.3f} times the wait", ratio=fast / slow
        ),
        STATEMENTS["E-CP-2c"].judged(
            "E-CP-2c", min(far) >= 6.5 and min(greatest) > 10,
            f"{' / '.join(f'{each:.1f}' for each in far)} times; longest {' / '.join(f'{each:.0f}' for each in greatest)} times",
            p999=far, greatest=greatest,
        ),
        STATEMENTS["E-CP-2d"].judged(
            "E-CP-2d", max(map(abs, errors)) <= 0.05, " / ".join(f"{100 * error:+.1f} %" for error in errors), error=errors
        ),
    )  # fmt: skip
    names = tuple(_UNEQUAL)
    means, spread = spread_of(np.array([found[name][:, 0] * _MS for name in names]).T)
    formula = [_MS * _model(name).server.wait for name in names]
    panels = (
        Panel(
            "rates of the two sides", "mean wait (ms)",
(Series("counted", range(3), means, spread), Series("formula", range(3), formula)),
            "bars", names,
        ),
        _quantile_panel(names[0], found[names[0]]),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Waits in front of a join with unequal windows", panels))
