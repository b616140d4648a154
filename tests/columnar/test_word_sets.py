"""Sets as tuples of words against sets of Python."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numba
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.columnar import word_sets as sets


@numba.njit
def answers(rows: Any, number: int, like: Any) -> Any:
    one, other = sets.load(rows, 0, like), sets.load(rows, 1, like)
    sets.store(rows, 2, sets.union(one, other))
    sets.store(rows, 3, sets.common(one, other))
    sets.store(rows, 4, sets.without(one, other))
    sets.store(rows, 5, sets.added(one, number))
    sets.store(rows, 6, sets.removed(one, number))
    sets.store(rows, 7, sets.up_to(one, number))
    told = sets.is_empty(one), sets.meets(one, other), sets.is_within(one, other), sets.differs(one, other)
    return told, sets.has(one, number)


def written(members: set[int], words: int) -> list[int]:
    return [sum(1 << number - 64 * word for number in members if number >> 6 == word) for word in range(words)]


@pytest.mark.parametrize(("words", "kind"), [(1, np.uint64), (1, np.uint32), (2, np.uint64)])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_sets_of_words_are_sets(words: int, kind: Any, data: st.DataObject) -> None:
    most = words * np.dtype(kind).itemsize * 8
    numbers = st.integers(0, most - 1)
    one, other = data.draw(st.sets(numbers, max_size=6)), data.draw(st.sets(numbers, max_size=6))
    number = data.draw(numbers)
    other = data.draw(st.sampled_from([other, one, one | other]))
    rows = np.zeros((8, words), kind)
    rows[0], rows[1] = written(one, words), written(other, words)
    told, is_member = answers(rows, number, sets.no_members(words))
    expected = [one | other, one & other, one - other, one | {number}, one - {number}, {each for each in one if each <= number}]
    assert rows[2:].tolist() == [written(each, words) for each in expected]
    assert told == (not one, bool(one & other), one <= other, one != other)
    assert is_member == (number in one)
