"""The application of `driver.py` while queries come and go: `changing.py CHECKPOINT OUTPUT MASTER [name=value …]`.

What it has not yet added or dropped it adds or drops when enough micro-batches are done, whichever of its lives that is.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from driver import application

from penstock.errors import UserError
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import create_session

#: Reads streams that are read already, in two rounds.
LATER = """
CREATE CQ per_key AS SELECT key, count(*) AS n, sum(id) AS total FROM lefts [RANGE 50 MILLISECONDS] GROUP BY key
  OUTPUT TO parquet OPTIONS (path '{output}/per_key');
CREATE CQ per_count AS SELECT n, count(*) AS keys FROM per_key [RANGE 100 MILLISECONDS] GROUP BY n
  OUTPUT TO parquet OPTIONS (path '{output}/per_count');
"""
#: Reads a stream that nobody has read.
MORE = """
CREATE STREAM others (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'pairs', stream 'left', keys '9', rows_per_step '4',
  rows_per_batch '500', total '1500', partitions '2') PARTITIONED BY part POSITION off;
CREATE CQ more AS SELECT key, count(*) AS n FROM others [RANGE 60 MILLISECONDS] GROUP BY key
  OUTPUT TO parquet OPTIONS (path '{output}/more');
"""


def committed(checkpoint: str) -> int:
    folder = Path(checkpoint) / "spark" / "commits"
    return max((int(path.name) + 1 for path in folder.glob("[0-9]*") if path.name.isdigit()), default=0)


def wait_for(run: Run, checkpoint: str, batches: int) -> None:
    while committed(checkpoint) < batches and not run.wait(0.05):
        time.sleep(0.01)


def main(checkpoint: str, output: str, master: str, *settings: str) -> int:
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = create_session("crash", master, conf={**conf, **dict(setting.split("=", 1) for setting in settings)})
    try:
        run = App.from_text(application(output), "crash").start(checkpoint, spark=spark, trigger="300 milliseconds")
        wait_for(run, checkpoint, 2)
        if "per_key" not in run.sinks:
            run.add(LATER.format(output=output))
        wait_for(run, checkpoint, 4)
        if "grouped" in run.sinks:
            run.drop("grouped")
        if "more" not in run.sinks:
            run.add(MORE.format(output=output))
        run.process_all_available()
        run.end()
    except UserError as error:
        if "were ended by an earlier run" not in str(error):
            raise
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
