"""Declared constraints: from words to values, and which of them bear on a query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.errors import InvalidConstraint, InvalidWorkflow, SyntaxMistake, UnknownColumn, UnknownEventType, UnknownStream
from penstock.language.constraint_clauses import ClauseText, ConstraintStatement
from penstock.language.syntax import Word
from penstock.metadata.constraints.clauses import (
    Constraint,
    at_most_once,
    exclusive,
    horn,
    never,
    prior,
    require,
    terminal,
)
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.declared import DeclaredConstraints, united
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.metadata.constraints.workflows.workflow import Workflow, order_fulfilment
from penstock.model.declarations import StreamDeclaration

#: What can happen to events that break a constraint, by its word.
POLICIES = {"QUARANTINE": ViolationPolicy.RECORD, "ERROR": ViolationPolicy.ERROR, "SHADOW": ViolationPolicy.SHADOW}
#: How many types each kind takes; None for two and more.
_TAKES: dict[str, int | None] = {
    "PRIOR": 2, "REQUIRE": 2, "AT_MOST_ONCE": 1, "TERMINAL": 1, "NEVER": 1, "EXCLUSIVE": None
}  # fmt: skip
#: The process that ships with Penstock, by the name it has instead of a file.
SHIPPED = "order_fulfilment"


def declare_constraints(
    statement: ConstraintStatement, streams: Iterable[StreamDeclaration], names: Iterable[str]
) -> DeclaredConstraints:
    """The constraints a statement declares.

    Parameters
    ----------
    streams
        All declared streams.
    names
        Names of streams and queries: without a stream of their own, event types are such names.
    """
    stream = _stream(statement, list(streams), list(names))
    rules = _from_workflow(statement, statement.workflow) if statement.workflow else _written(statement)
    if stream is not None:
        _check_key(statement, rules, stream)
    else:
        rules = _spelled(statement, rules, list(names))
    policy = POLICIES[statement.policy.text] if statement.policy else ViolationPolicy.RECORD
    about, is_whole = stream.name if stream else "", statement.workflow is not None
    is_said = statement.policy is not None
    return DeclaredConstraints(statement.name.text, about, rules, policy, statement.reuse_keys, is_whole, is_said)


def applied(
    declared: Iterable[DeclaredConstraints], stream: str, key: tuple[str, ...], notes: list[str]
) -> DeclaredConstraints | None:
    """Those that bear on a query with this key over a stream, as one; `notes` gets a sentence for each that does not."""
    about = [each for each in declared if each.is_about(stream)]
    for each in about:
        if not each.has_key(key):
            looks_at = f"this query looks at ({', '.join(key)})" if key else "this query has no key"
            notes.append(f"constraint '{each.name}' is not used: it holds for traces of ({', '.join(each.rules.key)}), {looks_at}")
    return united([each for each in about if each.has_key(key)], key)


def _stream(statement: ConstraintStatement, streams: list[StreamDeclaration], names: list[str]) -> StreamDeclaration | None:
    if statement.stream is None:
        return None
    for stream in streams:
        if stream.name.lower() == statement.stream.text.lower():
            return stream
    raise UnknownStream(statement.stream.text, names, statement.stream.place)


def _check_key(statement: ConstraintStatement, rules: ConstraintSet, stream: StreamDeclaration) -> None:
    for name in rules.key:
        if name not in stream.schema:
            place = next((word.place for word in statement.key if word.text == name), statement.name.place)
            raise UnknownColumn(stream.schema.owner, name, stream.schema.names, place)


def _from_workflow(statement: ConstraintStatement, file: Word) -> ConstraintSet:
    try:
        workflow = order_fulfilment() if file.text == SHIPPED else Workflow.from_file(Path(file.text))
    except OSError as error:
        text = f"'{file.text}' cannot be read: {error.strerror}; give a YAML file, or '{SHIPPED}' for the process that ships"
        raise InvalidWorkflow(text, file.place) from None
    rules = workflow.constraints()
    key = tuple(word.text for word in statement.key) or rules.key
    if not key:
        raise InvalidConstraint("the workflow does not say what tells one run from another; write ON stream (key)", file.place)
    return ConstraintSet(key, rules.event_types, rules.constraints, rules.is_trusted)


def _written(statement: ConstraintStatement) -> ConstraintSet:
    types = dict.fromkeys(word.text for clause in statement.clauses for word in _words(clause))
    found = tuple(_constraint(clause) for clause in statement.clauses)
    return ConstraintSet(tuple(word.text for word in statement.key), tuple(types), found)


def _words(clause: ClauseText) -> tuple[Word, ...]:
    return (*clause.types, clause.then) if clause.then else clause.types


def _constraint(clause: ClauseText) -> Constraint:
    kind, names = clause.kind.text, [word.text for word in clause.types]
    takes = _TAKES.get(kind, len(names))
    if len(names) != takes and (takes is not None or len(names) < 2):
        number = "two or more types" if takes is None else "one type" if takes == 1 else "two types"
        raise SyntaxMistake(f"{kind} takes {number}, not {len(names)}", clause.kind.place)
    try:
        match kind:
            case "PRIOR":
                return prior(*names)
            case "REQUIRE":
                return require(*names)
            case "AT_MOST_ONCE":
                return at_most_once(*names)
            case "TERMINAL":
                return terminal(*names)
            case "NEVER":
                return never(*names)
            case "EXCLUSIVE":
                return exclusive(*names)
            case _:
                return horn(*names, then=clause.then.text if clause.then else None)
    except InvalidConstraint as error:
        raise error.at(clause.kind.place) from None


def _spelled(statement: ConstraintStatement, rules: ConstraintSet, names: list[str]) -> ConstraintSet:
    """A check that every type is a stream or query."""
    known = set(names)
    places = {word.text: word.place for clause in statement.clauses for word in _words(clause)}
    for name in rules.event_types:
        if name not in known:
            raise UnknownEventType("the application", "stream or query", name, names, places.get(name, statement.name.place))
    return rules
