"""A bounded FIFO of rows that spills to log files; operators and readers do not notice.

Queues inside a shard are state and need no files. This buffer serves a driver that runs in one process: the simulator, and
sources that must absorb more than memory holds. Spilling is not durability: what is spilled is lost with the process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.errors import Defect, StateUnwritable
from penstock.kernel.segments import decode_segment, encode_segment


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows from `start` on, in memory, or as a range of bytes in a log file."""

    start: int
    rows: int
    held: pa.RecordBatch | None = None
    offset: int = 0
    size: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.rows


@dataclass(slots=True)
class _Log:
    """One log file; its index tells where each piece lies."""

    path: Path
    index: deque[_Piece] = field(default_factory=deque)
    written_rows: int = 0
    written_bytes: int = 0

    def append(self, start: int, rows: pa.RecordBatch) -> None:
        body = encode_segment(rows)
        try:
            with self.path.open("ab") as file:
                file.truncate(self.written_bytes)  # an earlier attempt may have left half a piece
                file.write(body)
        except OSError as found:
            raise StateUnwritable(f"{rows.num_rows} rows cannot be spilled to '{self.path}': {found}; free space there") from found
        self.index.append(_Piece(start, rows.num_rows, None, self.written_bytes, len(body)))
        self.written_rows += rows.num_rows
        self.written_bytes += len(body)

    def read(self, piece: _Piece) -> pa.RecordBatch:
        with self.path.open("rb") as file:
            file.seek(piece.offset)
            return decode_segment(file.read(piece.size))

    def take_back(self, rows: int, size: int) -> None:
        """Undo everything appended after the given state."""
        while self.index and self.written_rows > rows:
            self.written_rows -= self.index.pop().rows
        self.written_rows, self.written_bytes = rows, size

    def clear(self) -> None:
        self.path.write_bytes(b"")
        self.index.clear()
        self.written_rows = self.written_bytes = 0


class Buffer:
    """Rows in arrival order for one or more readers, at most `memory_rows` of them in memory.

    As long as anything is spilled, new rows are spilled too, or the order would break. A row is freed when the slowest
    reader has it; a reader that is ahead of the rows in memory reads the log and leaves it as it is.

    Parameters
    ----------
    directory
        Where log files are kept; stale ones of this name are removed.
    memory_rows
        Limit of memory. None: no limit, nothing is ever spilled.
    log_rows
        A log file with this many rows is full; the next exhausted one is written, or a new one.
    refill_percent
        Memory is filled again from the logs when at least this much of it is empty.
    readers
        How many readers there are from the start; later ones begin at the end of what is there.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 10.6.

    Examples
    --------
    >>> import tempfile
    >>> queue = Buffer(Path(tempfile.mkdtemp()), memory_rows=4, log_rows=3)
    >>> queue.enqueue(pa.RecordBatch.from_pydict({"x": list(range(10))}))
    >>> queue.rows_in_memory, queue.rows_in_logs
    (4, [3, 3])
    >>> queue.dequeue(rows=7).column("x").to_pylist()
    [0, 1, 2, 3, 4, 5, 6]
    """

    def __init__(
        self,
        directory: Path,
        memory_rows: int | None = None,
        log_rows: int = 1 << 20,
        refill_percent: int = 50,
        readers: int = 1,
        name: str = "buffer",
    ) -> None:
        self._directory, self._name = directory, name
        self._limit, self._log_limit, self._refill_percent = memory_rows, max(log_rows, 1), refill_percent
        self._memory: deque[_Piece] = deque()
        self._logs: deque[_Log] = deque()
        self._exhausted: list[_Log] = []
        self._made = 0
        self._end = 0
        #: First row that is not in memory: the next one a refill takes.
        self._loaded = 0
        self._pointers: dict[int, int] = dict.fromkeys(range(readers), 0)
        self._next_reader = readers
        for stale in directory.glob(f"{name}-*.log"):
            stale.unlink()

    # -- levels -------------------------------------------------------------------------------------------------------

    @property
    def rows_in_memory(self) -> int:
        return sum(piece.rows for piece in self._memory)

    @property
    def rows_in_logs(self) -> list[int]:
        """Rows of each log file that are not in memory yet, in reading order."""
        return [sum(piece.stop - max(piece.start, self._loaded) for piece in log.index) for log in self._logs]

    @property
    def is_spilled(self) -> bool:
        return self._loaded < self._end

    @property
    def common_pointer(self) -> int:
        """Rows that all readers have consumed; nothing behind it is kept."""
        return min(self._pointers.values(), default=0)

    def lag(self, reader: int = 0) -> int:
        """Rows a reader has still to read; a slow one keeps memory."""
        return self._end - self._pointers[reader]

    # -- readers ------------------------------------------------------------------------------------------------------

    def add_reader(self) -> int:
        """A reader of everything that comes from now on."""
        reader, self._next_reader = self._next_reader, self._next_reader + 1
        self._pointers[reader] = self._end
        return reader

    def remove_reader(self, reader: int) -> None:
        """What only this reader has not read yet is freed."""
        del self._pointers[reader]
        self._free()

    # -- rows ---------------------------------------------------------------------------------------------------------

    def enqueue(self, rows: pa.RecordBatch) -> None:
        """Append rows: all of them, or none when a log cannot be written."""
        room = rows.num_rows if self._limit is None else self._limit - self.rows_in_memory
        kept = 0 if self.is_spilled else min(max(room, 0), rows.num_rows)
        if kept < rows.num_rows:
            self._spill(self._end + kept, rows.slice(kept))
        if kept:
            self._memory.append(_Piece(self._end, kept, rows.slice(0, kept)))
            self._loaded += kept
        self._end += rows.num_rows

    def _spill(self, start: int, rows: pa.RecordBatch) -> None:
        before = [(log, log.written_rows, log.written_bytes) for log in self._logs]
        done = 0
        try:
            while done < rows.num_rows:
                log = self._log_to_write()
                count = min(self._log_limit - log.written_rows, rows.num_rows - done)
                log.append(start + done, rows.slice(done, count))
                done += count
        except StateUnwritable:
            while len(self._logs) > len(before):
                self._exhausted.append(self._logs.pop())
                self._exhausted[-1].take_back(0, 0)
            for log, count, size in before:
                log.take_back(count, size)
            raise

    def _log_to_write(self) -> _Log:
        """The current log, an exhausted one, or a further file when all others are unread."""
        if self._logs and self._logs[-1].written_rows < self._log_limit:
            return self._logs[-1]
        if self._exhausted:
            self._logs.append(self._exhausted.pop(0))
        else:
            self._logs.append(_Log(self._directory / f"{self._name}-{self._made}.log"))
            self._made += 1
        return self._logs[-1]

    def dequeue(self, reader: int = 0, rows: int = 1) -> pa.RecordBatch | None:
        """At most so many rows this reader has not seen, in order; None when there are none."""
        start = self._pointers[reader]
        stop = min(start + rows, self._end)
        if start >= stop:
            return None
        found = [part for piece in self._memory if (part := _part(piece, piece.held, start, stop)) is not None]
        for log in self._logs:
            for piece in log.index:
                first = max(piece.start, self._loaded)
                if first < min(piece.stop, stop) and piece.stop > start:
                    part = _part(piece, log.read(piece), max(start, first), stop)
                    found += [] if part is None else [part]
        self._pointers[reader] = stop
        self._free()
        result: pa.RecordBatch = found[0] if len(found) == 1 else pa.concat_batches(found)
        if result.num_rows != stop - start:
            raise Defect(f"{result.num_rows} of the rows {start} to {stop} are in the buffer")
        return result

    def _free(self) -> None:
        common = self.common_pointer if self._pointers else self._end
        kept = (_cut(piece, common) for piece in self._memory if piece.stop > common)
        self._memory = deque(kept)
        self._loaded = max(self._loaded, common)
        self._drop_exhausted()
        self._refill()

    def _refill(self) -> None:
        """Fill memory from the logs, in order, when enough of it is empty."""
        if self._limit is None or not self.is_spilled:
            return
        room = self._limit - self.rows_in_memory
        if room * 100 < self._refill_percent * self._limit:
            return
        while room > 0 and self.is_spilled:
            log = self._logs[0]
            piece = log.index[0]
            stop = min(piece.stop, self._loaded + room)
            part = _part(piece, log.read(piece), self._loaded, stop)
            self._memory.append(_Piece(self._loaded, stop - self._loaded, part))
            room -= stop - self._loaded
            self._loaded = stop
            self._drop_exhausted()

    def _drop_exhausted(self) -> None:
        """Forget pieces that are in memory or read; a file without any is emptied and may be written again."""
        while self._logs:
            log = self._logs[0]
            while log.index and log.index[0].stop <= self._loaded:
                log.index.popleft()
            if log.index:
                return
            log.clear()
            self._exhausted.append(self._logs.popleft())

    def close(self) -> None:
        """Remove the log files."""
        for log in (*self._logs, *self._exhausted):
            log.path.unlink(missing_ok=True)
        self._logs.clear()
        self._exhausted.clear()


def _part(piece: _Piece, rows: pa.RecordBatch | None, start: int, stop: int) -> pa.RecordBatch | None:
    """The rows of a piece from `start` to `stop`, None when it has none of them."""
    first, last = max(piece.start, start), min(piece.stop, stop)
    if rows is None or first >= last:
        return None
    return rows.slice(first - piece.start, last - first)


def _cut(piece: _Piece, start: int) -> _Piece:
    """The piece without rows before `start`."""
    if piece.start >= start or piece.held is None:
        return piece
    return _Piece(start, piece.stop - start, piece.held.slice(start - piece.start))
