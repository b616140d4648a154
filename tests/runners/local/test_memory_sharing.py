"""A limit of memory for all joins that can spill: shares follow the state that is expected and measured."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidDeclaration, OutOfMemory
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.model.sizes import size_in_bytes
from penstock.runners.local.runner import LocalRunner
from penstock.runners.memory import MemorySharing

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
    assert shared.counts("spilled_rows")[0] > 0
    assert shared.counts("state_bytes")[0] < free.counts("state_bytes")[0]
    assert sum(free.counts("spilled_rows")) == 0
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
    assert again.counts("spilled_rows") == shared.counts("spilled_rows")
    shared.runner.end()


def test_without_a_limit_a_join_has_what_its_hint_says_again() -> None:
    shared = Shared(8_000, text=TEXT.replace("PJOIN", "PJOIN(memory_bytes = 777)"))

    def limits() -> set[int | None]:
        operators: Any = [work.operator for kernel in shared.runner.kernels.values() for work in kernel._running.values()]
        return {found._memory.limit for found in operators if hasattr(found, "_memory")}

    shared.step(restart=True)
    assert limits() == {2_000, 777}  # half of the limit for each join, half of that for each shard; a hint may say less
    shared.runner.run({}, [Control(0, "memory", {"bytes": None})])
    shared.runner.restore(shared.runner.snapshot())
    assert limits() == {777, None}
    shared.runner.end()


@pytest.mark.parametrize("clause", ["a [RANGE 500], b [RANGE 500]", "a [ROWS 900], b [ROWS 900]"])
def test_every_join_shares_a_limit(clause: str) -> None:
    text = f"{STREAMS}CREATE CQ q AS SELECT a.k FROM {clause} WHERE a.k = b.k;"
    text += f"CREATE CQ l AS SELECT a.k FROM {clause.replace('ROWS', 'RANGE')} WHERE a.k = b.k"
    text = text.replace("[RANGE 900], b [RANGE 900] WHERE", "LEFT JOIN b ON")
    shared, free = Shared(6_000, text=text), Shared(None, text=text)
    for _ in range(8):
        shared.step(restart=True)
        free.step()
    assert min(shared.counts("spilled_rows")) > 0
    for query in ("q", "l"):
        assert shared.answers(query) == free.answers(query)


def test_a_multiway_join_spills_columns() -> None:
    text = (
        f"{STREAMS}CREATE CQ q AS SELECT a.k, c.ts FROM a [RANGE 500], b [RANGE 500], c [RANGE 500] WHERE a.k = b.k AND b.ts = c.ts"
    )
    shared, free = Shared(2_000, text=text), Shared(None, text=text)
    for _ in range(8):
        shared.step(restart=True)
        free.step()
    found = shared.runner.report()
    assert max(counters.get("spilled_bytes", 0) for counters in found.values()) > 0
    assert shared.answers("q") == free.answers("q")


def exhausted(shared: Shared) -> None:
    for _ in range(40):
        shared.step()


def test_state_that_cannot_be_spilled_stops_the_run_with_its_figure() -> None:
    text = f"{STREAMS}CREATE CQ q AS SELECT a.k FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k;"
    text += "CREATE CQ g AS SELECT k, count(*) AS n FROM a [RANGE 5000] GROUP BY k"
    shared = Shared(9_000, text=text)
    with pytest.raises(OutOfMemory, match=r"GroupBy\d+ .*the limit is .*start again with more memory"):
        exhausted(shared)


def test_a_limit_that_does_not_hold_the_least_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="give more memory"):
        Shared(1_000)


@pytest.mark.parametrize("text", ["512", "MB", "5 parsecs", "1.2.3 MB", "0 MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="is no size of memory"):
        size_in_bytes(text)
