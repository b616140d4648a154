"""The words of `CREATE CONSTRAINT` and `CREATE CONSTRAINTS … FROM WORKFLOW`, as written."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType

from penstock.language.clauses import ClauseParser
from penstock.language.syntax import Text, Word, expected

KINDS = ("PRIOR", "EXCLUSIVE", "REQUIRE", "AT_MOST_ONCE", "TERMINAL", "NEVER", "HORN")
POLICIES = ("QUARANTINE", "ERROR", "SHADOW")


@dataclass(frozen=True, slots=True)
class ClauseText:
    """`KIND(type, …)`, or `HORN(type, … -> type)` with `then`, FALSE being no type."""

    kind: Word
    types: tuple[Word, ...]
    then: Word | None = None


@dataclass(slots=True)
class ConstraintStatement:
    """`CREATE CONSTRAINT name ON stream (key) AS …`, or `CREATE CONSTRAINTS name ON stream (key) FROM WORKFLOW 'file'`.

    `reuse_keys`: a key may name a new trace after the end of the old one.
    """

    text: Text
    name: Word
    stream: Word | None = None
    key: list[Word] = field(default_factory=list)
    clauses: list[ClauseText] = field(default_factory=list)
    workflow: Word | None = None
    policy: Word | None = None
    reuse_keys: bool = False


class ConstraintParser(ClauseParser):
    """Statements about the process behind events."""

    def _parse_constraint_statement(self, is_workflow: bool) -> ConstraintStatement:
        name = self._name("a name for the constraint")
        self.source = f"constraint '{name.text}'"
        statement = ConstraintStatement(Text(self.sql, self.source), name)
        if not self._match(TokenType.ON):
            found = self._curr.text if self._curr else ""
            raise self._mistake(expected(found, ["ON stream (key)", "ON (key)"], "after the name of a constraint"))
        if self._curr and self._curr.token_type is not TokenType.L_PAREN:
            statement.stream = self._name("a stream or (key)")
        if not is_workflow or (self._curr and self._curr.token_type is TokenType.L_PAREN):
            statement.key = self._names("a column of the key")
        if is_workflow:
            self._parse_workflow(statement)
        else:
            self._parse_clauses(statement)
        self._parse_manner(statement)
        return statement

    def _parse_manner(self, statement: ConstraintStatement) -> None:
        """`REUSE KEYS` and `ON VIOLATION …`, in any order, each once."""
        while self._curr:
            first = self._curr
            if not statement.reuse_keys and self._match_text_seq("REUSE"):
                self._expect("KEYS", context="after REUSE")
                statement.reuse_keys = True
            elif statement.policy is None and self._match(TokenType.ON):
                self._expect("VIOLATION", context="after ON")
                statement.policy = self._choose(POLICIES, "after ON VIOLATION")
            else:
                raise self._mistake(expected(first.text, ["REUSE KEYS", "ON VIOLATION"], "behind the constraints"))

    def _parse_workflow(self, statement: ConstraintStatement) -> None:
        self._expect("FROM", "WORKFLOW", context="after the stream of constraints")
        token = self._curr
        if not self._match(TokenType.STRING):
            raise self._mistake(expected(token.text if token else "", ["a file in quotes"], "after WORKFLOW"))
        statement.workflow = Word(token.text, self._place(token))

    def _parse_clauses(self, statement: ConstraintStatement) -> None:
        if not self._match(TokenType.ALIAS):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["AS"], "before the constraints"))
        statement.clauses.append(self._parse_clause())
        while self._match(TokenType.COMMA):
            statement.clauses.append(self._parse_clause())

    def _parse_clause(self) -> ClauseText:
        kind = self._choose(KINDS, "here")
        self._bracket(TokenType.L_PAREN, "(")
        types = [self._name("an event type")]
        while self._match(TokenType.COMMA):
            types.append(self._name("an event type"))
        then = None
        if kind.text == "HORN":
            if not self._match(TokenType.ARROW):
                raise self._mistake(expected(self._curr.text if self._curr else "", ["->", ","], "in HORN"))
            is_false = self._match(TokenType.FALSE)
            then = None if is_false else self._name("an event type or FALSE")
        self._bracket(TokenType.R_PAREN, ")")
        return ClauseText(kind, tuple(types), then)
