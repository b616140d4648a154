"""Whether every damaged record was accounted for: used, filtered or kept apart, and not altered in silence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.metadata.scoped import read_statement
from penstock.runners.spark.driver.run import Run

_OUTCOMES = ("used", "filtered", "shed", "late", "bad", "violating", "after_end")
#: Formats that get the same records and must come to the same result. ORC files of Arrow do not say which calendar they use, so
#: Spark moves dates before 1582, some of them into the years 1 to 9999.
_ALIKE = ("parquet", "parquet by Spark")
#: What decoders write in the place of bytes that are no text; no record here holds one.
_REPLACED = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class FormatOutcome:
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


def outcome_of(run: Run, name: str, records: int, seconds: float, has_marks: bool) -> FormatOutcome:
    """What became of the records that the streams `s` and `raw` of a run have read.

    Parameters
    ----------
    has_marks
        Whether `s` reads punctuations that `raw` takes for rows.
    """
    entries, refused = run.reports()[-1].entries, _quarantined(run)
    faults = [*_unaccounted(entries, records, refused), *(_missing_marks(run, entries, refused, records) if has_marks else ())]
    counted = Counter(f"{row['stream']} {row['reason']}" for row in refused)
    return FormatOutcome(name, records, seconds, entries, counted, (*faults, *_altered(run)))


def _quarantined(run: Run) -> list[dict[str, Any]]:
    files = sorted(Path(run.quarantine).glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def _unaccounted(entries: Mapping[str, Mapping[str, int]], records: int, refused: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name, counters in entries.items():
        if counters["read"] != sum(counters[kind] for kind in _OUTCOMES):
            yield f"entry {name} has read {counters['read']:,} rows and not accounted for all of them: {counters}"
        if counters["read"] > records or (name.startswith(("raw", "bare")) and counters["read"] != records):
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
        for stage in run.job.stages
        for source in stage.sources
        if any(
            query in node.queries and any(entry == source.route.entry for entry, _ in node.sources) for node in stage.graph.nodes
        )
    ]


def _is_readable(text: str, run: Run) -> bool:
    try:
        read_statement(text, run.catalog.streams["s"].schema, "", 0)
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


def differences(outcomes: Sequence[FormatOutcome]) -> Iterator[str]:
    """Entries of the same records that come to other figures with another reader."""
    alike = [each for each in outcomes if each.format in _ALIKE and each.entries]
    for other in alike[1:]:
        for name, counters in alike[0].entries.items():
            here, there = ({kind: found.get(kind, 0) for kind in ("read", *_OUTCOMES)} for found in (counters, other.entries[name]))
            if here != there:
                yield f"entry {name}: {alike[0].format} has {here}, {other.format} has {there}"
