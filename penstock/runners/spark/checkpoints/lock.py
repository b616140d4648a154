"""One run at a time: a lock on a checkpoint that its holder's death opens."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointInUse
from penstock.runners.spark.checkpoints.records import writable

#: What flock says where the file system has no locks (some network ones).
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
#: Locks of this process by file: a run that has ended without being stopped gives its lock up to whoever asks.
_HELD: dict[Path, CheckpointLock] = {}


class CheckpointLock:
    """Taken before a run touches its checkpoint, held until it stops.

    The kernel opens the lock when its process dies, however it dies. Where the file system has none, whoever wrote the file is
    looked for instead: by host, process and time of its start, because numbers of processes are used again.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = CheckpointLock(Path(folder) / "lock"), CheckpointLock(Path(folder) / "lock")
    ...     first.take()
    ...     try:
    ...         second.take()
    ...     except CheckpointInUse as refusal:
    ...         print(refusal.code)
    ...     first.release()
    ...     second.take()
    ...     second.release()
    state.in-use
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._descriptor: int | None = None
        #: Whether the run that holds it has ended.
        self.has_ended: Callable[[], bool] = lambda: False

    def take(self) -> None:
        """Raises CheckpointInUse if somebody else holds it. Taking it twice is fine."""
        if self._descriptor is not None:
            return
        held = _HELD.get(self._key)
        if held is not None and held.has_ended():
            held.release()
        with writable(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._take()

    def _take(self) -> None:
        descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._lock(descriptor)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": _started(os.getpid()), "since": _now()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _HELD[self._key] = self

    def release(self) -> None:
        """Releasing what is not held is fine. The file stays: removing it would let two hold a lock of one name."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        _HELD.pop(self._key, None)
        os.ftruncate(descriptor, 0)
        os.close(descriptor)

    @property
    def _key(self) -> Path:
        return self.file.resolve()

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refused(read_holder(self.file)) from None
        except OSError as failure:
            if failure.errno not in _NO_LOCKS:
                raise
            holder = read_holder(self.file)
            if holder and is_alive(holder):
                raise self._refused(holder, f"; if that process is certainly gone, remove '{self.file}'") from None

    def _refused(self, holder: Mapping[str, Any], remedy: str = "") -> CheckpointInUse:
        who = f"process {holder['pid']} on {holder['host']}, since {holder['since']}" if holder else "another process"
        return CheckpointInUse(
            f"a run is using the checkpoint ({who}), and it can serve one at a time; stop that run, or take another checkpoint "
            f"and other output directories{remedy}",
            f"checkpoint '{self.file.parent.parent}'",
        )


def read_holder(file: Path) -> Mapping[str, Any]:
    """Who has written the lock; empty if nobody, or if it cannot be told."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and {"pid", "host", "since"} <= found.keys() else {}


def is_held(file: Path) -> bool:
    """Whether a run is using the checkpoint now."""
    if not file.exists():
        return False
    descriptor = os.open(file, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        holder = read_holder(file)
        return bool(holder) and is_alive(holder)
    finally:
        os.close(descriptor)
    return False


def is_alive(holder: Mapping[str, Any]) -> bool:
    """Whether a holder may still run; on another host nobody can tell, so it may."""
    if holder["host"] != socket.gethostname():
        return True
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(holder["pid"]) == holder.get("started")


def _started(pid: int) -> str:
    """When a process started, in ticks of the machine; empty where the machine does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
