"""Read files of every format that are full of damaged records, and account for each of them.

``python -m penstock.testing.damaged_files --rows 1000000 --seed 7`` writes the files, lets an application of several queries read
them in micro-batches on Spark, and asks: did nothing stop; was every record read; was every record used, filtered or kept apart;
are those that were kept apart in the quarantine; has no text been altered in silence? The first no ends the command with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.metadata.scoped import read_statement
from penstock.runners.spark.app import App, Run
from penstock.runners.spark.session import create_session
from penstock.testing.damage.records import DECLARED, csv_line, json_line, lines_in, table, text_line

_OUTCOMES = ("used", "filtered", "late", "bad", "violating", "after_end")
_LINE = {"json": json_line, "csv": csv_line, "text": text_line}
#: Part of the rows that each format gets, and options of its streams.
_FORMATS = {
    "json": (0.28, ""), "csv": (0.28, ""), "parquet": (0.12, ""), "parquet by Spark": (0.12, ", reader 'spark'"), "orc": (0.12, ""),
    "text": (0.08, ""),
}  # fmt: skip
#: Formats that get the same records and must come to the same result. ORC files of Arrow do not say which calendar they use, so
#: Spark moves dates before 1582, some of them into the years 1 to 9999.
_ALIKE = ("parquet", "parquet by Spark")
_FILES = 12
#: Of the files the last ones whose damage reaches event times.
_WILD = 2
#: What decoders write in the place of bytes that are no text; no record here holds one.
_REPLACED = "\N{REPLACEMENT CHARACTER}"

_RECORDS = f"""
CREATE STREAM s ({DECLARED}, CLUSTERED (day), WATERMARK ts DELAY OF INTERVAL 5 SECONDS) {{source}}
  PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE STREAM raw ({DECLARED}, WATERMARK ts DELAY OF INTERVAL 4000000 DAYS) {{source}};
CREATE CQ everything AS SELECT * FROM s;
CREATE CQ all_raw AS SELECT * FROM raw;
CREATE CQ groups AS SELECT name, day, COUNT(*) AS n, MAX(seen) AS last FROM s [RANGE 10 SECONDS] GROUP BY name, day;
CREATE CQ closed AS SELECT k, SUM(v) AS total, MIN(small) AS least FROM s GROUP BY k;
CREATE CQ pairs AS SELECT a.name, b.seen FROM s a [RANGE 2 SECONDS], s b [RANGE 2 SECONDS] WHERE a.k = b.k AND upper(b.name) <> 'X';
CREATE CQ known AS SELECT DISTINCT name, seen FROM s [RANGE 5 SECONDS] WHERE v > 1;
CREATE CQ computed AS SELECT k + 1 AS next, upper(name) AS loud, year(seen) AS y, seen + INTERVAL 1 DAY AS later,
  date_trunc('HOUR', seen) AS hour, CAST(name AS BIGINT) AS number, v / small AS ratio, abs(k) AS size,
  CAST(day AS TIMESTAMP) + INTERVAL 1 DAY AS tomorrow,
  small * small AS square, CAST(v AS BIGINT) AS whole, substring(name, 1, 1) AS start FROM s WHERE flag IS NOT FALSE AND k % 7 <> 3;
"""
_TEXTS = """
CREATE STREAM s (value STRING) {source};
CREATE CQ everything AS SELECT * FROM s;
CREATE CQ loud AS SELECT upper(value) AS loud, length(value) AS size, COUNT(*) AS n FROM s [RANGE 10 SECONDS]
  GROUP BY upper(value), length(value);
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the records of a format."""

    format: str
    records: int
    seconds: float
    #: Counters of each entry.
    entries: Mapping[str, Mapping[str, int]]
    #: Rows in the quarantine, by entry's stream and reason.
    refused: Mapping[str, int]
    faults: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.format}: {self.records:,} records in {self.seconds:.0f} s; quarantined: {dict(self.refused)}"]
        for name, counters in self.entries.items():
            shown = ", ".join(f"{kind} {counters[kind]:,}" for kind in ("read", *_OUTCOMES) if counters.get(kind))
            lines.append(f"  {name}: {shown}")
        return "\n".join([*lines, *(f"  FAULT: {fault}" for fault in self.faults)])


def write_files(folder: Path, kind: str, rows: int, random: Random) -> int:
    """Files of a format, oldest first; how many records Spark has to find in them."""
    folder.mkdir(parents=True)
    found, size = 0, -(-rows // _FILES)
    for number in range(_FILES):
        path, first, count = folder / f"{number:03}.{kind}", number * size, min(size, rows - number * size)
        if count <= 0:
            break
        if kind in _LINE:
            lines = (_LINE[kind](first + at, random, number >= _FILES - _WILD) for at in range(count))
            content = b"\n".join(lines)
            path.write_bytes(content)
            found += sum(not _is_skipped(line, kind) for line in lines_in(content))
        else:
            found += count
            rows_of_file = table(first, count, random)
            if kind == "parquet":
                pq.write_table(rows_of_file, path)
            else:
                orc.write_table(_in_whole_seconds(rows_of_file), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads older files first
    return found


def _in_whole_seconds(rows: pa.Table) -> pa.Table:
    """Times before 1970 without fractions: Arrow writes these to ORC files in a way that Java refuses to read."""
    for at, item in enumerate(rows.schema):
        if pa.types.is_timestamp(item.type):
            numbers = pc.max_element_wise(rows.column(at).cast(pa.int64()), -(2**63) + 2_000_000, skip_nulls=False)
            whole = pc.multiply(pc.divide(pc.subtract(numbers, 999_999), 1_000_000), 1_000_000)
            rows = rows.set_column(at, item, pc.if_else(pc.less(numbers, 0), whole, numbers).cast(item.type))
    return rows


def _is_skipped(line: bytes, kind: str) -> bool:
    """Lines that hold no record for Spark: empty ones, whatever each parser takes for empty."""
    if kind == "csv":
        return all(byte <= 0x20 for byte in line)
    return kind == "json" and not line.strip(b" \t")


def run_format(name: str, rows: int, seed: int, folder: Path) -> Outcome:
    """Write, read and account for the records of one format."""
    kind, (_, options) = name.split()[0], _FORMATS[name]
    records = write_files(folder / "in", kind, rows, Random(seed))
    source = f"USING {kind} OPTIONS (path '{folder}/in', maxFilesPerTrigger '2'{options})"
    text = (_TEXTS if kind == "text" else _RECORDS).format(source=source)
    begun = time.monotonic()
    run = App.from_text(text, f"damaged {name}").start(folder / "checkpoint", create_session("damaged files"), shards=2)
    try:
        run.process_all_available()
        run.end()
    except PenstockError as failure:
        return Outcome(name, records, time.monotonic() - begun, {}, {}, (f"the query has stopped: {failure}",))
    finally:
        run.stop()
    entries = run.reports()[-1].entries
    refused = _quarantined(run)
    faults = [*_unaccounted(entries, records, refused), *(() if kind == "text" else _missing_marks(run, entries, refused, records))]
    faults += _altered(run)
    counted = Counter(f"{row['stream']} {row['reason']}" for row in refused)
    return Outcome(name, records, time.monotonic() - begun, entries, counted, tuple(faults))


def _quarantined(run: Run) -> list[dict[str, Any]]:
    files = sorted(Path(run.quarantine).glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def _unaccounted(entries: Mapping[str, Mapping[str, int]], records: int, refused: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name, counters in entries.items():
        if counters["read"] != sum(counters[kind] for kind in _OUTCOMES):
            yield f"entry {name} has read {counters['read']:,} rows and not accounted for all of them: {counters}"
        if counters["read"] > records or (name.startswith("raw") and counters["read"] != records):
            yield f"entry {name} has read {counters['read']:,} rows of {records:,} records"
    expected = sum(counters[kind] for counters in entries.values() for kind in ("late", "bad", "violating", "after_end"))
    if expected != len(refused):
        yield f"{expected:,} rows were refused, and {len(refused):,} are in the quarantine"
    if not any(counters["used"] for counters in entries.values()):
        yield "no record was used, so this shows little"


def _missing_marks(
    run: Run, entries: Mapping[str, Mapping[str, int]], refused: Sequence[Mapping[str, Any]], records: int
) -> Iterator[str]:
    """The stream with punctuations has read all records but those: they are no rows. The other stream shows which these are."""
    answers = run.results("all_raw")
    texts = [] if answers is None else [text for text in answers.column("mark").to_pylist() if text is not None]
    untimed = (json.loads(row["row"]) for row in refused if row["stream"] == "raw" and row["reason"] == "no-timestamp")
    texts += [text for row in untimed if (text := next((row[name] for name in row if name.endswith("mark")), None)) is not None]
    readable = sum(_is_readable(text, run) for text in texts)
    (name,) = _entries_of(run, "everything")
    if entries[name]["read"] + readable != records:
        yield f"entry {name} has read {entries[name]['read']:,} rows of {records:,} records, of which {readable:,} are punctuations"


def _entries_of(run: Run, query: str) -> list[str]:
    return [
        source.route.entry
        for stage in run.pipeline.job.stages
        for source in stage.sources
        if any(
            query in node.queries and any(entry == source.route.entry for entry, _ in node.sources) for node in stage.graph.nodes
        )
    ]


def _is_readable(text: str, run: Run) -> bool:
    try:
        read_statement(text, run.app.catalog.streams["s"].schema, "", 0)
    except PenstockError:
        return False
    return True


def _altered(run: Run) -> Iterator[str]:
    """Answers whose texts are other ones than the source has."""
    answers = run.results("everything")
    for name, column in [] if answers is None else zip(answers.schema.names, answers.columns, strict=True):
        if pa.types.is_string(column.type):
            altered = sum(_REPLACED in text for text in column.to_pylist() if text is not None)
            if altered:
                yield f"{altered:,} answers have other characters in column '{name}' for bytes that are not UTF-8"


def _differences(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Entries of the same records that come to other figures with another reader."""
    alike = [each for each in outcomes if each.format in _ALIKE and each.entries]
    for other in alike[1:]:
        for name, counters in alike[0].entries.items():
            here, there = ({kind: found.get(kind, 0) for kind in ("read", *_OUTCOMES)} for found in (counters, other.entries[name]))
            if here != there:
                yield f"entry {name}: {alike[0].format} has {here}, {other.format} has {there}"


def main(arguments: Sequence[str] | None = None, show: Callable[[str], None] = print) -> int:
    reader = argparse.ArgumentParser(prog="python -m penstock.testing.damaged_files", description=__doc__)
    reader.add_argument("--rows", type=int, default=100_000, help="records of all formats together")
    reader.add_argument("--seed", type=int, default=1, help="of the damage")
    reader.add_argument("--only", choices=list(_FORMATS), action="append", help="a format; may be repeated")
    reader.add_argument("--keep", action="store_true", help="leave the files and checkpoints, in directories penstock-damaged-*")
    asked = reader.parse_args(arguments)
    outcomes: list[Outcome] = []
    for name in asked.only or _FORMATS:
        folder = Path(tempfile.mkdtemp(prefix="penstock-damaged-"))
        try:
            outcome = run_format(name, round(asked.rows * _FORMATS[name][0]), asked.seed, folder)
            show(str(outcome))
            outcomes.append(outcome)
        finally:
            if not asked.keep:
                shutil.rmtree(folder, ignore_errors=True)
    total, seconds = sum(each.records for each in outcomes), sum(each.seconds for each in outcomes)
    differences = list(_differences(outcomes))
    for difference in differences:
        show(f"FAULT: {difference}")
    faults = len(differences) + sum(len(each.faults) for each in outcomes)
    show(f"{total:,} records in {seconds:.0f} s, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
