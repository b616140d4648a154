"""Functions that the queries call: plain Python, and expensive."""

from __future__ import annotations

from collections import Counter
from math import log2
from typing import Any

#: Networks and who owns them.
_NETWORKS = {
    "98.136.0.0/14": "yahoo.com",
    "98.128.0.0/9": "comcast.net",
    "98.0.0.0/8": "rr.com",
    "17.0.0.0/8": "apple.com",
    "18.0.0.0/9": "mit.edu",
    "128.32.0.0/16": "berkeley.edu",
    "171.64.0.0/14": "stanford.edu",
}
_OWNER = 2


def _trie() -> list[Any]:
    """Nodes [left, right, owner], one level for each bit of an address."""
    root: list[Any] = [None, None, ""]
    for network, owner in _NETWORKS.items():
        address, _, length = network.partition("/")
        bits, node = _bits(address), root
        for place in range(int(length)):
            side = bits >> (31 - place) & 1
            if node[side] is None:
                node[side] = [None, None, ""]
            node = node[side]
        node[_OWNER] = owner
    return root


def _bits(address: str) -> int:
    found = 0
    for part in address.split("."):
        found = found << 8 | int(part)
    return found


_TRIE = _trie()


def domain(address: str | None) -> str | None:
    """Owner of the longest network that holds an address.

    Examples
    --------
    >>> domain("98.137.11.163"), domain("98.1.2.3"), domain("1.1.1.1"), domain(None)
    ('yahoo.com', 'rr.com', '', None)
    """
    if address is None:
        return None
    bits, node, owner = _bits(address), _TRIE, ""
    for place in range(31, -1, -1):
        owner = node[_OWNER] or owner
        node = node[bits >> place & 1]
        if node is None:
            break
    return owner


def entropy(text: str | None) -> float | None:
    """Bits per character: high in what is encoded or encrypted.

    Examples
    --------
    >>> entropy("abab"), round(entropy("correct horse battery staple"), 2), entropy("")
    (1.0, 3.49, 0.0)
    """
    if text is None:
        return None
    return sum(count / len(text) * log2(len(text) / count) for count in Counter(text).values()) if text else 0.0
