"""Whatever a source sends, the query goes on: every row is used, filtered or kept apart with its reason."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings

from penstock.kernel.damage import CALENDAR
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.elements import Quarantined
from penstock.model.schema import TIMESTAMP
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.data_path.quarantine import write_refused

COLUMNS = "k BIGINT, name STRING, day DATE, seen TIMESTAMP, v DOUBLE, ts TIMESTAMP, mark STRING, part BIGINT, off BIGINT"
KINDS = (
    ("k", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("seen", TIMESTAMP), ("v", pa.float64()), ("ts", TIMESTAMP),
    ("mark", pa.string()), ("part", pa.int64()), ("off", pa.int64()),
)  # fmt: skip
APPLICATION = """
CREATE STREAM s ({columns}, CLUSTERED (day), WATERMARK ts DELAY OF INTERVAL 5 SECONDS) {source}
  PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE CQ groups AS SELECT name, day, COUNT(*) AS n, MAX(seen) AS last FROM s [RANGE 10 SECONDS] GROUP BY name, day;
CREATE CQ closed AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
CREATE CQ pairs AS SELECT a.name, b.seen FROM s a [RANGE 5 SECONDS], s b [RANGE 5 SECONDS] WHERE a.k = b.k AND upper(b.name) <> 'X';
CREATE CQ known AS SELECT DISTINCT name, seen FROM s [RANGE 5 SECONDS] WHERE v > 1;
"""
SOURCES = ("USING json OPTIONS (path 'in')", "USING kafka OPTIONS (subscribe 'topic') PARTITIONED BY part POSITION off")

EXTREMES = (0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 253402300800000000, -62135596800000001)
#: Times outside the calendar.
IMPOSSIBLE = (2**63 - 1, -(2**63), 2**62, -(2**62), 253402300800000000, -62135596800000001)
VALID = (
    '{"k": 7}', '{"k": [7, 8]}', '{"k": {"range": [1, 9]}}', '{"name": "a"}', '{"day": "2026-01-01"}', '{"v": 1.5}', "{}",
    '{"seen": {"range": [null, "2026-01-01T00:00:00Z"], "bounds": "()"}}', '{"$next": 5, "k": {"range": [3, null]}}',
    '{"$confidence": 0.9, "k": 7}',
)  # fmt: skip
POISON = (
    '{"k": 99999999999999999999999}', '{"k": [1, 9223372036854775808]}', '{"k": {"range": [-99999999999999999999, 5]}}',
    '{"seen": 99999999999999999999}', '{"seen": "99999-01-01T00:00:00Z"}', '{"seen": "0001-01-01T00:00:00+23:59"}',
    '{"seen": 9223372036854775807}', '{"v": 1e999}', '{"v": 1' + "0" * 400 + "}", '{"k": ' + "9" * 5000 + "}", "[" * 5000,
    '{"name": "\\ud800"}', '{"k": {"range": 5}}', '{"k": {"range": {}}}', '{"k": [[1]]}', '{"k": {"in": {"in": {}}}}', '{"k": {}}',
    '{"k": {"range": [1, 2], "bounds": []}}', '{"k": [{"range": [1, 2]}]}', '{"k": null}', '{"k": true}', '{"name": NaN}',
    '{"v": NaN}', '{"v": [NaN, Infinity, null]}', '{"day": 5}', '{"day": "x"}', '{"$next": 1e9, "k": 1}', "null", "7", '"', "",
    '{"$next": 99999999999999999999999, "k": 1}', '{"$confidence": 1' + "0" * 400 + ', "k": 1}', '{"$confidence": NaN, "k": 1}',
    '{"k": 7, "K": 8}', '{"seen": {"range": ["2026-01-01", 5]}}', '{"name": {"range": [1, "a"]}}', '{"mark": "x"}', '{"k": 7.5}',
    '{"k": {"range": [9, 1]}}', '{"name": ["a", 1, null, true]}', '{"seen": 1.5}', '{"k": {"range": ["a", "b"]}}',
)  # fmt: skip


@st.composite
def marks(draw: st.DrawFn) -> bytes | None:
    """Mostly none; punctuations, known poison, and punctuations with a character taken out, put in or doubled."""
    kind = draw(st.integers(0, 9))
    if kind < 6:
        return None
    if kind == 6:
        return draw(st.sampled_from(VALID)).encode()
    if kind == 7:
        return draw(st.sampled_from(POISON)).encode()
    text = bytearray(draw(st.sampled_from(VALID)).encode())
    at, other = draw(st.integers(0, len(text) - 1)), draw(st.binary(max_size=3))
    text[at : at + draw(st.integers(0, 2))] = other
    return bytes(text)


times = st.one_of(st.integers(0, 20).map(lambda second: 1_000_000 * second), st.sampled_from(EXTREMES), st.none())
texts = st.one_of(st.sampled_from([b"a", b"b", None]), st.binary(max_size=4))
rows_strategy = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 9), st.sampled_from(EXTREMES), st.none()), texts,
        st.one_of(st.integers(0, 3), st.sampled_from([2**31 - 1, -(2**31), 2932897, None])), times,
        st.one_of(st.none(), st.floats()), times, marks(), st.one_of(st.integers(0, 2), st.sampled_from([*EXTREMES, None])),
        st.one_of(st.integers(0, 99), st.sampled_from([*EXTREMES, None])),
    ),
    max_size=20,
)  # fmt: skip


def table(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows as Spark or a Parquet file hands them over: nobody has looked at the bytes of texts."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in KINDS]
    stored = {pa.string(): pa.binary(), pa.date32(): pa.int32(), TIMESTAMP: pa.int64()}
    arrays = {
        name: pa.array(column, stored.get(kind, kind)).view(kind) for column, (name, kind) in zip(columns, KINDS, strict=True)
    }
    return pa.RecordBatch.from_pydict(arrays)


@cache
def job(source: str, shards: int) -> Job:
    return build_job(parse_application(APPLICATION.format(columns=COLUMNS, source=source)), shards)


def check(batches: list[pa.RecordBatch], source: str, shards: int, folder: Path) -> dict[str, int]:
    """Run to the end; how many rows went where."""
    runner = LocalRunner(job(source, shards), encode=True)
    for rows in batches:
        runner.run({"s": rows})
        runner.restore(runner.snapshot())
    runner.end()
    if runner.collected.refused:
        write_refused(str(folder), 0, 0, 0, runner.collected.refused)
    entries = {name: counters for name, counters in runner.report().items() if counters.get("read")}
    for counters in entries.values():
        assert counters["read"] == sum(counters[kind] for kind in ("used", "filtered", "late", "bad", "violating"))
    return next(iter(entries.values()), {})


@given(batches=st.lists(rows_strategy, max_size=3), source=st.sampled_from(SOURCES), shards=st.sampled_from([1, 3]))
@settings(max_examples=40, deadline=None)
@example(batches=[[(1, b"a", 0, 0, 1.0, 0, text.encode(), 0, at) for at, text in enumerate(POISON)]], source=SOURCES[0], shards=1)
def test_no_row_stops_a_query_and_every_row_is_accounted_for(
    batches: list[list[tuple[Any, ...]]], source: str, shards: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check([table(rows) for rows in batches], source, shards, tmp_path_factory.mktemp("refused"))


def test_a_row_of_the_far_future_does_not_end_the_stream(tmp_path: Path) -> None:
    good = (1, b"a", 0, 0, 1.0, 5_000_000, None, 0, 1)
    for last in (2**63 - 1, 253402300800000000):
        found = check([table([(*good[:5], last, *good[6:])]), table([good])], SOURCES[0], 1, tmp_path)
        assert (found["bad"], found["used"]) == (1, 1)


def test_a_value_that_leaves_the_calendar_when_it_is_computed_is_kept_apart(tmp_path: Path) -> None:
    """As where Catalyst computes it; no destination could show it."""
    text = "CREATE STREAM s ({columns}, WATERMARK ts DELAY OF INTERVAL 5 SECONDS) {source};"
    text += "CREATE CQ q AS SELECT seen + INTERVAL 1 DAY AS later FROM s"
    runner = LocalRunner(build_job(parse_application(text.format(columns=COLUMNS, source=SOURCES[0])), 1), encode=True)
    last = CALENDAR[1]
    runner.run({"s": table([(1, b"a", 0, seen, 1.0, 0, None, 0, 0) for seen in (last, last - 86_400_000_000, None)])})
    runner.end()
    assert [row["later"] for row in runner.collected.rows("q")] == [datetime.max.replace(tzinfo=UTC), None]
    (refused,) = runner.collected.refused
    assert refused.reason == "malformed"
    assert "outside the years 1 to 9999" in str(write_and_read(tmp_path, refused))


def write_and_read(folder: Path, refused: Quarantined) -> list[dict[str, Any]]:
    return pq.ParquetFile(write_refused(str(folder), 0, 0, 0, [refused])).read().to_pylist()


def random_rows(size: int, seed: int) -> list[tuple[Any, ...]]:
    """Many damaged rows at small cost, for longer runs than a test may take."""
    random = np.random.default_rng(seed)

    def one_of(choices: tuple[Any, ...]) -> Any:
        return choices[int(random.integers(len(choices)))]

    def mark() -> bytes | None:
        kind = random.random()
        if kind < 0.9:
            return None
        text = bytearray(one_of(lasting if kind < 0.93 else POISON).encode())
        at = int(random.integers(len(text) + 1))
        text[at : at + int(random.integers(3))] = random.bytes(int(random.integers(3)))
        return bytes(text)

    lasting = VALID[:4]  # others end the stream, or nearly
    numbers = (*range(200), *EXTREMES, None)
    seconds = (*(1_000_000 * second for second in range(90)), *EXTREMES, None)
    names = (*(b"a", b"b", None, "é".encode()) * 5, b"\xff\xfe", b"\xed\xa0\x80")
    days = (*range(9), 2**31 - 1, None)
    return [
        (one_of(numbers), one_of(names), one_of(days), one_of(seconds), one_of((None, 1.5, float("nan"), float("inf"))),
         one_of((at * 50_000,) * 9 + IMPOSSIBLE), mark(), one_of((0, 1, 0, 1, 0, 1, None, -1)), at)
        for at in range(size)
    ]  # fmt: skip


def test_thousands_of_damaged_rows(tmp_path: Path) -> None:
    for seed, source in enumerate(SOURCES):
        found = check([table(random_rows(1500, seed))], source, 2, tmp_path)
        assert found["bad"] > 100
        assert found["used"] > 20
