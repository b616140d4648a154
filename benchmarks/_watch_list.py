"""A function as users have them: plain Python, called for every row, and slow."""

from __future__ import annotations

from difflib import SequenceMatcher

WATCHED = tuple(f"{network}.{host}" for network in ("98.137.11", "66.218.84", "171.64.7", "17.253.144") for host in range(1, 7))


def likeness(address: str | None) -> float | None:
    """How much an address looks like one of those watched, from 0 to 1."""
    if address is None:
        return None
    return max(SequenceMatcher(None, watched, address).ratio() for watched in WATCHED)
