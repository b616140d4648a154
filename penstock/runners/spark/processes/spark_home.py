"""Where Spark looks for its own Python files.

Every Python process that Spark starts has `$SPARK_HOME/python/lib/pyspark.zip` in front of its path, and Python compiles what it
imports from an archive anew each time: a second of a core for each stream, stage and worker that an application starts. The
installed package beside it is compiled once. A home without the archive makes workers import that.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_NEEDED = ("bin", "jars")


def spark_jars() -> Path:
    """The folder of Spark's Java archives."""
    return Path(pyspark.__file__).resolve().parent / "jars"


@contextmanager
def home_without_archive() -> Iterator[None]:
    """Let a JVM that is started inside, on this machine, hand its workers the installed package."""
    home = _linked_home() if _is_ours() else None
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _is_ours() -> bool:
    """Whether Spark is the package installed here and its workers run this interpreter, which has that package."""
    return "SPARK_HOME" not in os.environ and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable


def _linked_home() -> Path | None:
    """A folder of links to the installed package; None where none can be made, which only costs time."""
    package = Path(pyspark.__file__).resolve().parent
    if not all((package / name).is_dir() for name in _NEEDED):
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "penstock" / f"spark-{hashlib.sha256(str(package).encode()).hexdigest()[:16]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _NEEDED:
            _link(home / name, package / name)
    except (OSError, RuntimeError):
        return None
    return home


def _link(path: Path, target: Path) -> None:
    """Another process may make the same link at the same time."""
    try:
        path.symlink_to(target, target_is_directory=True)
    except FileExistsError:
        if not path.is_dir():
            raise
