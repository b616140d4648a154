"""Texts of the Nexmark workload: tables that rows choose from, because making text is slower than all the rest."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa

from penstock.model.batch import Int64s
from penstock.workloads.coins import hashes, integers

_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
#: Half of the bids come through one of these.
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000


def chosen(table: pa.Array, seed: int, purpose: str, index: Int64s) -> pa.Array:
    """One text for each index."""
    return table.take(pa.array(integers(seed, purpose, index, len(table))))


def channel_numbers(seed: int, index: Int64s) -> pa.Array:
    """Which channel each bid comes through: a place in `channels` and in `urls`."""
    hot = integers(seed, "hot channel", index, len(_HOT_CHANNELS))
    other = len(_HOT_CHANNELS) + integers(seed, "channel", index, _OTHER_CHANNELS)
    return pa.array(np.where(integers(seed, "is hot channel", index, 2) > 0, hot, other))


@cache
def names() -> pa.Array:
    return pa.array([f"{first} {last}" for first, last in product(_FIRST_NAMES, _LAST_NAMES)])


@cache
def cities() -> pa.Array:
    return pa.array(_CITIES)


@cache
def states() -> pa.Array:
    return pa.array(_STATES)


@cache
def emails() -> pa.Array:
    return pa.array([f"{word[:7]}@{word[7:]}.com" for word in _words("email", 1_024, 12)])


@cache
def items() -> pa.Array:
    return pa.array(_words("item", 1_024, 20))


@cache
def descriptions() -> pa.Array:
    return pa.array(_words("description", 256, 100))


@cache
def channels() -> pa.Array:
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_OTHER_CHANNELS))])


@cache
def urls() -> pa.Array:
    words = _words("url", len(_HOT_CHANNELS) + _OTHER_CHANNELS, 15)
    folders = (f"{word[:5]}/{word[5:10]}/{word[10:]}" for word in words)
    return pa.array([f"https://www.nexmark.com/{folder}/item.htm?query=1" for folder in folders])


def _words(purpose: str, count: int, length: int) -> list[str]:
    letters = hashes(0, purpose, np.arange(count * length)) % np.uint64(26)
    text = (letters.astype(np.uint8) + ord("a")).tobytes().decode("ascii")
    return [text[start : start + length] for start in range(0, len(text), length)]
