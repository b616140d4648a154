"""Reports of micro-batches as people read them; no Spark session is needed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.driver.counters import set_aside
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.run_history import BatchStatus, RunHistory
from penstock.runners.spark.processes.java_process import keeping_handler
from penstock.runners.spark.terminal.display import Ending, LiveTable, PlainLines, headline, make_display
from penstock.runners.spark.terminal.foreground import redirected
from penstock.runners.spark.terminal.interrupts import interruptible

TEXT = """
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 2) USING feed;
CREATE CQ totals AS SELECT k, sum(v) AS total FROM s [RANGE 10] GROUP BY k;
CREATE CQ large AS SELECT k, v FROM s WHERE v > 5;
"""
BATCHES = ([(1, 1, 0), (1, 9, 4)], [(2, 3, 12), (2, 7, 1), (1, 4, 13)], [(1, 1, 30)])


class Source:
    """Reports like Spark's, from a local run of the same stages."""

    def __init__(self, text: str = TEXT) -> None:
        self.catalog = parse_application(text, "journal")
        self.runner = LocalRunner(build_job(self.catalog, 2))
        self.epoch = 0

    def next(self, rows: list[tuple[int, int, int]]) -> BatchReport:
        columns = [pa.array(list(column), pa.int64()) for column in zip(*rows, strict=True)]
        self.runner.run({"s": pa.RecordBatch.from_arrays(columns, names=["k", "v", "ts"])})
        counted = self.runner.report()
        entries = {name: found for name, found in counted.items() if "read" in found}
        operators = {name: found for name, found in counted.items() if name not in entries}
        progress = {"timestamp": f"2026-01-01T00:00:{2 * self.epoch:02d}.000Z"}
        report = BatchReport(self.epoch, 500, len(rows), operators, entries, spark=progress)
        self.epoch += 1
        return report


@pytest.fixture
def heard() -> tuple[RunHistory, list[BatchStatus]]:
    source = Source()
    history = RunHistory("journal", source.runner.job)
    reports = [source.next(rows) for rows in BATCHES]
    # Spark tells recent batches again and again.
    return history, [*history.hear(reports[:1]), *history.hear(reports[:2]), *history.hear(reports)]


def test_each_batch_counts_once(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    history, statuses = heard
    assert [status.epoch for status in statuses] == [0, 1, 2]
    assert [status.rows for status in statuses] == [2, 3, 1]
    assert history.summary().rows == 6


def test_whoever_holds_time_back_is_named_in_the_table_the_lines_the_data_and_at_the_end() -> None:
    source = Source("""
        CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 2) PARTITIONED BY v INTO 2 PARTITIONS;
        CREATE CQ totals AS SELECT k, sum(v) AS total FROM s [RANGE 10] GROUP BY k;
    """)
    history = RunHistory("journal", source.runner.job)
    reports = [source.next([(1, 0, 10 * number)]) for number in range(4)]  # 2 s apart, and partition 1 brings nothing
    for number, report in enumerate(reports):
        report.holding = {"s@1.0": {"partition": 1, "promise": -(2**63), "furthest": 10 * number}}
    statuses = history.hear(reports)
    text = "s is held back by partition 1 of s since 6 s (it has brought nothing yet)"
    assert [held["text"] for held in statuses[-1].to_json()["held"]] == [text]
    table, lines, ending = io.StringIO(), io.StringIO(), io.StringIO()
    live = LiveTable(Console(file=table, force_terminal=True, width=140, height=40), "demo")
    live.show(statuses, 7, lambda most: {})
    live.close()
    PlainLines(Console(file=lines)).show(statuses, 7, lambda most: {})
    Ending(history.summary(), "ended").print_to(Console(file=ending, width=140))
    for out in (table, lines, ending):
        assert text in out.getvalue()


def test_a_run_that_goes_on_counts_its_own_rows_from_its_first_batch_on() -> None:
    source = Source()
    reports = [source.next(rows) for rows in BATCHES]
    history = RunHistory("journal", source.runner.job)
    assert [status.rows for status in history.hear(reports[1:])] == [3, 1]
    assert history.summary().rows == 4
    assert {reader.read for reader in history.summary().readers} == {6}  # since the checkpoint began


def test_a_row_that_several_entries_refuse_counts_once_since_the_checkpoint_began() -> None:
    source = Source()
    for rows in (*BATCHES, [(1, 9, 2), (None, 8, 40)]):
        report = source.next(rows)
        source.runner.restore(source.runner.snapshot())
    heard = [kernel.report()["set_aside"] for kernel in source.runner.kernels.values()]
    late = [reasons["late"] for each in heard for reasons in each.values() if "late" in reasons]
    assert sum(late) == 4, "two rows are late at two entries each"
    totals: dict[str, dict[str, int]] = {}
    for each in heard:
        for owner, reasons in each.items():
            totals[owner] = dict(Counter(totals.get(owner, {})) + Counter(reasons))
    assert set_aside(source.runner.job, replace(report, set_aside=totals)) == {"late": 2}
    history = RunHistory("journal", source.runner.job)
    (status,) = history.hear([replace(report, set_aside=totals)])
    assert status.refused == {"late": 2}
    assert "late 2, quarantined 2" in headline(status)


def test_latency_begins_when_the_batch_before_was_begun(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    _, statuses = heard
    assert [status.latency_ms for status in statuses] == [500, 2500, 2500]
    assert statuses[1].rows_per_second == 1.5


def test_every_row_is_used_filtered_or_quarantined(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    history, _ = heard
    readers = {reader.queries: reader for reader in history.summary().readers}
    totals, large = readers["totals",], readers["large",]
    assert (totals.read, totals.used, totals.filtered, totals.late) == (6, 5, 0, 1)
    assert (large.read, large.used + large.filtered + large.quarantined) == (6, 6)
    assert history.summary().is_complete


def test_queries_and_state_are_tallied(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    history, statuses = heard
    rows_out = {query.query: query.rows_out for query in statuses[-1].queries}
    assert rows_out["totals"] == 3
    assert statuses[0].state_rows > 0
    assert history.summary().peak_state_rows == max(status.state_rows for status in statuses)


def samples(most: int) -> dict[str, list[dict[str, Any]]]:
    return {"totals": [{"k": 1, "total": 10}] * most}


def test_lines_show_the_newest_batch_and_a_sample(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    _, statuses = heard
    out = io.StringIO()
    PlainLines(Console(file=out)).show(statuses, 7, samples)
    assert headline(statuses[-1]) in out.getvalue()
    assert "totals: k=1 total=10" in out.getvalue()


def test_the_live_table_shows_queries_operators_and_samples(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    _, statuses = heard
    out = io.StringIO()
    table = LiveTable(Console(file=out, force_terminal=True, width=140, height=40), "demo")
    table.show([], 1, samples)
    table.show(statuses, 7, samples)
    table.close()
    drawn = out.getvalue()
    assert "first batch" in drawn
    for text in ("rows in", "GroupBy", "last answers", "k=1 total=10"):
        assert text in drawn


def test_a_pipe_gets_lines_and_a_terminal_a_table() -> None:
    assert isinstance(make_display(Console(file=io.StringIO()), "demo"), PlainLines)
    terminal = Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(make_display(terminal, "demo"), LiveTable)
    assert isinstance(make_display(terminal, "demo", is_plain=True), PlainLines)


def test_the_ending_shows_that_nothing_is_lost(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    history, _ = heard
    out = io.StringIO()
    Ending(history.summary(), "ended").print_to(Console(file=out, width=140))
    assert "ended: 3 batches" in out.getvalue()
    assert "✓" in out.getvalue()
    assert "✗" not in out.getvalue()


def test_rows_set_aside_are_told_by_reason_and_what_constraints_spared() -> None:
    source = Source()
    history = RunHistory("journal", source.runner.job)
    heard = [{"GroupBy1": {"constraint_violated": total}} for total in (1, 3, 6)]
    reports = [replace(source.next(rows), set_aside=each) for each, rows in zip(heard, BATCHES, strict=True)]
    reports[-1].operators["GroupBy1"] |= {"failed_traces": 9, "skipped": 40}
    statuses = [*history.hear(reports[:1]), *history.hear(reports)]
    assert [status.refused for status in statuses] == [{"constraint_violated": total} for total in (1, 3, 6)]
    assert headline(statuses[-1]).endswith("6 broke a constraint")
    out = io.StringIO()
    Ending(history.summary(), "ended").print_to(Console(file=out, width=140))
    assert "rows in the quarantine since the checkpoint began, by reason: 6 constraint_violated" in out.getvalue()
    assert "gave up 9 traces that could not match any more, and passed over 40 of their events" in " ".join(out.getvalue().split())


def test_lines_say_once_that_the_first_batch_takes_longer(heard: tuple[RunHistory, list[BatchStatus]]) -> None:
    _, statuses = heard
    out = io.StringIO()
    lines = PlainLines(Console(file=out))
    for news in ([], [], statuses):
        lines.show(news, 7, samples)
    assert out.getvalue().count("first batch is under way") == 1


JOINED = """
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0) USING feed;
CREATE CQ pairs AS SELECT x.v, y.v AS w FROM s x [RANGE 4], s y [ROWS 3] WHERE x.k = y.k;
"""


def test_the_summary_sets_estimated_beside_measured_state_of_joins() -> None:
    source = Source(JOINED)
    history = RunHistory("journal", source.runner.job)
    for start in range(0, 40, 4):
        history.hear([source.next([(at % 3, at, at) for at in range(start, start + 4)])])
    (join,) = history.summary().joins
    assert join.measured_rows > 0
    (found,) = json.loads(json.dumps(history.summary().to_json()))["joins"]
    assert found["operator"] == "WindowJoin1"
    assert found["estimated_rows"] == 4 + 3  # a row for each unit of time, and three rows
    assert found["peak_rows"] == join.peak_rows
    out = io.StringIO()
    Ending(history.summary(), "ended").print_to(Console(file=out, width=140))
    assert "state of WindowJoin1: about 7 rows estimated" in out.getvalue()


def test_a_run_without_batches_has_a_summary() -> None:
    out = io.StringIO()
    Ending(RunHistory("empty", Source().runner.job).summary(), "stopped").print_to(Console(file=out))
    assert "stopped: 0 batches" in out.getvalue()


def test_redirected_output_of_child_processes_goes_into_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "deep" / "spark.log"
    with redirected(log, 1, 2):
        subprocess.run([sys.executable, "-c", "import sys; print('chatter'); print('noise', file=sys.stderr)"], check=True)
    print("answer", flush=True)
    assert sorted(log.read_text().split()) == ["chatter", "noise"]
    assert capfd.readouterr() == ("answer\n", "")


def test_a_handler_outlives_work_that_installs_its_own_in_the_main_thread() -> None:
    """As the creation of a session does, whose handler would wait for a question that is under way."""
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda *_: pytest.fail("the other handler was called"))
        os.kill(os.getpid(), signal.SIGINT)

    with interruptible(at_once=lambda: None) as interrupt:
        keeping_handler(work)
        assert interrupt.wait(5)
        with pytest.raises(ZeroDivisionError):
            keeping_handler(lambda: 1 // 0)
        assert signal.getsignal(signal.SIGINT) is interrupt
    assert signal.getsignal(signal.SIGINT) is before


def test_the_first_signal_is_a_wish_and_the_second_an_order() -> None:
    before, ordered = signal.getsignal(signal.SIGINT), []
    with interruptible(at_once=lambda: ordered.append("now")) as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.wait(5)
        assert interrupt.signal == signal.SIGINT
        assert not ordered
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert ordered == ["now"]
    assert signal.getsignal(signal.SIGINT) is before
