"""Small files that outlive a crash: written in one step and to the disk, and named when they cannot be read."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.errors import DamagedRecord, StateUnwritable


def replace_record(path: Path, value: Any) -> None:
    """Write a record, whatever was there: a crash or a full disk leaves the old one or the new one, never half of it."""
    replace_bytes(path, json.dumps(value).encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """The same for a file that holds no JSON."""
    with _draft(path, content) as draft:
        os.replace(draft, path)


def create_record(path: Path, value: Any) -> bool:
    """Write a record unless there is one; False if there is. Of several who try at the same time one succeeds."""
    with _draft(path, json.dumps(value).encode()) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    return True


def copy_of(record: Path) -> Path:
    """Beside the record, for `penstock doctor`."""
    return record.with_name(f".{record.name}.copy")


def read_record(path: Path) -> Any:
    """What the file holds; None if there is none.

    Raises
    ------
    DamagedRecord
        With its name, if it is empty, cut short or not ours.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise DamagedRecord(path, f"cannot be read ({failure.strerror})") from failure
    if not text.strip(b" \t\r\n\0"):
        raise DamagedRecord(path, "is empty")
    try:
        return json.loads(text)
    except ValueError:
        raise DamagedRecord(path, f"is cut short or was overwritten: it holds no JSON but {shown(text)}") from None


def shown(text: bytes) -> str:
    """The first bytes of a file, for a message.

    Examples
    --------
    >>> print(shown(b"12"), shown(b"x" * 50))
    '12' 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    found = text[:40].decode(errors="replace")
    return f"'{found}{'…' if len(text) > 40 else ''}'"


@contextmanager
def _draft(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside the record, complete and on the disk; what is made of it inside is on the disk afterwards."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.draft")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(path.parent)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Say which file a disk or its owner does not let us write."""
    try:
        yield
    except OSError as failure:
        raise StateUnwritable(
            f"the file cannot be written ({failure.strerror or failure}); nothing is lost: free space or give the right to write "
            "there, and start again with the same checkpoint",
            f"file '{path}'",
        ) from failure


def _sync_directory(folder: Path) -> None:
    """A name is as durable as its directory."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
