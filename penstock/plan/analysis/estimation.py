"""How much memory a join needs: rows come at a rate and stay for a while, so rate × mean stay are there at a time.

Before a run rates are those of the declarations and a row is taken to stay for its window. While a query runs, the
counters of its joins (`JoinWatch`) say how fast rows come and how long values stay open; `JoinStatistics` follows them.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, sections 6.5 and 32.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite
from typing import Any

import pyarrow as pa

from penstock.metadata.statistics import Ewma, WatchedInput
from penstock.model.schema import Schema
from penstock.model.windows import Framed, Rows, Sliding
from penstock.plan.analysis.holdings import BoundedBy, Holding, label
from penstock.plan.analysis.joins import heard_by
from penstock.plan.analysis.knowledge import Knowledge
from penstock.plan.nodes.joins import WindowJoin

#: Bytes of event time and position beside the columns of a stored row.
_SYSTEM_BYTES = 16
#: Assumed for values of no fixed width: a short text and its offset.
_TEXT_BYTES = 24
#: From this many times the measured state on, rows obviously leave before their window lets them go.
_FAR_OFF = 2
#: Share of open rows older than any closed value from which on closing is not to be relied on.
_OVERDUE_SHARE = 0.05


class Basis(StrEnum):
    """What an estimate rests on."""

    #: Rows leave by their window; values may be closed earlier, but nothing is measured of that yet.
    WINDOW = "window"
    #: The window is a number of rows.
    COUNT = "row window"
    #: Lives of values were measured.
    MEASURED = "measured"
    #: Only punctuations let rows go, and nothing is measured of them yet.
    CLOSING = "closing"
    #: The rate is not declared.
    NO_RATE = "no rate"
    #: No window, and nothing closes values.
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class InputEstimate:
    """Memory of one input of a join.

    Parameters
    ----------
    rate
        Rows per unit of event time; None: not known.
    stay
        Mean time a row stays; infinite: for ever; None: not known.
    bytes_per_row
        Of a stored row.
    is_possibly_unsafe
        Without a window, and values stay open for longer than those that were closed (or none was closed yet): the state
        may grow without end.
    count
        Rows of a window that counts them; None: it does not.
    copies
        How many shards keep each row.
    is_bound
        The other inputs may close a value before its rows leave by their window; how soon is not known, so there may be
        fewer rows.
    """

    name: str
    rate: float | None
    stay: float | None
    bytes_per_row: float
    basis: Basis
    is_possibly_unsafe: bool = False
    count: int | None = None
    copies: int = 1
    is_bound: bool = False

    @property
    def rows(self) -> float | None:
        """Rows in state at a time, on average; infinite: without end."""
        if self.count is not None:
            return float(self.count)
        if self.stay is not None and not isfinite(self.stay):
            return inf
        return None if self.rate is None or self.stay is None else self.rate * self.stay * self.copies

    @property
    def num_bytes(self) -> float | None:
        return None if self.rows is None else self.rows * self.bytes_per_row

    def __str__(self) -> str:
        unsafe = ", possibly unsafe" if self.is_possibly_unsafe else ""
        if self.rows is None:
            missing = "the rate is not declared" if self.rate is None else "known once values have been closed"
            return f"memory of {self.name}: {missing}{unsafe}"
        if not isfinite(self.rows):
            return f"memory of {self.name}: unbounded"
        size = bytes_text(self.rows * self.bytes_per_row)
        copies = f", each row in {self.copies} shards" if self.copies > 1 else ""
        about, earlier = ("at most about", "; less as values are closed earlier") if self.is_bound else ("about", "")
        return f"memory of {self.name}: {about} {self.rows:,.0f} rows, {size} ({self.basis}{copies}{earlier}){unsafe}"

    def to_json(self) -> dict[str, Any]:
        """JSON values that `from_json` turns back; a stay or number of rows without end is None."""
        finite = {name: found if found is not None and isfinite(found) else None for name, found in self._numbers().items()}
        return {
            "input": self.name, "estimated_rows": finite["rows"], "basis": str(self.basis), "rate": finite["rate"],
            "stay": finite["stay"], "bytes_per_row": self.bytes_per_row, "possibly_unsafe": self.is_possibly_unsafe,
            "count": self.count, "copies": self.copies, "is_bound": self.is_bound,
        }  # fmt: skip

    def _numbers(self) -> dict[str, float | None]:
        return {"rows": self.rows, "rate": self.rate, "stay": self.stay}

    @classmethod
    def from_json(cls, coded: Mapping[str, Any]) -> InputEstimate:
        basis = Basis(coded["basis"])
        stay = inf if basis is Basis.UNBOUNDED else coded["stay"]
        return cls(
            coded["input"], coded["rate"], stay, coded["bytes_per_row"], basis, coded["possibly_unsafe"], coded["count"],
            coded["copies"], coded["is_bound"],
        )  # fmt: skip


def bytes_text(size: float) -> str:
    """A size for people.

    Examples
    --------
    >>> bytes_text(999), bytes_text(1_536_000)
    ('999 B', '1.5 MB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,.0f} B"


def bytes_per_row(schema: Schema) -> float:
    """Size of a stored row by its types; texts are taken to be short.

    Examples
    --------
    >>> bytes_per_row(Schema.of(item=pa.int64(), price=pa.float64()))
    32.0
    """
    return _SYSTEM_BYTES + sum(_width(item.type) for item in schema)


def _width(kind: pa.DataType) -> float:
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return _TEXT_BYTES


# -- before a run -----------------------------------------------------------------------------------------------------


def watched_inputs(node: WindowJoin) -> tuple[WatchedInput, ...]:
    """What a shard must know to record lives of values at the inputs of a join."""
    return tuple(WatchedInput(tuple(keys), _length(window)) for keys, window in zip(node.keys, node.windows, strict=True))


def _length(window: object) -> int | None:
    if isinstance(window, Sliding):
        return window.size
    return window.size if isinstance(window, Framed) and window.move_start else None


def declared_estimates(node: WindowJoin, inputs: Sequence[Knowledge], holdings: Sequence[Holding]) -> tuple[InputEstimate, ...]:
    """What declarations say about the memory of each input of a join."""
    inputs = heard_by(node, inputs)
    second = 1e6 if node.has_clock_time else 1.0
    return tuple(
        _counted(node.windows[port], label(part, keys), bytes_per_row(part.schema))
        or replace(
            _declared(label(part, keys), known, holding, bytes_per_row(part.schema), _stay(node, port, inputs), second),
            is_bound=holding.by is BoundedBy.WINDOW and _is_closed_by_others(node, port, inputs),
        )
        for port, (part, keys, known, holding) in enumerate(
            zip(node.parts, node.keys, inputs, holdings[: len(node.parts)], strict=True)
        )
    )


def _is_closed_by_others(node: WindowJoin, port: int, inputs: Sequence[Knowledge]) -> bool:
    """Whether all other inputs close values of the key."""
    return all(known.within(node.keys[other]) is not None for other, known in enumerate(inputs) if other != port)


def _counted(window: object, name: str, width: float) -> InputEstimate | None:
    """A window of rows is full sooner or later, whatever the rate."""
    if not isinstance(window, Rows) or window.size is None:
        return None
    return InputEstimate(name, None, None, width, Basis.COUNT, count=window.size)


def _stay(node: WindowJoin, port: int, inputs: Sequence[Knowledge]) -> float | None:
    """How long a row stays by its window alone; event time of the others may be behind."""
    length = _length(node.windows[port])
    behind = max(known.lag for other, known in enumerate(inputs) if other != port)
    return None if length is None else float(length + behind)


def _declared(name: str, known: Knowledge, holding: Holding, width: float, stay: float | None, second: float) -> InputEstimate:
    rate = None if known.rate is None else known.rate / second
    if not holding.is_bounded:
        return InputEstimate(name, rate, inf, width, Basis.UNBOUNDED)
    if holding.by is BoundedBy.WINDOW and stay is not None:
        return InputEstimate(name, rate, stay, width, Basis.NO_RATE if rate is None else Basis.WINDOW)
    unsafe = holding.by in (BoundedBy.PUNCTUATION, BoundedBy.CONSTRAINT) and stay is None
    return InputEstimate(name, rate, None, width, Basis.CLOSING if rate is not None else Basis.NO_RATE, unsafe)


# -- while it runs ----------------------------------------------------------------------------------------------------


class JoinStatistics:
    """Follows the counters of one join, micro-batch by micro-batch, over all shards.

    Parameters
    ----------
    inputs
        The join's inputs, as `watched_inputs` gives them.
    half_life
        Micro-batches after which an observed rate counts half.

    Examples
    --------
    >>> seen = JoinStatistics([WatchedInput(("k",), 15), WatchedInput(("k",), 15)])
    >>> for clock in (10, 20):
    ...     counters = {"shards": 1, "state_rows": 9000}
    ...     for port in (0, 1):
    ...         counters |= {f"rows.{port}": 500 * clock, f"clock.{port}": clock, f"closings.{port}": 0}
    ...         counters |= {f"stay.{port}": 0, f"stay_rows.{port}": 0, f"open_rows.{port}": 0, f"overdue_rows.{port}": 0}
    ...     seen.update(counters)
    >>> [estimate.rows for estimate in seen.estimates(("a", "b"), (32.0, 32.0))]
    [7500.0, 7500.0]
    """

    def __init__(self, inputs: Sequence[WatchedInput], half_life: float = 30.0) -> None:
        self.inputs = tuple(inputs)
        self._rows = [Ewma(half_life) for _ in self.inputs]
        self._closings = [Ewma(half_life) for _ in self.inputs]
        self._time = [Ewma(half_life) for _ in self.inputs]
        self._last: dict[str, float] = {}
        self._stays: list[float | None] = [None for _ in self.inputs]
        self._overdue = [False for _ in self.inputs]
        self.state_rows = 0

    def update(self, counters: Mapping[str, int]) -> None:
        """Take in the report of one micro-batch: counters of one join, summed over shards."""
        shards = max(counters.get("shards", 1), 1)
        for port in range(len(self.inputs)):
            self._rate(port, counters, shards)
            self._stay_of(port, counters)
        self.state_rows = counters.get("state_rows", 0)
        self._last = {name: float(value) for name, value in counters.items()}

    def _rate(self, port: int, counters: Mapping[str, int], shards: int) -> None:
        names = (f"rows.{port}", f"closings.{port}", f"clock.{port}")
        if not all(name in self._last and name in counters for name in names):
            return
        rows, closings, clock = (counters[name] - self._last[name] for name in names)
        if rows < 0 or clock < 0:
            return  # a shard was restored and counts anew
        self._rows[port].update(rows)
        self._closings[port].update(closings)
        self._time[port].update(clock / shards)

    def _stay_of(self, port: int, counters: Mapping[str, int]) -> None:
        rows = counters.get(f"stay_rows.{port}", 0)
        self._stays[port] = counters[f"stay.{port}"] / rows if rows else None
        waiting, overdue = counters.get(f"open_rows.{port}", 0), counters.get(f"overdue_rows.{port}", 0)
        self._overdue[port] = overdue > _OVERDUE_SHARE * (waiting + rows)

    def rate(self, port: int) -> float | None:
        """Rows per unit of event time, over all shards; None before two reports."""
        time = self._time[port].value
        return self._rows[port].value / time if time > 0 else None

    def estimates(self, names: Sequence[str], widths: Sequence[float]) -> tuple[InputEstimate, ...]:
        """Memory of each input, from what was seen so far."""
        return tuple(self._estimate(port, name, widths[port]) for port, name in enumerate(names))

    def _estimate(self, port: int, name: str, width: float) -> InputEstimate:
        window, stay, rate = self.inputs[port].window, self._stays[port], self.rate(port)
        has_closings = any(self._closings[other].value > 0 for other in range(len(self.inputs)) if other != port)
        if window is None and stay is None and not has_closings:
            return InputEstimate(name, rate, inf, width, Basis.UNBOUNDED)
        if stay is not None:
            return InputEstimate(name, rate, stay, width, Basis.MEASURED, window is None and self._overdue[port])
        # Nothing was closed yet: a row stays for its window.
        stays = None if window is None else float(window)
        return InputEstimate(name, rate, stays, width, Basis.CLOSING if window is None else Basis.WINDOW, window is None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An estimate of a join's state beside what was measured.

    Parameters
    ----------
    is_bound
        It takes every row to stay for its window; where values are closed earlier less is kept.
    """

    operator: str
    estimated_rows: float
    measured_rows: float
    is_bound: bool = False

    @property
    def error(self) -> float:
        """Deviation of the estimate, as a share of what was measured."""
        return abs(self.estimated_rows - self.measured_rows) / max(self.measured_rows, 1.0)

    def __str__(self) -> str:
        if self.is_bound and self.estimated_rows > _FAR_OFF * self.measured_rows:
            stay = f"{self.estimated_rows:,.0f} if every row stayed for its window"
            return f"{self.operator}: {self.measured_rows:,.0f} rows measured, {stay}"
        return (
            f"{self.operator}: about {self.estimated_rows:,.0f} rows estimated, {self.measured_rows:,.0f} measured "
            f"({self.error:.0%} off)"
        )


def compare(operator: str, estimates: Sequence[InputEstimate], measured_rows: float) -> Comparison | None:
    """An estimate beside measured state, usually a mean over micro-batches; None where nothing was estimated.

    Examples
    --------
    >>> print(compare("WindowJoin1", [InputEstimate("a", 500, 0.5, 32, Basis.MEASURED)], 240))
    WindowJoin1: about 250 rows estimated, 240 measured (4% off)
    >>> print(compare("WindowJoin1", [InputEstimate("a", 500, 0.5, 32, Basis.WINDOW)], 20))
    WindowJoin1: 20 rows measured, 250 if every row stayed for its window
    """
    rows = [estimate.rows for estimate in estimates]
    if any(found is None or not isfinite(found) for found in rows):
        return None
    is_bound = any(estimate.basis is Basis.WINDOW for estimate in estimates)
    return Comparison(operator, sum(found for found in rows if found is not None), measured_rows, is_bound)
