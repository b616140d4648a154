"""Process trees: what a process may do, as nested values.

Each performed task emits one event of its name. `Task.events` says otherwise: a task that emits none is silent, one that may
emit several is a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.errors import InvalidWorkflow


@dataclass(frozen=True, slots=True)
class Task:
    """One step of the process and the event it emits."""

    name: str
    events: Literal["one", "none", "several"] = "one"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing happens; one branch of an optional part."""

    def __str__(self) -> str:
        return "tau"


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[ProcessTree, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts, "sequence")

    def __str__(self) -> str:
        return f"SEQ({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Exactly one of the parts."""

    parts: tuple[ProcessTree, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts, "choice")

    def __str__(self) -> str:
        return f"XOR({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Parallel:
    """All parts, interleaved in any way."""

    parts: tuple[ProcessTree, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts, "parallel")

    def __str__(self) -> str:
        return f"AND({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Loop:
    """The body again and again, `least` to `most` times; `most` None: without limit."""

    body: ProcessTree
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        if self.least < 0 or (self.most is not None and self.most < max(self.least, 1)):
            raise InvalidWorkflow(f"a loop cannot run {self.least} to {self.most} times; give 0 or more, and at most 1 or more")

    @property
    def is_repeated(self) -> bool:
        """Whether the body may run more than once."""
        return self.most is None or self.most > 1

    def __str__(self) -> str:
        return f"LOOP({self.body}, {self.least}, {'*' if self.most is None else self.most})"


@dataclass(frozen=True, slots=True)
class Interruptible:
    """A full run of the body, or a proper beginning of one that `by` breaks off; only the whole process can be this."""

    body: ProcessTree
    by: str

    def __str__(self) -> str:
        return f"INT({self.body}, {self.by})"


ProcessTree: TypeAlias = Task | Silent | Sequence | Choice | Parallel | Loop | Interruptible


def optional(part: ProcessTree) -> Choice:
    """The part, or nothing."""
    return Choice((part, Silent()))


def tree_tasks(tree: ProcessTree) -> Iterator[Task]:
    """The tasks that emit events, left to right, an interrupting one last."""
    match tree:
        case Task(_, events):
            if events != "none":
                yield tree
        case Silent():
            return
        case Loop(body):
            yield from tree_tasks(body)
        case Interruptible(body, by):
            yield from tree_tasks(body)
            yield Task(by)
        case Sequence(parts) | Choice(parts) | Parallel(parts):
            for part in parts:
                yield from tree_tasks(part)


def _check_parts(parts: tuple[ProcessTree, ...], what: str) -> None:
    if not parts:
        raise InvalidWorkflow(f"a {what} needs at least one part")
