"""What Spark's transformWithState is handed; imports little.

Before the first micro-batch Spark starts a process on the driver only to ask the processor which state variables it has. To
answer, nothing of the plan is needed, so the shard's work comes packed and is unpacked by the tasks: Arrow, pandas, Numba and
all operators would take that process one and a half seconds, for each stage of each query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.runners.spark.data_path.local_properties import SHARDS, part_of_edition
from penstock.runners.spark.data_path.workers import freeze_loaded_objects, without_traceback

if TYPE_CHECKING:
    import pandas as pd

    from penstock.runners.spark.data_path.processor import StageHost

# Schemas as objects: a schema as text costs a round trip to the JVM in every task.
_KEY = StructType([StructField("name", StringType())])
_BODY = StructType([StructField("body", BinaryType())])


def variables_of(handle: Any) -> Any:
    """Where a shard's state stands: everything in one map, because every variable costs every task some milliseconds."""
    return handle.getMapState("state", _KEY, _BODY)


class ShardProcessor(StatefulProcessor):
    """One shard of one stage, as Spark calls it."""

    def __init__(self, host: StageHost) -> None:
        self._packed: bytes = cloudpickle.dumps(host)
        self._run = host.run
        self._hears_watermark = host.hears_watermark

    def init(self, handle: Any) -> None:
        self._state = variables_of(handle)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield from without_traceback(self._answers(key, rows, timerValues))

    def _answers(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:
        from penstock.runners.spark.data_path.processor import ShardTask

        told = {"watermark_us": timers.getCurrentWatermarkInMs() * 1000} if self._hears_watermark else {}
        host = part_of_edition(self._run, SHARDS, self._packed)
        yield from ShardTask(host, self._state).run(int(key[0]), rows, **told)

    def close(self) -> None:
        """Nothing is held open between micro-batches."""
        freeze_loaded_objects()
