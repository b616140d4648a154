"""Estimates of memory while queries run: kept while they fit, replaced when they do not, and what memory follows from them.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 32.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from penstock.errors import OutOfMemory
from penstock.plan.analysis.estimation import InputEstimate, bytes_text


class Retuning:
    """The estimate in force for one join: kept while it fits, replaced when it was wrong for some time.

    Parameters
    ----------
    tolerance
        Deviation from the measured state that is put up with.
    patience
        Micro-batches in a row it must be exceeded in.
    trust
        Weight of the measured state when a new estimate is made; the rest is the analytic one.

    Examples
    --------
    >>> from penstock.plan.analysis.estimation import Basis
    >>> tuning = Retuning([InputEstimate("a", 10, 10, 32, Basis.WINDOW)])
    >>> fresh = [InputEstimate("a", 10, 4, 32, Basis.MEASURED)]
    >>> [tuning.observe(60, fresh) for _ in range(3)], tuning.rows
    ([False, False, True], 50.0)
    """

    def __init__(self, estimates: Sequence[InputEstimate], tolerance: float = 0.2, patience: int = 3, trust: float = 0.5) -> None:
        self.estimates = tuple(estimates)
        self.tolerance, self.patience, self.trust = tolerance, patience, trust
        self._wrong = 0

    @property
    def rows(self) -> float | None:
        """Rows of all inputs by the estimate in force."""
        found = [estimate.rows for estimate in self.estimates]
        return None if None in found else sum(rows for rows in found if rows is not None)

    def observe(self, measured_rows: float, fresh: Sequence[InputEstimate]) -> bool:
        """Compare with the state of one micro-batch; whether the estimate was replaced."""
        rows = self.rows
        is_off = rows is None or abs(rows - measured_rows) > self.tolerance * max(measured_rows, 1.0)
        self._wrong = self._wrong + 1 if is_off else 0
        if self._wrong < self.patience:
            return False
        self.estimates, self._wrong = self._blended(measured_rows, fresh), 0
        return True

    def _blended(self, measured_rows: float, fresh: Sequence[InputEstimate]) -> tuple[InputEstimate, ...]:
        """Stays between the analytic ones and those the measured state implies, in the same proportion for all inputs."""
        total = sum(estimate.rows or 0.0 for estimate in fresh)
        if not 0 < total < inf:
            return tuple(fresh)
        factor = 1 - self.trust + self.trust * measured_rows / total
        return tuple(replace(estimate, stay=None if estimate.stay is None else estimate.stay * factor) for estimate in fresh)


def allocate(budget_bytes: float, wanted_bytes: Mapping[str, float], floor_bytes: float = 1e6) -> dict[str, float]:
    """Share memory among operators in proportion to what they need; none gets less than the floor.

    Raises
    ------
    OutOfMemory
        When not even the floors fit.

    Examples
    --------
    >>> allocate(100.0, {"join": 300.0, "group": 100.0, "tiny": 0.0}, floor_bytes=10.0)
    {'join': 67.5, 'group': 22.5, 'tiny': 10.0}
    """
    if floor_bytes * len(wanted_bytes) > budget_bytes:
        raise OutOfMemory(
            f"{bytes_text(budget_bytes)} for {len(wanted_bytes)} operators leave none of them {bytes_text(floor_bytes)}; "
            "give more memory, or run fewer queries"
        )
    floored: set[str] = set()
    while True:
        rest = budget_bytes - floor_bytes * len(floored)
        total = sum(size for name, size in wanted_bytes.items() if name not in floored)
        free = [name for name in wanted_bytes if name not in floored]
        shares = {name: rest * (wanted_bytes[name] / total) if total else rest / max(len(free), 1) for name in free}
        below = {name for name, share in shares.items() if share < floor_bytes}
        if not below:
            return {name: shares.get(name, floor_bytes) for name in wanted_bytes}
        floored |= below
