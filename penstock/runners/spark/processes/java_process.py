"""Spark's Java process: started so that only this process is asked to stop, and ended with it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

#: A start that is under way.
_begun: list[threading.Thread] = []


def begin_java(conf: Mapping[str, str], log: Path, home: AbstractContextManager[None], then: Callable[[], object]) -> None:
    """Start the process, with its messages in a file, and do not wait for it; whoever needs it waits, and starts it if it failed.

    Parameters
    ----------
    home
        What must hold while it starts.
    then
        What is to follow in the same way.
    """

    def launch() -> None:
        with home, log.open("ab") as file, suppress(Exception):
            _launch(conf, {"stdout": file, "stderr": file})
            then()

    log.parent.mkdir(parents=True, exist_ok=True)
    thread = threading.Thread(target=launch, name="penstock-java", daemon=True)
    _begun.append(thread)
    thread.start()


def start_java(conf: Mapping[str, str]) -> None:
    """Start the process that a session will use, unless there is one.

    It gets a session of the operating system to itself. Whoever stops a group of processes, as `timeout`, supervisors and
    terminals do, would otherwise end it under the feet of this one, which could then stop nothing in order. It cannot be left
    behind: it ends when its input does, and that does when this process ends.
    """
    while _begun:
        _begun.pop().join()
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        _launch(conf, {})


def _launch(conf: Mapping[str, str], process: Mapping[str, Any]) -> None:
    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    SparkContext._ensure_initialized(gateway=launch_gateway(settings, {"start_new_session": True, **process}))


def has_java_ended() -> bool:
    """Whether the process was there and is gone: killed, or out of memory."""
    process = _process()
    return process is not None and process.poll() is not None


def kill_java() -> None:
    """For whoever does not want to wait: what was not finished is done again with the same checkpoint."""
    process = _process()
    if process is not None:
        process.kill()


def _process() -> Any:
    return getattr(SparkContext._gateway, "proc", None)


def keeping_handler(work: Callable[[], object]) -> None:
    """Do something that installs a handler of SIGINT wherever it may, without losing one that is there.

    Spark's handler asks Java from inside the handler, and so waits for ever when it meets a question under way. It is installed
    in the main thread only; so is nothing in another one. Where nobody has a handler, Spark's is better than none.
    """
    is_ours = signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_DFL, None)
    if not is_ours or threading.current_thread() is not threading.main_thread():
        work()
        return
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    # A daemon: whoever stops at once does not wait for it.
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
