"""A limit of memory for all joins that can spill: shares follow the state that is expected and measured."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidDeclaration, OutOfMemory
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.runners.local.runner import LocalRunner
from penstock.runners.memory import MemorySharing, size_in_bytes

STREAMS = "".join(f"CREATE STREAM {name} (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);\n" for name in "abc")
TEXT = (
    f"{STREAMS}CREATE CQ large AS SELECT /*+ XJOIN */ a.k, b.ts FROM a, b WHERE a.k = b.k;"
    "CREATE CQ small AS SELECT /*+ PJOIN */ a.k, c.ts FROM a, c WHERE a.k = c.k AND a.ts < 3;"
)
#: Bytes of a stored row by its types, and twice as much as both joins get at least.
ROW, FLOOR = 32, 640


class Shared:
    """Streams a and b grow, c does not; only the first rows of a concern the second join."""

    def __init__(self, limit: int | None, shards: int = 2, text: str = TEXT) -> None:
        self.catalog = parse_application(text)
        job = build_job(self.catalog, shards)
        self.sharing = None if limit is None else MemorySharing(job, limit, FLOOR)
        self.runner = LocalRunner(job, encode=True, memory=self.sharing)
        self._step = 0

    def step(self, restart: bool = False) -> None:
        keys = [self._step * 50 + at for at in range(50)]
        rows = {"a": keys, "b": keys[::2], "c": keys[:1]}
        self._step += 1
        self.runner.run({name: _rows(values, self._step) for name, values in rows.items()})
        if restart:
            self.runner.restore(self.runner.snapshot())

    def counts(self, counter: str) -> list[int]:
        found = self.runner.report()
        return [counters[counter] for name, counters in found.items() if name.startswith("WindowJoin")]

    def answers(self, query: str) -> list[str]:
        self.runner.end()
        return sorted(map(str, self.runner.collected.rows(query)))


def _rows(keys: list[int], ts: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": keys, "ts": [ts] * len(keys)})


def test_shares_begin_equal_and_follow_the_state_that_joins_have() -> None:
    shared = Shared(20_000)
    assert shared.sharing is not None
    shared.step()
    assert list(shared.sharing.shares.values()) == [10_000, 10_000]
    for _ in range(10):
        shared.step()
    large, small = shared.sharing.shares.values()
    assert large > 4 * small
    assert small >= FLOOR
    assert large + small <= 20_000 * 1.1  # a share that has hardly changed is not told again


def test_what_the_limit_does_not_hold_is_spilled_and_answers_stay() -> None:
    shared, free = Shared(8_000), Shared(None)
    for _ in range(12):
        shared.step(restart=True)
        free.step()
    assert shared.counts("tuples_spilled")[0] > 0
    assert shared.counts("memory_rows")[0] < free.counts("memory_rows")[0]
    assert sum(free.counts("tuples_spilled")) == 0
    for query in ("large", "small"):
        assert shared.answers(query) == free.answers(query)


def test_decisions_that_were_noted_make_the_same_run_again() -> None:
    shared, again = Shared(8_000), Shared(None)
    for _ in range(6):
        shared.step()
    noted = shared.runner.decisions
    assert {kind for decided in noted.values() for kind in (decision.kind for decision in decided)} == {"memory"}
    given: Any = again.runner.run
    again.runner.run = lambda inputs: given(inputs, noted.get(again._step - 1, ()))  # type: ignore[method-assign]
    for _ in range(6):
        again.step()
    assert again.counts("tuples_spilled") == shared.counts("tuples_spilled")
    shared.runner.end()


def test_without_a_limit_a_join_has_what_its_hint_says_again() -> None:
    shared = Shared(8_000, text=TEXT.replace("PJOIN", "PJOIN(memory_bytes = 777)"))

    def limits() -> set[int]:
        operators: Any = [work.operator for kernel in shared.runner.kernels.values() for work in kernel._work.values()]
        return {found.engine.config.memory_bytes for found in operators if hasattr(found, "engine")}

    shared.step(restart=True)
    assert limits() == {2_000}  # half of the limit for each join, half of that for each shard
    shared.runner.run({}, [Control(0, "memory", {"bytes": None})])
    shared.runner.restore(shared.runner.snapshot())
    assert limits() == {777, PJoinConfig().memory_bytes}
    shared.runner.end()


def test_without_joins_that_can_spill_there_is_nothing_to_share() -> None:
    shared = Shared(5_000, text=f"{STREAMS}CREATE CQ q AS SELECT a.k FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k")
    assert not shared.sharing
    shared.step()
    assert shared.runner.decisions == {}


def test_a_limit_that_does_not_hold_the_least_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="give more memory"):
        Shared(1_000)


@pytest.mark.parametrize("text", ["512", "MB", "5 parsecs", "1.2.3 MB", "0 MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is no size of memory"):
        size_in_bytes(text)
