"""Sizes of memory as people write them."""

from __future__ import annotations

import re

from penstock.errors import InvalidDeclaration

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def size_in_bytes(text: str) -> int:
    """A size of memory.

    Examples
    --------
    >>> size_in_bytes("512 MB"), size_in_bytes("1.5GiB")
    (512000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]+)\s*", text.lower())
    if not found or found[2] not in _UNITS or found[1].count(".") > 1 or not float(found[1]) > 0:
        raise InvalidDeclaration(f"'{text}' is no size of memory; write a number and one of B, KB, MB, GB, KiB, MiB, GiB")
    return int(float(found[1]) * _UNITS[found[2]])
