"""Tasks that get no rows still tell every shard that the micro-batch has come."""

from __future__ import annotations

from penstock.kernel.packing import BAD, KEEP, MARK, MISSING, PARTITION, POSITION, TIME, pack
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.spark.data_path.exchange import Crossed

TEXT = """
CREATE STREAM s (k BIGINT, v BIGINT NOT NULL, part BIGINT, off BIGINT, mark STRING, t TIMESTAMP,
  WATERMARK t DELAY OF INTERVAL 1 SECOND)
  USING json OPTIONS (path 'x') PUNCTUATIONS FROM mark PARTITIONED BY part POSITION off;
CREATE CQ q AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] WHERE off > 3 GROUP BY k;
"""


def test_a_task_without_rows_packs_headers_whatever_columns_packing_needs() -> None:
    (source,) = build_job(parse_application(TEXT), 2).stages[0].sources
    names = (*source.route.columns.names, TIME, KEEP, PARTITION, POSITION, MARK, BAD, MISSING)
    packets = list(pack(Crossed(source.route, names, ()).no_rows(), source.route, 0))
    assert sorted(shard for shard, _ in packets) == [0, 1]
    assert all(packet.batch is None or not packet.batch.num_rows for _, packet in packets)
