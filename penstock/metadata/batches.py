"""Many punctuations at once: a stream that closes keys one by one sends as many punctuations as keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import Batch, Int64s
from penstock.model.masks import Mask, comparable
from penstock.model.patterns import one_of
from penstock.model.punctuation import Punctuation


def merged(marks: Iterable[Punctuation]) -> list[Punctuation]:
    """The same knowledge in few punctuations: listed values of one attribute become one list, at the last position.

    Waiting is safe: a later position only promises less.

    Examples
    --------
    >>> from penstock.model.patterns import constant
    >>> [str(mark) for mark in merged(Punctuation.of(("item",), item=constant(value)) for value in (3, 1))]
    ['⟨item={1,3}⟩']
    """
    lists: dict[tuple[str, bool], list[Punctuation]] = {}
    others: list[Punctuation] = []
    for mark in marks:
        name = _listed_attribute(mark)
        if name:
            lists.setdefault((name, mark.is_global), []).append(mark)
        else:
            others.append(mark)
    return [*(_one(name, same) for (name, _), same in lists.items()), *others]


def _listed_attribute(mark: Punctuation) -> str:
    """The attribute whose listed values are all the punctuation is about; empty if it is about something else."""
    restricted = mark.restricted
    if len(restricted) != 1:
        return ""
    ((name, pattern),) = restricted.items()
    plain = pattern.values and all(value is not None and value == value for value in pattern.values)
    return name if plain else ""


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
    for mark in marks:
        name = _listed_attribute(mark)
        if name:
            listed.setdefault(name, []).append(mark)
        else:
            after = batch.pos > mark.pos
            if after.any():
                wrong |= after & mark.matches_batch(batch.rows)
    for name, same in listed.items():
        wrong |= _after_value(batch.column(name), batch.pos, name, same)
    return wrong


def _after_value(column: pa.Array, pos: Int64s, name: str, marks: Sequence[Punctuation]) -> Mask:
    """Compare each row with the first punctuation of its value."""
    first: dict[object, int] = {}
    for mark in marks:
        for value in mark.pattern(name).values:
            first[value] = min(mark.pos, first.get(value, mark.pos))
    rows = comparable(column)
    found = pc.index_in(rows, value_set=pa.array(list(first), rows.type))
    positions = np.append(np.fromiter(first.values(), np.int64, len(first)), np.iinfo(np.int64).max)
    result: Mask = pos > positions[pc.fill_null(found, len(first)).to_numpy(zero_copy_only=False)]
    return result
