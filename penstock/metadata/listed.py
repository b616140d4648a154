"""Punctuations that each name one value, many at a time: a stream that closes keys one by one sends one for every key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.batch import Int64s
from penstock.model.masks import Mask, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import one_of_array

#: A JSON object with one member, a whole number of at most 18 digits or a text without escapes.
_FORM = r'^\{"(?P<name>[^"\\]+)": ?(?:(?P<number>-?(?:0|[1-9][0-9]{0,17}))|"(?P<text>[^"\\\x00-\x1f]*)")\}$'


@dataclass(frozen=True, slots=True)
class ListedMarks:
    """Punctuations ⟨column = value⟩, the values and positions in the order of the positions."""

    column: str
    values: pa.Array
    pos: Int64s

    def punctuation(self, name: str) -> Punctuation:
        """All of them as one, about a column of this name, at the last position: waiting only promises less."""
        return Punctuation((name,), (one_of_array(self.values),), 0, int(self.pos[-1]))

    def precede(self, column: pa.Array, pos: Int64s) -> Mask:
        """Rows whose value had been closed before them."""
        rows = comparable(column)
        first = pc.fill_null(pc.index_in(rows, value_set=self.values.cast(rows.type)), len(self.pos))
        closed_at = np.append(self.pos, np.iinfo(np.int64).max)
        result: Mask = pos > closed_at[first.to_numpy(zero_copy_only=False)]
        return result


def read_listed(texts: pa.Array, pos: Int64s, schema: Schema) -> tuple[list[ListedMarks], Mask]:
    """The punctuations of this simple form, and which texts have it; whatever else is written is for `read_statement`.

    Examples
    --------
    >>> texts = pa.array(['{"item": 7}', '{"item": [8, 9]}', '{"item": 5}'])
    >>> found, is_read = read_listed(texts, np.arange(3), Schema.of(item=pa.int64()))
    >>> found[0].column, found[0].values.to_pylist(), is_read.tolist()
    ('item', [7, 5], [True, False, True])
    """
    is_read = np.zeros(len(texts), np.bool_)
    found: list[ListedMarks] = []
    parts = pc.extract_regex(texts, _FORM)
    names = pc.struct_field(parts, "name")
    for name in pc.unique(names).drop_null().to_pylist():
        if name not in schema:
            continue
        mine = np.flatnonzero(pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False))
        values, rows = _values(parts, mine, schema[name].type)
        if len(rows):
            order = np.argsort(pos[rows], kind="stable")
            found.append(ListedMarks(schema[name].name, values.take(pa.array(order)), pos[rows][order]))
            is_read[rows] = True
    return found, is_read


def _values(parts: pa.Array, rows: npt.NDArray[np.intp], kind: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.intp]]:
    """Values of the column's type, and the rows they stand in; none for types that are written in other ways."""
    if not pa.types.is_integer(kind) and not pa.types.is_string(kind):
        return pa.array([], kind), rows[:0]
    written = pc.struct_field(parts, "number" if pa.types.is_integer(kind) else "text").take(pa.array(rows))
    # A group that has no part in the match is empty, not NULL: for texts the other group has to be empty too.
    other = pc.struct_field(parts, "text" if pa.types.is_integer(kind) else "number").take(pa.array(rows))
    fits = pc.equal(other, "") if pa.types.is_string(kind) else pc.not_equal(written, "")
    chosen = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
    try:
        return written.take(pa.array(chosen)).cast(kind), rows[chosen]
    except pa.ArrowInvalid:  # a number that is too large for the column is an error with a message of its own
        return pa.array([], kind), rows[:0]
