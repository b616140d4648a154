"""Queues of a kernel as parts of its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.kernel.work import Item
from penstock.model.batch import Batch
from penstock.model.elements import Element, End, Heartbeat, Herald, Request
from penstock.model.punctuation import Punctuation

#: How rows are told from marks.
_ROWS = "rows"


def save_queue(items: Iterable[Item], segments: dict[str, Any], name: Callable[[], str]) -> list[list[Any]]:
    """JSON values; rows become segments, which keep the name they get when they are first saved."""
    saved: list[list[Any]] = []
    for item in items:
        age = [item.port, item.since_ns, item.number]
        if isinstance(item.element, Batch):
            item.segment = item.segment or name()
            segments[item.segment] = item.element.stored()
            saved.append([*age, _ROWS, item.segment])
        else:
            saved.append([*age, *_encode_mark(item.element)])
    return saved


def load_queue(saved: Iterable[Sequence[Any]], segments: Mapping[str, pa.RecordBatch]) -> Iterator[Item]:
    for port, since_ns, number, kind, value in saved:
        if kind == _ROWS:
            yield Item(port, Batch.restored(segments[value]), since_ns, number, value)
        else:
            yield Item(port, _decode_mark(kind, value), since_ns, number)


def _encode_mark(mark: Element) -> list[Any]:
    if isinstance(mark, Heartbeat):
        return ["heartbeat", mark.ts]
    if isinstance(mark, End):
        return ["end", mark.query]
    if isinstance(mark, Punctuation):
        return ["punctuation", mark.to_json()]
    if isinstance(mark, Request):
        return ["request", [mark.kind, dict(mark.detail)]]
    assert isinstance(mark, Herald)
    return ["herald", [mark.pattern.to_json(), dict(mark.detail)]]


def _decode_mark(kind: str, value: Any) -> Element:
    if kind == "heartbeat":
        return Heartbeat(value)
    if kind == "end":
        return End(value)
    if kind == "punctuation":
        return Punctuation.from_json(value)
    if kind == "request":
        return Request(value[0], value[1])
    return Herald(Punctuation.from_json(value[0]), value[1])
