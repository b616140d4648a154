"""A directory of answers has one checkpoint that writes to it; others are refused, or go on beside it under other names."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import ForeignDirectory, InvalidDeclaration, SharedDirectory
from penstock.language.application import parse_application
from penstock.model.batch import Batch
from penstock.model.declarations import Destination
from penstock.model.elements import Quarantined
from penstock.runners.destinations import refuse_shared_directories
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.quarantine import Quarantine, write_refused
from penstock.runners.spark.data_path.sinks import Binding, FormatSink, make_sink
from penstock.runners.spark.ownership.claims import Writer, check_claim, claim
from penstock.runners.spark.ownership.directories import check_local_directories
from penstock.runners.spark.ownership.folders import ArrowFolder, LocalFolder

ANSWERS = "answers of query 'busy'"


def writer(folder: Path, name: str = "checkpoint", content: str = ANSWERS) -> Writer:
    return Checkpoint(folder / name).writer("app", content)


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"k": [1, 2]}), folder / name / "part-0.parquet")


@pytest.mark.parametrize("kind", [LocalFolder, lambda path: ArrowFolder(f"file://{path}")])
def test_the_first_checkpoint_owns_a_directory_and_others_are_refused_or_marked(tmp_path: Path, kind: type[LocalFolder]) -> None:
    out, first, second = kind(tmp_path / "out"), writer(tmp_path), writer(tmp_path, "other")
    assert claim(out, first, append=False) == ""
    assert claim(out, first, append=False) == "", "it is the owner of what it owns"
    write(tmp_path / "out", "epoch=0000000000")
    with pytest.raises(ForeignDirectory, match=rf"answers of query 'busy'.*{tmp_path}/checkpoint.*--append"):
        check_claim(out, second, append=False)
    check_claim(out, second, append=True)
    assert list(out.claims()) == ["owner"], "a check writes nothing"
    mark = claim(out, second, append=True)
    assert mark == second.mark != ""
    assert claim(out, second, append=False) == mark, "a continued run needs no --append"
    assert claim(out, first, append=True) == ""


def test_a_checkpoint_deleted_and_made_anew_at_the_same_path_is_another_one(tmp_path: Path) -> None:
    out = LocalFolder(tmp_path / "out")
    claim(out, writer(tmp_path), append=False)
    write(tmp_path / "out", "epoch=0000000000")
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(ForeignDirectory, match="no longer there"):
        claim(out, writer(tmp_path), append=False)


def test_an_empty_directory_of_a_checkpoint_that_is_gone_belongs_to_the_next_one(tmp_path: Path) -> None:
    """A first start failed, its checkpoint was removed: there is nothing that could be lost."""
    out = LocalFolder(tmp_path / "out")
    claim(out, writer(tmp_path), append=False)
    with pytest.raises(ForeignDirectory):
        claim(out, writer(tmp_path, "other"), append=False)
    shutil.rmtree(tmp_path / "checkpoint")
    again = writer(tmp_path)
    assert claim(out, again, append=False) == ""
    assert again.is_in(out.claims()["owner"])


def test_a_checkpoint_that_was_moved_keeps_its_directories_and_tells_where_it_is(tmp_path: Path) -> None:
    out = LocalFolder(tmp_path / "out")
    claim(out, writer(tmp_path), append=False)
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    assert claim(out, writer(tmp_path, "moved"), append=False) == ""
    with pytest.raises(ForeignDirectory, match=f"Continue with --checkpoint {tmp_path}/moved"):
        claim(out, writer(tmp_path, "other"), append=False)


def test_another_query_of_the_same_checkpoint_is_another_writer(tmp_path: Path) -> None:
    out = LocalFolder(tmp_path / "out")
    claim(out, writer(tmp_path), append=False)
    with pytest.raises(ForeignDirectory, match="of this very checkpoint"):
        claim(out, writer(tmp_path, content="answers of query 'other'"), append=False)


def progress(checkpoint: Path, last: int) -> None:
    (checkpoint / "spark" / "offsets").mkdir(parents=True)
    (checkpoint / "spark" / "offsets" / str(last)).write_text("v1\n{}\n")


@pytest.mark.parametrize(("planned", "is_own"), [(7, True), (6, True), (5, False), (None, False)])
def test_directories_without_names_are_adopted_by_the_checkpoint_that_can_have_written_them(
    tmp_path: Path, planned: int | None, is_own: bool
) -> None:
    """Earlier versions wrote no names: their checkpoint has progress and no identity, and has planned what is there."""
    write(tmp_path / "out", "epoch=0000000002", "epoch=0000000006")
    if planned is not None:
        progress(tmp_path / "checkpoint", planned)
    out = LocalFolder(tmp_path / "out")
    if is_own:
        assert claim(out, writer(tmp_path), append=False) == ""
    else:
        with pytest.raises(ForeignDirectory, match="carry no name"):
            claim(out, writer(tmp_path), append=False)
        assert claim(out, writer(tmp_path), append=True)


def test_a_claim_that_cannot_be_read_is_somebody_else_s(tmp_path: Path) -> None:
    out = LocalFolder(tmp_path / "out")
    claim(out, writer(tmp_path), append=False)
    (tmp_path / "out" / "_penstock" / "owner").write_text('{"id": "12')
    with pytest.raises(ForeignDirectory, match="cannot be read"):
        claim(out, writer(tmp_path), append=False)


def test_of_two_that_claim_at_the_same_time_one_owns_it(tmp_path: Path) -> None:
    """The other sees an empty directory, and the claim of the first when it writes its own."""

    class Overtaken(LocalFolder):
        def create_claim(self, name: str, claim: dict[str, object]) -> bool:  # type: ignore[override]
            LocalFolder(self.path).create_claim(name, writer(tmp_path).claim())
            return super().create_claim(name, claim)

    with pytest.raises(ForeignDirectory):
        claim(Overtaken(tmp_path / "out"), writer(tmp_path, "other"), append=False)


def test_readers_see_the_answers_of_all_writers_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    folder, second = LocalFolder(out), writer(tmp_path, "other")
    claim(folder, writer(tmp_path), append=False)
    mark = claim(folder, second, append=True)
    write(out, "epoch=0000000000", "epoch=0000000001", f"epoch=0000000000-{mark}")
    assert pq.read_table(out).num_rows == 6
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{out}/**/*.parquet')").fetchall() == [(6,)]
    assert len(list(out.glob("epoch=*/*.parquet"))) == 3


@dataclass
class World:
    """Two paths for checkpoints and one directory of answers; who has written which file."""

    folder: Path
    written: dict[str, str] = field(default_factory=dict)
    refusals: int = 0

    def run(self, name: str, epochs: int, append: bool) -> None:
        """Repeat the last micro-batch, as after a crash, and add more; every answer must be in a file of this checkpoint."""
        place = Checkpoint(self.folder / name)
        own = place.writer("app", ANSWERS)
        try:
            mark = claim(LocalFolder(self.folder / "out"), own, append)
        except ForeignDirectory:
            assert not append
            self.refusals += 1
            return
        last = place.last("offsets")
        for epoch in range(last or 0, (-1 if last is None else last) + 1 + epochs):
            (place.directory / "spark" / "offsets").mkdir(parents=True, exist_ok=True)
            (place.directory / "spark" / "offsets" / str(epoch)).write_text("v1")
            path = f"epoch={epoch:010d}{f'-{mark}' if mark else ''}"
            if not (self.folder / "out" / path).exists():
                (self.folder / "out" / path).mkdir(parents=True)
                self.written[path] = own.id
            assert self.written[path] == own.id, "an answer met the file of another checkpoint and was lost"

    def delete(self, name: str, *_: object) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def swap(self, *_: object) -> None:
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            if (self.folder / old).exists():
                (self.folder / old).rename(self.folder / new)

    def clear(self, *_: object) -> None:
        """Answers are taken away; what is known of their writers stays."""
        for path in (self.folder / "out").glob("epoch=*"):
            path.rmdir()
        self.written.clear()

    def remove(self, *_: object) -> None:
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.written.clear()


STEPS = st.tuples(
    st.sampled_from([World.run] * 4 + [World.delete, World.swap, World.clear, World.remove]),
    st.sampled_from("ab"),
    st.integers(1, 3),
    st.booleans(),
)


@settings(deadline=None, max_examples=50)
@given(steps=st.lists(STEPS, max_size=12))
@example(steps=[(World.run, "a", 2, False), (World.run, "b", 2, False), (World.run, "b", 2, True), (World.run, "a", 1, False)])
@example(steps=[(World.run, "a", 2, False), (World.delete, "a", 1, False), (World.run, "a", 2, True), (World.run, "a", 2, False)])
def test_whatever_is_started_deleted_and_moved_no_answer_meets_the_file_of_another_checkpoint(
    steps: list[tuple[Callable[..., None], str, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for step, *arguments in steps:
            step(world, *arguments)


SHARED = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING rate;
CREATE CQ a AS SELECT k FROM s OUTPUT TO parquet OPTIONS (path '{a}');
CREATE CQ b AS SELECT k FROM s OUTPUT TO json OPTIONS (path '{b}');
"""


@pytest.mark.parametrize("other", ["{0}/out", "{0}/out/", "file:{0}/out", "file://{0}//out", "{0}/x/../out", "{0}/link"])
def test_two_queries_with_one_directory_are_refused_however_it_is_written(tmp_path: Path, other: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    paths = {"a": f"{tmp_path}/out", "b": other.format(tmp_path)}
    with pytest.raises(SharedDirectory, match=r"query 'a' and answers of query 'b'.*UNION ALL"):
        refuse_shared_directories(parse_application(SHARED.format(**paths)))


def test_a_relative_path_and_the_quarantine_are_directories_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SharedDirectory):
        refuse_shared_directories(parse_application(SHARED.format(a="out", b=tmp_path / "out")))
    legal = parse_application(SHARED.format(a="out", b="hdfs://node/out"))
    refuse_shared_directories(legal, "refused")
    with pytest.raises(SharedDirectory, match="quarantined rows and answers of query 'a'"):
        refuse_shared_directories(legal, str(tmp_path / "out"))
    with pytest.raises(SharedDirectory):
        refuse_shared_directories(parse_application(SHARED.format(a="hdfs://node/out/", b="hdfs://node//out")))


def test_what_lies_here_is_checked_before_spark_starts(tmp_path: Path) -> None:
    catalog = parse_application(SHARED.format(a=tmp_path / "a", b=tmp_path / "b"))
    claim(LocalFolder(tmp_path / "refused"), writer(tmp_path, "other", "quarantined rows"), append=False)
    place = Checkpoint(tmp_path / "checkpoint")
    check_local_directories(catalog, place, str(tmp_path / "mine"), append=False)
    with pytest.raises(ForeignDirectory, match="quarantined rows"):
        check_local_directories(catalog, place, str(tmp_path / "refused"), append=False)
    check_local_directories(catalog, place, str(tmp_path / "refused"), append=True)


def test_delta_knows_micro_batches_by_checkpoint_query_and_destination() -> None:
    delta = Destination("delta", {"path": "/tables/busy"})

    def transaction(checkpoint: str, query: str = "busy", number: int = 0) -> str:
        sink = make_sink(query, delta, {}, Binding(checkpoint, number=number))
        assert isinstance(sink, FormatSink)
        options = sink.options_of(3)
        assert options["txnVersion"] == "3"
        return options["txnAppId"]

    names = [transaction("one"), transaction("two"), transaction("one", "idle"), transaction("one", number=1)]
    assert len(set(names)) == 4
    assert transaction("one") == names[0]
    with pytest.raises(InvalidDeclaration, match="txnAppId"):
        make_sink("busy", Destination("delta", {"path": "/tables/busy", "txnAppId": "mine"}), {}, Binding("one"))


def test_files_of_refused_rows_are_called_after_the_query_where_several_may_share_a_directory(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"k": [1]})
    refused = [Quarantined(Batch(rows, np.zeros(1, np.int64), np.zeros(1, np.int64)), "late", "too late", "s")]
    names = {write_refused(str(tmp_path), 0, 1, 0, refused, query) for query in ("one", "two", "one")}
    assert len(names) == 2
    assert (
        Path(write_refused(Quarantine(str(tmp_path), ""), 0, 1, 0, refused, "one")).name
        == "epoch=0000000000-stage=1-shard=0.parquet"
    )
    assert write_refused(Quarantine(str(tmp_path), "mark"), 0, 1, 0, refused, "one").endswith("shard=0-mark.parquet")
    assert pq.read_table(tmp_path).num_rows == 4


def test_a_claim_says_in_plain_text_who_writes_there(tmp_path: Path) -> None:
    claim(LocalFolder(tmp_path / "out"), writer(tmp_path), append=False)
    known = json.loads((tmp_path / "out" / "_penstock" / "owner").read_text())
    assert known["checkpoint"] == str(tmp_path / "checkpoint")
    assert known["content"] == ANSWERS
    assert known["application"] == "app"
