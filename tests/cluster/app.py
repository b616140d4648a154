"""A user's program on a cluster: Penstock is an archive that the driver ships, not a package of the executors.

`app.py ARCHIVE CHECKPOINT OUTPUT`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])  # not by PYTHONPATH, which executors on this machine would inherit

import penstock
from penstock.runners.spark.driver.app import App, Run
from penstock.runners.spark.processes.session import create_session

FEED = "workload 'pairs', stream '{side}', keys '50', rows_per_batch '400', total '1200', partitions '2'"
STREAM = """
CREATE STREAM {side}s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS ({feed}) PARTITIONED BY part POSITION off;
"""

#: Conditions whose order the driver decides, and a function that notes in which tasks it runs and what they know.
FILTERED = """
CREATE FUNCTION noted(v BIGINT, place STRING, file STRING) RETURNS BIGINT
  USING python OPTIONS (callable 'witness:noted', kind 'arrow', cost '1e-6');
CREATE FUNCTION mix(v BIGINT, salt BIGINT) RETURNS BIGINT
  USING python OPTIONS (callable 'sql_functions:hashed', kind 'arrow', cost '1e-6');
CREATE STREAM numbers (k BIGINT, ts BIGINT, UNIQUE (k), WATERMARK ts DELAY OF 0)
  USING parquet OPTIONS (path '{output}/numbers', maxFilesPerTrigger '4');
CREATE CQ few AS SELECT /*+ ORDER(probability = 1.0, min_fill = 20) */ noted(k, 'shard', '{output}/notes') AS k FROM numbers
  WHERE mix(k, 1) < 120 AND mix(k, 2) < 20 AND noted(k, 'packing', '{output}/notes') >= 0
  OUTPUT TO parquet OPTIONS (path '{output}/few');
"""


def application(output: str) -> str:
    streams = "".join(STREAM.format(side=side, feed=FEED.format(side=side)) for side in ("left", "right"))
    return f"""{streams}
CREATE CQ joined AS SELECT a.id AS a, b.id AS b FROM lefts a [RANGE 50 MILLISECONDS], rights b [RANGE 50 MILLISECONDS]
  WHERE a.key = b.key OUTPUT TO parquet OPTIONS (path '{output}/joined');
CREATE CQ grouped AS SELECT key, count(*) AS n, sum(id) AS total FROM lefts [RANGE 40 MILLISECONDS] GROUP BY key
  OUTPUT TO parquet OPTIONS (path '{output}/grouped');
"""


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a task runs, and where it finds Penstock."""
    import os

    import penstock
    from penstock.columnar.hashing import hash_columns

    for batch in batches:
        hash_columns([batch.column(0)], batch.num_rows)  # compiled code works from the archive too
        yield pa.RecordBatch.from_pydict({"file": [os.path.abspath(penstock.__file__)]})


def write_numbers(output: str, batch: int) -> None:
    """Four files of two hundred numbers."""
    folder = Path(output) / "numbers"
    for part in range(4):
        k = np.arange((batch * 4 + part) * 200, (batch * 4 + part + 1) * 200)
        draft = folder / f".{batch}-{part}"
        pq.write_table(pa.table({"k": k, "ts": np.full(200, batch)}), draft)
        draft.rename(folder / f"{batch}-{part}.parquet")


def change_on_the_way(run: Run, output: str) -> None:
    """The order of conditions changes, then the queries do; rows come after each."""
    until = time.monotonic() + 120
    while time.monotonic() < until and not any(kind == "filter_order" for kind, _ in run.control.read(0, len(run.control))):
        time.sleep(0.1)
    write_numbers(output, 1)
    run.process_all_available()
    run.add("CREATE CQ even AS SELECT k FROM numbers WHERE k % 2 = 0 OUTPUT TO memory;")
    write_numbers(output, 2)
    run.process_all_available()


def main(archive: str, checkpoint: str, output: str) -> None:
    # The first compiler is enough for a short life.
    conf = {f"spark.{part}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for part in ("driver", "executor")}
    spark = create_session("cluster", "local-cluster[2,1,1024]", conf=conf)
    spark.sparkContext.addPyFile(archive)
    for module in ("witness.py", "sql_functions.py"):
        spark.sparkContext.addPyFile(str(Path(__file__).with_name(module)))
    (Path(output) / "numbers").mkdir(parents=True)
    write_numbers(output, 0)
    text = application(output) + FILTERED.format(output=output)
    run = App.from_text(text).start(checkpoint, spark=spark, shards=2)
    run.process_all_available()
    change_on_the_way(run, output)
    run.end()
    found = spark.range(0, 8, 1, 4).mapInArrow(whereabouts, "file STRING").distinct().toArrow().to_pylist()
    print(json.dumps({"driver": penstock.__file__, "tasks": [row["file"] for row in found]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
