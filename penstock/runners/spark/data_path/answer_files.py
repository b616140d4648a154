"""Answers that shards write themselves: they never leave the task, and appear all at once when their micro-batch is done.

An attempt of a task writes under a name of its own and reports it. The driver puts exactly the reported files in place, so that
repeated and speculative attempts leave nothing behind.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.declarations import Destination
from penstock.runners.destinations import is_local, local_path

#: Options of Spark's that mean the same to Arrow; a destination with others is left to Spark.
_OPTIONS = frozenset({"path", "compression"})
_CODECS = frozenset({"none", "snappy", "gzip", "zstd", "brotli", "lz4"})


def can_write(destination: Destination, is_local_by_default: bool) -> bool:
    """Whether shards can write the files: Parquet in a directory that driver and workers share."""
    options = {name.lower(): value for name, value in destination.options.items()}
    path = options.get("path", "")
    is_reachable = path.startswith("file:") or (is_local(path) and is_local_by_default)
    is_plain = options.keys() <= _OPTIONS and options.get("compression", "snappy").lower() in _CODECS
    return destination.format.lower() == "parquet" and bool(path) and is_reachable and is_plain


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """A directory with one directory per micro-batch.

    Parameters
    ----------
    mark
        What these are called besides, where another checkpoint has directories called `epoch=N`.
    """

    path: str
    mark: str = ""
    compression: str = "snappy"

    @property
    def _root(self) -> Path:
        return local_path(self.path)

    def _name(self, epoch: int) -> str:
        return f"epoch={epoch:010d}{f'-{self.mark}' if self.mark else ''}"

    def _attempts(self, epoch: int) -> Path:
        return self._root / "_staging" / f"attempts-{self._name(epoch)}"

    def write(self, epoch: int, shard: int, rows: pa.Table) -> str:
        """In the task: write the answers of a shard; returns the name to report."""
        folder = self._attempts(epoch)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"part-{shard:05d}-{uuid.uuid4().hex}.parquet"
        pq.write_table(rows, folder / name, compression=self.compression)
        return name

    def put_in_place(self, epoch: int, names: Sequence[str]) -> None:
        """On the driver, when all shards have reported: the directory of the micro-batch appears, or was there before."""
        attempts, final = self._attempts(epoch), self._root / self._name(epoch)
        if names and not final.exists():
            ready = self._root / "_staging" / self._name(epoch)
            shutil.rmtree(ready, ignore_errors=True)
            ready.mkdir(parents=True)
            for name in names:
                (attempts / name).rename(ready / name)
            ready.rename(final)
        shutil.rmtree(attempts, ignore_errors=True)


#: Where shards write, by query; a query may have several directories.
Targets = Mapping[str, tuple[AnswerFiles, ...]]
