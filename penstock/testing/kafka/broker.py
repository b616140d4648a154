"""A broker of one node on the loopback interface, in a process that ends with this one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import CapacityError
from penstock.runners.spark.processes.java import find_java
from penstock.runners.spark.processes.spark_home import spark_jars
from penstock.testing.kafka.jars import BROKER, fetched

_HOST = "127.0.0.1"
_PATIENCE_S = 60
#: Runs Java until it ends or the pipe that is the input is closed, which also the sudden death of the other side does.
_UNTIL_INPUT_ENDS = 'exec 3<&0; "$@" 3<&- & java=$!; (cat <&3 >/dev/null; kill -9 $java) 2>/dev/null & wait $java'
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.cleaner.backoff.ms=200
"""
_IDENTITY = "version=1\ncluster.id=cGVuc3RvY2stdGVzdHMtMQ\nnode.id=1\n"


class BrokerNotStarted(CapacityError):
    code = "testing.broker-not-started"


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A broker while the block runs; its address, as `kafka.bootstrap.servers` wants it.

    Parameters
    ----------
    folder
        Where it keeps its log; the messages of its process are in `broker.txt` there.
    """
    port, controller = _free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").mkdir(exist_ok=True)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(host=_HOST, port=port, controller=controller, folder=folder))
    (folder / "log" / "meta.properties").write_text(_IDENTITY)
    classes = os.pathsep.join([*map(str, fetched(BROKER)), f"{spark_jars()}/*"])
    command = [f"{find_java()}/bin/java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes]
    with (folder / "broker.txt").open("wb") as messages:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _UNTIL_INPUT_ENDS, "broker", *command, "kafka.Kafka", str(settings)],
            stdin=subprocess.PIPE, stdout=messages, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_for(port, process, folder / "broker.txt")
        yield f"{_HOST}:{port}"
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_for(port: int, process: subprocess.Popen[bytes], messages: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, port), 1):
            return
        time.sleep(0.1)
    raise BrokerNotStarted(f"the broker does not answer on port {port}; its last words: {_last_words(messages)}")


def _last_words(messages: Path) -> str:
    lines = [line for line in messages.read_text(errors="replace").splitlines() if line.strip() and not line.startswith("\t")]
    return " | ".join(lines[-3:]) or "none"
