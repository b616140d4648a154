"""What Spark reports, as one message a person can act on."""

from __future__ import annotations

from penstock.errors import StateUnwritable, UnreadableFile, UnreadableMessage
from penstock.runners.spark.data_path.failures import QueryFailed, translated

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


_OF_JAVA = """[FOREACH_BATCH_USER_FUNCTION_ERROR] Reason: An exception was raised by the Python Proxy. Return Message:
Traceback (most recent call last):
  File "call.py", line 2, in call
    self.func()
py4j.protocol.Py4JJavaError: An error occurred while calling o2501.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.Wait.result(Wait.scala:1)
Caused by: org.apache.spark.SparkException: {first}
\tat org.apache.spark.Scan.next(Scan.scala:1)
Caused by: {last}
"""


def test_a_file_that_spark_cannot_read_is_named_with_the_reason() -> None:
    first = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/001 a.csv.  SQLSTATE: KD001"
    found = translated(RuntimeError(_OF_JAVA.format(first=first, last="java.io.IOException: " + "x" * 5000)))
    assert isinstance(found, UnreadableFile)
    assert str(found).startswith("data.unreadable-file  file 'file:///in/001 a.csv'")
    assert "java.io.IOException: xxx" in str(found)
    assert "take the file away" in str(found)
    assert len(str(found)) < 1000


def test_what_java_says_is_found_below_what_python_says_of_it() -> None:
    found = translated(RuntimeError(_OF_JAVA.format(first="Job aborted", last="java.lang.IllegalArgumentException: nanos < 0")))
    assert isinstance(found, QueryFailed)
    assert found.message == "java.lang.IllegalArgumentException: nanos < 0"


_DIRECTLY = """An error occurred while calling o1076.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.Wait.result(Wait.scala:1)
Caused by: {cause}
\tat org.apache.spark.Scan.next(Scan.scala:1)
Caused by: java.lang.ArithmeticException: long overflow
"""


def test_what_java_says_is_found_where_no_python_is_between() -> None:
    found = translated(RuntimeError(_DIRECTLY.format(cause="java.lang.RuntimeException: outer")))
    assert isinstance(found, QueryFailed)
    assert found.message == "java.lang.ArithmeticException: long overflow"


def test_a_message_whose_time_spark_cannot_hold_is_named_with_what_to_do() -> None:
    said = (
        "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic a.b-c partition 3 offset 17 has timestamp value "
        "9223372036854775807 that overflows when converting to Spark's microsecond-precision TimestampType."
    )
    found = translated(RuntimeError(_DIRECTLY.format(cause=said)))
    assert isinstance(found, UnreadableMessage)
    assert str(found).startswith("data.unreadable-message  topic 'a.b-c', partition 3, offset 17")
    assert "9223372036854775807 milliseconds" in str(found)
    assert "kafka-delete-records" in str(found)


def test_times_that_orc_does_not_allow_are_told_from_other_faults_of_a_file() -> None:
    first = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.orc.  SQLSTATE: KD001"
    last = "java.lang.IllegalArgumentException: nanos > 999999999 or < 0"
    found = translated(RuntimeError(_OF_JAVA.format(first=first, last=last)))
    assert isinstance(found, UnreadableFile)
    assert "file:///in/a.orc" in str(found)
    assert "before 1970" in str(found)
