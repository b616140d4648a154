"""Every exception Penstock raises.

Four families, because four different people must act: the author of a query (`UserError`), the owner of the data
(`DataError`), the owner of the machine (`CapacityError`) and the makers of Penstock (`Defect`). Each exception has a
stable `code` for scripts, a `place`, and a text that says what was found, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a text a mistake stands; `line` and `column` count from 1."""

    source: str
    line: int = 0
    column: int = 0
    excerpt: str = ""
    width: int = 1

    def __str__(self) -> str:
        where = self.source if not self.line else f"{self.source}, line {self.line}, column {self.column}"
        if not self.excerpt:
            return where
        line, column = _around(self.excerpt, self.column)
        indent = len(line) - len(line.lstrip())
        marker = " " * max(column - 1 - indent, 0) + "^" * min(max(self.width, 1), _LONGEST_LINE)
        return f"{where}\n    {line.strip()}\n    {marker}"


#: Longer lines are shown around the place only.
_LONGEST_LINE = 240


def _around(line: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and where in it the place begins."""
    if len(line) <= _LONGEST_LINE:
        return line, column
    start = max(column - 1 - _LONGEST_LINE // 4, 0)
    shown = line[start : start + _LONGEST_LINE]
    return f"{'…' * (start > 0)}{shown}{'…' * (start + len(shown) < len(line))}", column - start + (start > 0)


class PenstockError(Exception):
    """Base of all; never raised itself."""

    code = "penstock.error"

    def __init__(self, message: str, place: Place | str | None = None) -> None:
        self.message = message
        self.place = Place(place) if isinstance(place, str) else place
        super().__init__(self._text())

    def _text(self) -> str:
        return f"{self.code}  {self.place}\n{self.message}" if self.place else f"{self.code}  {self.message}"

    def at(self, place: Place | None) -> Self:
        """The same error at a better known place; for callers that know the text a value came from."""
        self.place = place
        self.args = (self._text(),)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers); the default would call __init__ with the joined text.
        return (_rebuild, (type(self), self.message, self.place))


def _rebuild(cls: type[PenstockError], message: str, place: Place | None) -> PenstockError:
    error = cls.__new__(cls)
    PenstockError.__init__(error, message, place)
    return error


class UserError(PenstockError):
    """The query, declaration or call is wrong; its author must change it."""


class DataError(PenstockError):
    """The data violate a declaration, and the policy says to stop."""


class CapacityError(PenstockError):
    """Not enough memory, disk space or time."""


class Defect(PenstockError):
    """A broken promise inside Penstock; please report it with the text."""

    code = "penstock.defect"

    def _text(self) -> str:
        return super()._text() + "\nThis is a defect of Penstock, not of your query: please report it with this text."


#: Names shorter than this are taken as they are: of two letters each is another name.
_SHORT = 4


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return the sentence that lists what exists and the nearest name.

    Examples
    --------
    >>> suggestion("C_SPEED", ["car_id", "speed"])
    "it has car_id, speed. Did you mean 'speed'?"
    """
    names = list(candidates)
    if not names:
        return "it has none."
    lowered = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    hint = f" Did you mean '{lowered[near[0]]}'?" if near else ""
    return f"it has {', '.join(names)}.{hint}"


def is_near(name: str, other: str) -> bool:
    """Whether a name looks like another one with a typing mistake: case, a letter too many, too few, wrong or out of place.

    Examples
    --------
    >>> is_near("ConfrimOrder", "ConfirmOrder"), is_near("UseLocalStock", "UseRemoteStock"), is_near("Step1", "Step2")
    (True, False, False)
    """
    one, two = name.lower(), other.lower()
    if one == two or min(len(one), len(two)) < _SHORT:
        return one == two
    start = next((at for at, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))
    one, two = one[start:], two[start:]
    if one[:1].isdigit() or two[:1].isdigit():
        return False  # names that are numbered differ by their number
    swapped = one[1:2] + one[:1] + one[2:]
    return two in (one[1:], swapped) or one == two[1:] or one[1:] == two[1:]


class UnknownColumn(UserError):
    code = "language.unknown-column"

    def __init__(self, owner: str, name: str, candidates: Iterable[str], place: Place | str | None = None) -> None:
        super().__init__(f"{owner} has no column '{name}'; {suggestion(name, candidates)}", place)


class UnknownStream(UserError):
    code = "language.unknown-stream"

    def __init__(self, name: str, candidates: Iterable[str], place: Place | str | None = None) -> None:
        super().__init__(f"there is no stream or query '{name}'; the application: {suggestion(name, candidates)}", place)


class SyntaxMistake(UserError):
    code = "language.syntax"


class TypeMistake(UserError):
    code = "language.type"


class InvalidPlan(UserError):
    code = "plan.invalid"


class InvalidWindow(UserError):
    code = "plan.window"


class InvalidDeclaration(UserError):
    code = "plan.declaration"


class UnknownName(UserError):
    code = "workloads.unknown-name"

    def __init__(self, owner: str, what: str, name: str, candidates: Iterable[str], place: Place | str | None = None) -> None:
        super().__init__(f"{owner} has no {what} '{name}'; {suggestion(name, candidates)}", place)


class UnknownExample(UnknownName):
    code = "apps.unknown-name"


class RefusedByRun(UserError):
    """What a run has said to a request of another process: its own error, in its words."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text.removeprefix(f"{code}  "))


class UnknownQuery(UnknownName):
    code = "apps.unknown-query"


class UnknownReproduction(UnknownName):
    code = "experiments.unknown-name"


class InvalidOption(UserError):
    code = "workloads.option"


class NotText(UserError):
    """A file that should hold text in UTF-8 and does not."""

    code = "apps.not-text"

    def __init__(self, file: str, content: bytes, position: int) -> None:
        line = content.count(b"\n", 0, position) + 1
        column = position - content.rfind(b"\n", 0, position)
        message = f"byte {position} (0x{content[position]:02x}) is not valid UTF-8; save the file as UTF-8"
        super().__init__(message, Place(f"file '{file}'", line, column))


class NoSuchFile(UserError):
    code = "apps.no-such-file"

    def __init__(self, name: str, what: str, candidates: Iterable[str]) -> None:
        known = suggestion(name, candidates).replace("it has", "there are", 1)
        super().__init__(f"'{name}' {what}; give the path of an application in SQL: {known}")


class InvalidPattern(DataError):
    code = "data.bad-punctuation"


class PunctuationViolated(DataError):
    code = "data.punctuation-violated"


class LateRows(DataError):
    code = "data.late-rows"


class LateAnswer(DataError):
    code = "data.late-answers"


class BadRows(DataError):
    code = "data.bad-rows"


class UnreadableFile(DataError):
    code = "data.unreadable-file"


class UnreadableMessage(DataError):
    code = "data.unreadable-message"


class NumericOverflow(DataError):
    code = "data.numeric-overflow"


class InvalidEventPattern(UserError):
    code = "patterns.invalid"


class TooManyWindows(CapacityError):
    code = "capacity.windows"


class TooManyRuns(CapacityError):
    code = "capacity.pattern-runs"


class Overloaded(CapacityError):
    """More work comes than can be done, so that a latency does not exist."""

    code = "capacity.overloaded"


class InvalidConfiguration(UserError):
    code = "operators.configuration"


class InvalidConstraint(UserError):
    code = "constraints.invalid"


class InvalidModel(UserError):
    """A figure or a plan with which capacity cannot be reckoned."""

    code = "qos.model"


class UnknownEventType(UnknownName):
    code = "constraints.unknown-type"


class NeverMatches(UserError):
    code = "constraints.never-matches"


class InvalidWorkflow(UserError):
    code = "constraints.workflow"


class ConstraintViolated(DataError):
    code = "data.constraint-violated"


class FilterMisbehaved(UserError):
    code = "operators.filter"


class FilterFailed(DataError):
    code = "data.filter-failed"


class FunctionMisbehaved(FilterMisbehaved):
    code = "functions.misbehaved"


class FunctionFailed(DataError):
    code = "data.function-failed"

    def __init__(self, name: str, cause: Exception) -> None:
        super().__init__(f"function '{name}' raised {type(cause).__name__}: {cause}", f"function '{name}'")


class StateFormat(UserError):
    code = "state.format"


class StateUnwritable(CapacityError):
    code = "state.unwritable"


class JavaEnded(CapacityError):
    code = "spark.java-ended"


class Interrupted(CapacityError):
    """Not a fault: the run was stopped before it had results to show."""

    code = "run.interrupted"

    def __init__(self, number: int) -> None:
        super().__init__("stopped as asked for; unfinished work is repeated when the run continues")
        self.signal = number


class DamagedRecord(CapacityError):
    code = "state.damaged"

    def __init__(self, file: object, what: str) -> None:
        self.what = what
        super().__init__(
            f"the file {what}; `penstock doctor CHECKPOINT` shows what else is damaged and what can be repaired", f"file '{file}'"
        )


class NotAdmitted(UserError):
    code = "qos.not-admitted"


class CheckpointInUse(UserError):
    code = "state.in-use"


class CheckpointMoved(UserError):
    code = "state.moved"


class ForeignDirectory(UserError):
    code = "sinks.foreign-directory"


class SharedDirectory(UserError):
    code = "sinks.shared-directory"


class OutOfMemory(CapacityError):
    code = "capacity.memory"
