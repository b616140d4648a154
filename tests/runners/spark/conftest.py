"""One Spark session for all tests of the runner: the one a user gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.runners.spark.session import create_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    session = create_session("penstock tests", "local[2]", conf={"spark.sql.warehouse.dir": str(folder / "warehouse")})
    yield session
    session.stop()
