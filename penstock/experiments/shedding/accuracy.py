"""What loss does to window averages: E-LS-5."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from penstock.columnar.coins import coins
from penstock.experiments.contracts import Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import listed, spread_of
from penstock.experiments.parallel import side_by_side
from penstock.experiments.shedding.setup import STATEMENTS
from penstock.model.batch import Batch
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.qos.shedding.compensation import estimated_sum, left_share
from penstock.qos.shedding.table import make_shedder

SHARES = (0.1, 0.2, 0.3)
KINDS = (DropKind.LOWEST, DropKind.HIGHEST, DropKind.CENTER)
#: Of speeds; one in a thousand is an outlier.
_MEAN, _DEVIATION, _OUTLIERS = 55.0, 8.0, 0.001
_WINDOW_ROWS, _BATCH_ROWS = 40_000, 2_000

RANDOM = DropPreference()


@dataclass(frozen=True, slots=True)
class Task:
    """One stream of so many windows."""

    seed: int
    windows: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Relative error of window averages, and the share of the rows that was dropped."""

    mean: float
    worst: float
    dropped: float


def preferences() -> list[DropPreference]:
    return [RANDOM, *(DropPreference(kind, "speed", mode=mode) for mode in DropMode for kind in KINDS)]


def _speeds(task: Task) -> Floats:
    draw = np.random.default_rng(task.seed)
    speeds = draw.normal(_MEAN, _DEVIATION, task.windows * _WINDOW_ROWS)
    outliers = draw.random(len(speeds)) < _OUTLIERS
    speeds[outliers] = draw.choice([0.0, 130.0], int(outliers.sum()))
    return speeds


def accuracies(task: Task) -> dict[tuple[DropPreference, float], Accuracy]:
    """By what is dropped and how much."""
    speeds = _speeds(task)
    exact = speeds.reshape(task.windows, _WINDOW_ROWS).mean(axis=1)
    return {
        (preference, share): _accuracy(speeds, exact, preference, share, task.seed)
        for preference in preferences()
        for share in SHARES
    }


def _accuracy(speeds: Floats, exact: Floats, preference: DropPreference, share: float, seed: int) -> Accuracy:
    shedder, keep = make_shedder(preference, seed=seed), np.ones(len(speeds), np.bool_)
    for first in range(0, len(speeds), _BATCH_ROWS):
        places = np.arange(first, first + _BATCH_ROWS)
        batch = Batch(pa.RecordBatch.from_pydict({"speed": speeds[places]}), places, places)
        shedder.observe(batch)
        keep[places] = shedder.keep_mask(batch, share)
    kept = keep.reshape(len(exact), -1)
    sums = np.where(keep, speeds, 0.0).reshape(len(exact), -1).sum(axis=1)
    # A window without rows has no average, and is as wrong as can be.
    averages = np.divide(sums, kept.sum(axis=1), out=np.zeros(len(exact)), where=kept.any(axis=1))
    errors = np.abs(averages - exact) / exact
    return Accuracy(float(errors.mean()), float(errors.max()), float(1 - keep.mean()))


def coverage(task: Task) -> list[tuple[float, float, float]]:
    """By share: how many counts and sums are as near to the true ones as estimated errors say, and the mean error of sums."""
    speeds = _speeds(task).reshape(task.windows, _WINDOW_ROWS)
    found = []
    for share in SHARES:
        keep = coins(task.seed, 0, np.arange(speeds.size)).reshape(speeds.shape) >= share
        left = left_share([share])
        counts = [estimated_sum(float(kept), float(kept), left) for kept in keep.sum(axis=1)]
        sums = [
            estimated_sum(float(mine.sum()), float((mine**2).sum()), left)
            for mine in (window[kept] for window, kept in zip(speeds, keep, strict=True))
        ]
        near = [
            np.mean([abs(each.value - exact) < 1.96 * each.error for each, exact in zip(estimates, truth, strict=True)])
            for estimates, truth in ((counts, [_WINDOW_ROWS] * task.windows), (sums, speeds.sum(axis=1)))
        ]
        bias = np.mean([each.value / exact - 1.0 for each, exact in zip(sums, speeds.sum(axis=1), strict=True)])
        found.append((float(near[0]), float(near[1]), float(bias)))
    return found


def _tasks(settings: Settings) -> list[Task]:
    return [Task(seed, 6 if settings.is_quick else 30) for seed in settings.seed_numbers()]


@cache
def _runs(settings: Settings) -> list[dict[tuple[DropPreference, float], Accuracy]]:
    return side_by_side(accuracies, _tasks(settings), settings)


def accuracy(settings: Settings) -> ReproductionOutcome:
    """E-LS-5: errors of random and semantic loss."""
    runs = _runs(settings)

    def means(preference: DropPreference, what: str = "mean") -> list[float]:
        return [float(np.mean([getattr(run[preference, share], what) for run in runs])) for share in SHARES]

    by_range = [means(DropPreference(kind, "speed", mode=DropMode.RANGE)) for kind in KINDS]
    by_rows = [means(DropPreference(kind, "speed")) for kind in KINDS]
    dropped = [means(DropPreference(kind, "speed", mode=DropMode.RANGE), "dropped")[1] for kind in KINDS]
    random, worst = means(RANDOM), [max(run[RANDOM, share].worst for run in runs) for share in SHARES]
    covered = np.array(side_by_side(coverage, _tasks(settings), settings)).mean(axis=0)
    near, bias = covered[:, :2].ravel().tolist(), covered[:, 2].tolist()
    sampled = [_DEVIATION / _MEAN * np.sqrt(2 / np.pi * share / ((1 - share) * _WINDOW_ROWS)) for share in SHARES]
    claims = (
        STATEMENTS["E-LS-5a"].judged(
            "E-LS-5a", all(error < share / 10 for error, share in zip(worst, SHARES, strict=True)),
            f"mean {_percents(random)}, greatest {_percents(worst)}", error=[*random, *worst],
        ),
        STATEMENTS["E-LS-5b"].judged(
            "E-LS-5b", all(1 / 1.5 < found / expected < 1.5 for found, expected in zip(random, sampled, strict=True)),
            f"{listed([found / expected for found, expected in zip(random, sampled, strict=True)])} times that",
            ratio=[found / expected for found, expected in zip(random, sampled, strict=True)],
        ),
        STATEMENTS["E-LS-5c"].judged(
            "E-LS-5c", all(by_range[2][at] > max(by_range[0][at], by_range[1][at]) for at in (1, 2)),
            "; ".join(f"{kind} {_percents(found)}" for kind, found in zip(KINDS, by_range, strict=True)),
            error=[error for at in (1, 2) for error in (found[at] for found in by_range)],
        ),
        STATEMENTS["E-LS-5d"].judged(
            "E-LS-5d", max(dropped[:2]) < 0.01 and dropped[2] > 0.5, f"{_percents(dropped)} of the rows", dropped=dropped
        ),
        STATEMENTS["E-LS-5e"].judged(
            "E-LS-5e", all(10 * by_rows[2][at] < min(by_rows[0][at], by_rows[1][at]) for at in (0, 2)),
            "; ".join(f"{kind} {_percents(found)}" for kind, found in zip(KINDS, by_rows, strict=True)),
            error=[error for at in (0, 2) for error in (found[at] for found in by_rows)],
        ),
        STATEMENTS["E-LS-5f"].judged(
            "E-LS-5f", min(near) > 0.8 and abs(float(np.mean(near)) - 0.95) < 0.05 and max(map(abs, bias)) < 0.002,
            f"{100 * float(np.mean(near)):.1f} % of them; on average sums are {_percents(bias)} off", near=near, bias=bias,
        ),
    )  # fmt: skip
    percent = [100 * share for share in SHARES]

    def line(preference: DropPreference, label: str) -> Series:
        return Series(
            label, percent, *spread_of(np.array([[100 * run[preference, share].mean for share in SHARES] for run in runs]))
        )

    panels = tuple(
        Panel(
            "dropped rows (%)" if mode is DropMode.QUANTILE else "share of the range (%)",
            "mean error of window averages (%)",
            (line(RANDOM, "random"), *(line(DropPreference(kind, "speed", mode=mode), f"{kind} first") for kind in KINDS)),
            "markers", log_y=True, title=title,
        )
        for mode, title in ((DropMode.RANGE, "range of values"), (DropMode.QUANTILE, "quantiles"))
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Error of window averages under loss", panels))


def _percents(errors: list[float]) -> str:
    return listed([100 * error for error in errors]) + " %"
