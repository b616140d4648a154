"""A process of its own for each shard, which outlives tasks and keeps the shard's kernel.

Spark hands a task to whichever worker has been idle longest, so a shard would meet another worker in nearly every micro-batch and
rebuild its kernel there. A worker of Penstock's daemon looks at the first message of a task; if the task is a shard's, it passes
the connection to Java on to the shard's process and waits until that has served it. To Spark nothing has changed: it talks to
the worker it has chosen, may kill it, and hears of a failure as ever. Where workers come from another daemon (executors of a
cluster, sessions that were there before), shards run in them as they come; a kernel is valid only in the version that is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import struct
import sys
from types import ModuleType
from typing import Any

#: Instead of Spark's first message: a worker asks its sibling to become the process of a shard.
_BECOME = 0x50534844
#: A shard's process ends when nobody has asked it for so long, as Spark's own workers do.
_IDLE_SECONDS = 60.0
#: Partitions share processes when there are more: neighbours, which run at the same time, do not.
_MOST = max(2 * (os.cpu_count() or 1), 8)
#: Only tasks with this in their function are passed on.
_OURS = b"penstock.runners.spark.data_path.stateful"
_NUMBER = struct.Struct("!i")


def install(daemon: ModuleType) -> None:
    """Let the workers of a daemon pass shards on. Workers for other purposes than tasks stay Spark's."""
    is_for_tasks = len(sys.argv) <= 1 or sys.argv[1] == "pyspark.worker"
    # Addresses without a file are Linux's.
    if sys.platform == "linux" and is_for_tasks:
        setattr(daemon, "worker", _worker)  # noqa: B010 - it is another module's


def _worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task, as the function of the same name in `pyspark.daemon` does; returns the exit code."""
    for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if not authenticated and not _is_trusted(sock):
            return 1
        kind, message = _receive_number(sock), _receive_text(sock)
    except (EOFError, ConnectionError):
        return 1  # Spark has no more tasks for this worker
    if kind == _BECOME:
        _be_process(message.decode(), sock)
    process = _process_for(message)
    return _run(sock.fileno(), message) if process is None else _pass_on(sock, message, process)


# -- messages --------------------------------------------------------------------------------------------------------------


def _receive(sock: socket.socket, size: int) -> bytes:
    """Exactly so many bytes: what follows is for whoever serves the task."""
    found = bytearray()
    while len(found) < size:
        piece = sock.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def _receive_number(sock: socket.socket) -> int:
    return int(_NUMBER.unpack(_receive(sock, _NUMBER.size))[0])


def _receive_text(sock: socket.socket) -> bytes:
    return _receive(sock, _receive_number(sock))


def _send_text(sock: socket.socket, text: bytes) -> None:
    sock.sendall(_NUMBER.pack(len(text)) + text)


def _secret() -> bytes:
    return os.environ.get("PYTHON_WORKER_FACTORY_SECRET", "").encode()


def _is_trusted(sock: socket.socket) -> bool:
    """Whoever asks must know the secret that Spark has given to the daemon."""
    is_known = _receive_text(sock) == _secret()
    _send_text(sock, b"ok" if is_known else b"err")
    return is_known


# -- tasks -----------------------------------------------------------------------------------------------------------------


def _run(connection: int, message: bytes) -> int:
    """Serve a task whose first message has been read, in this process."""
    from pyspark.messages.socket.spark_socket_message_receiver import SparkSocketMessageReceiver
    from pyspark.messages.zero_copy_byte_stream import ZeroCopyByteStream
    from pyspark.worker import invoke_udf

    class AfterInitMessage(SparkSocketMessageReceiver):
        def _do_get_init_message(self) -> Any:
            stream = ZeroCopyByteStream(memoryview(message))
            stream.finish()
            return stream

    size = int(os.environ.get("SPARK_BUFFER_SIZE", 65536))
    source, sink = os.fdopen(os.dup(connection), "rb", size), os.fdopen(os.dup(connection), "wb", size)
    try:
        invoke_udf(AfterInitMessage(source), sink)
    except SystemExit as found:
        return (found.code if isinstance(found.code, int) else 1) & 0xFF
    finally:
        for file in (sink, source):
            with contextlib.suppress(OSError):  # Spark has hung up: the query is being stopped
                file.close()
    return 0


def _process_for(message: bytes) -> str | None:
    """Name of the process that a task is for; None if any worker will do."""
    if _OURS not in message:
        return None
    from pyspark.messages.zero_copy_byte_stream import ZeroCopyByteStream
    from pyspark.worker_message import WorkerInitInfo

    stream = ZeroCopyByteStream(memoryview(message))
    stream.finish()
    task = WorkerInitInfo.from_stream(stream)
    query = task.task_context.local_properties.get("sql.streaming.queryId")
    if query is None:
        return None
    # Several operators of one query may work at the same time, one on the answers of the other.
    operator = hashlib.sha256(message[message.index(_OURS) :]).hexdigest()[:16]
    return f"{query}-{operator}-{task.task_context.partition_id % _MOST}"


def _pass_on(sock: socket.socket, message: bytes, process: str) -> int:
    """Let a shard's process serve the task; returns how it went."""
    with _connected(sock, process) as other:
        try:
            socket.send_fds(other, [_NUMBER.pack(len(message))], [sock.fileno()])
            other.sendall(message)
            return _receive_number(other)
        except (EOFError, OSError):
            # It has died. Spark must hear of it now: the daemon lets a worker that has failed wait until Spark hangs up, and
            # Spark waits for an answer.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            return 1


# -- processes of shards ---------------------------------------------------------------------------------------------------


def _address(process: str) -> str:
    return f"\0penstock-{os.getuid()}-{os.getpgrp()}-{process}"


def _connected(sock: socket.socket, process: str) -> socket.socket:
    """A connection to a shard's process that is ready for a task; one is started if there is none, or it was about to end."""
    while True:
        other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            other.connect(_address(process))
            _receive_number(other)
        except (ConnectionError, EOFError):
            other.close()
            _start(sock, process)
        else:
            return other


def _start(sock: socket.socket, process: str) -> None:
    """Ask the daemon for a process, as Java does: nothing else can be forked safely. It listens at this connection's address."""
    with socket.socket(sock.family, socket.SOCK_STREAM) as daemon:
        daemon.connect(sock.getsockname())
        _receive_number(daemon)  # its process id
        if sock.family != socket.AF_UNIX:
            _send_text(daemon, _secret())
            _receive_text(daemon)
        daemon.sendall(_NUMBER.pack(_BECOME))
        _send_text(daemon, process.encode())
        _receive_number(daemon)  # it listens now


def _be_process(process: str, sock: socket.socket) -> None:
    """Serve the tasks of a shard until nobody has any; does not return."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(_address(process))
            listening.listen(_MOST)
            listening.settimeout(_IDLE_SECONDS)
        except OSError:
            listening.close()  # another worker was quicker
        sock.sendall(_NUMBER.pack(0))
        sock.close()
        code = 0
        while code == 0 and listening.fileno() >= 0:
            try:
                asking, _ = listening.accept()
            except TimeoutError:
                break
            code = _serve(asking)
    os._exit(0)


def _serve(asking: socket.socket) -> int:
    """One task; after a failure the process ends, as a worker does."""
    asking.settimeout(None)
    with asking:
        try:
            asking.sendall(_NUMBER.pack(0))  # from here on the task is ours
            head, (connection,), _, _ = socket.recv_fds(asking, _NUMBER.size, 1)
            message = _receive(asking, _NUMBER.unpack(head)[0])
        except (EOFError, OSError, ValueError):
            return 0  # whoever asked is gone
        try:
            code = _run(connection, message)
        finally:
            os.close(connection)
        with contextlib.suppress(OSError):
            asking.sendall(_NUMBER.pack(code))
    return code
