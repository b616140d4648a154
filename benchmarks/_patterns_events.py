"""Input and queries of `benchmarks.patterns`, for both engines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

START_MILLIS = 1_767_225_600_000
#: Distance of events, and the window: Flink's is open at its end, ours closed. All times are even, so that it does not matter.
STEP_MILLIS, WINDOW_MILLIS = 2, 60_001
KINDS = np.array(["A", "B", "C", "D"])
COLUMNS = ("id", "kind", "price", "ts")
#: Source partitions: files that are read side by side.
PARTS = 2


@dataclass(frozen=True, slots=True)
class Contest:
    """One query in both tongues.

    `pattern` and `conditions` are ours, `flink_pattern` and `flink_define` say the same in MATCH_RECOGNIZE. Types exclude
    each other, so that at each start there is at most one way to match: what engines prefer does not matter.
    """

    name: str
    pattern: str
    conditions: tuple[str, ...]
    flink_pattern: str
    flink_define: str

    @property
    def flink_query(self) -> str:
        return f"""
            SELECT id, first_price, last_price FROM events MATCH_RECOGNIZE (
              PARTITION BY id ORDER BY ts
              MEASURES A.price AS first_price, C.price AS last_price
              ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
              PATTERN ({self.flink_pattern}) WITHIN INTERVAL '{WINDOW_MILLIS / 1000}' SECOND(2, 3)
              DEFINE A AS A.kind = 'A', B AS {self.flink_define}, C AS C.kind = 'C')"""


CONTESTS = (
    Contest("seq", "SEQ(A a, B b, C c)", ("b.price > a.price",), "A B C", "B.kind = 'B' AND B.price > A.price"),
    Contest(
        "kleene",
        "SEQ(A a, B+ b[], C c)",
        ("b[i].price > b[i-1].price",),
        "A B+ C",
        "B.kind = 'B' AND (LAST(B.price, 1) IS NULL OR B.price > LAST(B.price, 1))",
    ),
)


def make_events(number: int, keys: int, first: int = 0, seed: int = 1) -> pa.Table:
    """Events from number `first` on: uniform keys, four types, prices below 1,000, one every two milliseconds."""
    dice = np.random.default_rng((seed, first))
    kinds = pa.DictionaryArray.from_arrays(pa.array(dice.integers(0, len(KINDS), number, np.int32)), pa.array(KINDS))
    columns = [
        dice.integers(0, keys, number),
        kinds.cast(pa.string()),
        dice.integers(0, 1_000, number),
        pa.array(START_MILLIS + STEP_MILLIS * np.arange(first, first + number), pa.timestamp("ms", "UTC")),
    ]
    return pa.table(columns, names=list(COLUMNS))


def write_events(folder: Path, number: int, keys: int, slices: int) -> tuple[Path, Path]:
    """The events in Parquet, dealt to the parts in turn: once cut into slices of time for Spark, once a file per part for Flink.

    A micro-batch takes whole files, and a reader of Flink promises event times file by file; the rows are the same. The
    last row of each part is late enough to decide every match before it.

    Returns
    -------
    tuple
        The folder of the slices and the folder of the whole parts.
    """
    sliced, whole = folder / "sliced", folder / "whole"
    for each in (sliced, whole):
        each.mkdir(parents=True)
    size = number // slices
    made = [make_events(size, keys, start) for start in range(0, size * slices, size)]
    for part in range(PARTS):
        dealt = [events.take(pa.array(np.arange(part, size, PARTS))) for events in made]
        dealt[-1] = _with_last(dealt[-1], part)
        for at, events in enumerate(dealt):
            path = sliced / f"slice-{at:04d}-{part}.parquet"
            parquet.write_table(events, path)
            # Spark reads files in the order of their times.
            os.utime(path, (1_000_000 + at, 1_000_000 + at))
        parquet.write_table(pa.concat_tables(dealt), whole / f"part-{part}.parquet")
    return sliced, whole


def _with_last(events: pa.Table, part: int) -> pa.Table:
    end = events.column("ts")[-1].value + 2 * WINDOW_MILLIS
    last = [pa.array([value], item.type) for value, item in zip((part, "D", 0, end), events.schema, strict=True)]
    return pa.concat_tables([events, pa.table(last, schema=events.schema)])
