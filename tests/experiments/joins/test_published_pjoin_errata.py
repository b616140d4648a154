"""Errata of PJoin: the printed algorithm goes wrong on each example, the corrected one and ours do not.

ER-1 is about attributes besides the key, which items here do not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.experiments.joins.items import Items, Kind, Trace
from penstock.experiments.joins.playing import play
from penstock.experiments.joins.xjoin_pjoin.config import PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.join import PJoin
from penstock.experiments.joins.xjoin_pjoin.registry import EAGER, PULL, Registry

A, B = 0, 1
#: A tuple (side, key), or a punctuation (side, low, high).
Step = tuple[int, ...]


@dataclass(slots=True)
class Tuple:
    key: int
    pid: int | None = None


@dataclass(slots=True)
class Mark:
    pid: int
    low: int
    high: int
    count: int = 0
    indexed: bool = False

    def matches(self, row: Tuple) -> bool:
        return self.low <= row.key <= self.high

    def overlaps(self, mark: Mark) -> bool:
        return self.low <= mark.high and mark.low <= self.high


@dataclass(slots=True)
class Slow:
    """PJoin in memory as the text has it; `printed` names what is not corrected. Lazy: index and propagation on request."""

    printed: str = ""
    lazy: bool = False
    results: list[int] = field(default_factory=list)
    announced: list[tuple[int, int, int]] = field(default_factory=list)
    received: tuple[list[Tuple], list[Tuple]] = field(default_factory=lambda: ([], []))
    state: tuple[list[Tuple], list[Tuple]] = field(default_factory=lambda: ([], []))
    pending: tuple[list[Mark], list[Mark]] = field(default_factory=lambda: ([], []))
    closed: tuple[list[Mark], list[Mark]] = field(default_factory=lambda: ([], []))
    pids: int = 0

    def play(self, steps: list[Step]) -> Slow:
        for side, *keys in steps:
            if len(keys) == 1:
                self.tuple(side, keys[0])
            else:
                self.mark(side, *keys)
        return self

    def tuple(self, side: int, key: int) -> None:
        row = Tuple(key)
        self.received[side].append(row)
        self.results += [key for partner in self.state[1 - side] if partner.key == key]
        # ER-6: printed, the punctuations that were propagated are gone from the only set there is.
        known = self.pending[1 - side] if self.printed == "er6" else self.closed[1 - side]
        if not any(mark.matches(row) for mark in known):
            self.state[side].append(row)

    def mark(self, side: int, low: int, high: int) -> None:
        mark = Mark(self.pids, low, high)
        self.pids += 1
        self.pending[side].append(mark)
        self.closed[side].append(mark)
        for row in [row for row in self.state[1 - side] if mark.matches(row)]:
            self.state[1 - side].remove(row)
            for charged in self.pending[1 - side]:
                charged.count -= charged.pid == row.pid
        if not self.lazy:
            self.ask()

    def ask(self) -> None:
        for own in (A, B):
            self._build_index(own)
            self._propagate(own)

    def _build_index(self, side: int) -> None:
        new = [mark for mark in self.pending[side] if not mark.indexed]
        for row in self.state[side]:
            if row.pid is not None:
                continue
            for mark in new:
                if mark.matches(row):
                    row.pid = mark.pid
                    # ER-4: printed, nothing is counted, and the search goes on instead of leaving the loop.
                    mark.count += self.printed != "er4, no count"
                    if self.printed != "er4, search goes on":
                        break
        for mark in new:
            # ER-4: printed, this is never set.
            mark.indexed = self.printed != "er4, never indexed"

    def _propagate(self, side: int) -> None:
        for mark in list(self.pending[side]):
            if self._may_leave(side, mark):
                self.pending[side].remove(mark)
                self.announced.append((mark.low, mark.high, len(self.results)))

    def _may_leave(self, side: int, mark: Mark) -> bool:
        if self.printed == "er2":
            # ER-2: printed, no tuple that was ever received may match.
            return not any(mark.matches(row) for row in self.received[side])
        if not mark.indexed or mark.count:
            return False
        # ER-5: printed, earlier punctuations that overlap are not looked at.
        earlier = [other for other in self.pending[side] if other.pid < mark.pid and other.overlaps(mark)]
        return self.printed == "er5" or not any(other.count for other in earlier)

    def broken(self) -> list[int]:
        """Results after a punctuation on their key."""
        return [key for low, high, after in self.announced for key in self.results[after:] if low <= key <= high]


def items(steps: list[Step]) -> Items:
    kinds = {0: Kind.REQUEST, 2: Kind.TUPLE, 3: Kind.PUNCTUATION}
    return Items.of([(kinds[len(step)], *((step[0], at, *step[1:]) if step else (0, at, 0))) for at, step in enumerate(steps)])


def ours(steps: list[Step], registry: Registry = EAGER) -> Trace:
    """The same steps; an empty one is a request for punctuations."""
    return play(PJoin(PJoinConfig(registry=registry), keep_results=True), items(steps))


def keys_of(steps: list[Step], trace: Trace) -> list[int]:
    return [steps[left][1] for left, _ in trace.results.tolist()]


def marks_of(trace: Trace) -> list[tuple[int, int, int]]:
    return list(zip(trace.marks.lows.tolist(), trace.marks.highs.tolist(), trace.marks.after.tolist(), strict=True))


def test_er2_tuples_that_are_gone_hold_nothing_back() -> None:
    auction: list[Step] = [(A, 180), (A, 180, 180), (B, 180), (B, 180), (B, 180, 180)]
    right = Slow().play(auction)
    assert Slow("er2").play(auction).announced == []
    assert [mark[:2] for mark in right.announced] == [(180, 180), (180, 180)]
    assert right.broken() == []
    assert marks_of(ours(auction)) == [(180, 180, 2)]


def test_er4_a_tuple_is_charged_once_to_the_first_punctuation_that_matches_it() -> None:
    def announced(printed: str) -> Slow:
        slow = Slow(printed, lazy=True).play([(B, 7), (B, 5, 7), (B, 7, 9)])
        slow.ask()
        slow.play([(A, 7), (A, 7, 7)])
        slow.ask()
        return slow

    right = announced("")
    assert [mark[:2] for mark in right.announced] == [(7, 7), (5, 7), (7, 9)]
    assert right.broken() == []
    # Without counts both leave while their tuple is stored, and the result comes after them.
    assert announced("er4, no count").broken() != []
    assert announced("er4, never indexed").announced == []
    # Charged twice and taken back once: the first of B's punctuations waits for ever, and the second for the first.
    assert [mark[:2] for mark in announced("er4, search goes on").announced] == [(7, 7)]

    steps: list[Step] = [(B, 7), (B, 5, 7), (B, 7, 9), (), (A, 7), (A, 7, 7), ()]
    trace = ours(steps, PULL)
    assert keys_of(steps, trace) == [7]
    # A's own ⟨7⟩ came last and is covered.
    assert marks_of(trace) == [(5, 7, 1), (7, 9, 1)]
    assert trace.totals["suppressed"] == 1


def test_er5_overlapping_punctuations_must_wait_for_each_other() -> None:
    steps: list[Step] = [(B, 7), (B, 1, 10), (B, 5, 20), (A, 7), (A, 7, 7)]
    right, trace = Slow().play(steps), ours(steps)
    assert Slow("er5").play(steps).broken() == [7]
    assert right.broken() == []
    assert keys_of(steps, trace) == right.results == [7]
    assert marks_of(trace) == [(1, 10, 1), (5, 20, 1)]


def test_er6_what_was_propagated_still_purges() -> None:
    steps: list[Step] = [(A, 7, 7), (B, 7), (B, 7), (B, 8)]
    trace = ours(steps)
    assert len(Slow("er6").play(steps).state[B]) == 3
    assert len(Slow().play(steps).state[B]) == 1
    assert trace.state[-1].tolist() == [0, 1]
    assert marks_of(trace) == [(7, 7, 0)]


def test_only_the_corrected_algorithm_keeps_every_promise_on_random_streams() -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(150):
        steps: list[Step] = []
        for _ in range(14):
            side = int(rng.integers(2))
            low, high = sorted(rng.integers(0, 5, 2).tolist())
            if rng.random() < 0.35:
                steps.append((side, low, high))
            elif not any(step[0] == side and len(step) == 3 and step[1] <= low <= step[2] for step in steps):
                steps.append((side, low))
        right, trace = Slow().play(steps), ours(steps)
        left, other = ([step[1] for step in steps if len(step) == 2 and step[0] == side] for side in (A, B))
        expected = sorted(key for key in left for _ in range(other.count(key)))
        assert sorted(right.results) == sorted(keys_of(steps, trace)) == expected
        assert right.broken() == []
        after = keys_of(steps, trace)
        assert not any(low <= key <= high for low, high, begin in marks_of(trace) for key in after[begin:])
        wrong += bool(Slow("er5").play(steps).broken())
    assert wrong > 5
