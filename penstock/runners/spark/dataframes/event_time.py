"""Event time between Spark and Penstock: what Spark's watermark says of rows that come in, and what it is told of rows that go out.

Spark knows one watermark for a whole query. Every operator of Spark's behind Penstock's closes its windows, drops late rows and
forgets state by it, so it must follow Penstock's frontier exactly: shards send the frontier beside their answers, in a column
that only reports have, and Spark takes its watermark from there instead of guessing from the newest row. Before, the other way
round: behind a stateful operator of Spark's only its watermark tells how far rows have come; Penstock's shards are handed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType

#: Spark's own key in the metadata of a column: its watermark speaks of this column.
WATERMARK_KEY = "spark.watermarkDelayMs"
#: In the metadata of columns the greatest of which is the time of the row: how many they are.
ROW_TIME_KEY = "penstock.rowTime"

_WATERMARK_NODE = "EventTimeWatermark"
#: Spark's operators that keep rows or groups; a join does where both sides are streams.
_STATEFUL = frozenset({
    "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState", "TransformWithState", "TransformWithStateInPySpark",
})  # fmt: skip


def watermarked(schema: StructType) -> list[str]:
    """Columns of which Spark's watermark speaks."""
    return [item.name for item in schema if WATERMARK_KEY in item.metadata]


def row_time(schema: StructType) -> list[str]:
    """Columns the greatest of which is the time of a row that Penstock made; none if one of them is gone."""
    found = [item for item in schema if ROW_TIME_KEY in item.metadata]
    wanted = {int(item.metadata[ROW_TIME_KEY]) for item in found}
    return [item.name for item in found] if wanted == {len(found)} else []


def declared_delay_us(schema: StructType, column: str) -> int:
    """How late `withWatermark` lets rows be."""
    return int(schema[column].metadata[WATERMARK_KEY]) * 1000


def is_stateful(frame: DataFrame) -> bool:
    """Whether an operator that keeps state makes these rows: then no delay of the source bounds how late they are."""
    return any(_keeps_state(node) for node in _nodes(_plan(frame)))


def without_watermark(frame: DataFrame) -> DataFrame:
    """The same rows, of which Spark's watermark knows nothing.

    It is defined once in a query, and here behind Penstock's operators: on the way in it would only stand in the way, because
    pairs and rows without partner are older than the newest row by more than any delay of the source.
    """
    plan = _plan(frame)
    if not any(_kind(node) == _WATERMARK_NODE for node in _nodes(plan)):
        return frame
    spark = frame.sparkSession
    bare = _without(plan, spark._jvm)
    made = ClassicDataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, bare), spark)
    return _marked(made, {})


def with_time_marks(frame: DataFrame, columns: Iterable[str], row_time: Iterable[str]) -> DataFrame:
    """The same rows, and Spark's operators know of which columns the watermark speaks."""
    marks: dict[str, dict[str, int]] = {name: {WATERMARK_KEY: 0} for name in columns}
    whole = list(row_time)
    for name in whole:
        marks.setdefault(name, {})[ROW_TIME_KEY] = len(whole)
    return _marked(frame, marks)


def with_marks_of(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with the marks that columns of the same name have in a schema; for steps that lose them on the way."""
    keys = (WATERMARK_KEY, ROW_TIME_KEY)
    marks = {item.name: {key: item.metadata[key] for key in keys if key in item.metadata} for item in schema}
    return _marked(frame, marks)


def _marked(frame: DataFrame, marks: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    columns = []
    for item in frame.schema:
        own = {key: value for key, value in item.metadata.items() if key not in (WATERMARK_KEY, ROW_TIME_KEY)}
        wanted = {**own, **marks.get(item.name, {})}
        column = f.col("`" + item.name.replace("`", "``") + "`")
        columns.append(column if wanted == item.metadata else column.alias(item.name, metadata=wanted))
    return frame.select(*columns)


# -- Spark's logical plan ------------------------------------------------------------------------------------------------


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.logicalPlan()


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(number) for number in range(children.size())]


def _nodes(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _children(node)


def _keeps_state(node: Any) -> bool:
    kind = _kind(node)
    if kind == "Join":
        return all(child.isStreaming() for child in _children(node))
    return kind in _STATEFUL and bool(node.isStreaming())


def _without(node: Any, jvm: Any) -> Any:
    if _kind(node) == _WATERMARK_NODE:
        return _without(node.child(), jvm)
    before = _children(node)
    after = [_without(child, jvm) for child in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return node
    return node.withNewChildren(jvm.PythonUtils.toSeq(after))
