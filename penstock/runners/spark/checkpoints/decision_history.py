"""What was decided while an application ran, and why: a line of JSON for each decision, in the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import DamagedRecord

NAME = "history"


class DecisionHistory:
    """Lines that are only ever added.

    Examples
    --------
    >>> import tempfile
    >>> history = DecisionHistory(Path(tempfile.mkdtemp()) / "history")
    >>> history.append({"reason": "too slow"})
    >>> history.entries()
    [{'reason': 'too slow'}]
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+") as file:
            # A crash may have left half a line; it must not spoil the next one.
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")

    def entries(self) -> list[dict[str, Any]]:
        """Oldest first; half a line, which a crash leaves, is none.

        Raises
        ------
        DamagedRecord
            A whole line is no JSON.
        """
        if not self._path.exists():
            return []
        found = []
        for line in self._path.read_bytes().splitlines(keepends=True):
            try:
                found.append(json.loads(line))
            except ValueError as failure:
                if line.startswith(b"{") and not line.rstrip(b"\n").endswith(b"}"):
                    continue
                raise DamagedRecord(self._path, "has a line that is no JSON") from failure
        return found
