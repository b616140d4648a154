"""Make Python data sources known to a session, once."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source; a session that knows it already is left alone.

    Spark lets a session replace its own sources, but refuses those it has taken over from another session.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as refused:
        if refused.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
