"""A backlog of files gives the same answers however it is read: file by file, all at once, in any tasks, with restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

DISORDER = 4
TYPES = {"k": "BIGINT", "v": "BIGINT", "kind": "STRING", "seq": "BIGINT", "run": "BIGINT", "ts": "BIGINT", "mark": "STRING",
         "part": "BIGINT", "off": "BIGINT"}  # fmt: skip
SCHEMA = pa.schema([(name, pa.string() if kind == "STRING" else pa.int64()) for name, kind in TYPES.items()])
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
DECLARED = f"{COLUMNS}, ORDERED (seq), CLUSTERED (run), WATERMARK ts DELAY OF {DISORDER}"
FILES = "USING json OPTIONS (path 'in') PUNCTUATIONS FROM mark"
TOPIC = "USING kafka OPTIONS (subscribe 'topic') PUNCTUATIONS FROM mark PARTITIONED BY part POSITION off"

#: Every query reads `s`, some `t` as well.
QUERIES = {
    "sums": "SELECT window_start() AS since, k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 6, ADVANCE 3] GROUP BY k",
    "closed": "SELECT k, COUNT(*) AS n, MAX(v) AS top FROM s GROUP BY k",
    "in_order": "SELECT seq, COUNT(*) AS n FROM s GROUP BY seq",
    "runs": "SELECT run, COUNT(*) AS n FROM s GROUP BY run",
    "seen": "SELECT DISTINCT k, v FROM s [RANGE 5]",
    "pairs": "SELECT s.k, s.v, t.v AS w FROM s [RANGE 5], t [RANGE 3] WHERE s.k = t.k",
    "left_out": "SELECT s.k, s.v, t.v AS w FROM s [RANGE 5] LEFT JOIN t [RANGE 3] ON s.k = t.k",
    "keyed": "SELECT s.k, s.v, t.v AS w FROM s, t WHERE s.k = t.k",
    "both": "SELECT k FROM s [RANGE 5] UNION SELECT k FROM t [RANGE 5]",
    "rising": """SELECT k, first_v, n FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES FIRST(up.v) AS first_v, COUNT(up.*) AS n ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (down up+) DEFINE up AS v > PREV(v))""",
}
EVENTS = {
    "followed": "EVENT SEQ(A a, B b) FROM s TYPE kind WHERE [k] AND a.v < b.v WITHIN 5 RETURN a.k AS k, a.v AS v, b.v AS w",
    "missing": "EVENT SEQ(A a, !(B b), C c) FROM s TYPE kind WHERE [k] WITHIN 6 RETURN a.v AS v, c.v AS w",
}


@cache
def job(source: str, shards: int) -> Job:
    streams = "".join(f"CREATE STREAM {name} ({DECLARED}) {source};\n" for name in "st")
    queries = "".join(f"CREATE CQ {name} AS {text};\n" for name, text in {**QUERIES, **EVENTS}.items())
    return build_job(parse_application(streams + queries), shards)


@st.composite
def histories(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows as they were written: times within the bound and all different, `seq` ascending, `run` in runs, keys closed in truth."""
    number = draw(st.integers(2, 20))
    nudges = draw(st.lists(st.integers(-1, 1), min_size=number, max_size=number))
    rows: list[tuple[object, ...]] = []
    closed: set[int] = set()
    counts = [0, 0]

    def write(part: int, *values: object) -> None:
        rows.append((*values, part, counts[part]))
        counts[part] += 1

    # A row moves by one place at most, so times are at most two apart; the declared bound is larger.
    for at, time in enumerate(sorted(range(number), key=lambda place: place + nudges[place])):
        keys = [key for key in range(3) if key not in closed] or [9]
        key, part = draw(st.sampled_from(keys)), at if at < 2 else draw(st.integers(0, 1))
        write(part, key, draw(st.integers(0, 3)), draw(st.sampled_from("ABC")), at // 2, at // 5, time, None)
        if draw(st.integers(0, 9)) == 0 and key != 9:
            closed.add(key)
            for teller in (0, 1):  # every partition has to say it
                write(teller, None, None, None, None, None, None, f'{{"k": {key}}}' if teller else f'{{"k": [{key}]}}')
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def cut(rows: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    bounds = sorted({0, rows.num_rows, *(at for at in cuts if at < rows.num_rows)})
    return [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]


def answers(
    source: str, read: Sequence[dict[str, list[pa.RecordBatch]]], shards: int = 1, restarts: frozenset[int] = frozenset()
) -> dict[str, list[str]]:
    """Answers to all queries as bags; nothing may be refused."""
    runner = LocalRunner(job(source, shards), encode=True)
    for number, tasks in enumerate(read):
        runner.run(tasks)
        if number in restarts:
            runner.restore(runner.snapshot())
    runner.end()
    assert [(item.reason, item.batch.rows.to_pylist()) for item in runner.collected.refused] == []
    return {name: sorted(map(str, runner.collected.timed(name))) for name in runner.job.outputs}


@st.composite
def readings(draw: st.DrawFn, files: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
    """Micro-batches of whole files, older files first; within one, files are dealt to tasks in any order."""
    bounds = sorted({0, len(files), *draw(st.lists(st.integers(0, len(files)), max_size=3))})
    found = []
    for first, last in pairwise(bounds):
        mixed = draw(st.permutations(files[first:last]))
        starts = sorted({0, len(mixed), *draw(st.lists(st.integers(0, len(mixed)), max_size=2))})
        found.append([pa.concat_batches(mixed[begin:end]) for begin, end in pairwise(starts)])
    return found


def batches(read: Mapping[str, Sequence[list[pa.RecordBatch]]]) -> list[dict[str, list[pa.RecordBatch]]]:
    longest = max(map(len, read.values()), default=0)
    return [{name: found[at] for name, found in read.items() if at < len(found)} for at in range(longest)]


@given(
    left=histories(), right=histories(), cuts=st.lists(st.integers(0, 20), max_size=6), data=st.data(),
    shards=st.sampled_from([1, 2, 3]), restarts=st.frozensets(st.integers(0, 4)),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_a_backlog_gives_the_same_answers_however_its_files_are_read(
    left: pa.RecordBatch, right: pa.RecordBatch, cuts: list[int], data: st.DataObject, shards: int, restarts: frozenset[int]
) -> None:
    files = {"s": cut(left, cuts), "t": cut(right, cuts)}
    expected = answers(FILES, batches({name: [[file] for file in found] for name, found in files.items()}))
    read = batches({name: data.draw(readings(found)) for name, found in files.items()})
    assert answers(FILES, read, shards, restarts) == expected


def by_partition(rows: pa.RecordBatch) -> list[list[int]]:
    owners = rows.column("part").to_pylist()
    return [[at for at, owner in enumerate(owners) if owner == part] for part in (0, 1)]


@st.composite
def topic_readings(draw: st.DrawFn, rows: pa.RecordBatch) -> list[list[pa.RecordBatch]]:
    """Micro-batches that take each partition further by its own number of rows; tasks hold any of their rows in any order."""
    cuts = [sorted(draw(st.lists(st.integers(1, 24), min_size=4, max_size=4))) for _ in range(2)]
    found = []
    for at in range(5):
        chosen = []
        for places, ends in zip(by_partition(rows), cuts, strict=True):
            bounds = [0, *ends, len(places)]
            chosen += places[bounds[at] : bounds[at + 1]] if at < 4 else places[bounds[at] :]
        mixed = draw(st.permutations(chosen))
        split = draw(st.integers(0, len(mixed)))
        found.append([rows.take(pa.array(part, pa.int64())) for part in (mixed[:split], mixed[split:])])
    return found


@given(
    left=histories(), right=histories(), data=st.data(), shards=st.sampled_from([1, 2, 3]),
    restarts=st.frozensets(st.integers(0, 4)),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_a_backlog_gives_the_same_answers_however_far_each_partition_is_read_at_a_time(
    left: pa.RecordBatch, right: pa.RecordBatch, data: st.DataObject, shards: int, restarts: frozenset[int]
) -> None:
    tables = {"s": left, "t": right}
    expected = answers(TOPIC, [{name: [rows] for name, rows in tables.items()}])
    read = batches({name: data.draw(topic_readings(rows)) for name, rows in tables.items()})
    assert answers(TOPIC, read, shards, restarts) == expected
