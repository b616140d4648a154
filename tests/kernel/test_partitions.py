"""Source partitions that are silent, or that appear when others have already spoken: nothing is lost, nothing is called broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from gate import Gate, balanced, closing, cut, frontier, keys_of, marks, refused
from hypothesis import example, given, settings

from penstock.errors import LateRows, PunctuationViolated
from penstock.model.declarations import RowPolicy
from penstock.model.elements import CLOCK
from penstock.model.punctuation import Punctuation

PARTITIONS, KEYS = 3, 4


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows and punctuations of partitions that keep their word; each of them closes keys for itself."""
    said: list[set[int]] = [set() for _ in range(PARTITIONS)]
    found: list[tuple[Any, ...]] = []
    for partition, key, closes in draw(
        st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, KEYS - 1), st.booleans()), max_size=20)
    ):
        if closes:
            said[partition].add(key)
            found.append(closing(key, partition))
        elif key not in said[partition]:
            found.append((len(found), key, partition))
    return found


def closed(elements: Sequence[Any]) -> set[int]:
    return {
        value for element in elements if isinstance(element, Punctuation) for value in range(KEYS)
        if element.pattern("k").matches(value)
    }  # fmt: skip


def expected(batches: Sequence[Sequence[tuple[Any, ...]]], known: set[int]) -> tuple[list[set[int]], list[list[int]], list[int]]:
    """What each micro-batch releases, the keys of its rows that are used, and those of rows that came too late, one by one."""
    said: dict[int, set[int]] = {partition: set() for partition in known}
    missed: dict[int, set[int]] = {}
    released: set[int] = set()
    news, used, late = [], [], []
    for batch in batches:
        for partition in {row[2] for row in batch} - said.keys():
            said[partition], missed[partition] = set(), set(released)
        rows = [(row[1], row[2]) for row in batch if row[1] is not None]
        used.append(sorted(key for key, partition in rows if key not in missed.get(partition, ())))
        late += sorted(key for key, partition in rows if key in missed.get(partition, ()))
        for row in batch:
            if row[1] is None:
                said[row[2]].add(int(row[3][6:-1]))
        news.append({key for key in range(KEYS) if said and all(key in words for words in said.values())} - released)
        released |= news[-1]
    return news, used, late


@given(rows=histories(), cuts=st.lists(st.integers(0, 20), max_size=5), known=st.sampled_from([0, PARTITIONS]))
@example(rows=[closing(1, 0), (1, 1, 1)], cuts=[1], known=0)
@example(rows=[closing(1, 0), (1, 1, 1)], cuts=[1], known=PARTITIONS)
@example(rows=[closing(1, 0), (1, 2, 1), closing(1, 1), (3, 1, 2)], cuts=[1, 3], known=0)
@settings(max_examples=60, deadline=None)
def test_honest_partitions_break_nothing_whenever_they_appear(rows: list[tuple[Any, ...]], cuts: list[int], known: int) -> None:
    """Violations are errors here. Where the partitions are known every row is used, wherever it stands."""
    gate = Gate(disorder=100, partitions=known)
    batches = cut(rows, cuts)
    news, used, late = expected(batches, set(range(known)))
    found_late: list[int | None] = []
    for batch, released, kept in zip(batches, news, used, strict=True):
        found = gate.batch(*batch)
        assert closed(found) == released
        assert sorted(keys_of(found)) == kept
        found_late += sorted(refused(found).get("late", []))
        gate.restart()
    assert found_late == late
    assert not (known and late)
    assert balanced(gate)


def test_a_partition_that_is_known_and_silent_is_waited_for() -> None:
    gate = Gate(partitions=2)
    assert frontier(gate.batch((10, 1, 0), closing(5, 0))) is None
    gate.restart()
    found = gate.batch((4, 5, 1), closing(5, 1))
    assert keys_of(found) == [5]
    assert marks(found) == ["⟨ts=*, k=5, day=*⟩"]
    assert frontier(found) == 4


def test_what_others_announced_before_a_partition_appeared_makes_its_rows_late_not_wrong() -> None:
    gate = Gate(disorder=9)
    gate.batch((1, 1, 0), closing(5, 0))
    found = gate.batch((2, 5, 1), (2, 6, 1))
    assert refused(found) == {"late": [5]}
    assert keys_of(found) == [6]
    gate.restart()
    assert refused(gate.batch((3, 5, 1))) == {"late": [5]}  # and so do later ones
    assert balanced(gate)
    strict = Gate(disorder=9, on_late=RowPolicy.ERROR)
    strict.batch((1, 1, 0), closing(5, 0))
    with pytest.raises(LateRows, match=r"partition 1.*all other partitions had announced"):
        strict.batch((2, 5, 1))
    trusting = Gate(disorder=9, on_violation=RowPolicy.TRUST)
    trusting.batch((1, 1, 0), closing(5, 0))
    assert keys_of(trusting.batch((2, 5, 1))) == [5]


def test_what_one_partition_announces_for_all_binds_also_those_to_come() -> None:
    gate = Gate(disorder=9, is_global=True)
    gate.batch((1, 1, 0), closing(5, 0))
    gate.restart()
    with pytest.raises(PunctuationViolated):
        gate.batch((2, 5, 1))


def test_a_partition_that_appeared_later_must_keep_its_own_word() -> None:
    gate = Gate(disorder=9)
    gate.batch((1, 1, 0), closing(5, 0))
    gate.batch((2, 6, 1), closing(5, 1))
    gate.restart()
    with pytest.raises(PunctuationViolated):
        gate.batch((2, 5, 1))


def test_fewer_or_more_partitions_may_be_declared_for_a_stored_state() -> None:
    gate = Gate(partitions=3)
    assert frontier(gate.batch((10, 1, 0), (10, 1, 1))) is None
    gate.declare(partitions=2)
    assert frontier(gate.batch((11, 1, 0))) == 10
    gate.declare(partitions=3)
    assert frontier(gate.batch((12, 1, 0), (12, 1, 1))) is None
    assert frontier(gate.batch((11, 1, 2))) == 11


# -- partitions that are idle for a while -------------------------------------------------------------------------------

IDLE = 10


class Model:
    """What is released and what is late, by definition: a value is closed when somebody says so, and all who are waited for."""

    def __init__(self, known: int) -> None:
        self.said: dict[int, set[int]] = {partition: set() for partition in range(known)}
        self.missed: dict[int, set[int]] = {}
        self.released: set[int] = set()
        self.heard: dict[int, int] = {}
        self.fresh: set[int] = set()
        self.now = 0

    @property
    def idle(self) -> set[int]:
        known = self.heard.keys() - self.fresh
        return {partition for partition in known if self.now - self.heard[partition] >= IDLE}

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> tuple[list[int], list[int], set[int]]:
        """Keys of rows that are used, of rows that are late, and values that are closed from now on."""
        for partition in {row[2] for row in rows}:
            if partition not in self.said:
                self.said[partition], self.missed[partition] = set(), set(self.released)
            self.fresh.add(partition)
        data = [(row[1], row[2]) for row in rows if row[1] is not None]
        late = [key for key, partition in data if key in self.missed.get(partition, ())]
        used = [key for key, partition in data if key not in self.missed.get(partition, ())]
        for row in rows:
            if row[1] is None:
                self.said[row[2]].add(int(row[3][6:-1]))
                self.missed.get(row[2], set()).discard(int(row[3][6:-1]))
        return sorted(used), sorted(late), self._release()

    def clock(self, now: int) -> set[int]:
        self.now = now
        self.heard |= dict.fromkeys(self.fresh | (self.said.keys() - self.heard.keys()), now)
        self.fresh = set()
        return self._release()

    def _release(self) -> set[int]:
        idle = self.idle
        waited_for = [words for partition, words in self.said.items() if partition not in idle]
        told = set().union(*self.said.values())
        news = {key for key in told if all(key in words for words in waited_for)} - self.released
        self.released |= news
        for partition in idle:
            self.missed.setdefault(partition, set()).update(news - self.said[partition])
        return news


@given(
    rows=histories(), cuts=st.lists(st.integers(0, 20), max_size=6), known=st.sampled_from([0, 2, PARTITIONS]),
    passed=st.lists(st.integers(0, 12), min_size=7, max_size=7), restarts=st.integers(0, 127),
)  # fmt: skip
@example([(0, 1, 1), closing(1, 0), (2, 1, 1)], [1, 2], 2, [1, 12, 0, 0, 0, 0, 0], 127)
@settings(max_examples=150, deadline=None)
def test_partitions_may_fall_silent_and_come_back(
    rows: list[tuple[Any, ...]], cuts: list[int], known: int, passed: list[int], restarts: int
) -> None:
    """Violations are errors here: partitions that keep their word break nothing, whoever went on without them."""
    gate, model, now = Gate(disorder=100, partitions=known, idle=IDLE), Model(known), 1000
    for number, batch in enumerate(cut(rows, cuts)):
        found = gate.batch(*batch)
        used, late, news = model.batch(batch)
        assert (sorted(keys_of(found)), sorted(refused(found).get("late", [])), closed(found)) == (used, late, news)
        if restarts >> number & 1:
            gate.restart()
        now += passed[number % len(passed)]
        assert closed(gate.hear((CLOCK, {"us": now}))) == model.clock(now)
    assert balanced(gate)
