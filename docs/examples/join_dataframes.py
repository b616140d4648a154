"""One line of Penstock in an ordinary PySpark job: which clicks follow an impression within ten seconds?

python docs/examples/join_dataframes.py
"""

import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession

import penstock as ps

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Spark's workers must run the interpreter that has Penstock; in an activated environment this is the default.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

spark = (
    SparkSession.builder.master("local[2]")
    .appName("join_dataframes")
    # Penstock needs the RocksDB state store; the number of shuffle partitions is the number of shards.
    .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.log.level", "ERROR")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
folder = tempfile.mkdtemp(prefix="penstock-join-")


def rate(rows: int) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", rows).load()


impressions = rate(1000).selectExpr("value AS ad_id", "timestamp AS shown").withWatermark("shown", "5 seconds")
clicks = rate(100).selectExpr("value * 10 AS ad_id", "timestamp AS clicked").withWatermark("clicked", "5 seconds")

# Late rows go to a directory instead of being dropped. An impression is shown once: a click that found it is not stored.
joined = ps.join(ps.stream(impressions, unique="ad_id"), clicks, on="ad_id", within="10 seconds", quarantine=f"{folder}/late")

query = joined.writeStream.format("memory").queryName("pairs").option("checkpointLocation", f"{folder}/checkpoint").start()
while query.isActive and spark.table("pairs").count() < 1000:
    query.awaitTermination(1)
query.stop()
spark.table("pairs").orderBy("ad_id").show(3, truncate=False)
print(spark.table("pairs").count(), "clicks with their impression")
spark.stop()
