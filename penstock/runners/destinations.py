"""Directories that an application writes to, whatever way their paths are written."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import SharedDirectory
from penstock.plan.catalog import Catalog

QUARANTINE = "quarantined rows"


def answers_of(query: str) -> str:
    """What a directory of answers holds, in the words of messages."""
    return f"answers of query '{query}'"


def local_path(text: str) -> Path:
    """A path as Hadoop writes it.

    Examples
    --------
    >>> print(local_path("file:/data/day=2026-01-02/a b.parquet"), local_path("file:///data"), local_path("data"))
    /data/day=2026-01-02/a b.parquet /data data
    """
    return Path("/" + text.removeprefix("file:").lstrip("/")) if text.startswith("file:") else Path(text)


def is_local(text: str) -> bool:
    """Whether a path names no other file system. (Without scheme Spark may still be told to mean another one.)"""
    return urlsplit(text).scheme in ("", "file")


def same_path(text: str) -> str:
    """Equal for paths of one directory: absolute, without links, doubled or trailing slashes.

    Examples
    --------
    >>> same_path("/data//out/"), same_path("file:///data/x/../out"), same_path("hdfs://node:9000/data//out/")
    ('/data/out', '/data/out', 'hdfs://node:9000/data/out')
    """
    if is_local(text):
        return os.path.realpath(local_path(text))
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc}{posixpath.normpath('/' + parts.path.lstrip('/'))}"


def refuse_shared_directories(catalog: Catalog, quarantine: str = "") -> None:
    """Two writers in one directory would call their files alike, and each take the other's for its own of a repeated batch."""
    found = {same_path(quarantine): QUARANTINE} if quarantine else {}
    for query in catalog.queries.values():
        for destination in query.destinations:
            if not destination.directory:
                continue
            place = same_path(destination.directory)
            if place in found:
                raise SharedDirectory(
                    f"directory '{destination.directory}' would get {found[place]} and {answers_of(query.name)}; a directory has "
                    "one writer: give each its own, or make one query of them with UNION ALL",
                    f"application '{catalog.name}'",
                )
            found[place] = answers_of(query.name)
