"""What Spark starts instead of Python: it asks the prepared process for a fork, lends it its files, and ends as the fork ends.

Runs without Penstock's or any other package (`python -I -S`), since a process that imports little is there in a hundredth of a
second. Where the prepared process cannot be reached, it becomes the Python that Spark has asked for.
"""

import marshal
import os
import signal
import socket
import struct
import sys

NUMBER = struct.Struct("!i")


def main(address: str, arguments: list) -> None:  # type: ignore[type-arg]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
        request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
        socket.send_fds(connection, [NUMBER.pack(len(request))], [0, 1, 2])
        connection.sendall(request)
        process = _number(connection)
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda found, _frame: _pass_on(process, found))
    try:
        code = _number(connection)
    except OSError:
        code = 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _number(connection: socket.socket) -> int:
    found = b""
    while len(found) < NUMBER.size:
        piece = connection.recv(NUMBER.size - len(found))
        if not piece:
            raise ConnectionError
        found += piece
    return int(NUMBER.unpack(found)[0])


def _pass_on(process: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib takes longer to import than all else
        os.kill(process, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
