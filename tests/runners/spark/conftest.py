"""One Spark session for all tests of the runner: the one a user gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.runners.spark.processes.session import create_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Tests are short: what the second compiler would gain it would not earn back.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    session = create_session("penstock tests", "local[2]", conf=conf)
    yield session
    session.stop()
