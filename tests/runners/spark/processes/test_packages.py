"""What Python lacks is said before a query starts, or in one sentence after it."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

import penstock as ps
from penstock.runners.spark.data_path.failures import translated
from penstock.runners.spark.processes.packages import MissingPackage, require_packages


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without any package."""
    folder: Path = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def test_workers_that_run_another_interpreter_are_asked_for_packages(bare_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    require_packages("local[2]", sys.executable)
    require_packages("spark://host:7077", bare_python)  # only its tasks can tell
    with pytest.raises(MissingPackage, match=r"modules .*numba.* are missing in .*bare.*set PYSPARK_PYTHON=") as found:
        require_packages("local[2]", bare_python)
    assert "grpcio" in found.value.message
    assert os.path.abspath(sys.executable) in found.value.message


def test_a_module_that_a_task_does_not_find_is_named() -> None:
    found = translated(
        RuntimeError("Job aborted\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'numba'")
    )
    assert isinstance(found, MissingPackage)
    assert "workers do not have the Python module numba" in found.message


def test_every_public_name_is_there() -> None:
    assert sorted(ps.__all__) == sorted(dir(ps))
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    assert (Path(ps.__file__).parent / "py.typed").exists()
