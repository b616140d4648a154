"""Refused rows as files: one per micro-batch, stage and shard, under a name that a repeated micro-batch writes again.

Writing is idempotent because a repeated micro-batch refuses the same rows. The files are Parquet and can be read as a
table: stream, reason, text, event time, position, row (JSON).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.kernel.damage import shown
from penstock.model.elements import Quarantined

SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("stream", pa.string()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("ts", pa.int64()),
        ("pos", pa.int64()),
        ("row", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where refused rows go.

    Parameters
    ----------
    directory
        Path or URI; empty: nowhere.
    mark
        What files are called besides, in a directory that another checkpoint owns; None: after the operator and the streaming
        query that runs, whose names stay the same with the checkpoint.
    """

    directory: str = ""
    mark: str | None = None

    def __bool__(self) -> bool:
        return bool(self.directory)


def write_refused(
    quarantine: Quarantine | str, epoch: int, level: int, shard: int, refused: Sequence[Quarantined], query: str = ""
) -> str:
    """Write the rows and return the file's path.

    Parameters
    ----------
    quarantine
        A mere directory is one that several queries may share: nobody knows yet which of them will run.
    query
        Name of the streaming query and the operator, for files whose mark it is.
    """
    target = quarantine if isinstance(quarantine, Quarantine) else Quarantine(quarantine)
    system, root = _resolve(target.directory)
    system.create_dir(root, recursive=True)
    mark = hashlib.sha256(query.encode()).hexdigest()[:8] if target.mark is None else target.mark
    stem = f"epoch={epoch:010d}-stage={level}-shard={shard}{f'-{mark}' if mark else ''}"
    name = f"{root}/{stem}.parquet"
    table = pa.concat_tables([_table(epoch, item) for item in refused])
    # A reader must never see half a file; the dot hides the draft from Spark and most other readers.
    draft = f"{root}/.{stem}.draft"
    with system.open_output_stream(draft) as sink:
        pq.write_table(table, sink)
    system.move(draft, name)
    return name


def _resolve(directory: str) -> tuple[Any, str]:
    if "://" in directory or directory.startswith("file:"):
        system, root = fs.FileSystem.from_uri(directory)
        return system, root
    return fs.LocalFileSystem(), directory


def _table(epoch: int, item: Quarantined) -> pa.Table:
    rows = item.batch.num_rows
    texts = [json.dumps(row, default=str, ensure_ascii=False) for row in shown(item.batch.rows)]
    columns = [
        pa.array([epoch] * rows, pa.int64()),
        pa.array([item.stream] * rows),
        pa.array([item.reason] * rows),
        pa.array([item.text] * rows),
        pa.array(item.batch.ts),
        pa.array(item.batch.pos),
        pa.array(texts, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
