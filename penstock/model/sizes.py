"""Sizes of memory as people write them."""

from __future__ import annotations

import re
from math import inf

from penstock.errors import InvalidDeclaration

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def size_in_bytes(size: str | int, place: str | None = None) -> int:
    """A size of memory, as text or as a number of bytes.

    Examples
    --------
    >>> size_in_bytes("512 MB"), size_in_bytes("1.5GiB"), size_in_bytes(4096)
    (512000000, 1610612736, 4096)
    """
    if not isinstance(size, str):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InvalidDeclaration(f"{size!r} is no size of memory; expected '200 MB' or a number of bytes, at least 1", place)
        return size
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+)\s*", size.lower())
    number = float(found[1]) * _UNITS.get(found[2], 0) if found else 0.0
    if not 1 <= number < inf:
        text = f"'{size}' is no size of memory; write a number and one of B, KB, MB, GB, KiB, MiB, GiB"
        raise InvalidDeclaration(text, place)
    return int(number)
