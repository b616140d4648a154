"""What Spark reports, as one message a person can act on."""

from __future__ import annotations

from penstock.errors import StateUnwritable
from penstock.runners.spark.failures import QueryFailed, translated

_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{error}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.Runner.read(Runner.scala:1)
"""
_WRAPPED = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: An exception was raised by the Python Proxy. Return Message:
Traceback (most recent call last):
  File "call.py", line 2, in call
    self.func()
pyspark.errors.exceptions.captured.PythonException: """


def test_an_error_of_a_worker_is_found_below_what_spark_wraps_around_it() -> None:
    text = _WRAPPED + _WORKER.format(error="ZeroDivisionError: division by zero")
    found = translated(RuntimeError(text))
    assert isinstance(found, QueryFailed)
    assert found.message == "ZeroDivisionError: division by zero"


def test_an_error_of_penstock_keeps_its_kind_and_loses_what_spark_adds() -> None:
    found = translated(RuntimeError(_WRAPPED + _WORKER.format(error="penstock.errors.StateUnwritable: state.unwritable  no room")))
    assert isinstance(found, StateUnwritable)
    assert str(found) == "state.unwritable  no room"
