"""A Python process with everything imported, from which the Python processes of Spark are forked.

Spark starts a Python for every stream that a Python source reads, and daemons for creating sources, planning reads and running
tasks, one after the other: ten processes before the first micro-batch of an example, each of which imports pyspark, Arrow and
Penstock for half a second to a second of a core. This process imports them once, while Java starts. Spark is told to start
`python_shim` in the place of Python, which asks for a fork. Forks have the environment, folder, files and arguments that Spark
has chosen; what they have not is threads, and this process never has any.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import marshal
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.runners.spark.processes import python_shim
from penstock.runners.spark.processes.daemon import MODULES, WITHOUT_THREADS, ready

#: What Spark's other Python processes need, beside what its workers do; they are the first.
_MODULES = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "penstock.runners.spark.data_path.control",
    "penstock.runners.spark.data_path.loop",
    *MODULES,
)
_PYTHON = "PYSPARK_PYTHON"
_NUMBER = python_shim.NUMBER
#: Room for what a fork is called, as `ps` shows it.
_ROOM = " " * 256
#: Places of the first and the last byte of its arguments in what Linux tells of a process, behind its name.
_ARGUMENTS = slice(45, 47)
#: The process of this driver, by what Spark starts in the place of Python; one serves all sessions.
_started: dict[Path, subprocess.Popen[bytes]] = {}


# -- in the driver ---------------------------------------------------------------------------------------------------------


@contextmanager
def prepared_python() -> Iterator[None]:
    """Let a session that is created inside, on this machine, have its Python processes forked from the prepared one."""
    if sys.platform != "linux" or os.environ.get(_PYTHON, sys.executable) != sys.executable:
        yield
        return
    begin_python()
    before = os.environ.get(_PYTHON)
    (os.environ[_PYTHON],) = map(str, _started)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PYTHON]
        else:
            os.environ[_PYTHON] = before


def is_prepared(python: str) -> bool:
    """Whether an interpreter is the one of this process, forked."""
    return python in map(str, _started)


def begin_python() -> None:
    """Start the process unless it is there; it ends when this one does."""
    if _started:
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-python-"))
    address, shim = folder / "forks", folder / "python"
    command = [sys.executable, "-I", "-S", str(Path(python_shim.__file__).resolve()), str(address)]
    shim.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    shim.chmod(0o700)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listening:
        listening.bind(str(address))
        listening.listen(64)
        # Not in the group of this process: Ctrl-C is for this one, which then ends Spark in order.
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.runners.spark.processes.prepared_python", str(listening.fileno()), str(folder), _ROOM],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listening.fileno()], start_new_session=True,
            env={**WITHOUT_THREADS, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    assert process.stdin is not None
    atexit.register(process.stdin.close)
    _started[shim] = process


# -- in the process --------------------------------------------------------------------------------------------------------


def main(listening: int, folder: str) -> None:
    with socket.socket(fileno=listening) as door:
        request = _Forks(door).wait()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _become(*request)


def _load() -> Iterator[bool]:
    """Import one module after the other; whoever asks for a fork meanwhile gets it with what there is."""
    for name in _MODULES:
        importlib.import_module(name)
        yield True
    ready()


ForkRequest = tuple[list[str], dict[str, str], str]


class _Forks:
    """Hands out forks until the driver is gone."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        #: Who waits for the end of each fork.
        self._waiting: dict[int, socket.socket] = {}
        self._loading = _load()
        self._ended, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def wait(self) -> ForkRequest | None:
        """In a fork what it shall do; None in this process when it shall end."""
        has_more = True
        while True:
            ready, _, _ = select.select([self._door.fileno(), self._ended, 0], [], [], 0 if has_more else None)
            if not ready:
                has_more = next(self._loading, False)
            if 0 in ready:
                return None
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._bury()
            if self._door.fileno() in ready:
                request = self._fork(self._door.accept()[0])
                if request is not None:
                    return request

    def _fork(self, asking: socket.socket) -> ForkRequest | None:
        try:
            files, request = _received(asking)
        except (OSError, EOFError, ValueError):
            asking.close()
            return None
        process = os.fork()
        if process == 0:
            self._leave(asking)
            for place, file in enumerate(files):
                os.dup2(file, place)
            _close(files)
            return request
        _close(files)
        with suppress(OSError):
            asking.sendall(_NUMBER.pack(process))
        self._waiting[process] = asking
        return None

    def _leave(self, asking: socket.socket) -> None:
        """A fork has nothing to do with those that wait here."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for connection in (asking, *self._waiting.values()):
            connection.close()
        _close([self._ended, self._tell])

    def _bury(self) -> None:
        """Tell those who wait for a fork how it has ended."""
        while self._waiting:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            with self._waiting.pop(process) as asking, suppress(OSError):
                asking.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _received(asking: socket.socket) -> tuple[list[int], ForkRequest]:
    head, files, _, _ = socket.recv_fds(asking, _NUMBER.size, 3)
    try:
        (size,) = _NUMBER.unpack(head)
        with asking.makefile("rb") as stream:
            return files, marshal.loads(stream.read(size))
    except Exception as failure:
        _close(files)
        raise ValueError from failure


def _close(files: Sequence[int]) -> None:
    for file in files:
        with suppress(OSError):
            os.close(file)


def _become(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Do what `python -m MODULE ARGUMENTS` does in that environment and folder."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    own = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*own, *(path for path in sys.path if path not in own)]
    gc.freeze()
    if arguments[:1] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    _call_itself([sys.executable, *arguments])
    sys.argv = ["-m", *arguments[2:]]
    sys.modules.pop(arguments[1], None)  # it runs as the main module, which Python warns of if it has been imported
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _call_itself(command: list[str]) -> None:
    """Let `ps` show what the process does; a fork would be shown as what it was forked from."""
    first, last = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_ARGUMENTS])
    shown = "\0".join(command).encode()[: last - first - 1]
    ctypes.memmove(first, shown.ljust(last - first, b"\0"), last - first)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
