"""Spark's Java process: started so that only this process is asked to stop, and ended with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway


def start_java(conf: Mapping[str, str]) -> None:
    """Start the process that a session will use, unless there is one.

    It gets a session of the operating system to itself. Whoever stops a group of processes, as `timeout`, supervisors and
    terminals do, would otherwise end it under the feet of this one, which could then stop nothing in order. It cannot be left
    behind: it ends when its input does, and that does when this process ends.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    SparkContext._ensure_initialized(gateway=launch_gateway(settings, {"start_new_session": True}))


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
