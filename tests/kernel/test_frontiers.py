"""Progress of a partitioned stream."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from penstock.kernel.frontiers import Frontiers
from penstock.model.elements import FOREVER, NEVER


def test_nothing_is_promised_before_anything_is_known() -> None:
    assert Frontiers(5).release() == NEVER


def test_the_slowest_partition_decides() -> None:
    progress = Frontiers(disorder=5)
    progress.advance(0, newest=100)
    progress.advance(1, newest=60)
    assert progress.release() == 55


def test_a_partition_that_appears_later_cannot_take_a_promise_back() -> None:
    progress = Frontiers()
    progress.advance(0, newest=100)
    progress.release()
    progress.advance(1, newest=60)
    assert progress.release() == 100
    assert progress.promise(1) == 100


def test_an_idle_partition_holds_the_frontier_until_it_states_one() -> None:
    progress = Frontiers()
    progress.advance(0, newest=100)
    progress.advance(1)
    assert progress.release() == NEVER
    progress.advance(1, frontier=70)
    assert progress.release() == 70


def test_a_partition_that_has_ended_holds_nothing_back() -> None:
    progress = Frontiers(disorder=10)
    progress.advance(0, frontier=FOREVER)
    progress.advance(1, newest=30)
    assert progress.release() == 20
    progress.advance(1, frontier=FOREVER)
    assert progress.release() == FOREVER


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50), st.booleans())), bound=st.integers(0, 9))
def test_promises_only_grow_and_survive_a_restart(steps: list[tuple[int, int, bool]], bound: int) -> None:
    progress = Frontiers(bound)
    before = progress.current
    for partition, time, restart in steps:
        progress.advance(partition, newest=time)
        assert progress.release() >= before
        before = progress.current
        if restart:
            saved = json.loads(json.dumps(progress.snapshot()))
            progress = Frontiers(bound)
            progress.restore(saved)
            assert progress.current == before
