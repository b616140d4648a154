"""A user's program on a cluster: Penstock is an archive that the driver ships, not a package of the executors.

`app.py ARCHIVE CHECKPOINT OUTPUT`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])  # not by PYTHONPATH, which executors on this machine would inherit

import penstock
from penstock.runners.spark.app import App
from penstock.runners.spark.session import create_session

FEED = "workload 'pairs', stream '{side}', keys '50', rows_per_batch '400', total '1200', partitions '2'"
STREAM = """
CREATE STREAM {side}s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS ({feed}) PARTITIONED BY part POSITION off;
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


def main(archive: str, checkpoint: str, output: str) -> None:
    # The first compiler is enough for a short life.
    conf = {f"spark.{part}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for part in ("driver", "executor")}
    spark = create_session("cluster", "local-cluster[2,1,1024]", conf=conf)
    spark.sparkContext.addPyFile(archive)
    run = App.from_text(application(output)).start(checkpoint, spark=spark, shards=2)
    run.process_all_available()
    run.end()
    found = spark.range(0, 8, 1, 4).mapInArrow(whereabouts, "file STRING").distinct().toArrow().to_pylist()
    print(json.dumps({"driver": penstock.__file__, "tasks": [row["file"] for row in found]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
