"""Directories of answers wherever they lie: what is in them, and the small files that say whose they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from penstock.runners.destinations import is_local, local_path
from penstock.runners.spark.checkpoints.records import create_record, replace_record

#: Begins with a character that Spark, Arrow, pandas and Hive skip.
CLAIMS = "_penstock"
Claim = Mapping[str, Any]


class Folder(Protocol):
    """A directory that need not exist yet. A claim that cannot be read is empty."""

    @property
    def text(self) -> str: ...

    def names(self) -> list[str]: ...

    def claims(self) -> dict[str, Claim]: ...

    def create_claim(self, name: str, claim: Claim) -> bool: ...

    def replace_claim(self, name: str, claim: Claim) -> None: ...


class LocalFolder:
    """On a file system that is mounted here."""

    def __init__(self, path: str | Path) -> None:
        self.path = local_path(str(path)).absolute()

    @property
    def text(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        return [found.name for found in self.path.iterdir()] if self.path.is_dir() else []

    def claims(self) -> dict[str, Claim]:
        folder = self.path / CLAIMS
        # Drafts begin with a dot.
        files = [file for file in folder.iterdir() if not file.name.startswith(".")] if folder.is_dir() else []
        return {file.name: _parsed(file.read_bytes()) for file in files}

    def create_claim(self, name: str, claim: Claim) -> bool:
        return create_record(self.path / CLAIMS / name, claim)

    def replace_claim(self, name: str, claim: Claim) -> None:
        replace_record(self.path / CLAIMS / name, claim)


class HadoopFolder:
    """Wherever Spark can write."""

    def __init__(self, spark: Any, path: str) -> None:
        self._jvm = spark._jvm
        self._path = self._at(path)
        self._system = self._path.getFileSystem(spark._jsc.hadoopConfiguration())

    @property
    def text(self) -> str:
        return str(self._system.makeQualified(self._path))

    @property
    def is_local(self) -> bool:
        return self.text.startswith("file:")

    def names(self) -> list[str]:
        return self._listed(self._path)

    def claims(self) -> dict[str, Claim]:
        folder = self._at(self.text, CLAIMS)
        return {name: self._read(name) for name in self._listed(folder) if not name.startswith(".")}

    def create_claim(self, name: str, claim: Claim) -> bool:
        path = self._at(self.text, CLAIMS, name)
        try:
            self._write(path, claim, False)
        except Exception:
            if self._system.exists(path):
                return False
            raise
        return True

    def replace_claim(self, name: str, claim: Claim) -> None:
        self._write(self._at(self.text, CLAIMS, name), claim, True)

    def _at(self, *parts: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path("/".join(parts))

    def _listed(self, path: Any) -> list[str]:
        return [status.getPath().getName() for status in self._system.listStatus(path)] if self._system.exists(path) else []

    def _read(self, name: str) -> Claim:
        stream = self._system.open(self._at(self.text, CLAIMS, name))
        try:
            return _parsed(bytes(stream.readAllBytes()))
        finally:
            stream.close()

    def _write(self, path: Any, claim: Claim, replaces: bool) -> None:
        stream = self._system.create(path, replaces)
        try:
            stream.write(bytearray(json.dumps(claim).encode()))
        finally:
            stream.close()


class ArrowFolder:
    """Where tasks write through Arrow: refused rows, to a URI."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._system, self._root = fs.FileSystem.from_uri(uri)

    @property
    def text(self) -> str:
        return self._uri

    def names(self) -> list[str]:
        return self._listed(self._root)

    def claims(self) -> dict[str, Claim]:
        return {name: self._read(name) for name in self._listed(f"{self._root}/{CLAIMS}") if not name.startswith(".")}

    def create_claim(self, name: str, claim: Claim) -> bool:
        if name in self._listed(f"{self._root}/{CLAIMS}"):
            return False
        self.replace_claim(name, claim)
        return True

    def replace_claim(self, name: str, claim: Claim) -> None:
        self._system.create_dir(f"{self._root}/{CLAIMS}", recursive=True)
        with self._system.open_output_stream(f"{self._root}/{CLAIMS}/{name}") as stream:
            stream.write(json.dumps(claim).encode())

    def _listed(self, path: str) -> list[str]:
        return [found.base_name for found in self._system.get_file_info(fs.FileSelector(path, allow_not_found=True))]

    def _read(self, name: str) -> Claim:
        with self._system.open_input_stream(f"{self._root}/{CLAIMS}/{name}") as stream:
            return _parsed(stream.read())


def _parsed(text: bytes) -> Claim:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def answers_folder(path: str, spark: Any) -> Folder:
    """Where Spark would write to this path."""
    found = HadoopFolder(spark, path)
    return LocalFolder(found.text) if found.is_local else found


def quarantine_folder(path: str) -> Folder:
    """Where tasks would write refused rows to this path."""
    return LocalFolder(path) if is_local(path) else ArrowFolder(path)
