"""Partial results of aggregates over groups, which merge.

An *accumulator* turns the values of each group into one cell of an Arrow column (`partial`), and several such cells
into one (`merge`); merging the parts of a group gives what the whole group would have given, whatever the parts. An
*aggregate* is an accumulator and the way to read its cells as a result. So `avg` and `sum` of one argument can share
their partial results.

NULLs are ignored; an aggregate of no value is NULL, a count of none is 0. Results depend on the set of rows alone, not
on their order or grouping into batches: integers are summed in 128 bits and checked at the end, doubles as in `binned`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.binned import MOST_TERMS, Doubles, add_doubles, add_sums, exact, rounded
from penstock.columnar.codes import as_integers, canonical, group_codes, order_codes, owned, shared, validity
from penstock.columnar.compiling import njit
from penstock.errors import NumericOverflow, TypeMistake
from penstock.model.batch import Int64s

#: A spread this small beside the sum of squares may be rounding: it is computed again, exactly.
_DOUBTFUL = 2.0**-60


class Accumulator(Protocol):
    """One column of partial results per group."""

    @property
    def type(self) -> pa.DataType:
        """Type of the column."""
        ...

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        """Cell g holds the values of the rows with code g."""
        ...

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        """Cell g holds what the cells with code g held together."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """Rows whose value is not NULL. For `count(*)` any column without NULL will do."""

    @property
    def type(self) -> pa.DataType:
        return pa.int64()

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        kept = codes if not values.null_count else codes[validity(values)]
        return pa.array(np.bincount(kept, minlength=groups).astype(np.int64, copy=False), pa.int64())

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        counts = np.zeros(groups, np.int64)
        _add_counts(owned(codes), owned(as_integers(partials)), counts)
        return pa.array(counts)


@dataclass(frozen=True, slots=True)
class IntegerSum:
    """Count and 128-bit sum: an intermediate overflow is harmless, and only the final sum is judged."""

    @property
    def type(self) -> pa.DataType:
        return pa.binary(24)

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells = np.zeros((groups, 3), np.int64)
        _add_integers(owned(codes), owned(as_integers(values)), owned(validity(values)), cells)
        return _packed(cells)

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells = np.zeros((groups, 3), np.int64)
        _merge_integers(owned(codes), shared(_cells(partials)), cells)
        return _packed(cells)


@dataclass(frozen=True, slots=True)
class FloatSum:
    """Count and binned sum of doubles."""

    @property
    def type(self) -> pa.DataType:
        return pa.binary(8 * 6)

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells, valid = np.zeros((groups, 6), np.int64), validity(values)
        _count_valid(owned(codes), owned(valid), cells)
        add_doubles(codes, as_doubles(values), valid, cells, 1, 4)
        return _packed(cells)

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells, others = np.zeros((groups, 6), np.int64), shared(_cells(partials))
        _merge_counts(owned(codes), others, cells)
        add_sums(codes, others, cells, 1, 4)
        return _packed(cells)


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, sum and sum of squares; the square of a double is added with the error of its rounding."""

    @property
    def type(self) -> pa.DataType:
        return pa.binary(8 * 13)

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells, valid, doubles = np.zeros((groups, 13), np.int64), validity(values), as_doubles(values)
        squares, errors = _exact_product(doubles, doubles)
        _count_valid(owned(codes), owned(valid), cells)
        add_doubles(codes, doubles, valid, cells, 1, 5)
        add_doubles(codes, squares, valid, cells, 7, 5)
        add_doubles(codes, errors, valid, cells, 7, 5)
        return _packed(cells)

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        cells, others = np.zeros((groups, 13), np.int64), shared(_cells(partials))
        _merge_counts(owned(codes), others, cells)
        add_sums(codes, others, cells, 1, 5)
        add_sums(codes, others, cells, 7, 5)
        return _packed(cells)


@dataclass(frozen=True, slots=True)
class Extreme:
    """Least or greatest value of any ordered type, in Spark's order."""

    type: pa.DataType
    greatest: bool

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        values = canonical(values)
        order, valid = order_codes(values)
        best = np.full(groups, -1, np.int64)
        # Complement reverses the order of integers without overflow, so one loop serves both ends.
        _find_least(owned(codes), owned(~order if self.greatest else order), owned(valid), best)
        return values.take(pa.array(best, mask=best < 0))

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        return self.partial(partials, codes, groups)


@dataclass(frozen=True, slots=True)
class ExtremeRow:
    """The row whose order is least or greatest: a struct of its value and of one or more columns of order.

    Columns of order compare one after the other, NULL below everything; rows where the first is NULL do not count. The
    value decides between equal rows, so that the choice depends on the rows alone.

    Examples
    --------
    >>> offers = pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), pa.array([5, 9, 9])], names=["bidder", "price"])
    >>> best = ExtremeRow(offers.type, greatest=True)
    >>> best.partial(offers, np.zeros(3, np.int64), 1).to_pylist()
    [{'bidder': 'c', 'price': 9}]
    """

    type: pa.StructType
    greatest: bool

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        value, *order = (canonical(column) for column in values.flatten())
        ranks = np.stack([rank for column in (*order, value) for rank in _ranks(column)], axis=1)
        best = np.full(groups, -1, np.int64)
        _find_least_row(owned(codes), owned(~ranks if self.greatest else ranks), owned(validity(order[0])), best)
        chosen = pa.array(best, mask=best < 0)
        return pa.StructArray.from_arrays([column.take(chosen) for column in (value, *order)], fields=list(self.type))

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        return self.partial(partials, codes, groups)


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The set of values of each group, as a list; what is computed over it comes at the end."""

    values: pa.DataType

    @property
    def type(self) -> pa.DataType:
        return pa.large_list(self.values)

    def partial(self, values: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        kept = np.flatnonzero(validity(values))
        values, codes = canonical(values.take(pa.array(kept))), codes[kept]
        first = group_codes([pa.array(codes), values]).first_row
        first = first[np.argsort(codes[first], kind="stable")]
        ends = np.cumsum(np.bincount(codes[first], minlength=groups))
        offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, values.take(pa.array(first)))

    def merge(self, partials: pa.Array, codes: Int64s, groups: int) -> pa.Array:
        return self.partial(pc.list_flatten(partials), codes[_owners(partials)], groups)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An accumulator and the reading of its cells.

    Examples
    --------
    >>> mean = aggregate_for("avg", pa.int64())
    >>> cells = mean.accumulator.partial(pa.array([1, 2, None]), np.zeros(3, np.int64), 1)
    >>> mean.read(cells).to_pylist()
    [1.5]
    """

    accumulator: Accumulator
    read: Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class _OverDistinct:
    """Reads sets by applying an ordinary aggregate to their members."""

    inner: Aggregate

    def __call__(self, partials: pa.Array) -> pa.Array:
        cells = self.inner.accumulator.partial(pc.list_flatten(partials), _owners(partials), len(partials))
        return self.inner.read(cells)


def aggregate_for(function: str, values: pa.DataType, distinct: bool = False) -> Aggregate:
    """The aggregate of an SQL name over values of a type.

    `count(*)` counts any column without NULL; `max_by` and `min_by` take a struct of the value and its order.
    """
    if function in ("max_by", "min_by"):
        return Aggregate(ExtremeRow(values, function == "max_by"), _first_field)
    if distinct and function not in ("min", "max"):
        return Aggregate(DistinctValues(values), _OverDistinct(aggregate_for(function, values)))
    if function == "count":
        return Aggregate(Count(), _unchanged)
    if function in ("min", "max"):
        return Aggregate(Extreme(values, function == "max"), _unchanged)
    integers = pa.types.is_integer(values)
    if not (integers or pa.types.is_floating(values)):
        raise TypeMistake(f"{function} of {values}: only numbers can be added; CAST the argument to a number")
    if function in ("sum", "avg"):
        total, mean = (_integer_sums, _integer_means) if integers else (_float_sums, _float_means)
        return Aggregate(IntegerSum() if integers else FloatSum(), total if function == "sum" else mean)
    if function in _SPREADS:
        return Aggregate(Moments(), _SPREADS[function])
    raise TypeMistake(f"there is no aggregate '{function}'; there are count, sum, avg, min, max, {', '.join(_SPREADS)}")


def as_doubles(values: pa.Array) -> Doubles:
    """Numbers as doubles; NULL becomes 0."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, values.type))
    numbers = values.to_numpy(zero_copy_only=False)
    result: Doubles = owned(numbers.astype(np.float64, copy=False))
    return result


def greatest_of(values: Int64s, codes: Int64s, groups: int) -> Int64s:
    """The greatest integer of each group; every group must have a row."""
    greatest = np.full(groups, np.iinfo(np.int64).min, np.int64)
    _find_greatest(owned(codes), owned(values), greatest)
    return greatest


def _unchanged(partials: pa.Array) -> pa.Array:
    return partials


def _first_field(partials: pa.Array) -> pa.Array:
    return partials.flatten()[0]


def _ranks(column: pa.Array) -> list[Int64s]:
    """Integers that order the column, NULL first."""
    codes, valid = order_codes(column)
    return [valid.astype(np.int64), np.where(valid, codes, 0)] if column.null_count else [codes]


def _integer_sums(partials: pa.Array) -> pa.Array:
    counts, low, high = _cells(partials).T
    if np.any(high != low >> 63):
        raise NumericOverflow("a sum of integers does not fit 64 bits; CAST the argument to DOUBLE, or sum over a smaller window")
    return pa.array(low.copy(), mask=counts == 0)


def _integer_means(partials: pa.Array) -> pa.Array:
    counts, low, high = _cells(partials).T
    wide = high.astype(np.float64) * 2.0**64 + low.view(np.uint64).astype(np.float64)
    sums = np.where(high == low >> 63, low.astype(np.float64), wide)
    return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)


def _float_sums(partials: pa.Array) -> pa.Array:
    cells = _checked(_cells(partials))
    return pa.array(rounded(cells, 1, 4)[0], mask=cells[:, 0] == 0)


def _float_means(partials: pa.Array) -> pa.Array:
    cells = _checked(_cells(partials))
    high, low = rounded(cells, 1, 4)
    return pa.array(_quotient(high, low, np.maximum(cells[:, 0], 1)), mask=cells[:, 0] == 0)


def _checked(cells: Int64s) -> Int64s:
    if np.any(cells[:, 0] >= MOST_TERMS):
        raise NumericOverflow("more than 8 billion values in one group; use a smaller window")
    return cells


def _variances(partials: pa.Array, sample: bool) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    cells = _checked(_cells(partials))
    counts = cells[:, 0]
    high, low = rounded(cells, 1, 5)
    square_high, square_low = rounded(cells, 7, 5)
    with np.errstate(all="ignore"):
        product, error = _exact_product(high, high)
        error += 2 * high * low
        mean_high = _quotient(product, error, counts)
        back, back_error = _exact_product(mean_high, counts.astype(np.float64))
        mean_low = ((product - back) - back_error + error) / counts
        spread = (square_high - mean_high) + (square_low - mean_low)
        spread = np.where(np.isfinite(square_high), np.maximum(spread, 0.0), np.nan)
        for group in np.flatnonzero(spread <= _DOUBTFUL * square_high):
            spread[group] = _exact_spread(cells[group])
        return spread / (counts - 1 if sample else counts), counts < (2 if sample else 1)


def _exact_spread(cell: Int64s) -> float:
    """Sum of squared distances from the mean; few groups need it, those whose values are almost equal."""
    count = max(int(cell[0]), 1)
    total, squares = exact(cell[1:7]), exact(cell[7:])
    return max(float(squares - total * total / count), 0.0) if count > 1 else 0.0


def _sample_variances(partials: pa.Array) -> pa.Array:
    values, missing = _variances(partials, sample=True)
    return pa.array(values, mask=missing)


def _population_variances(partials: pa.Array) -> pa.Array:
    values, missing = _variances(partials, sample=False)
    return pa.array(values, mask=missing)


def _sample_deviations(partials: pa.Array) -> pa.Array:
    return pc.sqrt(_sample_variances(partials))


def _population_deviations(partials: pa.Array) -> pa.Array:
    return pc.sqrt(_population_variances(partials))


_SPREADS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "stddev": _sample_deviations,
    "stddev_samp": _sample_deviations,
    "stddev_pop": _population_deviations,
    "variance": _sample_variances,
    "var_samp": _sample_variances,
    "var_pop": _population_variances,
}


def _quotient(high: Doubles, low: Doubles, divisor: Int64s) -> Doubles:
    """(high + low) / divisor, where high alone would have been rounded already."""
    with np.errstate(all="ignore"):
        first = high / divisor
        back, error = _exact_product(first, divisor.astype(np.float64))
        better = first + ((high - back) - error + low) / divisor
    return np.where(np.isfinite(better), better, first)


def _exact_product(left: Doubles, right: Doubles) -> tuple[Doubles, Doubles]:
    """Product and rounding error (Dekker); the error counts as 0 where it cannot be represented."""
    with np.errstate(all="ignore"):
        product = left * right
        left_high, right_high = _upper_half(left), _upper_half(right)
        left_low, right_low = left - left_high, right - right_high
        cross = (left_high * right_high - product) + left_high * right_low + left_low * right_high
        error = cross + left_low * right_low
    return product, np.where(np.isfinite(error) & np.isfinite(product), error, 0.0)


def _upper_half(values: Doubles) -> Doubles:
    scaled = values * 134217729.0
    result: Doubles = scaled - (scaled - values)
    return result


def _owners(lists: pa.Array) -> Int64s:
    result: Int64s = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return result


def _packed(cells: Int64s) -> pa.Array:
    """A row of integers per cell, as fixed-size binary: one column to store, take and ship."""
    width = cells.shape[1] * 8
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(cells), [None, pa.py_buffer(owned(cells))])


def _cells(column: pa.Array) -> Int64s:
    width = column.type.byte_width // 8
    if not len(column):
        return np.empty((0, width), np.int64)
    flat = np.frombuffer(column.buffers()[1], np.int64, len(column) * width, column.offset * width * 8)
    return flat.reshape(-1, width)


@njit(cache=True)
def _add_counts(codes: Any, counts: Any, totals: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        totals[codes[i]] += counts[i]


@njit(cache=True)
def _count_valid(codes: Any, valid: Any, cells: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if valid[i]:
            cells[codes[i], 0] += 1


@njit(cache=True)
def _merge_counts(codes: Any, others: Any, cells: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        cells[codes[i], 0] += others[i, 0]


@njit(cache=True)
def _add_integers(codes: Any, values: Any, valid: Any, cells: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if valid[i]:
            row = cells[codes[i]]
            before = np.uint64(row[1])
            after = before + np.uint64(values[i])
            row[0] += 1
            row[1] = np.int64(after)
            row[2] += (values[i] >> 63) + (1 if after < before else 0)


@njit(cache=True)
def _merge_integers(codes: Any, others: Any, cells: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        row = cells[codes[i]]
        before = np.uint64(row[1])
        after = before + np.uint64(others[i, 1])
        row[0] += others[i, 0]
        row[1] = np.int64(after)
        row[2] += others[i, 2] + (1 if after < before else 0)


@njit(cache=True)
def _find_least(codes: Any, order: Any, valid: Any, best: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if valid[i]:
            known = best[codes[i]]
            if known < 0 or order[i] < order[known]:
                best[codes[i]] = i


@njit(cache=True)
def _find_least_row(codes: Any, ranks: Any, valid: Any, best: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if not valid[i]:
            continue
        known = best[codes[i]]
        if known < 0:
            best[codes[i]] = i
            continue
        for j in range(ranks.shape[1]):
            if ranks[i, j] != ranks[known, j]:
                if ranks[i, j] < ranks[known, j]:
                    best[codes[i]] = i
                break


@njit(cache=True)
def _find_greatest(codes: Any, values: Any, greatest: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(codes)):
        if values[i] > greatest[codes[i]]:
            greatest[codes[i]] = values[i]
