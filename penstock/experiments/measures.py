"""What experiments compute from samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.experiments.contracts import Floats
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS


def sample_times(seconds: float, every: float) -> Int64s:
    """Microseconds of the samples of a stream: every so many seconds, the end included.

    Examples
    --------
    >>> sample_times(2.0, 0.5).tolist()
    [500000, 1000000, 1500000, 2000000]
    """
    times: Int64s = np.rint(np.arange(1, round(seconds / every) + 1) * every * MICROS).astype(np.int64)
    return times


def in_seconds(times_us: Int64s) -> Floats:
    """Microseconds as seconds."""
    return times_us / float(MICROS)


def rate_between(times_us: Int64s, totals: Int64s, start: float, stop: float) -> float:
    """Growth per second of a total between two sampled moments; it is 0 at the start.

    Examples
    --------
    >>> rate_between(sample_times(4.0, 1.0), np.array([10, 20, 40, 60]), 2.0, 4.0)
    20.0
    """
    first, last = (totals[np.searchsorted(times_us, round(moment * MICROS))] if moment else 0 for moment in (start, stop))
    return float(last - first) / (stop - start)


def growth(totals: Int64s) -> Int64s:
    """Growth of a total from sample to sample, beginning with the first sample."""
    return np.diff(totals, prepend=0)


def linear_fit(x: Floats, y: npt.NDArray[np.float64]) -> float:
    """Share of the variance a straight line explains (R²).

    Examples
    --------
    >>> linear_fit(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    1.0
    """
    slope, intercept = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - slope * x - intercept) ** 2).sum()) / spread if spread else 1.0


def is_increasing(values: Sequence[float]) -> bool:
    """Whether each value is greater than the one before."""
    return all(earlier < later for earlier, later in pairwise(values))


def output_over_time(seconds: Sequence[float], outputs: Sequence[float], moments: Sequence[float]) -> list[float]:
    """Output that had come by given moments, from (time, output) pairs; straight lines between them.

    Examples
    --------
    >>> output_over_time([1.0, 2.0], [10.0, 30.0], [0.5, 1.5])
    [5.0, 20.0]
    """
    found: list[float] = np.interp(moments, [0.0, *seconds], [0.0, *outputs]).tolist()
    return found


def counted(value: float) -> str:
    """A number for people: grouped digits, or few digits.

    Examples
    --------
    >>> [counted(value) for value in (39371.0, 365.2, 2.713, 0.0)]
    ['39,371', '365', '2.71', '0']
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def listed(values: Sequence[float]) -> str:
    """Numbers in a row.

    Examples
    --------
    >>> listed([227.4, 260.0])
    '227 / 260'
    """
    return " / ".join(counted(value) for value in values)


def ranged(values: Sequence[float], digits: int = 3) -> str:
    """The mean of several runs and how far they lie apart.

    Examples
    --------
    >>> ranged([1.0, 1.2, 1.1]), ranged([2.0]), ranged([7_693_429, 7_700_001])
    ('1.1 (1 to 1.2)', '2', '7,696,715 (7,693,429 to 7,700,001)')
    """

    def shown(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"

    mean = shown(float(np.mean(values)))
    return mean if len(values) == 1 else f"{mean} ({shown(min(values))} to {shown(max(values))})"


def spread_of(runs: Sequence[Sequence[float]] | Floats) -> tuple[list[float], tuple[list[float], list[float]]]:
    """Mean, least and greatest value of each point, from runs that each have all points.

    Examples
    --------
    >>> spread_of([[1.0, 4.0], [3.0, 4.0]])
    ([2.0, 4.0], ([1.0, 4.0], [3.0, 4.0]))
    """
    found = np.asarray(runs, np.float64)
    return found.mean(axis=0).tolist(), (found.min(axis=0).tolist(), found.max(axis=0).tolist())


def middle(values: Sequence[float]) -> str:
    """The median of several turns and how far they lie apart.

    Examples
    --------
    >>> middle([1.1, 1.0, 1.25])
    '1.10 (1.00 to 1.25)'
    """
    found = f"{float(np.median(values)):.2f}"
    return found if len(values) == 1 else f"{found} ({min(values):.2f} to {max(values):.2f})"


def held_bytes(value: Any) -> int:
    """Bytes of all arrays that an object holds, however deep; each buffer counts once. Python's own objects do not count.

    Examples
    --------
    >>> table = np.zeros(100, np.int64)
    >>> held_bytes({"rows": [table, table[:10]], "names": pa.array([1, 2], pa.int64())})
    816
    """
    seen: set[int] = set()
    found: dict[int, int] = {}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _NO_STATE):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            owner: Any = item if item.base is None else item.base
            if isinstance(owner, np.ndarray):
                found[owner.ctypes.data] = owner.nbytes
            else:
                waiting.append(owner)
                found.setdefault(item.ctypes.data, 0 if _is_arrow(owner) else item.nbytes)
        elif isinstance(item, pa.Buffer):
            found[item.address] = max(item.size, found.get(item.address, 0))
        else:
            waiting += _parts_of(item)
    return sum(found.values())


_NO_STATE = (str, bytes, int, float, bool, type, ModuleType, BuiltinFunctionType, pa.DataType, pa.Schema)


def _is_arrow(value: Any) -> bool:
    return isinstance(value, pa.Buffer | pa.Array)


def _parts_of(item: Any) -> Iterator[Any]:
    if isinstance(item, pa.RecordBatch):
        yield from item.columns
    elif isinstance(item, pa.Array):
        yield from (buffer for buffer in item.buffers() if buffer is not None)
        if isinstance(item, pa.DictionaryArray):
            yield item.dictionary
    elif isinstance(item, Mapping):
        yield from item.values()
    elif isinstance(item, FunctionType):
        yield from (cell.cell_contents for cell in item.__closure__ or ())
    elif isinstance(item, MethodType):
        yield item.__self__
    elif isinstance(item, partial):
        yield from (item.func, item.args, item.keywords)
    elif isinstance(item, list | tuple | set | frozenset):
        yield from item
    else:
        yield from getattr(item, "__dict__", {}).values()
        for name in (name for kind in type(item).__mro__ for name in getattr(kind, "__slots__", ())):
            if hasattr(item, name):
                yield getattr(item, name)
