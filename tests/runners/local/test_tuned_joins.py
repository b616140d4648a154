"""Parameters of joins that change while a query runs: answers stay, costs follow, mistakes never reach a shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.apps.tuning import tune_application
from penstock.errors import InvalidConfiguration, InvalidOption, StateFormat, UserError
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.lowering.statistics import with_statistics
from penstock.lowering.tuning import check_decision, tunable_joins, tuning
from penstock.model.elements import Control
from penstock.runners.editions.edition import Edition
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.control import ControlLog

STREAMS = """
CREATE STREAM a (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
CREATE STREAM b (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
"""
JOIN = "SELECT /*+ {hint} */ a.k, b.ts FROM a, b WHERE a.k = b.k"
TEXT = (
    f"{STREAMS} CREATE CQ q AS {JOIN.format(hint='PJOIN(max_drop_markers = 500)')}; CREATE CQ other AS {JOIN.format(hint='PJOIN')};"
)


class Tuned:
    """An application in process, and its doors."""

    def __init__(self, text: str = TEXT, shards: int = 2) -> None:
        self.catalog = parse_application(text)
        self.job = build_job(self.catalog, shards)
        self.runner = LocalRunner(self.job, encode=True)
        self._schema = self.catalog.stream("a").schema.arrow

    def tune(self, query: str, **changes: Any) -> None:
        self.runner.run({}, [tuning(self.job, query, changes)])

    def rows(self, stream: str, keys: list[int], ts: int) -> None:
        self._run(stream, [{"k": key, "ts": ts} for key in keys])

    def close(self, stream: str, keys: list[int], ts: int) -> None:
        self._run(stream, [{"ts": ts, "mark": f'{{"k": {key}}}'} for key in keys])

    def _run(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.runner.run({stream: pa.RecordBatch.from_pylist(rows, schema=self._schema)})
        self.runner.restore(self.runner.snapshot())  # what was decided is state

    def count(self, query: str, counter: str) -> int:
        (join,) = [join for join in tunable_joins(self.job) if query in join.queries]
        return self.runner.report()[join.operator][counter]


def test_a_limit_of_memory_makes_a_running_join_spill_and_answers_stay() -> None:
    tuned, plain = Tuned(), Tuned()
    for each in (tuned, plain):
        each.rows("a", list(range(40)), 1)
        if each is tuned:
            each.tune("Q", memory_bytes=4)
        each.rows("b", list(range(0, 40, 2)), 2)
    assert tuned.count("q", "spilled_rows") > 0
    assert plain.count("q", "spilled_rows") == tuned.count("other", "spilled_rows") == 0
    for each in (tuned, plain):
        each.runner.end()
    found, expected = (sorted(map(str, each.runner.collected.rows("q"))) for each in (tuned, plain))
    assert found == expected
    assert len(found) == 20


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("rows"), st.sampled_from("ab"), st.lists(st.integers(0, 5), max_size=4)),
            st.tuples(st.just("close"), st.sampled_from("ab"), st.lists(st.integers(6, 9), max_size=2)),
            st.tuples(st.just("tune"), st.just("memory_bytes"), st.sampled_from([None, 1, 200])),
            st.tuples(st.just("tune"), st.just("max_drop_markers"), st.integers(2, 5)),
        ),
        max_size=10,
    )
)
@settings(max_examples=25, deadline=None)
def test_p12_no_sequence_of_changes_changes_an_answer(steps: list[Any]) -> None:
    tuned, plain = Tuned(), Tuned()
    for ts, (kind, what, value) in enumerate(steps):
        if kind == "tune":
            tuned.tune("q", **{what: value})
        elif value:
            for each in (tuned, plain):
                getattr(each, kind)(what, value, ts)
    for each in (tuned, plain):
        each.runner.end()
    found, expected = (sorted(map(str, each.runner.collected.rows("q"))) for each in (tuned, plain))
    assert found == expected


@pytest.mark.parametrize(
    ("query", "changes", "message"),
    [
        ("nobody", {"memory_bytes": 1}, "there is no query 'nobody'; it has q, other"),
        ("q", {}, "nothing is to change"),
        ("q", {"memory_byte": 1}, "Did you mean 'memory_bytes'"),
        ("q", {"memory_bytes": 0}, "must be a whole number of at least 1"),
        ("q", {"max_drop_markers": None}, "must be a whole number of at least 2"),
        ("q", {"max_drop_markers": True}, "must be a whole number of at least 2"),
    ],
)
def test_mistakes_are_refused_before_a_shard_hears_of_them(query: str, changes: dict[str, Any], message: str) -> None:
    tuned = Tuned()
    with pytest.raises(InvalidConfiguration, match=message):
        tuning(tuned.job, query, changes)


def test_a_query_without_such_a_join_says_so() -> None:
    tuned = Tuned(f"{STREAMS} CREATE CQ q AS SELECT a.k FROM a;")
    with pytest.raises(InvalidConfiguration, match="it has no join on a key"):
        tuning(tuned.job, "q", {"memory_bytes": 1})


def test_a_decision_written_by_hand_is_checked_too() -> None:
    tuned = Tuned()
    check_decision(tuned.job, Control(0, "something else", {"rows": -1}))
    check_decision(tuned.job, Control(0, "join", {"memory_bytes": 3}))
    with pytest.raises(InvalidConfiguration):
        check_decision(tuned.job, Control(0, "join", {"to": ["WindowJoin1"], "memory_bytes": -1}))


# -- from another terminal --------------------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """The file of an application and, beside it, the checkpoint of a run."""
    file = tmp_path / "app.sql"
    file.write_text(TEXT)
    place = Checkpoint(tmp_path / "checkpoint")
    place.fixed_at_first_start("shards", 2)
    place.fixed_at_first_start("now_us", 0)
    place.settle_edition(Edition.first("app", TEXT, 0))
    return file


def test_the_command_writes_a_decision_into_the_log_of_the_run(started: Path) -> None:
    checkpoint = started.parent / "checkpoint"
    assert tune_application(str(started), "q", ["memory_bytes=7", "max_drop_markers=9"], checkpoint) == 0
    found = Checkpoint(checkpoint).control.read(0, 1)
    assert found == [("join", {"to": ["WindowJoin1"], "memory_bytes": 7, "max_drop_markers": 9})]


def test_the_command_refuses_other_checkpoints_plans_and_texts(started: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(UserError, match="the checkpoint of no run"):
        tune_application(str(started), "q", ["memory_bytes=7"], tmp_path / "nothing")
    with pytest.raises(InvalidOption, match="write name=value"):
        tune_application(str(started), "q", ["memory_bytes"], checkpoint)
    started.write_text(TEXT.replace("b.ts", "a.ts"))
    with pytest.raises(StateFormat, match="has other queries than"):
        tune_application(str(started), "q", ["memory_bytes=7"], checkpoint)
    assert len(ControlLog(checkpoint / "penstock" / "control")) == 0


def test_decisions_of_two_processes_get_numbers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ControlLog(tmp_path), ControlLog(tmp_path)
    stale = iter([0])
    first.append("one")
    # The second writer counts before the first one has written.
    monkeypatch.setattr(ControlLog, "__len__", lambda self: next(stale, 1))
    assert second.append("two") == 1
    assert [kind for kind, _ in first.read(0, 2)] == ["one", "two"]


@pytest.mark.parametrize("is_watched", [False, True])
def test_what_is_spilled_leaves_the_process_and_leaves_nothing_behind(is_watched: bool, tmp_path: Path) -> None:
    """The same answers from files as from memory, over a restart at every step; the files have no names."""
    found = []
    for hint in ("PJOIN(memory_bytes = 500)", "PJOIN"):
        catalog = parse_application(f"{STREAMS} CREATE CQ q AS {JOIN.format(hint=hint)};")
        job = build_job(catalog, 2)
        schema = catalog.stream("a").schema.arrow
        runner = LocalRunner(with_statistics(job) if is_watched else job, spill=tmp_path)
        for ts in range(6):
            rows = [{"k": 7 * ts + at, "ts": ts} for at in range(30)]
            runner.run({name: pa.RecordBatch.from_pylist(rows, schema=schema) for name in "ab"})
            runner.restore(runner.snapshot())
        (counted,) = [counters for name, counters in runner.report().items() if name.startswith("WindowJoin")]
        assert (counted["spilled_rows"] > 200) is ("memory" in hint)
        assert list(tmp_path.iterdir()) == []
        runner.end()
        found.append(sorted(map(str, runner.collected.rows("q"))))
    assert found[0] == found[1] != []
