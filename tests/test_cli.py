"""The command line as a user meets it; nothing here starts Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock import __version__
from penstock.apps.running import parse_conf, writes_to_console
from penstock.cli import app
from penstock.errors import InvalidOption
from penstock.language.application import parse_application
from penstock.lowering.capacity import queries_key
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint

BOUNDED = """
CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING rate;
CREATE CQ busy AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] GROUP BY item;
"""
UNBOUNDED = BOUNDED + "CREATE CQ pairs AS SELECT a.item, b.price FROM bid a, bid b WHERE a.item = b.item;"


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def bounded(tmp_path: Path) -> str:
    file = tmp_path / "bounded.sql"
    file.write_text(BOUNDED)
    return str(file)


@pytest.fixture
def unbounded(tmp_path: Path) -> str:
    file = tmp_path / "unbounded.sql"
    file.write_text(UNBOUNDED)
    return str(file)


def test_version_prints_the_version() -> None:
    assert penstock("version").stdout == f"penstock {__version__}\n"


def test_without_a_command_the_commands_are_listed() -> None:
    result = penstock()
    for command in ("run", "explain", "check", "demo", "version"):
        assert command in result.output


def test_check_says_what_bounds_the_state(bounded: str) -> None:
    result = penstock("check", bounded)
    assert result.exit_code == 0
    assert "busy" in result.stdout
    assert "bounded" in result.stdout


def test_check_of_unbounded_state_exits_with_one(unbounded: str) -> None:
    result = penstock("check", unbounded)
    assert result.exit_code == 1
    assert "unbounded" in result.stdout


def test_check_and_explain_hand_out_json(bounded: str, unbounded: str) -> None:
    assert json.loads(penstock("check", bounded, "--json").stdout)
    assert json.loads(penstock("check", unbounded, "--json").stdout)
    assert json.loads(penstock("explain", bounded, "--json").stdout)


def test_explain_shows_stages_and_shards(bounded: str) -> None:
    result = penstock("explain", bounded, "--shards", "3")
    assert result.exit_code == 0
    assert "3 shards" in result.stdout
    assert "GroupBy item" in result.stdout


def test_examples_are_known_by_name() -> None:
    result = penstock("check", "auction")
    assert result.exit_code == 0
    assert "bids_per_item" in result.stdout


def test_a_missing_file_is_answered_with_the_nearest_name(bounded: str) -> None:
    result = penstock("explain", bounded.replace("bounded.sql", "boundd.sql"))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert f"Did you mean '{bounded}'?" in result.stderr
    assert not result.stdout


def test_a_directory_is_no_application(tmp_path: Path) -> None:
    result = penstock("check", str(tmp_path))
    assert result.exit_code == 2
    assert "is a directory" in result.stderr


def test_an_unknown_demo_is_answered_with_the_nearest_name() -> None:
    result = penstock("demo", "aucton")
    assert result.exit_code == 2
    assert "Did you mean 'auction'?" in result.stderr


def test_an_unknown_policy_is_answered_with_the_nearest_name(bounded: str) -> None:
    result = penstock("run", bounded, "--policy", "round_robbin")
    assert result.exit_code == 2
    assert "Did you mean 'round_robin'?" in result.stderr


def test_the_policy_of_an_option_may_have_parameters(bounded: str) -> None:
    result = penstock("explain", bounded, "--policy", "threshold(memory='200 MB')")
    assert result.exit_code == 0, result.stderr
    assert "200.0 MB" in result.stdout
    for wrong in ("threshold", "threshold(memory='no')", "threshold(memory='1 MB', memory='1 MB')"):
        assert penstock("run", bounded, "--policy", wrong).exit_code == 2


def test_explain_refuses_a_policy_by_deadlines_without_a_validity(bounded: str) -> None:
    result = penstock("explain", bounded, "--policy", "deadline")
    assert result.exit_code == 2
    assert "no query says how long" in result.stderr


def test_a_mistake_in_the_text_is_shown_at_its_place_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text(BOUNDED.replace("SELECT item", "SELECT itm"))
    result = penstock("check", str(file))
    assert result.exit_code == 2
    assert "line 3" in result.stderr
    assert "^^^" in result.stderr
    assert "Did you mean 'item'?" in result.stderr
    assert "Traceback" not in result.output


def test_debug_may_stand_anywhere_and_lets_the_exception_through(tmp_path: Path) -> None:
    for arguments in (["--debug", "check", "nowhere.sql"], ["check", "nowhere.sql", "--debug"]):
        result = penstock(*arguments)
        assert result.exception is not None
        assert type(result.exception).__name__ == "NoSuchFile"


def test_a_wrong_setting_is_named_before_spark_starts(bounded: str) -> None:
    result = penstock("run", bounded, "--conf", "spark.driver.memory")
    assert result.exit_code == 2
    assert "key=value" in result.stderr


def test_settings_may_hold_equals_signs() -> None:
    assert parse_conf(["spark.driver.extraJavaOptions=-Da=b"]) == {"spark.driver.extraJavaOptions": "-Da=b"}
    with pytest.raises(InvalidOption):
        parse_conf(["=x"])


def test_answers_on_the_console_and_a_table_in_place_exclude_each_other() -> None:
    assert not writes_to_console(parse_application(BOUNDED))
    assert writes_to_console(parse_application(BOUNDED.replace("GROUP BY item;", "GROUP BY item OUTPUT TO console;")))


def test_reading_commands_do_not_import_spark(bounded: str) -> None:
    script = (
        "import sys; from typer.testing import CliRunner; from penstock.cli import app\n"
        f"for command in (['version'], ['check', {bounded!r}], ['explain', {bounded!r}]):\n"
        "    assert CliRunner().invoke(app, command).exit_code == 0, command\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "False\n"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "penstock", "version"], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == f"penstock {__version__}\n"


def test_tune_writes_a_decision_for_the_run_of_a_checkpoint_and_refuses_mistakes(tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "joined.sql", tmp_path / "checkpoint"
    file.write_text(UNBOUNDED.replace("SELECT a.item", "SELECT /*+ XJOIN */ a.item"))
    given = ("tune", str(file), "pairs", "--checkpoint", str(checkpoint))
    result = penstock(*given, "memory_bytes=5")
    assert result.exit_code == 2
    assert "the checkpoint of no run" in result.stderr
    place = Checkpoint(checkpoint)
    place.fixed_at_first_start("shards", 2)
    place.settle_edition(Edition.first("joined", file.read_text(), 0))
    assert "Did you mean 'memory_bytes'" in penstock(*given, "memory_byte=5").stderr
    result = penstock(*given, "memory_bytes=5")
    assert result.exit_code == 0
    assert result.stdout == "decision 0: the next micro-batch of 'pairs' obeys it\n"
    (decision,) = (checkpoint / "penstock" / "control").glob("*.json")
    assert json.loads(decision.read_text())["detail"]["memory_bytes"] == 5


def test_check_refuses_a_hint_that_would_stop_the_run(tmp_path: Path) -> None:
    file = tmp_path / "hinted.sql"
    file.write_text("""
      CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0) USING feed OPTIONS (workload 'pairs', stream 'left');
      CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0) USING feed OPTIONS (workload 'pairs', stream 'right');
      CREATE CQ q AS SELECT /*+ PWJOIN(sprad = TRUE) */ a.k FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k;
    """)
    result = penstock("check", str(file))
    assert result.exit_code == 2
    assert "Did you mean 'spread'?" in result.output


def test_output_that_nobody_reads_to_its_end_is_no_fault() -> None:
    """`penstock explain auction | head` closes the pipe after a few lines."""
    command = [sys.executable, "-m", "penstock", "explain", "auction"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert done.returncode == 141  # as of a program that SIGPIPE has ended


FED = """
CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING rate;
CREATE CQ busy AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] GROUP BY item OUTPUT TO parquet OPTIONS (path 'out');
"""


def measured_checkpoint(folder: Path, file: str) -> Path:
    """As a run leaves it that has measured micro-batches."""
    place = Checkpoint(folder / "checkpoint")
    place.fixed_at_first_start("shards", 2)
    batches = [[rows, 0.2 + 2e-5 * rows] for rows in range(1_000, 21_000, 1_000)]
    job = looped(build_job(parse_application(Path(file).read_text()), 2))
    operators = [node.id for node in job.stages[0].graph.nodes]
    price = {"row_ns": 4_000.0, "selectivity": 0.5, "row_bytes": 40, "call_rows": 1e3, "call_ns": 0.0, "rate": 5e3}
    costs = {
        "cores": 2, "shards": 2, "plan": queries_key(job), "batches": batches, "rates": {"bid": 5_000.0}, "shares": {},
        "state": {operators[0]: [100, 2e6]}, "prices": {name: [price] for name in operators},
    }  # fmt: skip
    place.remember("costs", costs)
    return folder / "checkpoint"


def test_plan_predicts_with_the_costs_of_a_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "fed.sql"
    file.write_text(FED)
    checkpoint = measured_checkpoint(tmp_path, str(file))
    arguments = ("plan", str(file), "--checkpoint", str(checkpoint), "--rate", "bid=20000")
    found = json.loads(penstock(*arguments, "--json").stdout)
    assert found["load"] == pytest.approx(0.4)
    assert found["highest_rate"] == pytest.approx(50_000)
    assert found["queries"][0]["latency_s"] == pytest.approx(0.5, rel=1e-3)
    assert found["estimated"] == []
    text = penstock(*arguments, "--memory", "10 MB", "--figure", str(tmp_path / "plan.png"))
    assert text.exit_code == 0
    for part in (
        "application fed: bid 20,000/s; 2 cores",
        "20 micro-batches",
        "highest sustainable rate: 50,000 rows/s (2.50 times)",
        "what ends first: memory at",
        "busy",
    ):
        assert part in text.stdout
    assert (tmp_path / "plan.png").stat().st_size > 5_000
    slower = json.loads(penstock(*arguments, "--json", "--trigger", "1 second", "--cores", "4").stdout)
    assert slower["load"] == pytest.approx(0.2)
    assert slower["queries"][0]["latency_s"] == pytest.approx(0.5 + 0.2 + 0.2, rel=1e-3)
    assert "4 cores" in slower["estimated"][0]


def test_plan_says_that_more_rows_come_than_can_be_processed(tmp_path: Path) -> None:
    file = tmp_path / "fed.sql"
    file.write_text(FED)
    checkpoint = measured_checkpoint(tmp_path, str(file))
    result = penstock("plan", str(file), "--checkpoint", str(checkpoint), "--rate", "bid=100000")
    assert result.exit_code == 1
    assert "OVERLOADED" in result.stdout
    assert "drop 50.0 % of the rows" in result.stdout
    assert "needed: 5 cores" in result.stdout


def test_plan_without_measurements_marks_estimates(bounded: str) -> None:
    result = penstock("plan", bounded, "--trial", "0", "--rate", "bid=1000")
    assert result.exit_code == 0
    assert "costs: assumed, as nothing is measured" in result.stdout
    assert "estimated, not measured" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "bid"), "'bid' is no rate; write stream=rows"),
        (("--rate", "bid=many"), "'bid=many' is no rate"),
        (("--rate", "bids=1"), "stream 'bids', which no query reads"),
        ((), "nobody knows how many rows of bid come"),
        (("--checkpoint", "nowhere"), "'nowhere' is the checkpoint of no run"),
        (("--checkpoint", "nowhere", "--trial", "5 s"), "give --checkpoint or --trial, not both"),
        (("--rate", "bid=1", "--trigger", "soon"), "'soon' is no duration"),
    ],
)
def test_plan_refuses_what_it_cannot_plan(bounded: str, arguments: tuple[str, ...], said: str) -> None:
    trial = () if "--checkpoint" in arguments else ("--trial", "0")
    result = penstock("plan", bounded, *arguments, *trial)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
