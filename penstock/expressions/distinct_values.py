"""What Arrow cannot do to texts, done by Python once for each that is different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def by_distinct_value(change: Callable[[str], object], kind: pa.DataType) -> Callable[[Any], Any]:
    """Apply a Python function to each distinct value of a column: for what Arrow cannot do, where values repeat."""

    def apply(value: Any) -> Any:
        if isinstance(value, pa.Scalar):
            return pa.scalar(change(value.as_py()) if value.is_valid else None, kind)
        encoded = pc.dictionary_encode(value)
        changed = pa.array([change(each) for each in encoded.dictionary.to_pylist()], kind)
        return changed.take(encoded.indices)

    return apply
