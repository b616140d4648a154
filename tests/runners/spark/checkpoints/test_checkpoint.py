"""What Penstock keeps beside Spark's checkpoint: settled once, written whole, named when damaged, used by one run at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import CheckpointInUse, CheckpointMoved, DamagedRecord, StateFormat, StateUnwritable
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import LEARNT, SETTLED, Checkpoint
from penstock.runners.spark.checkpoints.lock import CheckpointLock, is_alive, is_held, read_holder
from penstock.runners.spark.checkpoints.records import copy_of, create_record, read_record, replace_record
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.app import App

TEXT = """
CREATE STREAM s (k BIGINT, v DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING rate;
CREATE CQ busy AS SELECT k, count(*) AS n FROM s [RANGE 30 SECONDS] GROUP BY k;
"""


def begun(folder: Path, text: str = TEXT) -> Checkpoint:
    """A checkpoint with progress, as a run leaves it."""
    place = Checkpoint(folder)
    place.identity("app")
    place.fixed_at_first_start("shards", 2)
    place.settle_edition(Edition.first("app", text, place.fixed_at_first_start("now_us", 1_777_000_000_000_000)))
    for log in ("offsets", "commits"):
        (folder / "spark" / log).mkdir(parents=True)
        (folder / "spark" / log / "0").write_text('v2\n{}\npenstock_control:{"decisions": 0}')
    return place


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b'{"value": 17', b"\xff\xfe"])
@pytest.mark.parametrize("name", [*SETTLED, *LEARNT, "control/0000000000.json"])
def test_a_damaged_record_is_named_before_spark_starts(tmp_path: Path, name: str, content: bytes) -> None:
    place = begun(tmp_path)
    place.control.append("budget", {"ns": 1})
    place.record(name).write_bytes(content)
    with pytest.raises(DamagedRecord, match=rf"(?s){place.record(name)}.*penstock doctor"):
        App.from_text(TEXT, "app").prepare(place)
    place.lock.take()  # which the refusal has given back
    place.lock.release()


@pytest.mark.parametrize("name", SETTLED)
def test_a_missing_record_is_not_made_anew(tmp_path: Path, name: str) -> None:
    place = begun(tmp_path)
    place.record(name).unlink()
    makers = {
        "identity": lambda: place.identity("app"),
        "shards": lambda: place.fixed_at_first_start("shards", 5),
        "now_us": lambda: place.fixed_at_first_start("now_us", 1),
        "plan": place.edition,
    }
    with pytest.raises(DamagedRecord, match="is missing"):
        makers[name]()
    # Those of earlier versions have no copies, and neither identity nor plan.
    copy_of(place.record(name)).unlink()
    if name == "identity":
        makers[name]()
    else:
        with pytest.raises(StateFormat if name == "plan" else DamagedRecord, match=r"is missing|format 2 or older"):
            makers[name]()


def test_half_a_number_is_no_number(tmp_path: Path) -> None:
    file = begun(tmp_path).record("now_us")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(DamagedRecord, match="cut short"):
        Checkpoint(tmp_path).recall("now_us")


def test_records_of_earlier_versions_are_read(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "shards").write_text("3")
    assert Checkpoint(tmp_path).fixed_at_first_start("shards", 8) == 3


def test_a_record_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "record"
    replace_record(file, {"a": 1})
    with pytest.raises(TypeError):
        replace_record(file, {"a": object()})
    assert read_record(file) == {"a": 1}
    assert not create_record(file, {"a": 2})
    assert read_record(file) == {"a": 1}
    assert os.listdir(tmp_path) == ["record"], "no drafts are left"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock").write_text("a file where a folder should be")
    for write in (lambda: Checkpoint(tmp_path).fixed_at_first_start("shards", 2), Checkpoint(tmp_path).lock.take):
        with pytest.raises(StateUnwritable, match=rf"(?s){tmp_path}/penstock.*cannot be written"):
            write()


def test_the_identity_stays_and_is_another_for_another_checkpoint(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "a").identity("app")
    assert Checkpoint(f"{tmp_path}/a/").identity("renamed") == first
    assert Checkpoint(tmp_path / "b").identity("app")["id"] != first["id"]


def test_another_application_hears_what_has_changed_before_spark_starts(tmp_path: Path) -> None:
    begun(tmp_path)
    wider = App.from_text(TEXT.replace("RANGE 30", "RANGE 40"), "app")
    with pytest.raises(StateFormat, match=r"(?s)query 'busy': .*30 seconds.*, now .*40 seconds.*--reset busy"):
        wider.prepare(Checkpoint(tmp_path))
    place = Checkpoint(tmp_path)
    wider.prepare(place, reset=["busy"])
    place.lock.release()


def test_a_changed_text_is_told_apart_query_by_query(tmp_path: Path) -> None:
    place = begun(tmp_path)
    more = TEXT + "CREATE CQ idle AS SELECT k FROM s WHERE v < 0;"
    edition, changes = App.from_text(more, "app").following(place)
    assert (changes.kept, changes.fresh) == (("busy",), ("idle",))
    place.settle_edition(edition)
    assert place.control.read(0, 1)[0][0] == "plan"
    assert place.edition() == edition
    _, changes = App.from_text(TEXT, "app").following(place)
    assert (changes.kept, changes.dropped) == (("busy",), ("idle",))


def test_a_plan_of_an_earlier_version_is_refused_by_its_state_format(tmp_path: Path) -> None:
    place = begun(tmp_path)
    replace_record(place.record("plan"), {"plan": "c0ffee", "streams": ["s"]})
    with pytest.raises(StateFormat, match="holds state format 2 or older, this Penstock reads format"):
        App.from_text(TEXT, "app").prepare(place)


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_a_missing_decision_is_named_and_nobody_waits_for_it(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    assert [log.append("budget", {"ns": rows}) for rows in (1, 2, 3)] == [0, 1, 2]
    log.file(1).unlink()
    assert log.append("budget", {"ns": 4}) == 3
    with pytest.raises(DamagedRecord, match=r"0000000001\.json'\nthe file is missing, and with it decision 1 of 4"):
        log.read(0, len(log))
    log.file(2).write_text("")
    with pytest.raises(DamagedRecord, match=r"(?s)0000000002\.json.*is empty"):
        log.read(2, 3)


def test_tune_names_the_decision_that_is_missing(tmp_path: Path) -> None:
    text = TEXT + "CREATE CQ pairs AS SELECT /*+ PJOIN */ a.k FROM s a, s b WHERE a.k = b.k;"
    (tmp_path / "app.sql").write_text(text)
    place = begun(tmp_path / "checkpoint", text)
    for rows in (1, 2):
        place.control.append("budget", {"ns": rows})
    place.control.file(0).unlink()
    command = ["tune", str(tmp_path / "app.sql"), "pairs", "memory_bytes=50", "--checkpoint", str(place.directory)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "0000000000.json" in result.stderr
    assert "defect" not in result.stderr


# -- one run at a time -------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from penstock.runners.spark.checkpoints.lock import CheckpointLock
CheckpointLock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    file = tmp_path / "penstock" / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert is_held(file)
        with pytest.raises(CheckpointInUse, match=rf"(?s)checkpoint '{tmp_path}'.*process {process.pid} on "):
            CheckpointLock(file).take()
        assert is_alive(read_holder(file))
        process.send_signal(signal.SIGKILL)
    assert not is_held(file)
    assert not is_alive(read_holder(file))
    lock = CheckpointLock(file)
    lock.take()
    assert read_holder(file)["pid"] == os.getpid()
    lock.release()


def test_a_number_of_a_process_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path / "lock")
    lock.take()
    holder = read_holder(lock.file)
    assert is_alive(holder)
    assert not is_alive({**holder, "started": "1"})
    assert is_alive({**holder, "host": "elsewhere", "pid": 1}), "who can tell"
    lock.release()


def test_without_locks_the_process_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have none."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    lock = CheckpointLock(tmp_path / "penstock" / "lock")
    lock.take()
    holder = dict(read_holder(lock.file))
    lock.release()
    monkeypatch.setattr(fcntl, "flock", refuse)
    for gone in ({**holder, "started": "1"}, {}):
        lock.file.write_text(json.dumps(gone))
        lock.take()
        lock.release()
    lock.file.write_text(json.dumps({**holder, "host": "elsewhere"}))
    with pytest.raises(CheckpointInUse, match=rf"on elsewhere.*certainly gone, remove '{lock.file}'"):
        lock.take()


def test_a_run_that_has_ended_without_a_stop_gives_its_lock_up(tmp_path: Path) -> None:
    first, second = CheckpointLock(tmp_path / "lock"), CheckpointLock(tmp_path / "lock")
    first.take()
    with pytest.raises(CheckpointInUse):
        second.take()
    first.has_ended = lambda: True
    second.take()
    second.release()


# -- another place -----------------------------------------------------------------------------------------------------


def with_state(checkpoint: Path) -> Path:
    """What Spark writes of paths."""
    file = checkpoint / "spark" / "state" / "0" / "_metadata" / "v2" / "0"
    file.parent.mkdir(parents=True)
    path = f"file:{checkpoint}/spark/state/0/_stateSchema/default/0_c0ffee"
    file.write_text("v2\n" + json.dumps({"stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [path]}]}))
    file.with_name(".0.crc").write_bytes(b"crc")
    return file


def test_a_moved_checkpoint_says_so_and_what_helps(tmp_path: Path) -> None:
    begun(tmp_path / "old")
    with_state(tmp_path / "old")
    App.from_text(TEXT, "app").prepare(place := Checkpoint(tmp_path / "old"))
    place.lock.release()
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(CheckpointMoved, match=rf"moved or copied here from '{tmp_path}/old'.*doctor {tmp_path}/new --repair"):
        App.from_text(TEXT, "app").prepare(Checkpoint(tmp_path / "new"))
    (tmp_path / "old").symlink_to(tmp_path / "new")  # a way back
    for name in ("old", "new"):
        App.from_text(TEXT, "app").prepare(place := Checkpoint(tmp_path / name))
        place.lock.release()
