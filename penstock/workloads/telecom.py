"""Telephone calls as two offices see them: an event when a call starts and one when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import integers, stream_key
from penstock.workloads.contracts import Options
from penstock.workloads.lifetimes import Lifetimes


def _office(person: str, stream: str) -> Schema:
    types = {"call_id": pa.int64(), person: pa.int64(), "event": pa.string(), "ts": TIMESTAMP}
    return Schema.of(**types).named(f"telecom.{stream}")


_PERSON = {"outgoing": "caller", "incoming": "callee"}


@dataclass(frozen=True)
class Telecom(ColumnarWorkload):
    """Streams `outgoing` (call_id, caller, event, ts) and `incoming` (call_id, callee, event, ts); event is S or E.

    Both offices see the same calls at the same times. The first `open_calls` rows are starts; then an end and a start
    take turns, so `open_calls` calls are open at any time. A call lasts `open_calls` pairs of events on average, with a
    triangular distribution from nearly nothing to twice that: with the defaults 10 minutes.

    Parameters
    ----------
    open_calls
        Calls open at a time.
    subscribers
        Number of different callers, and of different callees.

    Examples
    --------
    >>> rows = Telecom(open_calls=2).generate("outgoing", 0, 1, 0, 6, Options(rate=10.0))
    >>> rows.column("event").to_pylist(), rows.column("call_id").to_pylist()
    (['S', 'S', 'E', 'S', 'E', 'S'], [0, 1, 1, 2, 0, 3])
    """

    name: ClassVar[str] = "telecom"
    default_rate: ClassVar[float] = 10.0

    open_calls: int = 3_000
    subscribers: int = 5_000

    def __post_init__(self) -> None:
        for name in ("open_calls", "subscribers"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"{getattr(self, name)} is too few; it must be at least 1", name)

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {
            stream: StreamShape(_office(person, stream), "call_id", "ts", clock=self.name) for stream, person in _PERSON.items()
        }

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        since = index - self.open_calls
        is_end = (since >= 0) & (since % 2 == 0)
        started = np.where(since < 0, index, self.open_calls + since // 2)
        lives = Lifetimes(self.open_calls, stream_key(options.seed, "telecom"))
        call = np.where(is_end, lives.closing(np.where(is_end, since // 2, 0)), started)
        person = _PERSON[stream]
        event = pa.DictionaryArray.from_arrays(pa.array(is_end.astype(np.int32)), pa.array(["S", "E"]))
        return {
            "call_id": call,
            person: integers(options.seed, person, call, self.subscribers),
            "event": event.dictionary_decode(),
        }
