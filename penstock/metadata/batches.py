"""Many punctuations at once: a stream that closes keys one by one sends as many punctuations as keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import Batch, Int64s
from penstock.model.masks import Mask, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between, one_of


def merged(marks: Iterable[Punctuation]) -> list[Punctuation]:
    """The same knowledge in few punctuations, each at the last position of what it was made of.

    Listed values of one attribute become one list, ranges of whole numbers that touch one range. Waiting is safe: a later
    position only promises less.

    Examples
    --------
    >>> from penstock.model.value_sets import between, constant
    >>> [str(mark) for mark in merged(Punctuation.of(("item",), item=constant(value)) for value in (3, 1))]
    ['⟨item={1,3}⟩']
    >>> [str(mark) for mark in merged(Punctuation.of(("item",), item=between(low, low + 4)) for low in (10, 15, 30))]
    ['⟨item=[10,19]⟩', '⟨item=[30,34]⟩']
    """
    lists: dict[tuple[str, bool], list[Punctuation]] = {}
    ranges: dict[tuple[str, bool], list[Punctuation]] = {}
    others: list[Punctuation] = []
    for mark in marks:
        if name := _listed_attribute(mark):
            lists.setdefault((name, mark.is_global), []).append(mark)
        elif name := _ranged_attribute(mark):
            ranges.setdefault((name, mark.is_global), []).append(mark)
        else:
            others.append(mark)
    touching = (one for (name, _), same in ranges.items() for one in _touching(name, same))
    return [*(_one(name, same) for (name, _), same in lists.items()), *touching, *others]


def _listed_attribute(mark: Punctuation) -> str:
    """The attribute whose listed values are all the punctuation is about; empty if it is about something else."""
    restricted = mark.restricted
    if len(restricted) != 1:
        return ""
    ((name, pattern),) = restricted.items()
    # Whole numbers may be many, and are as plain as can be.
    plain = pattern.numbers is not None or (
        pattern.values and all(value is not None and value == value for value in pattern.values)
    )
    return name if plain else ""


def _ranged_attribute(mark: Punctuation) -> str:
    """The attribute of which a range of whole numbers is all the punctuation is about; empty if there is none."""
    restricted = mark.restricted
    if len(restricted) != 1:
        return ""
    ((name, pattern),) = restricted.items()
    bounds = [(pattern.lo, pattern.lo_inclusive), (pattern.hi, pattern.hi_inclusive)]
    finite = [(bound, inclusive) for bound, inclusive in bounds if bound is not None]
    whole = finite and all(type(bound) is int and inclusive for bound, inclusive in finite)
    return name if pattern.is_range and whole else ""


def _touching(name: str, marks: Sequence[Punctuation]) -> list[Punctuation]:
    """Few ranges that hold what all ranges hold; those that overlap or are neighbours become one."""
    if len(marks) == 1:
        return list(marks)
    spans: list[tuple[int | None, int | None]] = []
    for low, high in sorted(map(partial(_span, name), marks), key=lambda span: (span[0] is not None, span[0] or 0)):
        first, last = spans[-1] if spans else (None, 0)
        if spans and (last is None or low is None or low <= last + 1):
            spans[-1] = (first, None if high is None or last is None else max(last, high))
        else:
            spans.append((low, high))
    newest = max(marks, key=lambda mark: mark.pos)
    return [newest.narrowed(name, between(low, high)) for low, high in spans]


def _span(name: str, mark: Punctuation) -> tuple[int | None, int | None]:
    pattern = mark.pattern(name)
    return pattern.lo, pattern.hi


def _one(name: str, marks: Sequence[Punctuation]) -> Punctuation:
    if len(marks) == 1:
        return marks[0]
    values = [value for mark in marks for value in mark.pattern(name).values]
    last = max(marks, key=lambda mark: mark.pos)
    return Punctuation(last.names, last.narrowed(name, one_of(values)).patterns, last.ts, last.pos, last.is_global)


def follows_its_punctuation(batch: Batch, marks: Sequence[Punctuation]) -> Mask:
    """Rows that match a punctuation of a smaller position."""
    wrong = np.zeros(batch.num_rows, np.bool_)
    listed: dict[str, list[Punctuation]] = {}
    ranged: dict[str, list[Punctuation]] = {}
    for mark in marks:
        if name := _listed_attribute(mark):
            listed.setdefault(name, []).append(mark)
        elif (name := _ranged_attribute(mark)) and pa.types.is_signed_integer(comparable(batch.column(name)).type):
            ranged.setdefault(name, []).append(mark)
        else:
            after = batch.pos > mark.pos
            if after.any():
                wrong |= after & mark.matches_batch(batch.rows)
    for name, same in listed.items():
        wrong |= _after_value(batch.column(name), batch.pos, name, same)
    for name, same in ranged.items():
        wrong |= _after_range(comparable(batch.column(name)), batch.pos, name, same)
    return wrong


def _after_value(column: pa.Array, pos: Int64s, name: str, marks: Sequence[Punctuation]) -> Mask:
    """Compare each row with the first punctuation of its value."""
    ordered = sorted(marks, key=lambda mark: mark.pos)
    patterns = [mark.pattern(name) for mark in ordered]
    rows = comparable(column)
    whole = [numbers for one in patterns if (numbers := one.numbers) is not None] if pa.types.is_integer(rows.type) else []
    values: Any = np.concatenate(whole) if len(whole) == len(patterns) else [value for one in patterns for value in one.values]
    # Of equal values the first is found.
    found = pc.index_in(rows, value_set=pa.array(values, rows.type))
    positions = np.repeat([*(mark.pos for mark in ordered), np.iinfo(np.int64).max], [*(one.num_values for one in patterns), 1])
    result: Mask = pos > positions[pc.fill_null(found, len(values)).to_numpy(zero_copy_only=False)]
    return result


def _after_range(column: pa.Array, pos: Int64s, name: str, marks: Sequence[Punctuation]) -> Mask:
    """Compare each row with the first punctuation whose range it is in.

    The ends of all ranges cut the numbers into stretches; of each stretch the first position is found once.
    """
    ends = np.iinfo(np.int64)
    spans = np.array([_span_within(name, mark, ends) for mark in marks], np.int64)
    starts = np.unique(np.append(spans[:, 0], spans[spans[:, 1] < ends.max, 1] + 1))
    first = np.full(len(starts) + 1, ends.max, np.int64)
    low, high = np.searchsorted(starts, spans[:, 0], "right"), np.searchsorted(starts, spans[:, 1], "right")
    for mark, begin, end in zip(marks, low.tolist(), high.tolist(), strict=True):
        first[begin : end + 1] = np.minimum(first[begin : end + 1], mark.pos)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    result: Mask = present & (pos > first[np.searchsorted(starts, values, "right")])
    return result


def _span_within(name: str, mark: Punctuation, ends: Any) -> tuple[int, int]:
    low, high = _span(name, mark)
    return ends.min if low is None else max(low, ends.min), ends.max if high is None else min(high, ends.max)
