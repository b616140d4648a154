"""A topic full of damaged messages, and what Penstock may have made of each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from penstock.testing.damage.messages import messages
from penstock.testing.kafka.topics import Topic

PARTITIONS = 3
_PIECES = 12
#: Of the pieces the last ones whose damage reaches event times.
_WILD = 2
#: Messages of a transaction; two of them follow every piece, and one of these is not committed.
_TOGETHER = 40
#: Columns whose values are compared as they are; of others only whether there is one.
_PLAIN = ("k", "name", "flag", "small")
_SHOWN = 200


def fill(topic: Topic, rows: int, random: Random, folder: Path) -> dict[tuple[int, int], bytes | None]:
    """Messages in pieces, with transactions between them; the values that a reader has to find, by partition and offset."""
    size, at = -(-rows // _PIECES), 0
    while at < rows:
        is_wild = at // size >= _PIECES - _WILD
        piece = list(messages(at, min(size, rows - at), PARTITIONS, random, is_wild))
        at += len(piece)
        topic.send(piece[:-_TOGETHER], folder)
        topic.send_together(piece[-_TOGETHER:])
        topic.send_together(piece[-_TOGETHER:], is_committed=False)
    found = topic.read(folder)
    columns = (found.column(name).to_pylist() for name in ("partition", "offset", "value"))
    return {(part, offset): value for part, offset, value in zip(*columns, strict=True)}


def silent_changes(answers: pa.Table | None, sent: Mapping[tuple[int, int], bytes | None]) -> Iterator[str]:
    """Messages that became rows although they are no JSON object, or became rows of other values."""
    counted: dict[str, list[str]] = {}
    for row in [] if answers is None else answers.to_pylist():
        value = sent.get((row["part"], row["off"]), b"")
        for fault in _faults(row, value):
            counted.setdefault(fault, []).append(repr(value)[:_SHOWN])
    for fault, values in counted.items():
        yield f"{len(values):,} {fault}, such as {values[0]}"


def _faults(row: Mapping[str, Any], value: bytes | None) -> Iterator[str]:
    try:
        text = (value or b"").decode()
        found, end = json.JSONDecoder().raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        # Spark takes single quotes too; everything else that Python cannot read should not have become a row.
        if value is None or b"'" not in value:
            yield "messages became rows and are no JSON"
        return
    if not isinstance(found, dict):
        yield "messages became rows and are no JSON object"
    elif text.lstrip(" \t\r\n")[end:].strip(" \t\r\n"):
        yield "messages became rows, and what follows the JSON object was lost"
    else:
        for name, is_value in row.items():
            if name not in ("part", "off") and _differs(name, is_value, found.get(name)):
                yield f"rows have another value in column '{name}' than their messages"


def _differs(name: str, is_value: Any, sent: Any) -> bool:
    if name in _PLAIN and not (name == "name" and not isinstance(sent, str)):
        return bool(is_value != sent)
    return (is_value is None) != (sent is None)
