"""Sets of small numbers as tuples of machine words, for compiled loops.

A loop is compiled anew for each number of words in its tuples. Where one word suffices, a set is an integer in a register, so that
one source serves few members and many. In arrays a set is a row of words, which may be narrower there.
"""

# ruff: noqa: SIM110 - any() over a generator does not compile

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.tuple import tuple_setitem

from penstock.columnar.compiling import compiled

_ONE = np.uint64(1)


def no_members(words: int) -> tuple[Any, ...]:
    """The empty set, in so many words."""
    return (np.uint64(0),) * words


@compiled
def load(rows: Any, row: int, like: Any) -> Any:  # pragma: no cover - compiled
    """A row of an array, in as many words as another set."""
    for word in range(len(like)):
        like = tuple_setitem(like, word, np.uint64(rows[row, word]))
    return like


@compiled
def store(rows: Any, row: int, members: Any) -> None:  # pragma: no cover - compiled
    for word in range(len(members)):
        rows[row, word] = members[word]


@compiled
def union(one: Any, other: Any) -> Any:  # pragma: no cover - compiled
    for word in range(len(one)):
        one = tuple_setitem(one, word, one[word] | other[word])
    return one


@compiled
def common(one: Any, other: Any) -> Any:  # pragma: no cover - compiled
    for word in range(len(one)):
        one = tuple_setitem(one, word, one[word] & other[word])
    return one


@compiled
def without(one: Any, other: Any) -> Any:  # pragma: no cover - compiled
    for word in range(len(one)):
        one = tuple_setitem(one, word, one[word] & ~other[word])
    return one


@compiled
def is_empty(members: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(members)):
        if members[word]:
            return False
    return True


@compiled
def meets(one: Any, other: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(one)):
        if one[word] & other[word]:
            return True
    return False


@compiled
def is_within(one: Any, other: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(one)):
        if one[word] & ~other[word]:
            return False
    return True


@compiled
def differs(one: Any, other: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(one)):
        if one[word] != other[word]:
            return True
    return False


@compiled
def has(members: Any, number: int) -> Any:  # pragma: no cover - compiled
    for word in range(len(members)):
        if len(members) == 1 or number >> 6 == word:
            return (members[word] >> np.uint64(number & 63)) & _ONE != np.uint64(0)
    return False


@compiled
def added(members: Any, number: int) -> Any:  # pragma: no cover - compiled
    for word in range(len(members)):
        if len(members) == 1 or number >> 6 == word:
            members = tuple_setitem(members, word, members[word] | _ONE << np.uint64(number & 63))
    return members


@compiled
def removed(members: Any, number: int) -> Any:  # pragma: no cover - compiled
    for word in range(len(members)):
        if len(members) == 1 or number >> 6 == word:
            members = tuple_setitem(members, word, members[word] & ~(_ONE << np.uint64(number & 63)))
    return members


@compiled
def up_to(members: Any, number: int) -> Any:  # pragma: no cover - compiled
    """The members that are not greater than a number."""
    for word in range(len(members)):
        if number >> 6 < word:
            members = tuple_setitem(members, word, np.uint64(0))
        elif number >> 6 == word:
            own = _ONE << np.uint64(number & 63)
            members = tuple_setitem(members, word, members[word] & (own | (own - _ONE)))
    return members
