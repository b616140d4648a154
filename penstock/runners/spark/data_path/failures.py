"""Spark's failures as Penstock's errors: the cause a person can act on, in front."""

from __future__ import annotations

import re

import penstock.errors as errors
from penstock.errors import CapacityError, PenstockError, StateUnwritable, UnreadableFile, UnreadableMessage
from penstock.runners.spark.processes.packages import MissingPackage

_MODULE = "penstock.errors."
_TRACEBACK = "Traceback (most recent call last):"
#: What Python says of a module that it does not find.
_LACKING = "ModuleNotFoundError: No module named "
_FULL = ("No space left on device", "Disk quota exceeded")
#: How Spark introduces what a worker raised.
_WRAPPED = "An exception was thrown from the Python worker:"
#: How Python introduces what this module has raised before.
_FAILED = "QueryFailed: spark.query-failed"
#: How Spark says which file it could not read; the reason comes with the next cause, if it is given.
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE.*?reading file (?P<path>.+?)\.\s*(?:SQLSTATE|$|[A-Z])")
_CAUSE = "Caused by: "
#: How Spark says that another of its threads has failed; the reason comes with the next causes.
_AWAITED = "Exception thrown in awaitResult"
#: How Spark's connector says that it cannot hold the time of a message.
_MISTIMED = re.compile(
    r"Record at topic (?P<topic>\S+) partition (?P<part>\d+) offset (?P<offset>\d+) has timestamp value (?P<time>-?\d+)"
)
#: What Java says of the fraction of a second that some writers of ORC files give to times before 1970.
_FRACTION = "nanos > 999999999 or < 0"
#: What Python says when Java has raised: Java's own words follow.
_OF_JAVA = "py4j.protocol.Py4JJavaError"
#: Lines of a message after its first; more would be the traceback's.
_MOST_LINES = 6
#: Letters of what Java says: it repeats whole records.
_LONGEST = 400


#: Java's words for a query that is being stopped, and what Spark itself recognises a stop by when Python says it.
_STOPPED = ("java.lang.InterruptedException", "InterruptedIOException", "ClosedByInterruptException", "cancelled")
_INTERRUPTED = "py4j.protocol.Py4JJavaError: An error occurred while calling a micro-batch: java.lang.InterruptedException"


class QueryFailed(CapacityError):
    code = "spark.query-failed"


class BatchInterrupted(RuntimeError):
    """The query is being stopped in the middle of a micro-batch."""


def in_short(failure: Exception) -> Exception:
    """What a micro-batch that failed tells Spark.

    Spark looks with a regular expression for the signs of a stop, and on a long text that expression ends with a stack overflow,
    in the thread of the query, which then dies without a word about the cause.
    """
    return BatchInterrupted(_INTERRUPTED) if any(sign in str(failure) for sign in _STOPPED) else translated(failure)


def translated(failure: Exception) -> PenstockError:
    """The error that a shard, a source or a disk met, whatever Spark and Python have wrapped around it."""
    if isinstance(failure, PenstockError):
        return failure
    text = str(failure)
    if any(words in text for words in _FULL):
        return StateUnwritable(
            "the disk of the checkpoint is full, so state could not be saved; nothing is lost: free space and start again "
            "with the same checkpoint"
        )
    lines = text.splitlines()
    for line in lines:
        if _LACKING in line:
            return _lacking(line.split(_LACKING, 1)[1].strip().strip("'\""))
    for number, line in enumerate(lines):
        if _FAILED in line:
            return QueryFailed("\n".join([line.split(_FAILED, 1)[1].strip(), *_message(lines[number + 1 :])]).strip())
        if _MODULE in line:
            return _raised(line.split(_MODULE, 1)[1], _message(lines[number + 1 :]))
    for number, line in enumerate(lines):
        if match := _UNREADABLE.search(line):
            return _unreadable(match["path"], lines[number + 1 :])
        if match := _MISTIMED.search(line):
            return _mistimed(match)
    return QueryFailed(_cause(lines) or repr(failure))


def _unreadable(path: str, following: list[str]) -> PenstockError:
    """A file that is damaged as a whole, or a record of it that stops Spark's reader."""
    causes = [line.split(_CAUSE, 1)[1] for line in following if line.startswith(_CAUSE)]
    if any(_FRACTION in cause for cause in causes):
        why = (
            "a time before 1970 has a negative fraction of a second, which ORC does not allow and some writers, such as Arrow's, "
            "write; write the file with Spark, or as Parquet, or such times in whole seconds, or take the file away"
        )
        return UnreadableFile(why, f"file '{path}'")
    why = causes[0] if causes else "Spark cannot read it"
    return UnreadableFile(f"{_shortened(why)}; correct the declaration or the file, or take the file away", f"file '{path}'")


def _mistimed(found: re.Match[str]) -> PenstockError:
    return UnreadableMessage(
        f"the message was sent {found['time']} milliseconds after 1970, which Spark cannot hold; let its producer send "
        "milliseconds (message.timestamp.after.max.ms of the topic refuses others). Reading goes on when the message is gone: "
        "kafka-delete-records takes it and all before it away, and failOnDataLoss 'false' lets the stream go on behind it",
        f"topic '{found['topic']}', partition {found['part']}, offset {found['offset']}",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _lacking(module: str) -> PenstockError:
    return MissingPackage(
        f"workers do not have the Python module {module}; install it for the interpreter of every worker (PYSPARK_PYTHON names "
        "it), or ship an environment with spark.archives"
    )


def _cause(lines: list[str]) -> str:
    """The last line of the first Python traceback that is not about another, else Java's or Spark's first line."""
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    causes = [line.split(_CAUSE, 1)[1] for line in lines if line.startswith(_CAUSE) and "Python Proxy" not in line]
    if causes and any(line.startswith(_OF_JAVA) for line in lines):
        return _shortened(causes[-1])
    if not starts:
        said = [line for line in lines if not line.startswith("An error occurred while calling")]
        if causes and said and _AWAITED in said[0]:
            return _shortened(causes[-1])
        return said[0].removeprefix(": ") if said else ""
    ends = [next((line for line in lines[start + 1 :] if line.strip() and not line[0].isspace()), lines[0]) for start in starts]
    return next((line for line in ends if not line.rstrip().endswith(_WRAPPED)), ends[0])


def _raised(first: str, following: list[str]) -> PenstockError:
    """The error again, from the last lines of the traceback it ended."""
    name, _, text = first.partition(":")
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, PenstockError)):
        return QueryFailed("\n".join([first, *following]))
    place = text.strip().removeprefix(kind.code).strip()
    message = "\n".join(following) or place
    error = kind.__new__(kind)
    PenstockError.__init__(error, message, place if following else None)
    return error


def _message(lines: list[str]) -> list[str]:
    """The rest of a message, up to the next traceback, Java frame or what Spark adds."""
    kept: list[str] = []
    for line in lines[:_MOST_LINES]:
        if not line.strip() or line.lstrip().startswith(("at ", _TRACEBACK, "File ", "SQLSTATE:", "=== ")):
            break
        kept.append(line)
    return kept
