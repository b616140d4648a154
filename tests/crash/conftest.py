"""The application that is killed, and the answers it must have given in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from driver import application
from victim import QUERIES, Bag, Victim, bag_of

from penstock.testing.undisturbed import undisturbed

#: How often each crash test is repeated, every time with other moments.
ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "round_number" in metafunc.fixturenames:
        metafunc.parametrize("round_number", range(ROUNDS))


@pytest.fixture(scope="session")
def expected() -> Bag:
    runner = undisturbed(application("/nowhere"))
    tables = {query: pa.Table.from_batches([batch.rows for batch in runner.collected.answers[query]]) for query in QUERIES}
    return {query: bag_of(table) for query, table in tables.items()}


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    found = Victim(tmp_path, tmp_path / "checkpoint")
    yield found
    if found.is_running:
        found.kill()
