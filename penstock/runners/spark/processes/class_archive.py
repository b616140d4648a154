"""Classes of Java and Spark, read once and kept in the form in which Java uses them.

Starting Spark and its first micro-batch load twenty thousand classes, and checking them takes Java fifteen seconds of a core.
Java can keep what it has loaded in a file and map that next time (class data sharing). The file belongs to one Java and one
Spark; with others Java does not use it, and is as slow as without.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from penstock.runners.spark.processes.java import find_java

#: Java warns when a file does not fit; that is no fault of the user's.
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_file() -> Path:
    """Where the file of this Java and this Spark is, or would be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = find_java()
    release = home / "release"
    spark = Path(pyspark.__file__).resolve().parent
    parts = [str(home), release.read_text() if release.is_file() else "", pyspark.__version__, str(spark)]
    return cache / "penstock" / f"classes-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}.jsa"


def using_archive(options: str) -> str:
    """Options of Java with which it reads the file, if there is one."""
    file = archive_file()
    if "SharedArchiveFile" in options or "ArchiveClassesAtExit" in options or not file.is_file():
        return options
    return f"-XX:SharedArchiveFile={file} {_QUIETLY} {options}".strip()


def writing_archive(file: Path) -> str:
    """Options of Java with which it writes such a file when it ends."""
    return f"-XX:ArchiveClassesAtExit={file} {_QUIETLY}"
