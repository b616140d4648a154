"""Functions that tests declare in SQL."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

#: What `fussy` was asked, so that tests can see it.
SEEN: list[int] = []


def longer_pandas(text: pd.Series, least: pd.Series) -> pd.Series:
    return text.str.len() > least


def longer_arrow(text: pa.Array, least: pa.Array) -> pa.Array:
    return pc.greater(pc.cast(pc.utf8_length(text), pa.int64()), least)


def longer_rows(text: str | None, least: int | None) -> bool | None:
    return None if text is None or least is None else len(text) > least


def fussy(value: pd.Series) -> pd.Series:
    """Raises on 0, as a division would."""
    SEEN.extend(value.dropna().astype(int))
    if (value == 0).any():
        raise ZeroDivisionError("division by zero")
    return 100 / value


def hashed(value: pa.Array, salt: pa.Array) -> pa.Array:
    """A number between 0 and 99 that looks random."""
    mixed = pc.multiply(pc.add(pc.multiply(value, 7919), salt), 104729)
    return pc.bit_wise_and(pc.shift_right(mixed, 7), 127)


def too_short(value: pd.Series) -> pd.Series:
    return value[1:]


def a_list_of_texts(value: pd.Series) -> list[str]:
    return [str(each) for each in value]


NO_FUNCTION = 3


def slow(price: float | None) -> float | None:
    """A tenth of a millisecond for each row."""
    return None if price is None else price + sum(range(10_000)) * 0.0
