"""The kernel of one shard: budgets, ends, metrics, snapshots, policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import StateFormat
from penstock.expressions.parse import parse
from penstock.kernel.contracts import Operator, State
from penstock.kernel.executor import Answer, Kernel
from penstock.kernel.graph import Graph, GraphNode
from penstock.kernel.ingress import EntrySpec
from penstock.kernel.packets import Packet
from penstock.kernel.segments import FORMAT, decode_meta, decode_segment, encode_meta, encode_segment
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.batch import Batch
from penstock.model.elements import Control, Elements, End, Heartbeat, Metadata
from penstock.operators.select import Select
from penstock.operators.split import Split
from penstock.operators.union import Union
from penstock.qos.scheduling.table import make_policy
from penstock.runners.local.runner import LocalRunner

SCHEMA = pa.schema({"x": pa.int64()})


def rows(*values: int) -> Batch:
    return Batch(pa.RecordBatch.from_pydict({"x": list(values)}, SCHEMA), np.array(values), np.array(values))


class Recorder:
    """Passes rows on and writes down what it hears; a real operator with a memory of its calls."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_batch(self, port: int, batch: Batch) -> Elements:
        self.heard.append(f"{port}:{batch.column('x').to_pylist()}")
        return (batch,)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        self.heard.append(f"{port}:{type(mark).__name__}")
        return () if isinstance(mark, End) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        self.heard.append(decision.kind)
        return ()

    def snapshot(self) -> State:
        return State({"heard": list(self.heard)})

    def restore(self, state: State) -> None:
        self.heard = list(state.meta["heard"])

    def counters(self) -> Mapping[str, int]:
        return {"state_rows": 0, "heard": len(self.heard)}


def select(text: str) -> Any:
    return lambda: Select(SCHEMA, parse(text))


def kernel_of(*nodes: tuple[str, Any, tuple[str, ...], str], outputs: Mapping[str, str], clock: Any = None) -> Kernel:
    """A graph from (name, maker, sources, queries); sources and outputs are `node` or `node.output`."""

    def port(text: str) -> tuple[str, str]:
        name, _, output = text.partition(".")
        return name, output

    made = tuple(
        GraphNode(name, make, tuple(map(port, sources)), frozenset(queries.split())) for name, make, sources, queries in nodes
    )
    graph = Graph(made, (EntrySpec("in", "in", SCHEMA),), {name: port(source) for name, source in outputs.items()})
    return Kernel(graph, make_policy, "round_robin", **({"clock": clock} if clock else {}))


def feed(kernel: Kernel, *values: int, **control: Any) -> None:
    controls = [Control(0, kind, detail) for kind, detail in control.items()]
    kernel.feed([Packet("in", batch=rows(*values) if values else None, newest=max(values, default=0))], controls)


def answers(kernel: Kernel) -> list[tuple[str, int]]:
    found, _ = kernel.take()
    return [
        (answer.output, x) for answer in found if isinstance(answer.element, Batch) for x in answer.element.column("x").to_pylist()
    ]


def reborn(kernel: Kernel, make: Any) -> Kernel:
    state = kernel.snapshot()
    meta = decode_meta(encode_meta(state.meta, "f"), "f")
    fresh: Kernel = make()
    fresh.restore(State(meta, {key: decode_segment(encode_segment(part)) for key, part in state.segments.items()}))
    return fresh


# -- budget -----------------------------------------------------------------------------------------------------------


def two_steps() -> Kernel:
    return kernel_of(("low", select("x > 1"), ("in",), "q"), ("high", select("x < 9"), ("low",), "q"), outputs={"q": "high"})


def test_a_budget_leaves_work_in_the_queues_and_later_batches_finish_it() -> None:
    kernel = two_steps()
    feed(kernel, *range(10), budget={"ns": 4_000})
    kernel.run()
    first = answers(kernel)
    assert kernel.waiting_rows > 0
    for _ in range(20):
        kernel = reborn(kernel, two_steps)
        kernel.run()
        first += answers(kernel)
    assert kernel.is_idle
    assert first == [("q", x) for x in range(2, 9)]


def test_each_batch_does_the_budgeted_number_of_rows_and_a_replay_the_same() -> None:
    kernel = two_steps()
    feed(kernel, *range(10), budget={"ns": 3_000})
    saved = kernel.snapshot()
    kernel.run()
    done = sum(work["rows_in"] for work in kernel.report()["operators"].values())
    assert done == 3
    replay = two_steps()
    replay.restore(saved)
    replay.run()
    assert replay.snapshot().meta["work:low"]["queue"] == kernel.snapshot().meta["work:low"]["queue"]
    assert answers(replay) == answers(kernel)


def test_a_budget_of_nothing_still_makes_progress() -> None:
    kernel = two_steps()
    feed(kernel, 5, 6, budget={"ns": 0})
    for _ in range(10):
        kernel.run()
    assert answers(kernel) == [("q", 5), ("q", 6)]


def test_without_a_budget_a_batch_drains_the_queues() -> None:
    kernel = two_steps()
    feed(kernel, *range(10), budget={"ns": 1_000})
    kernel.run()
    feed(kernel, budget={"ns": None})
    kernel.run()
    assert kernel.is_idle


# -- ends -------------------------------------------------------------------------------------------------------------


def shared() -> Kernel:
    """Two queries share A and B; C is the first one's, D the second one's."""
    return kernel_of(
        ("A", Recorder, ("in",), "q1 q2"),
        ("B", Recorder, ("A",), "q1 q2"),
        ("C", Recorder, ("B",), "q1"),
        ("D", Recorder, ("B",), "q2"),
        outputs={"q1": "C", "q2": "D"},
    )


def test_g17_a_shared_operator_runs_until_its_last_query_ends() -> None:
    kernel = shared()
    feed(kernel, 1, end={"query": "q1"})
    kernel.run()
    assert answers(kernel) == [("q1", 1), ("q2", 1)]
    assert kernel.nodes == ("A", "B", "D")
    kernel = reborn(kernel, shared)
    feed(kernel, 2)
    kernel.run()
    assert answers(kernel) == [("q2", 2)]
    feed(kernel, 3, end={"query": "q2"})
    kernel.run()
    assert answers(kernel) == [("q2", 3)]
    assert kernel.nodes == ()


def test_an_end_follows_all_earlier_rows_and_is_heard_once_by_the_last_user() -> None:
    kernel = shared()
    feed(kernel, 1, end={"query": "q1"})
    kernel.run()
    operators: dict[str, Operator] = {name: work.operator for name, work in kernel._running.items()}
    assert isinstance(operators["A"], Recorder)
    assert operators["A"].heard == ["end", "0:[1]", "0:Heartbeat"]  # others still use it: its state is not final
    found: list[Answer] = kernel.take()[0]
    assert [type(answer.element).__name__ for answer in found if answer.output == "q1"] == ["Batch", "Heartbeat", "End"]


def test_an_operator_with_two_inputs_waits_for_both_ends() -> None:
    kernel = kernel_of(
        ("one", select("x > 0"), ("in",), "q"), ("two", select("x > 1"), ("in",), "q"), ("both", Recorder, ("one", "two"), "q"),
        outputs={"q": "both"},
    )  # fmt: skip
    feed(kernel, 1, 2, end={})
    kernel.run()
    work = kernel._running["both"].operator
    assert isinstance(work, Recorder)
    assert work.heard.count("0:End") == 1
    assert work.heard[-1] == "0:End"


def test_the_end_of_everything_promises_that_nothing_comes() -> None:
    kernel = two_steps()
    feed(kernel, 5, end={})
    kernel.run()
    found, _ = kernel.take()
    marks = [answer.element for answer in found if not isinstance(answer.element, Batch)]
    assert marks == [Heartbeat(5), Heartbeat(2**63 - 1), End()]


BUDGETED = """
CREATE STREAM l (ts BIGINT, k BIGINT, WATERMARK ts DELAY OF 0) USING feed;
CREATE CQ first AS SELECT k, count(*) AS n FROM l [RANGE 2] GROUP BY k;
CREATE CQ second AS SELECT n, count(*) AS m FROM first [RANGE 10] GROUP BY n;
"""


def test_an_end_does_not_overtake_rows_that_a_budget_holds_back_in_an_earlier_stage() -> None:
    table = pa.RecordBatch.from_pydict({"ts": list(range(20)), "k": [at % 3 for at in range(20)]})
    found = []
    for budget in (None, 1):
        runner = LocalRunner(build_job(parse_application(BUDGETED), 2))
        runner.run({"l": table}, [Control(0, "budget", {"ns": budget and budget * 30_000})])
        runner.end()
        assert runner.collected.refused == []
        found.append(sorted(map(str, runner.collected.timed("second"))))
    assert found[0] == found[1]
    assert found[0]


def test_ending_one_of_two_queries_leaves_the_other_running_across_stages() -> None:
    runner = LocalRunner(build_job(parse_application(BUDGETED), 3), encode=True)
    runner.run({"l": pa.RecordBatch.from_pydict({"ts": [0, 1, 2], "k": [1, 1, 2]})})
    runner.end("second")
    runner.restore(runner.snapshot())
    runner.run({"l": pa.RecordBatch.from_pydict({"ts": [6, 7], "k": [5, 5]})})
    runner.end()
    assert sorted(row["k"] for row in runner.collected.rows("first")) == [1, 2, 5]
    running = {name for kernel in runner.kernels.values() for name in kernel.nodes}
    assert running == {node.id for node in runner.job.stages[0].graph.nodes}


# -- routes, metrics, state -------------------------------------------------------------------------------------------


def test_a_split_sends_rows_to_their_outputs_and_promises_to_all() -> None:
    branches = [("odd", parse("x % 2 = 1")), ("large", parse("x > 5"))]
    kernel = kernel_of(
        ("split", lambda: Split(SCHEMA, branches), ("in",), "a b"), ("rest", Recorder, ("split.large",), "b"),
        outputs={"a": "split.odd", "b": "rest"},
    )  # fmt: skip
    feed(kernel, 1, 4, 7, 8)
    kernel.run()
    report = kernel.report()["operators"]["split"]
    found, _ = kernel.take()
    by_output = {
        name: [x for a in found if a.output == name and isinstance(a.element, Batch) for x in a.element.column("x").to_pylist()]
        for name in "ab"
    }
    assert by_output == {"a": [1, 7], "b": [7, 8]}
    assert [a.output for a in found if isinstance(a.element, Heartbeat)] == ["a", "b"]
    assert report["unmatched"] == 1


def test_metrics_count_rows_time_queues_and_state() -> None:
    ticks = iter(range(0, 10_000, 5))
    kernel = kernel_of(("only", select("x > 1"), ("in",), "q"), outputs={"q": "only"}, clock=lambda: next(ticks))
    feed(kernel, 1, 2, 3)
    assert kernel.report()["operators"]["only"]["queue_rows"] == 3
    kernel.run()
    report = kernel.report()
    only = report["operators"]["only"]
    assert (only["rows_in"], only["rows_out"], only["queue_rows"]) == (3, 2, 0)
    assert only["ns"] == 10  # one batch and one heartbeat, five nanoseconds each on this clock
    assert report["entries"]["in"]["used"] == 3
    assert report["entries"]["in"]["frontier"] == 3


def test_queued_elements_of_every_kind_survive_a_restart() -> None:
    def make() -> Kernel:
        return kernel_of(("both", lambda: Union(2, SCHEMA), ("in", "in"), "q"), outputs={"q": "both"})

    kernel = make()
    feed(kernel, 1, 2, end={})
    kernel = reborn(kernel, make)
    assert kernel.waiting_rows == 4
    kernel.run()
    assert answers(kernel) == [("q", 1), ("q", 2), ("q", 1), ("q", 2)]


def test_a_segment_is_written_once_and_never_changes() -> None:
    kernel = two_steps()
    feed(kernel, *range(10), budget={"ns": 2_000})
    seen: dict[str, pa.RecordBatch] = {}
    for _ in range(12):
        kernel.run()
        for key, part in kernel.snapshot().segments.items():
            assert seen.setdefault(key, part).equals(part)
    assert len(seen) > 3


def test_state_of_another_format_or_plan_is_refused_with_advice() -> None:
    text = encode_meta({"a": 1}, "plan1")
    assert decode_meta(text, "plan1") == {"a": 1}
    with pytest.raises(StateFormat, match=r"belongs to another plan.*have changed.*new checkpoint"):
        decode_meta(text, "plan2")
    with pytest.raises(StateFormat, match=r"holds state format 99.*restart with the version that wrote it"):
        decode_meta(text.replace(f'"format":{FORMAT}', '"format":99'), "plan1")


def test_the_fingerprint_of_a_plan_is_stable_and_feels_every_change() -> None:
    def fingerprint(text: str, shards: int = 2) -> str:
        return build_job(parse_application(text), shards).fingerprint

    assert fingerprint(BUDGETED) == fingerprint(BUDGETED)
    changed = [
        BUDGETED.replace("RANGE 2", "RANGE 3"),
        BUDGETED.replace("k BIGINT", "k INT"),
        BUDGETED.replace("count(*) AS n", "max(k) AS n"),
        BUDGETED.replace("[RANGE 2] GROUP", "[RANGE 2] WHERE k > 1 GROUP"),
        BUDGETED.replace("[RANGE 2] GROUP", "[RANGE 2] WHERE k > 2 GROUP"),
    ]
    assert len({fingerprint(BUDGETED), fingerprint(BUDGETED, 3), *map(fingerprint, changed)}) == 7


class Closed:
    """A gate that lets no row with an odd number pass."""

    def admit(self, batch: Batch) -> Batch:
        return batch.filter(batch.column("x").to_numpy() % 2 == 0)


def test_a_gate_keeps_rows_from_one_operator_and_metadata_from_none() -> None:
    kernel = kernel_of(
        ("open", Recorder, ("in",), "a"), ("guarded", Recorder, ("in",), "b"), outputs={"a": "open", "b": "guarded"}
    )  # fmt: skip
    kernel.gates["guarded", 0] = Closed()
    for values in ((1, 2, 3), (5, 7), (8,)):
        feed(kernel, *values)
        kernel.run()
    heard = [kernel.snapshot().meta[f"node:{name}"]["heard"] for name in ("open", "guarded")]
    assert heard[0] == ["0:[1, 2, 3]", "0:Heartbeat", "0:[5, 7]", "0:Heartbeat", "0:[8]", "0:Heartbeat"]
    assert heard[1] == ["0:[2]", "0:Heartbeat", "0:Heartbeat", "0:[8]", "0:Heartbeat"]
