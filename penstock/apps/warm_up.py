"""Compile the operators' inner loops before the first demo, so that Spark's workers find them on disk."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

from penstock.apps.reading import read_catalog
from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.batch import Batch
from penstock.model.declarations import StreamDeclaration
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.predicates import OnArrow
from penstock.operators.filtering.settings import Algorithm, FilterSettings, Mode, OrderSettings
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

#: Long enough that windows close and punctuations arrive: every loop is met with the types it will see.
_TICKS_PER_BATCH, _BATCHES = 4_000, 3

_FEED = "bids_per_item '10', open_items '60', rate '10000'"
#: What no example uses: a join that spills, patterns of all kinds.
_UNUSED = f"""
CREATE STREAM auction (item_id BIGINT, opens TIMESTAMP, UNIQUE (item_id), WATERMARK opens DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'auction.auction', {_FEED});
CREATE STREAM bid (item_id BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'auction.bid', marks 'constant', {_FEED}) PUNCTUATIONS FROM mark;
CREATE CQ spilled AS SELECT /*+ XJOIN(memory_bytes = 5000) */ b.price FROM auction a, bid b WHERE a.item_id = b.item_id;
CREATE CONSTRAINT opened ON (item_id) AS AT_MOST_ONCE(auction), PRIOR(auction, bid);
CREATE CQ scanned AS EVENT SEQ(auction c, bid a, bid b) WHERE [item_id] AND a.price < b.price WITHIN 50 milliseconds
  RETURN b.price;
CREATE CQ grown AS EVENT SEQ(bid+ a[], !(auction n), bid b) WHERE [item_id] AND skip-till-next-match AND a[i].price > a[i-1].price
  AND b.price < avg(a.price) WITHIN 50 milliseconds;
CREATE CQ collapsed AS EVENT SEQ(auction c, bid+ a[], bid b) WHERE [item_id] WITHIN 50 milliseconds
  RETURN b.price, count(a) AS bids OPTIONS (kleene 'collapse', reasoning 'exact');
"""
#: A star and a path, which multiway joins run in loops of their own.
_MULTIWAY = "".join(
    f"""
CREATE STREAM {side}s (id BIGINT, key BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'pairs', stream '{side}', keys '20', rate '10000');"""
    for side in ("left", "right")
) + "".join(
    f"""
CREATE CQ multiway_{number} AS SELECT /*+ MJOIN(probability = 1.0, min_fill = 1) */ a.id
  FROM lefts a [RANGE 5 MILLISECONDS], rights b [RANGE 5 MILLISECONDS],
       lefts c [RANGE 5 MILLISECONDS], rights d [RANGE 5 MILLISECONDS]
  WHERE {conditions};"""
    for number, conditions in enumerate(
        ("a.key = b.key AND a.id = c.id AND a.key = d.key", "a.key = b.key AND b.id = c.id AND c.key = d.key")
    )
)


def warm_up() -> None:
    """Play a few seconds of every example, in as many processes as there are cores up to the parts there are.

    What Numba compiles is kept beside the modules, where every process finds it; compilation is what takes the time, so the
    parts with loops of their own go first.
    """
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), get_context("spawn")) as processes:
        for part in [processes.submit(_compile, name) for name in ("_unused", "_multiway", *EXAMPLES, "_orders")]:
            part.result()


def _compile(name: str) -> None:
    if name == "_unused":
        _play(parse_application(_UNUSED))
    elif name == "_multiway":
        _play(parse_application(_MULTIWAY))
    elif name == "_orders":
        for algorithm in Algorithm:
            _order(algorithm)
    else:
        _play(read_catalog(name))


def _play(catalog: Catalog) -> None:
    runner = LocalRunner(build_job(catalog, shards=2))
    for start in range(0, _TICKS_PER_BATCH * _BATCHES, _TICKS_PER_BATCH):
        runner.run({stream.name: _rows(stream, start, start + _TICKS_PER_BATCH) for stream in catalog.streams.values()})
    runner.end()


def _order(algorithm: Algorithm) -> None:
    """Filters under a policy that the examples do not use, on rows of which the later ones want another order."""
    numbers = np.arange(2_000)
    passes = {f"b{place}": (numbers % (place + 2) == 0) ^ (numbers >= 1_000) for place in range(3)}
    rows = pa.RecordBatch.from_pydict(passes)
    order = OrderSettings(algorithm, probability=0.5, window_rows=100, stage_rows=50, min_fill=50)
    filters = [Filter(name, OnArrow(lambda column: column, (name,)), 1.0) for name in passes]
    conjunction = AdaptiveFilter(rows.schema, filters, FilterSettings(order, 100, mode=Mode.SHARD))
    conjunction.on_batch(0, Batch(rows, numbers, numbers))
    conjunction.describe()  # which searches for the best order


def _rows(stream: StreamDeclaration, start: int, stop: int) -> list[pa.RecordBatch]:
    feed = Playback.from_text(dict(stream.source.options))
    return [batch for rows in feed.ranges(start, stop) for batch in feed.batches(rows, stream.schema.arrow)]


if __name__ == "__main__":
    warm_up()
