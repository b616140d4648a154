"""What a filter costs per row: declared, or measured and fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: A clock may be too coarse to see a filter at all.
LEAST_COST = 1e-9
#: Calls of one filter that are remembered.
SAMPLES = 256


def fitted(rows: Floats, seconds: Floats, chunk_rows: int, trimmed: float = 0.0) -> float:
    """Time per row in a chunk of the given size, from `seconds = c0 + c1 * rows`.

    A filter that stands late sees few rows per call. Its fixed cost per call must not make it look expensive just for being late,
    or the order would freeze; so the fixed part is spread over a whole chunk.

    Parameters
    ----------
    trimmed
        Share of the calls, those slowest per row, that is left out: a stall says nothing about the filter.

    Examples
    --------
    >>> rows = np.array([100.0, 1000.0, 8000.0])
    >>> round(fitted(rows, 50.0 + 2.0 * rows, 10_000), 6)
    2.005
    """
    if trimmed and len(rows) > 1:
        kept = np.argsort(seconds / rows, kind="stable")[: max(int(np.ceil(len(rows) * (1 - trimmed))), 1)]
        rows, seconds = rows[kept], seconds[kept]
    spread = float(((rows - rows.mean()) ** 2).sum())
    if spread == 0.0:
        return max(float(seconds.sum() / rows.sum()), LEAST_COST)
    slope = float(((rows - rows.mean()) * (seconds - seconds.mean())).sum() / spread)
    fixed = float(seconds.mean()) - slope * float(rows.mean())
    if fixed < 0.0 or slope < 0.0:
        # Noise: only the plain ratio is left.
        return max(float(seconds.sum() / rows.sum()), LEAST_COST)
    return max(slope + fixed / chunk_rows, LEAST_COST)


class CostModel:
    """Cost of each filter per row.

    Parameters
    ----------
    declared
        By filter; None where it is to be measured. Declared costs are in the unit of measured ones, seconds, when both occur.
    chunk_rows
        Rows over which the fixed part of a call is spread.

    Examples
    --------
    >>> CostModel([3.0, None]).estimates().tolist()
    [3.0, 3.0]
    """

    def __init__(self, declared: Sequence[float | None], chunk_rows: int = 32_768, trimmed: float = 0.0) -> None:
        self.declared = tuple(declared)
        self.chunk_rows = chunk_rows
        self.trimmed = trimmed
        self._samples: list[list[tuple[int, float]]] = [[] for _ in self.declared]
        self._given: dict[int, float] = {}

    @property
    def is_declared(self) -> bool:
        """Whether there is nothing to measure."""
        return None not in self.declared

    @property
    def is_known(self) -> bool:
        """Whether every cost is declared or told, so that deciding by them needs no measurement of one's own."""
        return all(cost is not None or number in self._given for number, cost in enumerate(self.declared))

    def add(self, number: int, rows: int, seconds: float) -> None:
        """One call of a filter."""
        if rows and self.declared[number] is None:
            samples = self._samples[number]
            samples.append((rows, seconds))
            if len(samples) > 2 * SAMPLES:
                del samples[:-SAMPLES]

    def set_costs(self, costs: Mapping[int, float]) -> None:
        """Costs decided elsewhere."""
        self._given.update({number: max(float(cost), LEAST_COST) for number, cost in costs.items()})

    def estimates(self, is_measured: bool = False) -> Floats:
        """Cost of each filter; one that nothing is known of costs as much as the others do on average.

        Parameters
        ----------
        is_measured
            Use own measurements. A shard that decides for itself must not: a repetition would decide otherwise.
        """
        found = [self._estimate(number, is_measured) for number in range(len(self.declared))]
        known = [cost for cost in found if cost is not None]
        usual = sum(known) / len(known) if known else 1.0
        return np.array([usual if cost is None else cost for cost in found], np.float64)

    def _estimate(self, number: int, is_measured: bool) -> float | None:
        declared = self.declared[number]
        if declared is not None:
            return max(declared, LEAST_COST)
        samples = self._samples[number][-SAMPLES:]
        if is_measured and samples:
            table = np.array(samples, np.float64)
            return fitted(table[:, 0], table[:, 1], self.chunk_rows, self.trimmed)
        return self._given.get(number)

    def drain(self, most: int = 32) -> list[list[tuple[int, float]]]:
        """Hand over the calls measured last and forget them."""
        found = [samples[-most:] for samples in self._samples]
        self._samples = [[] for _ in self.declared]
        return found

    def snapshot(self, has_samples: bool = True) -> dict[str, Any]:
        """JSON values; without samples where measurements only leave as reports and decide nothing."""
        kept = [samples[-SAMPLES:] if has_samples else [] for samples in self._samples]
        return {
            "told": [[number, cost] for number, cost in sorted(self._given.items())],
            "samples": [[list(sample) for sample in samples] for samples in kept],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._given = {int(number): float(cost) for number, cost in state["told"]}
        self._samples = [[(int(rows), float(seconds)) for rows, seconds in samples] for samples in state["samples"]]
