"""`penstock doctor` names every damage of a checkpoint and repairs what can be repaired without guessing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_checkpoint import TEXT, begun, with_state
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import CheckpointInUse, ForeignDirectory, UserError
from penstock.runners.destinations import QUARANTINE
from penstock.runners.spark.checkpoints.checkpoint import SETTLED, Checkpoint
from penstock.runners.spark.checkpoints.doctor import examine, repair
from penstock.runners.spark.checkpoints.records import copy_of
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.ownership.claims import claim
from penstock.runners.spark.ownership.folders import LocalFolder


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"}


def starts(checkpoint: Path) -> None:
    App.from_text(TEXT, "app").prepare(place := Checkpoint(checkpoint))
    place.lock.release()


def test_a_checkpoint_in_order_is_left_alone(tmp_path: Path) -> None:
    begun(tmp_path)
    before = files(tmp_path)
    assert examine(tmp_path).is_healthy
    assert repair(tmp_path).repaired == ()
    assert files(tmp_path) == before
    assert "in order" in str(examine(tmp_path))


@pytest.mark.parametrize("content", [None, b"", b"\0\0", b'{"value": 1'])
@pytest.mark.parametrize("name", SETTLED)
def test_a_record_is_restored_from_its_copy(tmp_path: Path, name: str, content: bytes | None) -> None:
    place = begun(tmp_path)
    before = place.record(name).read_bytes()
    if content is None:
        place.record(name).unlink()
    else:
        place.record(name).write_bytes(content)
    (finding,) = examine(tmp_path).findings
    assert finding.file == place.record(name)
    assert finding.repair
    assert "restores it from its copy" in str(examine(tmp_path))
    diagnosis = repair(tmp_path)
    assert diagnosis.is_healthy
    assert [found.file for found in diagnosis.repaired] == [place.record(name)]
    assert place.record(name).read_bytes() == before
    starts(tmp_path)


@pytest.mark.parametrize(("name", "can_be"), [("identity", True), ("plan", False), ("shards", True), ("now_us", False)])
def test_records_of_earlier_versions_have_no_copies(tmp_path: Path, name: str, can_be: bool) -> None:
    place = begun(tmp_path)
    conf = {"conf": {"spark.sql.shuffle.partitions": "2"}}
    (tmp_path / "spark" / "offsets" / "0").write_text(f'v2\n{json.dumps(conf)}\npenstock_control:{{"decisions": 0}}')
    for other in SETTLED:
        copy_of(place.record(other)).unlink()
    place.record(name).write_bytes(b"")
    (finding,) = examine(tmp_path).findings
    assert (finding.repair is not None) is can_be
    assert repair(tmp_path).is_healthy is can_be
    if can_be:
        starts(tmp_path)


def test_a_damaged_copy_is_copied_again(tmp_path: Path) -> None:
    copy = copy_of(begun(tmp_path).record("plan"))
    before = copy.read_bytes()
    copy.write_bytes(b"{")
    assert not examine(tmp_path).is_healthy
    assert repair(tmp_path).is_healthy
    assert copy.read_bytes() == before


def test_what_was_learnt_may_be_learnt_again_and_drafts_go(tmp_path: Path) -> None:
    place = begun(tmp_path)
    place.record("orders").write_text("{")
    place.control.append("budget", {"ns": 1})
    (place.control.directory / ".0000000001.json.c0ffee.draft").write_text("{")
    assert len(examine(tmp_path).findings) == 2
    assert repair(tmp_path).is_healthy
    assert not place.record("orders").exists()


def planned(checkpoint: Path, decisions: int, is_committed: bool) -> None:
    (checkpoint / "spark" / "offsets" / "1").write_text(f'v2\n{{}}\npenstock_control:{{"decisions": {decisions}}}')
    if is_committed:
        (checkpoint / "spark" / "commits" / "1").write_text("v1\n{}")


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_decisions_are_repaired_unless_a_batch_that_is_to_be_repeated_needs_them(tmp_path: Path, damage: str) -> None:
    def damaged(folder: str, number: int, decisions: int, is_committed: bool) -> Checkpoint:
        place = begun(tmp_path / folder)
        for rows in (1, 2, 3):
            place.control.append("budget", {"ns": rows})
        planned(place.directory, decisions, is_committed)
        if damage == "missing":
            place.control.file(number).unlink()
        else:
            place.control.file(number).write_bytes(b"")
        (finding,) = examine(place.directory).findings
        assert finding.file == place.control.file(number)
        return place

    carried = damaged("carried", 1, 3, is_committed=True)
    assert repair(carried.directory).is_healthy
    # Whoever looks for the last budget finds that there is none.
    assert [kind for kind, _ in carried.control.read(0, 5)] == ["budget", "continue", "budget", "budget", "memory"]
    assert carried.control.read(3, 4) == [("budget", {"ns": None})]
    ahead = damaged("ahead", 1, 1, is_committed=True)
    assert repair(ahead.directory).is_healthy
    assert ahead.control.read(1, 2) == [("continue", {})]
    repeated = damaged("repeated", 1, 3, is_committed=False)
    assert not repair(repeated.directory).is_healthy
    assert "backup" in str(examine(repeated.directory))


def test_a_change_of_the_queries_is_restored_from_its_copy(tmp_path: Path) -> None:
    place = begun(tmp_path)
    edition, _ = App.from_text(TEXT + "CREATE CQ more AS SELECT k FROM s;", "app").following(place)
    place.settle_edition(edition)
    planned(tmp_path, 1, is_committed=False)
    place.control.file(0).write_bytes(b"")
    assert repair(tmp_path).is_healthy
    assert place.edition() == edition


def test_files_of_spark_are_named_and_not_touched(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "spark" / "offsets" / "1").write_bytes(b"")
    before = files(tmp_path)
    diagnosis = repair(tmp_path)
    assert [finding.file for finding in diagnosis.findings] == [tmp_path / "spark" / "offsets" / "1"]
    assert "cannot be repaired" in str(diagnosis)
    assert files(tmp_path) == before


def test_a_moved_checkpoint_gets_its_new_path_and_keeps_its_name(tmp_path: Path) -> None:
    identity = begun(tmp_path / "old").identity("app")
    file = with_state(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    assert "was moved here from" in str(examine(tmp_path / "new"))
    assert repair(tmp_path / "new").is_healthy
    file = tmp_path / "new" / file.relative_to(tmp_path / "old")
    assert f"file:{tmp_path}/new/spark/state/0/_stateSchema" in file.read_text()
    assert not file.with_name(".0.crc").exists()
    assert Checkpoint(tmp_path / "new").identity("app") == {**identity, "directory": str(tmp_path / "new")}
    starts(tmp_path / "new")


def test_a_copied_checkpoint_gets_a_name_of_its_own(tmp_path: Path) -> None:
    """Both would write micro-batches under one name, and each would take the other's for its own."""
    original = begun(tmp_path / "old")
    with_state(tmp_path / "old")
    claim(LocalFolder(tmp_path / "out"), original.writer("app", "answers"), append=False)
    (tmp_path / "out" / "epoch=0000000000").mkdir()
    inside = original.writer("app", QUARANTINE)
    claim(LocalFolder(tmp_path / "old" / "quarantine"), inside, append=False)
    (tmp_path / "old" / "quarantine" / "epoch=0000000000-stage=1-shard=0.parquet").touch()
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    assert "was copied from" in str(examine(tmp_path / "copy"))
    assert repair(tmp_path / "copy").is_healthy
    starts(tmp_path / "copy")
    starts(tmp_path / "old")
    copied = Checkpoint(tmp_path / "copy").writer("app", "answers")
    with pytest.raises(ForeignDirectory):
        claim(LocalFolder(tmp_path / "out"), copied, append=False)
    assert claim(LocalFolder(tmp_path / "out"), copied, append=True)


def test_nothing_is_repaired_under_the_feet_of_a_run(tmp_path: Path) -> None:
    place = begun(tmp_path)
    place.record("shards").write_bytes(b"")
    place.lock.take()
    assert "a run is using the checkpoint" in str(examine(tmp_path))
    with pytest.raises(CheckpointInUse):
        repair(tmp_path)
    place.lock.release()


def test_the_command_answers_with_text_data_and_exit_codes(tmp_path: Path) -> None:
    place = begun(tmp_path / "checkpoint")
    command = ["doctor", str(place.directory)]
    assert CliRunner().invoke(app, command).exit_code == 0
    place.record("shards").write_bytes(b"")
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["findings"][0]["can_be_repaired"]
    assert place.record("shards").read_bytes() == b""
    result = CliRunner().invoke(app, [*command, "--repair"])
    assert result.exit_code == 0
    assert "repaired: " in result.stdout
    assert CliRunner().invoke(app, ["doctor", str(tmp_path / "nowhere")]).exit_code == 2
    with pytest.raises(UserError, match="of no run"):
        examine(tmp_path)
