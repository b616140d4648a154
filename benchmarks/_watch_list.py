"""A function as users have them: plain Python, called for every row, and slow."""

from __future__ import annotations

from difflib import SequenceMatcher

WATCHED = (
    "98.137.11.163", "66.218.84.137", "171.64.7.55", "17.253.144.10", "18.9.22.69", "128.32.189.7", "98.128.7.12", "208.80.154.224",
)  # fmt: skip


def likeness(address: str | None) -> float | None:
    """How much an address looks like one of those watched, from 0 to 1."""
    if address is None:
        return None
    return max(SequenceMatcher(None, watched, address).ratio() for watched in WATCHED)
