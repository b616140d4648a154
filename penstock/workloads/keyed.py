"""One stream with many keys, made to be aggregated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import integers, uniforms
from penstock.workloads.contracts import Options
from penstock.workloads.lifetimes import power_law

_READING = Schema.of(key=pa.int64(), value=pa.float64(), amount=pa.int64(), ts=TIMESTAMP).named("keyed.reading")


@dataclass(frozen=True)
class Keyed(ColumnarWorkload):
    """Stream `reading` with the columns key, value (in [0, 1)), amount (0 … 999), ts.

    Parameters
    ----------
    keys
        Number of different keys.
    skew
        Exponent of a Zipf-like law over the keys; 0 is uniform.

    Examples
    --------
    >>> Keyed(keys=5).generate("reading", 0, 1, 0, 1000, Options()).column("key").value_counts().field(1).to_pylist()
    [190, 214, 189, 209, 198]
    """

    name: ClassVar[str] = "keyed"
    default_rate: ClassVar[float] = 100_000.0

    keys: int = 100_000
    skew: float = 0.0

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise InvalidOption(f"{self.keys} keys are too few; there must be at least 1", "keys")
        if not 0 <= self.skew <= 10:
            raise InvalidOption(f"a skew of {self.skew} is out of range; it must be between 0 (uniform) and 10", "skew")

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {"reading": StreamShape(_READING, "key", "ts", clock=self.name)}

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        return {
            "key": self._keys(index, options),
            "value": uniforms(options.seed, "value", index),
            "amount": integers(options.seed, "amount", index, 1000),
        }

    def _keys(self, index: Int64s, options: Options) -> Int64s:
        if not self.skew:
            return integers(options.seed, "key", index, self.keys)
        part = power_law(uniforms(options.seed, "key", index), self.keys, self.skew)
        result: Int64s = (part * self.keys).astype("int64")
        return result
