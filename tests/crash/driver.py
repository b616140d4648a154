"""An application that ends by itself, for tests that kill it: `driver.py CHECKPOINT OUTPUT MASTER [name=value …]`.

Started again with the same folders it goes on. It says `done` when all windows are closed; a failure that Penstock explains
is printed and gives exit code 3.
"""

from __future__ import annotations

import sys

from penstock.errors import PenstockError, UserError
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.processes.session import create_session

BATCHES = 6
_FEED = "workload 'pairs', stream '{side}', keys '60', rows_per_step '4', rows_per_batch '500', total '{total}', partitions '2'"
_STREAM = """
CREATE STREAM {side}s (id BIGINT, key BIGINT, value DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS ({feed}) PARTITIONED BY part POSITION off;
"""
_AUCTION = "bids_per_item '10', open_items '60', rows_per_batch '500', total '{total}', partitions '2'"
_AUCTIONS = """
CREATE STREAM auction (item_id BIGINT, category STRING, opens TIMESTAMP, part INT, off BIGINT, UNIQUE (item_id),
  WATERMARK opens DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.auction', {feed})
  PARTITIONED BY part POSITION off;
CREATE STREAM bid (item_id BIGINT, price DOUBLE, ts TIMESTAMP, part INT, off BIGINT, mark STRING,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.bid', marks 'constant', {feed})
  PUNCTUATIONS FROM mark PARTITIONED BY part POSITION off;
"""


def application(output: str) -> str:
    """Joins and a group-by over feeds, each to its own directory; what is stored reaches over several micro-batches.

    `joined` forgets by windows, `sold` by windows and punctuations; `spilled` has far more open rows than memory.
    """
    feeds = {side: _FEED.format(side=side, total=500 * BATCHES) for side in ("left", "right")}
    streams = "".join(_STREAM.format(side=side, feed=feed) for side, feed in feeds.items())
    auctions = _AUCTIONS.format(feed=_AUCTION.format(total=500 * BATCHES))
    return f"""{streams}{auctions}
CREATE CQ joined AS SELECT a.id AS a, b.id AS b, a.key FROM lefts a [RANGE 120 MILLISECONDS], rights b [RANGE 120 MILLISECONDS]
  WHERE a.key = b.key OUTPUT TO parquet OPTIONS (path '{output}/joined');
CREATE CQ grouped AS SELECT key, count(*) AS n, sum(id) AS total, window_start() AS start
  FROM lefts [RANGE 70 MILLISECONDS] GROUP BY key OUTPUT TO parquet OPTIONS (path '{output}/grouped');
CREATE CQ sold AS SELECT a.item_id, count(*) AS bids, max(b.price) AS price FROM auction a [RANGE 1 HOUR], bid b [RANGE 1 HOUR]
  WHERE a.item_id = b.item_id GROUP BY a.item_id OUTPUT TO parquet OPTIONS (path '{output}/sold');
CREATE CQ spilled AS SELECT /*+ PJOIN(memory_bytes = 4000) */ b.item_id, b.price, a.id FROM bid b, lefts a
  WHERE b.item_id = a.key AND b.price > 300 OUTPUT TO parquet OPTIONS (path '{output}/spilled');
"""


def main(checkpoint: str, output: str, master: str, *settings: str) -> int:
    # Most of a short life goes into compiling; the first compiler is enough.
    conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = create_session("crash", master, conf={**conf, **dict(setting.split("=", 1) for setting in settings)})
    try:
        run = App.from_text(application(output), "crash").start(checkpoint, spark=spark)
        run.process_all_available()
        run.end()
    except UserError as error:
        if "were ended by an earlier run" not in str(error):  # killed after its last micro-batch: nothing is left to do
            raise
    except PenstockError as error:
        print(error, file=sys.stderr)
        return 3
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
