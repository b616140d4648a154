"""Errata: the printed algorithm goes wrong on each example, the corrected one and PJoin do not."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch
from penstock.model.elements import Request
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import ANY, Pattern, between, constant
from penstock.model.windows import Unbounded
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.operator import PJoin
from penstock.operators.joins.pjoin.registry import EAGER, PULL, Registry

A, B = 0, 1


@dataclass(slots=True)
class Tuple:
    key: int
    other: int
    pid: int | None = None


@dataclass(slots=True)
class Mark:
    pid: int
    key: Pattern
    other: Pattern
    count: int = 0
    indexed: bool = False

    def matches(self, row: Tuple) -> bool:
        return self.key.matches(row.key) and self.other.matches(row.other)

    def overlaps(self, mark: Mark) -> bool:
        return self.key.overlaps(mark.key) and self.other.overlaps(mark.other)


@dataclass(slots=True)
class Slow:
    """PJoin in memory as the text has it; `printed` names what is not corrected. Lazy: index and propagation on request."""

    printed: str = ""
    lazy: bool = False
    results: list[tuple[int, int, int]] = field(default_factory=list)
    announced: list[tuple[Pattern, Pattern, int]] = field(default_factory=list)
    received: tuple[list[Tuple], list[Tuple]] = field(default_factory=lambda: ([], []))
    state: tuple[list[Tuple], list[Tuple]] = field(default_factory=lambda: ([], []))
    pending: tuple[list[Mark], list[Mark]] = field(default_factory=lambda: ([], []))
    closed: tuple[list[Mark], list[Mark]] = field(default_factory=lambda: ([], []))
    pids: int = 0

    def tuple(self, side: int, key: int, other: int = 0) -> None:
        row = Tuple(key, other)
        self.received[side].append(row)
        for partner in self.state[1 - side]:
            if partner.key == key:
                pair = (row, partner) if side == A else (partner, row)
                self.results.append((key, pair[0].other, pair[1].other))
        # ER-6: printed, the punctuations that were propagated are gone from the only set there is.
        known = self.pending[1 - side] if self.printed == "er6" else self.closed[1 - side]
        if not any(self._purges(mark, row) for mark in known):
            self.state[side].append(row)

    def _purges(self, mark: Mark, row: Tuple) -> bool:
        # ER-1: printed, the patterns of other attributes are not looked at.
        return mark.key.matches(row.key) and (self.printed == "er1" or mark.other.is_wildcard)

    def mark(self, side: int, key: Pattern, other: Pattern = ANY) -> None:
        mark = Mark(self.pids, key, other)
        self.pids += 1
        self.pending[side].append(mark)
        self.closed[side].append(mark)
        for row in [row for row in self.state[1 - side] if self._purges(mark, row)]:
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
                self.announced.append((mark.key, mark.other, len(self.results)))

    def _may_leave(self, side: int, mark: Mark) -> bool:
        if self.printed == "er2":
            # ER-2: printed, no tuple that was ever received may match.
            return not any(mark.matches(row) for row in self.received[side])
        if not mark.indexed or mark.count:
            return False
        # ER-5: printed, earlier punctuations that overlap are not looked at.
        earlier = [other for other in self.pending[side] if other.pid < mark.pid and other.overlaps(mark)]
        return self.printed == "er5" or not any(other.count for other in earlier)

    def broken(self) -> list[tuple[int, int, int]]:
        """Results after a punctuation on their key."""
        return [row for key, _, after in self.announced for row in self.results[after:] if key.matches(row[0])]


def one(name: str, key: int, other: int) -> Batch:
    values = pa.RecordBatch.from_pydict({f"{name}.key": [key], f"{name}.other": [other]})
    return Batch(values, np.array([0]), np.array([0]))


def fast(registry: Registry = EAGER) -> PJoin:
    schemas = [pa.schema({f"{name}.key": pa.int64(), f"{name}.other": pa.int64()}) for name in "ab"]
    keys, windows = [["a.key"], ["b.key"]], [Unbounded(), Unbounded()]
    return PJoin(schemas, keys, windows, pa.schema([*schemas[0], *schemas[1]]), config=PJoinConfig(registry=registry))


def play(*steps: tuple[object, ...], printed: str = "") -> tuple[Slow, Slow, PJoin, list[object]]:
    """The same steps through the printed algorithm, the corrected one and PJoin."""
    slow, right, join = Slow(printed), Slow(), fast()
    out: list[object] = []
    for side, what, *more in steps:
        assert isinstance(side, int)
        name = "ab"[side]
        for simulation in (slow, right):
            if isinstance(what, Pattern):
                simulation.mark(side, what, *more)  # type: ignore[arg-type]
            else:
                simulation.tuple(side, what, *more)  # type: ignore[arg-type]
        if isinstance(what, Pattern):
            patterns = (what, more[0] if more else ANY)
            out += join.on_metadata(side, Punctuation((f"{name}.key", f"{name}.other"), patterns))  # type: ignore[arg-type]
        else:
            out += join.on_batch(side, one(name, what, more[0] if more else 0))  # type: ignore[arg-type]
    return slow, right, join, out


def keys_of(out: list[object]) -> list[tuple[int, int, int]]:
    rows = [row for item in out if isinstance(item, Batch) for row in item.rows.to_pylist()]
    return [(row["a.key"], row["a.other"], row["b.other"]) for row in rows]


def marks_of(out: list[object]) -> list[Pattern]:
    return [item.pattern("a.key") for item in out if isinstance(item, Punctuation) and "a.key" in item.restricted]


def test_er1_a_punctuation_on_another_attribute_must_not_purge() -> None:
    printed, right, join, out = play((A, 180, 1), (B, constant(180), constant(5)), (B, 180, 6), printed="er1")
    assert printed.results == []
    assert keys_of(out) == right.results == [(180, 1, 6)]
    assert join.counters()["state_rows"] == 2


def test_er2_tuples_that_are_gone_hold_nothing_back() -> None:
    auction = [(A, 180), (A, constant(180)), (B, 180, 1), (B, 180, 2), (B, constant(180))]
    printed, right, _, out = play(*auction, printed="er2")
    assert printed.announced == []
    assert [key for key, _, _ in right.announced] == [constant(180), constant(180)]
    assert marks_of(out) == [constant(180)]
    assert right.broken() == []


def test_er4_a_tuple_is_charged_once_to_the_first_punctuation_that_matches_it() -> None:
    def announced(printed: str) -> Slow:
        slow = Slow(printed, lazy=True)
        slow.tuple(B, 7, 5)
        slow.mark(B, ANY, constant(5))
        slow.mark(B, constant(7))
        slow.ask()
        slow.tuple(A, 7)
        slow.mark(A, constant(7))
        slow.ask()
        return slow

    right = announced("")
    assert [(key, other) for key, other, _ in right.announced] == [
        (constant(7), ANY),
        (ANY, constant(5)),
        (constant(7), ANY),
    ]
    assert right.broken() == []
    # Without counts both leave while their tuple is stored, and the result comes after them.
    assert announced("er4, no count").broken() != []
    assert announced("er4, never indexed").announced == []
    # Charged twice and taken back once: B's punctuations wait for ever.
    assert [key for key, _, _ in announced("er4, search goes on").announced] == [constant(7)]

    join, out = fast(PULL), list[object]()
    for port, name, value in ((B, "b", 5), (A, "a", 0)):
        if port == B:
            out += join.on_batch(B, one("b", 7, value))
            out += join.on_metadata(B, Punctuation(("b.key", "b.other"), (ANY, constant(5))))
            out += join.on_metadata(B, Punctuation(("b.key", "b.other"), (constant(7), ANY)))
            assert join.on_metadata(B, Request("propagate"))[:-1] == []
        else:
            out += join.on_batch(A, one(name, 7, value))
            out += join.on_metadata(A, Punctuation(("a.key", "a.other"), (constant(7), ANY)))
    out += join.on_metadata(A, Request("propagate"))[:-1]
    assert keys_of(out) == [(7, 0, 5)]
    assert [str(item) for item in out if isinstance(item, Punctuation) and not is_twin(item)] == [
        "⟨a.key=7, a.other=*, b.key=*, b.other=*⟩"
    ]
    assert "⟨a.key=*, a.other=*, b.key=*, b.other=5⟩" in map(str, out)
    assert join.counters()["pending_punctuations"] == 0


def test_er5_overlapping_punctuations_must_wait_for_each_other() -> None:
    steps = [(B, 7), (B, between(1, 10)), (B, between(5, 20)), (A, 7), (A, constant(7))]
    printed, right, _, out = play(*steps, printed="er5")
    assert printed.broken() == [(7, 0, 0)]
    assert right.broken() == []
    assert keys_of(out) == [(7, 0, 0)]
    order = ["row" if isinstance(item, Batch) else str(item.pattern("a.key")) for item in out if not is_twin(item)]
    assert order == ["row", "[1,10]", "[5,20]"]


def is_twin(item: object) -> bool:
    """The statement on B's column that accompanies the one on A's."""
    return isinstance(item, Punctuation) and "a.key" not in item.restricted


def test_er6_what_was_propagated_still_purges() -> None:
    steps = [(A, constant(7)), (B, 7), (B, 7), (B, 8)]
    printed, right, join, out = play(*steps, printed="er6")
    assert len(printed.state[B]) == 3
    assert len(right.state[B]) == 1
    assert join.counters()["state_rows"] == 1
    assert marks_of(out) == [constant(7)]


def test_only_the_corrected_algorithm_keeps_every_promise_on_random_streams() -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(150):
        steps: list[tuple[object, ...]] = []
        known: tuple[list[Pattern], list[Pattern]] = ([], [])
        for _ in range(14):
            side = int(rng.integers(2))
            low, high = sorted(rng.integers(0, 5, 2).tolist())
            if rng.random() < 0.35:
                known[side].append(between(low, high))
                steps.append((side, between(low, high)))
            elif not any(pattern.matches(low) for pattern in known[side]):
                steps.append((side, low))
        printed, right, _, out = play(*steps, printed="er5")
        left, other = ([key for port, key in steps if port == side and isinstance(key, int)] for side in (A, B))
        assert right.broken() == []
        assert sorted(right.results) == sorted(keys_of(out)) == sorted((key, 0, 0) for key in left for _ in range(other.count(key)))
        wrong += bool(printed.broken())
    assert wrong > 5
