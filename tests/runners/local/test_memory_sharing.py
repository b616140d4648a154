"""A limit of memory for all joins that can spill: shares follow the state that is expected and measured."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidDeclaration, OutOfMemory
from penstock.model.elements import Control
from penstock.model.sizes import size_in_bytes
from penstock.runners.editions.changes import changed
from penstock.runners.editions.edition import ADD, DROP, Edition, Step
from penstock.runners.local.runner import LocalRunner
from penstock.runners.memory import MemorySharing, limits_of_joins

STREAMS = "".join(f"CREATE STREAM {name} (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);\n" for name in "abc")
LARGE = "CREATE CQ large AS SELECT /*+ XJOIN */ a.k, b.ts FROM a, b WHERE a.k = b.k;"
SMALL = "CREATE CQ small AS SELECT /*+ PJOIN */ a.k, c.ts FROM a, c WHERE a.k = c.k AND a.ts < 3;"
TEXT = STREAMS + LARGE + SMALL
GROUPED = "SELECT k, count(*) AS n FROM a [RANGE 5000] GROUP BY k"
#: Bytes of a stored row by its types, and twice as much as both joins get at least.
ROW, FLOOR = 32, 640


class Shared:
    """Streams a and b grow, c does not; only the first rows of a concern the second join."""

    def __init__(self, limit: int | None, shards: int = 2, text: str = TEXT) -> None:
        self._edition = Edition.first("app", text, 0)
        job = self._edition.job(shards)
        self.runner = LocalRunner(job, encode=True, memory=None if limit is None else MemorySharing(job, limit, FLOOR))
        self._step = 0

    @property
    def sharing(self) -> MemorySharing:
        assert self.runner.memory is not None
        return self.runner.memory

    def change(self, *steps: Step) -> None:
        following, _ = changed(self._edition, self.runner.job.shards, later=steps)
        self.runner.change(following.job(self.runner.job.shards))
        self._edition = following

    def step(self, restart: bool = False) -> None:
        keys = [self._step * 50 + at for at in range(50)]
        rows = {"a": keys, "b": keys[::2], "c": keys[:1]}
        self._step += 1
        self.runner.run({name: _rows(values, self._step) for name, values in rows.items()})
        if restart:
            self.runner.restore(self.runner.snapshot())

    def limits(self) -> dict[str, set[int | None]]:
        """What the joins of all shards have been told, by operator."""
        found: dict[str, set[int | None]] = {}
        for kernel in self.runner.kernels.values():
            for name, work in kernel._running.items():
                operator: Any = work.operator
                if hasattr(operator, "memory_limit"):
                    found.setdefault(name, set()).add(operator.memory_limit)
        return found

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
    shared.step(restart=True)
    # Half of the limit for each join, half of that for each shard; a hint may say less.
    assert list(shared.limits().values()) == [{2_000}, {777}]
    shared.runner.run({}, [Control(0, "memory", {"bytes": None})])
    shared.runner.restore(shared.runner.snapshot())
    assert list(shared.limits().values()) == [{None}, {777}]
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
    text += f"CREATE CQ g AS {GROUPED}"
    shared = Shared(9_000, text=text)
    with pytest.raises(OutOfMemory, match=r"GroupBy\d+ .*the limit is .*start again with more memory"):
        exhausted(shared)


def test_joins_that_come_get_a_share_and_those_that_go_leave_theirs() -> None:
    shared = Shared(20_000, text=STREAMS + LARGE)
    for _ in range(6):
        shared.step()
    assert shared.limits() == {"WindowJoin1": {10_000}}
    shared.change((ADD, SMALL))
    shared.step()
    # What is known of the old one remains known; the new one has nothing yet.
    assert shared.limits() == {"WindowJoin1": {(20_000 - FLOOR) // 2}, "WindowJoin1~1": {FLOOR // 2}}
    shared.step(restart=True)
    assert len(shared.limits()) == 2
    for _ in range(6):
        shared.step()
    told = [limit for limits in shared.limits().values() for limit in limits if limit is not None]
    assert len(told) == 2
    assert sum(told) <= 10_000 * 1.1
    shared.change((DROP, "large"))
    shared.step(restart=True)
    assert shared.limits() == {"WindowJoin1~1": {10_000}}
    shared.change((ADD, LARGE), (DROP, "small"))
    shared.step()
    assert shared.limits() == {"WindowJoin1~3": {10_000}}


def test_queries_that_come_and_go_under_a_limit_answer_as_without() -> None:
    shared, free = Shared(4_000, text=STREAMS + SMALL), Shared(None, text=STREAMS + SMALL)
    for each in (shared, free):
        each.step()
        each.change((ADD, LARGE))
        for _ in range(8):
            each.step(restart=each is shared)
        each.change((DROP, "small"))
        each.step()
    assert min(shared.counts("spilled_rows")) > 0
    assert shared.answers("large") == free.answers("large") != []


def test_a_micro_batch_before_a_change_is_no_reason_to_refuse_what_runs_now() -> None:
    shared = Shared(20_000, text=TEXT + f"CREATE CQ g AS {GROUPED};")
    shared.step()
    before = shared.runner.report()
    (grouping,) = (name for name in before if name.startswith("GroupBy"))
    for gone in ("WindowJoin1", grouping):
        before[gone]["state_bytes"] = 30_000
    shared.change((DROP, "large"), (DROP, "g"))
    assert shared.sharing.hear(before, before) == []
    assert list(shared.sharing.shares.values()) == [20_000]


def test_operators_that_cannot_spill_leave_less_for_a_join_that_comes_and_their_part_when_they_go() -> None:
    shared = Shared(20_000, text=STREAMS + SMALL + f"CREATE CQ g AS {GROUPED};")
    while sum(shared.sharing._others.values()) < 12_000:
        shared.step()
    shared.change((ADD, LARGE))
    assert sum(shared.sharing.shares.values()) <= 8_000
    shared.change((DROP, "g"))
    assert sum(shared.sharing.shares.values()) == 20_000


@pytest.mark.parametrize("grown", [0, 12_000])
def test_a_join_that_the_limit_does_not_hold_is_refused_and_the_others_go_on(grown: int) -> None:
    limit = FLOOR + grown + FLOOR // 2
    shared = Shared(limit, text=STREAMS + SMALL + (f"CREATE CQ g AS {GROUPED};" if grown else ""))
    shared.step()
    while sum(shared.sharing._others.values()) < grown:
        shared.step()
    job, limits = shared.runner.job, shared.limits()
    with pytest.raises(OutOfMemory, match="give more memory, or run fewer queries"):
        shared.change((ADD, LARGE))
    assert shared.runner.job is job
    shared.change((ADD, LARGE), (DROP, "small"))
    assert limits.keys() != shared.limits().keys()


def test_a_limit_that_does_not_hold_the_least_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="give more memory"):
        Shared(1_000)


@pytest.mark.parametrize("size", ["512", "MB", "5 parsecs", "1.2.3 MB", "0 MB", ". MB", "9" * 400 + " MB", 0, -1, True, 2.5, None])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="is no size of memory"):
        size_in_bytes(size)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "FULL", "SEMI", "ANTI"])
def test_a_limit_of_one_query_makes_its_join_spill_alone_until_there_is_none(kind: str) -> None:
    clause = f"SELECT a.k FROM a {kind} JOIN b ON a.k = b.k"
    text = (
        f"{STREAMS}CREATE CQ small AS {clause}; CREATE CQ other AS {clause} AND a.ts < 1000; CREATE CQ over AS SELECT k FROM small;"
    )
    limited, free = Shared(None, text=text), Shared(None, text=text)
    job = limited.runner.job
    limited.runner.run({}, limits_of_joins(job, {"SMALL": 1_000}))
    for _ in range(6):
        limited.step(restart=True)
        free.step()
    assert list(limited.limits().values()) == [{500}, {None}]
    limited_rows, other_rows = limited.counts("spilled_rows")
    assert limited_rows > other_rows == 0
    for query in ("small", "other", "over"):
        assert limited.runner.collected.rows(query) == free.runner.collected.rows(query)
    limited.runner.run({}, limits_of_joins(job, {}))
    assert list(limited.limits().values()) == [{None}, {None}]
    for query in ("small", "other", "over"):
        assert limited.answers(query) == free.answers(query)
