"""Contracts on the driver: reports lead to decisions in the log, to a history, and to lines for people. No session is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from penstock.apps.why import why
from penstock.errors import UserError
from penstock.kernel.timing import AnswerTimes
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.elements import POLICY
from penstock.model.service import ChosenPolicy
from penstock.runners.editions.changes import changed
from penstock.runners.editions.edition import ADD, Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.contracts import ContractController
from penstock.runners.spark.driver.losses import Losses
from penstock.runners.spark.driver.policies import Policies
from penstock.runners.spark.driver.reports import BatchReport

TEXT = """
CREATE STREAM s (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 2);
CREATE CQ fast WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST) AS SELECT k FROM s;
CREATE CQ small WITH QOS (MEMORY <= '1 MB' BEST EFFORT) AS SELECT k, ts FROM s;
CREATE CQ free AS SELECT ts FROM s;
"""


class Bench:
    """A controller, and reports of a micro-batch every two seconds in which every answer is equally old."""

    def __init__(self, folder: Path, has_budget: bool = True) -> None:
        self.checkpoint, self.has_budget = Checkpoint(folder / "checkpoint"), has_budget
        self.job = looped(build_job(parse_application(TEXT), 2))
        self.epoch, self.policy = 0, "auto"
        self.controller = self.begin()

    def begin(self) -> ContractController:
        return ContractController(self.job, self.checkpoint, lambda: None, lambda: self.has_budget, Losses(self.checkpoint))

    def hear(self, latency_s: float, batches: int = 1) -> None:
        for _ in range(batches):
            said = Policies(self.checkpoint).current
            self.policy = said.name if said else self.policy
            times = AnswerTimes(rows=self.epoch + 1, age_ns=round((self.epoch + 1) * latency_s * 1e9))
            progress = {"timestamp": f"2026-01-01T00:{self.epoch // 30:02d}:{2 * self.epoch % 60:02d}.000Z"}
            report = BatchReport(self.epoch, 0, 0, times={"fast": times}, policy=self.policy, spark=progress)
            self.controller.hear(report)
            self.epoch += 1

    @property
    def chosen(self) -> list[str]:
        control = self.checkpoint.control
        return [detail["name"] for kind, detail in control.read(0, len(control)) if kind == POLICY]

    @property
    def actions(self) -> list[str]:
        return [entry["action"] for entry in self.checkpoint.history.entries()]


def test_a_broken_promise_chooses_another_strategy_and_says_why(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.hear(9, 5)
    assert bench.chosen == ["path_answers"]
    assert bench.actions[0] == "switch"
    assert "latency of 'fast' is worse than promised" in bench.checkpoint.history.entries()[0]["reason"]


def test_what_a_change_did_stands_behind_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.hear(9, 4)
    bench.hear(0.1, 8)
    assert bench.actions[:2] == ["switch", "effect"]


def test_without_a_budget_no_strategy_is_better_and_that_is_said_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, has_budget=False)
    bench.hear(9, 12)
    assert bench.chosen == []
    assert bench.actions == ["cannot"]


def test_a_strategy_chosen_by_hand_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    Policies(bench.checkpoint).wish(ChosenPolicy("segment"))
    bench.hear(9, 12)
    assert bench.chosen == ["segment"]


def test_a_restart_goes_on_with_what_was_chosen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.hear(9, 5)
    bench.controller = bench.begin()
    bench.hear(9, 12)
    assert bench.chosen == ["path_answers"]
    assert bench.checkpoint.recall("contracts")["own"] == "path_answers"


def test_applications_without_contracts_need_no_controller(tmp_path: Path) -> None:
    job = build_job(parse_application(TEXT.replace("WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST)", "").replace(
        "WITH QOS (MEMORY <= '1 MB' BEST EFFORT)", "")), 2)  # fmt: skip
    checkpoint = Checkpoint(tmp_path)
    assert not ContractController(job, checkpoint, lambda: None, lambda: True, Losses(checkpoint)).is_needed


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str | None], str]:
    bench = Bench(tmp_path)
    bench.hear(9, 12)
    file = tmp_path / "app.sql"
    file.write_text(TEXT)
    return lambda query: str(why(str(file), bench.checkpoint.directory, query))


def test_why_shows_measures_promises_reasons_and_scores(told: Callable[[str | None], str]) -> None:
    text = told(None)
    assert "another strategy: 'path_answers' instead of 'auto'" in text
    assert "    because latency of 'fast' is worse than promised; 'path_answers' suits that better than 'auto'" in text
    assert "promised 2.00 s MUST: broken" in text
    assert "small: memory" in text
    assert "    scores: path_answers 1, simple_segment 0.75" in text


def test_why_of_one_query_leaves_others_out(told: Callable[[str | None], str]) -> None:
    assert "small: memory" not in told("Fast")
    with pytest.raises(UserError, match="Did you mean 'fast'"):
        told("fasd")


def test_an_empty_history_says_why_it_is_empty(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "app.sql", Checkpoint(tmp_path / "checkpoint")
    checkpoint.control.append(POLICY, {"name": "fifo"})
    file.write_text(TEXT)
    assert "the run has not come so far" in str(why(str(file), checkpoint.directory))
    assert "query 'free' has no contract" in str(why(str(file), checkpoint.directory, "free"))
    assert why(str(file), checkpoint.directory).to_json() == []
    file.write_text("CREATE STREAM s (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 2); CREATE CQ free AS SELECT ts FROM s;")
    assert "no query has a contract" in str(why(str(file), checkpoint.directory))


def test_why_knows_queries_that_came_while_the_application_ran(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "app.sql", Checkpoint(tmp_path / "checkpoint")
    file.write_text(TEXT)
    first = Edition.first("app", TEXT, now_us=1)
    checkpoint.settle_edition(first)
    later, _ = changed(first, 2, later=[(ADD, "CREATE CQ late AS SELECT k FROM s;")], now_us=2)
    checkpoint.settle_edition(later)
    assert "query 'late' has no contract" in str(why(str(file), checkpoint.directory, "late"))


def test_why_without_a_run_says_so(tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(TEXT)
    with pytest.raises(UserError, match="is the checkpoint of no run"):
        why(str(file), tmp_path / "nowhere")


def test_a_changed_contract_counts_from_the_next_start() -> None:
    edition = Edition.first("app", TEXT, now_us=1)
    following, changes = changed(edition, 2, file=TEXT.replace("INTERVAL 2 SECONDS MUST", "INTERVAL 1 SECOND MUST"), now_us=2)
    assert set(changes.kept) == {"fast", "small", "free"}
    assert following.job(2).contracts["fast"].max_latency == 1.0
    later, _ = changed(following, 2, later=[("drop", "free")], now_us=3)
    assert set(later.job(2).contracts) == {"fast", "small"}
