"""Failed traces by what failed them, as counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.model.batch import Int64s
from penstock.operators.patterns._constraints import REASONS

_BY_REASON = tuple(f"failed_{reason}" for reason in REASONS)
_AT = "failed_at:"


class Failures:
    """Reads the tally of traces under constraints, and adds what was counted before a restart.

    Parameters
    ----------
    tally
        Traces by type of the event and kind of the condition that failed them; somebody else adds to it.
    types
        Names of the types by their number.

    Examples
    --------
    >>> import numpy as np
    >>> failures = Failures(np.array([[2, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]), ("Cash", "Sent", "Paid"))
    >>> {name: count for name, count in failures.totals.items() if count}
    {'failed_global': 2, 'failed_local': 1, 'failed_at:Cash': 2, 'failed_at:Sent': 1}
    """

    def __init__(self, tally: Int64s, types: Sequence[str]) -> None:
        self._tally, self._types = tally, types
        self._earlier: dict[str, int] = {}

    def resume(self, totals: Mapping[str, int]) -> None:
        """Go on from earlier totals; types that nobody names any more keep what they had."""
        self._tally[:] = 0
        self._earlier = {name: count for name, count in totals.items() if name in _BY_REASON or name.startswith(_AT)}

    @property
    def totals(self) -> dict[str, int]:
        """Every kind of condition, and of the types those that have failed a trace."""
        by_reason = dict(zip(_BY_REASON, self._tally.sum(axis=0).tolist(), strict=True))
        by_type = zip(self._types, self._tally.sum(axis=1).tolist(), strict=True)
        found = by_reason | {f"{_AT}{name}": count for name, count in by_type if count}
        for name, count in self._earlier.items():
            found[name] = found.get(name, 0) + count
        return found
