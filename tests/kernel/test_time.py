"""Time that moves when data does not: idle partitions, heartbeats, punctuations on the time, the clock of arrival."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from gate import Gate, balanced, closing, cut, frontier, keys_of, marks, refused
from hypothesis import example, given, settings

from penstock.errors import LateRows
from penstock.model.batch import Batch
from penstock.model.declarations import RowPolicy
from penstock.model.elements import HEARTBEAT, NEVER, PARTITIONS, Control, Heartbeat, Quarantined
from penstock.model.punctuation import Punctuation

IDLE = 10


# -- idle partitions ----------------------------------------------------------------------------------------------------


def test_a_partition_that_brings_nothing_for_long_holds_nothing_back() -> None:
    gate = Gate(idle=IDLE)
    gate.batch((5, 1, 0), (3, 1, 1))
    assert gate.clock(100) is None
    assert frontier(gate.batch((8, 1, 0))) is None
    assert gate.clock(109) is None
    gate.restart()
    assert gate.clock(110) == 8
    found = gate.batch((4, 2, 1), (9, 3, 1))  # what it brings now is late, or not
    assert refused(found) == {"late": [2]}
    assert keys_of(found) == [3]
    assert balanced(gate)


def test_a_partition_that_comes_back_is_waited_for_again() -> None:
    gate = Gate(idle=IDLE)
    gate.batch((5, 1, 0), (3, 1, 1))
    gate.clock(100)
    gate.batch((8, 1, 0))
    gate.clock(110)
    gate.batch((8, 1, 1))
    assert frontier(gate.batch((20, 1, 0))) is None
    assert gate.clock(115) is None
    gate.batch((21, 1, 0))
    assert gate.clock(125) == 21


def test_a_partition_that_is_known_and_never_came_is_waited_for_that_long() -> None:
    gate = Gate(idle=IDLE, partitions=2)
    assert gate.clock(50) is None
    gate.batch((5, 1, 0))
    assert gate.clock(59) is None
    assert gate.clock(60) == 5


def test_with_all_partitions_idle_the_time_of_the_stream_goes_on_with_the_clock() -> None:
    gate = Gate(disorder=2, idle=IDLE, is_timed=True)
    gate.batch((50, 1, 0), (40, 1, 1))
    gate.clock(1000)
    assert gate.clock(1009) is None
    assert gate.clock(1010) == 48
    assert gate.clock(1017) == 55
    assert refused(gate.batch((54, 7, 1), (55, 8, 1))) == {"late": [7]}


def test_time_in_numbers_does_not_go_on_with_the_clock() -> None:
    gate = Gate(idle=IDLE)
    gate.batch((50, 1, 0), (40, 1, 1))
    gate.clock(1000)
    assert gate.clock(1010) == 50
    assert gate.clock(1099) is None


def test_time_in_which_nothing_ran_makes_nobody_idle() -> None:
    gate = Gate(idle=IDLE)
    gate.batch((5, 1, 0), (3, 1, 1))
    gate.clock(100)
    gate.restart()
    assert gate.clock(5000, begins=True) is None
    gate.batch((9, 1, 0))
    assert gate.clock(5009) is None
    gate.batch((9, 1, 0))
    assert gate.clock(5010) == 9


def test_punctuations_do_not_wait_for_an_idle_partition_and_its_rows_are_late_then() -> None:
    gate = Gate(disorder=90, idle=IDLE)
    gate.batch((1, 1, 0), (1, 1, 1))
    gate.clock(100)
    assert marks(gate.batch(closing(5, 0))) == []
    gate.clock(105)
    found = gate.hear(("clock", {"us": 110}))
    assert marks(found) == ["⟨ts=*, k=5, day=*⟩"]
    assert marks(gate.batch(closing(6, 0))) == ["⟨ts=*, k=6, day=*⟩"]
    gate.restart()
    found = gate.batch((2, 5, 1), (2, 6, 1), (2, 7, 1))
    assert refused(found) == {"late": [5, 6]}
    assert keys_of(found) == [7]
    assert marks(gate.batch(closing(8, 0))) == []
    assert balanced(gate)


steps = st.lists(
    st.tuples(
        st.integers(0, 8),  # time that passes before
        st.booleans(),  # whether the clock is heard
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=2),  # rows: time and partition
    ),
    max_size=12,
)


def recomputed(history: Sequence[tuple[int | None, list[tuple[int, int]]]], known: int, is_timed: bool) -> int:
    """The frontier by its definition, from everything that has happened so far."""
    current = NEVER
    for end in range(1, len(history) + 1):
        past = history[:end]
        clocks = [clock for clock, _ in past if clock is not None]
        now = clocks[-1] if clocks else None

        def heard(partition: int | None, past: Any = past) -> int | None:
            """By the clock that was heard with what it last brought, or first afterwards; who brought nothing: by the first."""
            at = [place for place, (_, rows) in enumerate(past) if any(partition in (None, row[1]) for row in rows)]
            later = [clock for clock, _ in past[at[-1] if at else 0 :] if clock is not None]
            return later[0] if later else None

        promises = dict.fromkeys(range(known), NEVER)
        for _, rows in past:
            for time, partition in rows:
                promises[partition] = max(promises.get(partition, NEVER), time)
        if not promises:
            continue
        idle = {p for p in promises if now is not None and (since := heard(p)) is not None and now - since >= IDLE}
        if idle != set(promises):
            current = max(current, min(promise for p, promise in promises.items() if p not in idle))
            continue
        furthest, since = max(promises.values()), heard(None)
        assert now is not None
        assert since is not None
        current = max(current, furthest + (now - since - IDLE if is_timed and furthest != NEVER else 0))
    return current


@given(events=steps, known=st.sampled_from([0, 2, 3]), is_timed=st.booleans(), restarts=st.integers(0, 4095))
@example([(0, True, []), (8, True, [(5, 0)]), (8, True, [])], 2, True, 0)
@settings(max_examples=150, deadline=None)
def test_the_frontier_is_what_its_definition_says(events: Any, known: int, is_timed: bool, restarts: int) -> None:
    gate = Gate(partitions=known, idle=IDLE, is_timed=is_timed)
    history: list[tuple[int | None, list[tuple[int, int]]]] = []
    now, told = 1000, NEVER
    for number, (passed, is_heard, rows) in enumerate(events):
        now += passed
        found = gate.batch(*((time, 1, partition) for time, partition in rows))
        for element in found:
            if isinstance(element, Batch):
                assert element.ts.min() >= told  # a promise is kept
        found += gate.hear(("clock", {"us": now})) if is_heard else []
        told = max([told, *(element.ts for element in found if isinstance(element, Heartbeat))])
        history.append((now if is_heard else None, list(rows)))
        assert gate.ingress.frontiers.current == recomputed(history, known, is_timed)
        if restarts >> number & 1:
            gate.restart()
    assert balanced(gate)


# -- heartbeats ---------------------------------------------------------------------------------------------------------


def beat(ts: int, partition: int | None = None, stream: str = "x") -> tuple[str, dict[str, Any]]:
    return HEARTBEAT, {"stream": stream, "ts": ts, "partition": partition}


def test_a_heartbeat_moves_its_partition_or_the_whole_stream() -> None:
    gate = Gate()
    gate.batch((5, 1, 0), (3, 1, 1))
    assert frontier(gate.hear(beat(4, 1))) == 4
    assert frontier(gate.hear(beat(9, 1))) == 5
    gate.restart()
    assert frontier(gate.hear(beat(20))) == 20
    assert frontier(gate.hear(beat(15))) is None
    assert frontier(gate.hear(beat(99, stream="y"))) is None
    found = gate.batch((19, 7, 2), (20, 8, 2))
    assert refused(found) == {"late": [7]}
    assert keys_of(found) == [8]
    assert balanced(gate)


def test_rows_of_its_micro_batch_come_before_a_heartbeat() -> None:
    gate = Gate()
    assert keys_of(gate.batch((5, 1, 0), (3, 1, 0))) == [1, 1]
    assert frontier(gate.hear(beat(50))) == 50


def test_a_partition_is_known_by_its_heartbeat() -> None:
    gate = Gate()
    gate.batch((1, 1, 0))
    gate.hear(beat(2, 1))
    assert marks(gate.batch(closing(5, 0))) == []
    assert marks(gate.batch(closing(5, 1))) == ["⟨ts=*, k=5, day=*⟩"]


def test_a_heartbeat_shows_that_a_partition_is_not_idle() -> None:
    gate = Gate(idle=IDLE)
    gate.batch((5, 1, 0), (3, 1, 1))
    gate.clock(100)
    gate.hear(beat(4, 1), ("clock", {"us": 108}))
    gate.batch((9, 1, 0))
    assert gate.clock(112) is None
    gate.batch((9, 1, 0))
    assert gate.clock(118) == 9


def test_a_source_that_was_asked_tells_its_partitions() -> None:
    gate = Gate()
    gate.ingress.learn_partitions(Control(0, PARTITIONS, {"stream": "x", "count": 2}))
    gate.restart()
    assert frontier(gate.batch((5, 1, 0))) is None
    assert frontier(gate.batch((3, 1, 1))) == 3


# -- punctuations on the time -------------------------------------------------------------------------------------------


def past(ts: int, partition: int = 0, bounds: str = "[]", time: int | None = None) -> tuple[Any, ...]:
    return (time, None, partition, json.dumps({"ts": {"range": [None, ts], "bounds": bounds}}))


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2]])
def test_nothing_up_to_the_time_of_a_punctuation_follows_it(cuts: list[int]) -> None:
    """Later rows are late, in the same micro-batch as in the next."""
    rows = [(5, 1), past(20), (20, 7), (21, 8)]
    gate = Gate(disorder=100)
    found = [element for piece in cut(rows, cuts) for element in gate.batch(*piece)]
    assert refused(found) == {"late": [7]}
    assert keys_of(found) == [1, 8]
    assert max(element.ts for element in found if isinstance(element, Heartbeat)) == 21
    assert balanced(gate)


@given(
    found=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2), st.booleans()), max_size=16),
    cuts=st.lists(st.integers(0, 16), max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_what_is_behind_a_time_is_late_however_rows_are_cut(found: list[tuple[int, int, bool]], cuts: list[int]) -> None:
    """A punctuation on the time binds its own partition from its place on; a stream is as far as its slowest partition."""
    gate = Gate(disorder=1000, partitions=3)
    rows = [past(time, partition) if is_mark else (time, at, partition) for at, (time, partition, is_mark) in enumerate(found)]
    elements = [element for piece in cut(rows, cuts) for element in gate.batch(*piece)]
    said = [max([time for time, owner, is_mark in found[:at] if is_mark and owner == part], default=NEVER)
            for at, (_, part, _) in enumerate(found)]  # fmt: skip
    late = [at for at, (time, _, is_mark) in enumerate(found) if not is_mark and time <= said[at]]
    assert (
        sorted(key for element in elements if isinstance(element, Quarantined) for key in element.batch.column("k").to_pylist())
        == late
    )
    assert sorted(keys_of(elements)) == [at for at, (_, _, is_mark) in enumerate(found) if not is_mark and at not in late]
    promised = [
        max([time + 1 if is_mark else time - 1000 for time, owner, is_mark in found if owner == part], default=NEVER)
        for part in range(3)
    ]
    assert gate.ingress.frontiers.current == min(promised)
    assert balanced(gate)


def test_without_its_end_a_range_lets_rows_of_that_time_come() -> None:
    assert frontier(Gate(disorder=100).batch((5, 1), past(20, bounds="[)"))) == 20


def test_a_punctuation_on_the_time_moves_its_own_partition_unless_it_speaks_for_all() -> None:
    gate = Gate(disorder=100)
    assert frontier(gate.batch((5, 1, 0), (5, 1, 1), past(20, 0))) == -95
    assert frontier(gate.batch(past(10, 1))) == 11
    everywhere = Gate(disorder=100, is_global=True)
    assert frontier(everywhere.batch((5, 1, 0), (5, 1, 1), past(20, 0))) == 21


def test_a_punctuation_that_has_a_time_shows_how_far_its_partition_is() -> None:
    gate = Gate(disorder=3)
    gate.batch((5, 1))
    assert frontier(gate.batch((30, None, 0, '{"k": 9}'))) == 27
    assert frontier(gate.batch((None, None, 0, '{"k": 8}'))) is None


def test_what_says_nothing_of_time_alone_moves_nothing() -> None:
    gate = Gate()
    gate.batch((5, 1))
    assert frontier(gate.batch((None, None, 0, '{"ts": {"range": [7, 9]}}'))) is None
    assert frontier(gate.batch((None, None, 0, '{"ts": {"range": [null, 9]}, "k": 1}'))) is None
    assert frontier(gate.batch((None, None, 0, '{"ts": {"range": [7, null]}}'))) is None


def test_a_partition_that_has_ended_holds_nothing_back() -> None:
    gate = Gate()
    assert frontier(gate.batch((5, 1, 0), (3, 1, 1))) == 3
    assert frontier(gate.batch((None, None, 1, "{}"))) == 5
    gate.restart()
    assert frontier(gate.batch((9, 1, 0))) == 9
    assert frontier(gate.batch((None, None, 0, "{}"))) == 10


def test_rows_behind_a_time_follow_the_policy_of_late_rows() -> None:
    gate = Gate(disorder=100, on_late=RowPolicy.ERROR)
    gate.batch((5, 1), past(20))
    with pytest.raises(LateRows, match="a punctuation on the time"):
        gate.batch((6, 1))


# -- the clock of arrival -----------------------------------------------------------------------------------------------


def test_what_arrives_is_never_older_than_the_clock() -> None:
    gate = Gate(is_timed=True, is_arrival=True)
    gate.batch((100, 1, 0))
    assert gate.clock(150) == 150
    gate.restart()
    assert gate.clock(149) is None
    assert keys_of(gate.batch((150, 2, 5))) == [2]
    assert gate.clock(160) == 160
    assert balanced(gate)


def test_punctuations_still_are_punctuations() -> None:
    gate = Gate(disorder=100)
    found = [element for element in gate.batch((5, 1), past(20)) if isinstance(element, Punctuation)]
    assert len(found) == 1
    assert found[0].pattern("ts").matches(20)
