"""The durable loop: what leaves a micro-batch for operators that need another partitioning, read by the next one.

Written by the driver before its micro-batch is committed, read by the control source, removed when the micro-batch that has read
it is committed. A repeated micro-batch writes the same again.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from penstock.errors import DamagedRecord
from penstock.runners.spark.checkpoints.records import replace_bytes

#: No micro-batch: what a new checkpoint has read.
NOTHING = -1


class Loop:
    """Files `epoch=N` with rows of packets; a micro-batch from which nothing goes round has none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Loop(folder).write(7, pa.table({"shard": [0]}))
    ...     Loop(folder).newest(), Loop(folder).read(-1, 7).num_rows
    (7, 1)
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def write(self, epoch: int, packets: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, packets.schema) as writer:
            writer.write_table(packets)
        replace_bytes(self._file(epoch), sink.getvalue().to_pybytes())

    def epochs(self) -> list[int]:
        names = os.listdir(self.directory) if self.directory.is_dir() else []
        return sorted(int(name[6:]) for name in names if name.startswith("epoch=") and name[6:].isdigit())

    def newest(self) -> int:
        """The last micro-batch from which something goes round, as far as it has not been read and removed."""
        return max(self.epochs(), default=NOTHING)

    def read(self, after: int, last: int) -> pa.Table:
        """Packets of the micro-batches behind `after` up to `last`, which has some."""
        if not self._file(last).is_file():
            raise DamagedRecord(self._file(last), f"is missing, and with it rows that micro-batch {last} sent on")
        return pa.concat_tables([self._read(epoch) for epoch in self.epochs() if after < epoch <= last])

    def _read(self, epoch: int) -> pa.Table:
        try:
            with self._file(epoch).open("rb") as file, pa.ipc.open_stream(file.read()) as reader:
                return reader.read_all()
        except (OSError, pa.ArrowException) as failure:
            raise DamagedRecord(self._file(epoch), f"holds no packets ({failure})") from failure

    def forget(self, last: int) -> None:
        """Remove what micro-batches up to `last` have sent: it has been read, and that is committed."""
        for epoch in self.epochs():
            if epoch <= last:
                self._file(epoch).unlink(missing_ok=True)

    def _file(self, epoch: int) -> Path:
        return self.directory / f"epoch={epoch:010d}"
