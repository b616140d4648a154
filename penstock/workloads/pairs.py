"""Two streams made to be joined: many-to-many matches over keys that move on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Field, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import hashes, integers, uniforms
from penstock.workloads.contracts import Options

#: Different payloads of the variant with text; taken from a table because making text is slower than all the rest.
_PAYLOADS = 1024
_PAYLOAD_BYTES = 48


@dataclass(frozen=True)
class Pairs(ColumnarWorkload):
    """Streams `left` and `right` with the columns id, key, value, ts (and payload when keys are text).

    Keys are uniform over a range of `keys` values that moves on by one every `rows_per_step` rows. At the default rate
    100,000 rows span 10 s, and an equi-join of 100,000 rows a side within ±15 s has about 940,000 results.

    Parameters
    ----------
    keys
        Width of the range.
    rows_per_step
        Rows after which it moves on by one; 0 keeps it in place.
    key_type
        `bigint`, or `string`: keys such as `key-0000012345`, and a payload of 48 characters.

    Examples
    --------
    >>> Pairs().generate("left", 0, 1, 0, 3, Options()).column("ts").cast(pa.int64()).to_pylist()
    [1767225600000000, 1767225600000100, 1767225600000200]
    """

    name: ClassVar[str] = "pairs"
    default_rate: ClassVar[float] = 10_000.0

    keys: int = 20_000
    rows_per_step: int = 10
    key_type: str = "bigint"

    def __post_init__(self) -> None:
        if self.key_type not in ("bigint", "string"):
            raise InvalidOption(f"'{self.key_type}' is no type of key; choose bigint or string", "key_type")
        if self.keys < 1 or self.rows_per_step < 0:
            raise InvalidOption(f"{self.keys} keys, moving on every {self.rows_per_step} rows, cannot be played", "keys")

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {side: StreamShape(self._columns(side), "key", "ts", clock=side) for side in ("left", "right")}

    def _columns(self, side: str) -> Schema:
        is_text = self.key_type == "string"
        key = Field("key", pa.string() if is_text else pa.int64())
        payload = (Field("payload", pa.string()),) if is_text else ()
        fields = (Field("id", pa.int64()), key, Field("value", pa.float64()), *payload, Field("ts", TIMESTAMP))
        return Schema(fields, f"pairs.{side}")

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        key = integers(options.seed, f"{stream} key", index, self.keys)
        if self.rows_per_step:
            key += index // self.rows_per_step
        value = uniforms(options.seed, f"{stream} value", index)
        if self.key_type == "bigint":
            return {"id": index, "key": key, "value": value}
        payload = integers(options.seed, f"{stream} payload", index, _PAYLOADS)
        return {"id": index, "key": _texts(key), "value": value, "payload": _payloads().take(pa.array(payload))}


def _texts(keys: Int64s) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(keys).cast(pa.string()), 10, "0")
    return pc.binary_join_element_wise("key-", digits, "")


@cache
def _payloads() -> pa.Array:
    letters = hashes(0, "payload", np.arange(_PAYLOADS * _PAYLOAD_BYTES)) % np.uint64(26)
    text = (letters.astype(np.uint8) + ord("a")).tobytes().decode("ascii")
    return pa.array([text[start : start + _PAYLOAD_BYTES] for start in range(0, len(text), _PAYLOAD_BYTES)])
