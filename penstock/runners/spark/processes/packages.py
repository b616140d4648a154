"""Whether Python has what Penstock needs, where the driver and its workers run: asked before a query starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

from penstock.errors import UserError
from penstock.runners.spark.processes.prepared_python import is_prepared

#: Module to import, and the package that has it.
NEEDED = {
    "penstock": "penstock",
    "numba": "numba",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "zstandard": "zstandard",
}
_ASKING = """
import sys
from importlib.util import find_spec
def has(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
print(",".join(name for name in sys.argv[1:] if not has(name)))
"""


class MissingPackage(UserError):
    code = "spark.missing-package"


def require_packages(master: str, python: str) -> None:
    """Raise `MissingPackage` if the driver, or workers on this machine, lack a module; `python` is the workers' interpreter."""
    lacking = [name for name in NEEDED if not _has(name)]
    if lacking:
        raise MissingPackage(f"{_named(lacking)} missing in {sys.executable}; pip install {_packages(lacking)}")
    if not master.startswith("local"):
        return  # only a task can tell; `failures` explains what it meets
    lacking = _lacking(python)
    if lacking:
        raise MissingPackage(
            f"{_named(lacking)} missing in {python}, the interpreter of Spark's workers; set PYSPARK_PYTHON={sys.executable} "
            f"before the session is created, or install there: {_packages(lacking)}"
        )


@cache
def _lacking(python: str) -> list[str]:
    """Modules that another interpreter does not find; none if it is this one, or cannot be asked."""
    found = shutil.which(python)
    if found is None or is_prepared(python) or os.path.abspath(found) == os.path.abspath(sys.executable):
        return []
    asked = subprocess.run([found, "-c", _ASKING, *NEEDED], capture_output=True, text=True, timeout=60, check=False)
    return [name for name in asked.stdout.strip().split(",") if name] if asked.returncode == 0 else []


def _has(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package it would be in
        return False


def _named(modules: list[str]) -> str:
    return f"Python modules {', '.join(modules)} are" if len(modules) > 1 else f"the Python module {modules[0]} is"


def _packages(modules: list[str]) -> str:
    return " ".join(NEEDED[name] for name in modules)
