"""Python processes of Spark are forked from one that has imported everything, and cannot tell the difference."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.runners.spark.processes import prepared_python
from penstock.runners.spark.processes.prepared_python import is_prepared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks after Arrow is loaded are safe on Linux")

_LOOKS = """
import os, sys
print(sys.argv[1:], os.environ["MOOD"], os.getcwd(), "HOME" in os.environ)
print("pyarrow" in sys.modules, len(os.listdir("/proc/self/task")))
print(sys.stdin.read().upper(), file=sys.stderr)
sys.exit(7)
"""
_WAITS = "import time\nprint('there', flush=True)\ntime.sleep(60)\n"


@pytest.fixture(scope="module")
def shim() -> str:
    with prepared_python.prepared_python():
        return os.environ["PYSPARK_PYTHON"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "looks.py").write_text(_LOOKS)
    (tmp_path / "waits.py").write_text(_WAITS)
    return tmp_path


def test_a_fork_has_the_arguments_environment_folder_and_files_it_was_started_with(shim: str, folder: Path) -> None:
    environment = {"MOOD": "fine", "PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}
    found = subprocess.run(
        [shim, "-m", "looks", "one", ""], input=b"heard", capture_output=True, cwd=folder, env=environment, check=False
    )
    assert found.stdout.decode() == f"['one', ''] fine {folder} False\nTrue 1\n"
    assert found.stderr == b"HEARD\n"
    assert found.returncode == 7


def test_whoever_ends_the_process_ends_the_fork(shim: str, folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen([shim, "-m", "waits"], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        shown = [Path(f"/proc/{each}/cmdline").read_bytes().rstrip(b"\0").split(b"\0") for each in _forks()]
        assert [sys.executable.encode(), b"-m", b"waits"] in shown
        process.terminate()
        assert process.stdout.read() == b""  # closed by the fork, which had it too
        assert process.wait(10) == -signal.SIGTERM


def _forks() -> list[int]:
    (prepared,) = prepared_python._started.values()
    return [int(each) for each in Path(f"/proc/{prepared.pid}/task/{prepared.pid}/children").read_text().split()]


def test_other_ways_to_start_python_work_as_ever(shim: str) -> None:
    found = subprocess.run([shim, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True)
    assert found.stdout.decode().strip() == sys.executable
    assert is_prepared(shim)
    assert not is_prepared(sys.executable)


def test_a_module_that_is_loaded_already_runs_without_a_word(shim: str) -> None:
    found = subprocess.run([shim, "-m", "pyspark.sql.worker.lookup_data_sources"], capture_output=True, check=False)
    assert b"RuntimeWarning" not in found.stderr


def test_without_the_prepared_process_it_is_python(folder: Path) -> None:
    nobody = [sys.executable, "-I", "-S", prepared_python.python_shim.__file__, str(folder / "nobody")]
    found = subprocess.run([*nobody, "-c", "import pyarrow; print('here')"], capture_output=True, check=True)
    assert found.stdout == b"here\n"


def test_it_ends_with_the_process_that_has_started_it() -> None:
    program = (
        "from penstock.runners.spark.processes import prepared_python as found; found.begin_python(); "
        "print(*found._started, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        shim = Path(driver.stdout.readline().decode().strip())
        asking = subprocess.run([shim, "-c", "import os; print(os.getppid())"], capture_output=True, check=True)
        prepared = Path(f"/proc/{int(asking.stdout)}")
        driver.kill()
    deadline = time.monotonic() + 10
    while prepared.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not prepared.exists()
    assert not shim.parent.exists()


def test_an_interpreter_that_a_user_has_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    with prepared_python.prepared_python():
        assert os.environ["PYSPARK_PYTHON"] == "/their/python"
