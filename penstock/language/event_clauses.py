"""The words of `EVENT … WHERE … WITHIN … RETURN …`, as written.

References such as `a[i-1].price` and `sum(a[..i-1].price)` are no SQL. Their tokens are folded into one name before sqlglot
reads the conditions, so that everything around them is parsed as in any other query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place
from penstock.expressions.event_references import FUNCTIONS
from penstock.language.clauses import ClauseParser
from penstock.language.syntax import Amount, Word, expected
from penstock.model.event_patterns import Absent, And, Atom, EventPattern, Or, Repeat, Seq, Strategy

_OPERATORS = ("SEQ", "AND", "OR", "ANY")
#: Words behind a pattern, which no variable can be called.
_CLAUSES = ("FROM", "PARTITION", "WHERE", "WITHIN", "RETURN", "OPTIONS", "OUTPUT")


@dataclass(frozen=True, slots=True)
class LeafText:
    """An event of the pattern: its types as sources, and the condition in brackets behind it."""

    types: tuple[exp.Table, ...]
    place: Place
    condition: exp.Expr | None = None


@dataclass(slots=True)
class EventText:
    """`EVENT …` as written; `leaves` are those of `pattern`, from left to right."""

    place: Place
    pattern: EventPattern
    leaves: list[LeafText]
    source: exp.Expr | None = None
    type_column: Word | None = None
    key: list[Word] = field(default_factory=list)
    strategy: tuple[Strategy, Place] | None = None
    conditions: list[exp.Expr] = field(default_factory=list)
    within: Amount | None = None
    #: Measures; None: the events themselves.
    returned: list[exp.Expr] | None = None
    returns_events: bool = False
    options: dict[str, str] = field(default_factory=dict)
    options_place: Place | None = None

    @property
    def tables(self) -> exp.Tuple:
        """The sources: what stands behind FROM, or each type."""
        types = {table.name.lower(): table for leaf in self.leaves for table in leaf.types}
        return exp.Tuple(expressions=[self.source] if self.source else [table.copy() for table in types.values()])


class EventParser(ClauseParser):
    """Adds event patterns to the clauses of the language."""

    def _parse_event(self) -> EventText:
        place = self._place()
        self._advance()
        self._tokens = [*self._tokens[: self._index], *folded(self._tokens[self._index :])]
        self._tokens_size = len(self._tokens)
        self._advance(0)
        leaves: list[LeafText] = []
        found = EventText(place, self._parse_event_alternatives(leaves), leaves)
        seen: set[str] = set()
        while self._curr and not self._is("OUTPUT", "TO"):
            first = self._curr
            self._parse_event_clause(found)
            if first.text.upper() in seen:
                raise self._mistake("this clause stands twice; keep one", first)
            seen.add(first.text.upper())
        return found

    def _parse_event_clause(self, found: EventText) -> None:
        """One clause behind the pattern; they come in any order."""
        place = self._place()
        if self._match(TokenType.FROM):
            found.source = self._parse_event_source()
            found.type_column = self._name("the column of types") if self._match_text_seq("TYPE") else None
        elif self._match(TokenType.PARTITION_BY):
            found.key += self._separated(lambda: self._name("a column"))
        elif self._match(TokenType.WHERE):
            self._parse_event_conditions(found)
        elif self._match_text_seq("WITHIN"):
            found.within = self._parse_amount()
        elif self._match_text_seq("RETURN"):
            self._parse_event_return(found)
        elif self._match_text_seq("OPTIONS"):
            found.options, found.options_place = self._parse_options(), place
        else:
            legal = ["FROM", "PARTITION BY", "WHERE", "WITHIN", "RETURN", "OPTIONS", "OUTPUT TO"]
            raise self._mistake(expected(self._curr.text, legal, "behind the pattern"))

    def _parse_event_source(self) -> exp.Expr:
        """A stream, a query or a select; what it is called does not matter, so it has no alias."""
        if self._match(TokenType.L_PAREN):
            source: exp.Expr = exp.Subquery(this=self._parse_whole_select())
            self._bracket(TokenType.R_PAREN, ")")
        else:
            token = self._curr
            name = self._name("a stream, a query or '('")
            source = exp.Table(this=exp.to_identifier(name.text, quoted=True).update_positions(token))
        if self._match(TokenType.L_BRACKET, advance=False):
            raise self._mistake("a pattern looks at all events; leave the window out and write WITHIN")
        return source

    def _separated(self, item: Callable[[], Any]) -> list[Any]:
        found = [item()]
        while self._match(TokenType.COMMA):
            found.append(item())
        return found

    # -- pattern ----------------------------------------------------------------------------------------------------------

    def _parse_event_alternatives(self, leaves: list[LeafText]) -> EventPattern:
        parts = [self._parse_event_conjunction(leaves)]
        while self._match(TokenType.OR):
            parts.append(self._parse_event_conjunction(leaves))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _parse_event_conjunction(self, leaves: list[LeafText]) -> EventPattern:
        parts = [self._parse_event_pattern(leaves)]
        while self._match(TokenType.AND):
            parts.append(self._parse_event_pattern(leaves))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _parse_event_pattern(self, leaves: list[LeafText]) -> EventPattern:
        if self._match(TokenType.NOT):
            return self._parse_event_absence(leaves)
        if self._match(TokenType.L_PAREN):
            inner = self._parse_event_alternatives(leaves)
            self._bracket(TokenType.R_PAREN, ")")
            return inner
        word = self._curr.text.upper() if self._curr else ""
        if word in _OPERATORS and word != "ANY" and self._next and self._next.token_type == TokenType.L_PAREN:
            self._advance()
            parts = tuple(self._listed(lambda: self._parse_event_alternatives(leaves)))
            return Seq(parts) if word == "SEQ" else And(parts) if word == "AND" else Or(parts)
        return self._parse_event_leaf(leaves)

    def _parse_event_leaf(self, leaves: list[LeafText]) -> Atom:
        place = self._place()
        types = self._parse_event_types()
        repeat = Repeat.PLUS if self._match(TokenType.PLUS) else Repeat.STAR if self._match(TokenType.STAR) else Repeat.ONCE
        variable = self._parse_event_variable()
        opening = self._curr
        if self._match_text_seq("[", "]") and repeat is Repeat.ONCE:
            raise self._mistake(f"[] is a list of events, and {types[0].name} is one event; write {types[0].name}+", opening)
        leaves.append(LeafText(types, place, self._parse_event_filter()))
        return Atom(tuple(table.name for table in types), variable, repeat)

    def _parse_event_absence(self, leaves: list[LeafText]) -> Absent:
        place = self._place()
        self._bracket(TokenType.L_PAREN, "(")
        if (self._curr.text.upper() if self._curr else "") in ("SEQ", "AND", "OR"):
            raise self._mistake("only types can be absent: !(A) or !(ANY(A, B)); give the inner pattern a query of its own")
        types, variable = self._parse_event_types(), self._parse_event_variable()
        leaves.append(LeafText(types, place, self._parse_event_filter()))
        self._bracket(TokenType.R_PAREN, ")")
        return Absent(tuple(table.name for table in types), variable)

    def _parse_event_types(self) -> tuple[exp.Table, ...]:
        if self._is("ANY", "("):
            self._advance()
            return tuple(self._listed(self._parse_event_type))
        if self._curr and self._next and self._next.token_type == TokenType.L_PAREN:
            raise self._mistake(expected(self._curr.text, [*_OPERATORS, "!"], "before ("))
        return (self._parse_event_type(),)

    def _parse_event_type(self) -> exp.Table:
        token = self._curr
        name = self._name("a type of events, SEQ, AND, OR, ANY or !")
        return exp.Table(this=exp.to_identifier(name.text, quoted=True).update_positions(token))

    def _parse_event_variable(self) -> str:
        token = self._curr
        if not token or token.text.upper() in _CLAUSES or token.token_type not in (TokenType.IDENTIFIER, *self.ID_VAR_TOKENS):
            return ""
        return self._name("a variable").text

    def _parse_event_filter(self) -> exp.Expr | None:
        if not self._match(TokenType.L_BRACKET):
            return None
        condition = self._parse_disjunction()
        if not self._match(TokenType.R_BRACKET):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["]"], "behind the condition of an event"))
        return condition

    # -- conditions and output --------------------------------------------------------------------------------------------

    def _parse_event_conditions(self, found: EventText) -> None:
        while True:
            first = self._curr
            strategy = self._parse_event_strategy()
            if strategy is not None:
                if found.strategy is not None:
                    raise self._mistake(f"the query has a strategy already: {found.strategy[0]}; keep one", first)
                found.strategy = strategy, self._place(first, self._prev)
            elif self._match(TokenType.L_BRACKET):
                found.key += self._separated(lambda: self._name("a column"))
                if not self._match(TokenType.R_BRACKET):
                    raise self._mistake(expected(self._curr.text if self._curr else "", ["]", ","], "behind [attribute"))
            else:
                found.conditions.append(self._parse_event_condition())
            if self._match(TokenType.OR):
                raise self._mistake("AND joins conditions here; put alternatives in parentheses: (a.x > 1 OR b.x > 1)", self._prev)
            if not self._match(TokenType.AND):
                return

    def _parse_event_condition(self) -> exp.Expr:
        condition = self._parse_equality()
        if condition is None:
            legal = ["a condition", "[attribute]", "a strategy such as skip-till-next-match"]
            raise self._mistake(expected(self._curr.text if self._curr else "", legal, "in WHERE"))
        return condition

    def _parse_event_strategy(self) -> Strategy | None:
        for strategy in Strategy:
            parts = [part for word in strategy.split("-") for part in ("-", word)][1:]
            if self._match_text_seq(*(part.upper() for part in parts)):
                return strategy
        return None

    def _parse_event_return(self, found: EventText) -> None:
        is_word = not (self._next and self._next.token_type in (TokenType.DOT, TokenType.L_BRACKET))
        if is_word and self._match_text_seq("EVENTS"):
            found.returns_events = True
            if not self._match(TokenType.COMMA):
                return
        if self._match(TokenType.STAR):
            return
        found.returned = self._separated(self._parse_event_measure)

    def _parse_event_measure(self) -> exp.Expr:
        value = self._parse_disjunction()
        if value is None:
            raise self._mistake(
                expected(self._curr.text if self._curr else "", ["a measure such as a.price", "EVENTS"], "in RETURN")
            )
        if self._match(TokenType.ALIAS):
            return exp.Alias(this=value, alias=exp.to_identifier(self._name("a name for the measure").text, quoted=True))
        return value


# -- references -----------------------------------------------------------------------------------------------------------


def folded(tokens: list[Token]) -> list[Token]:
    """The tokens with each reference to one of several events, and each aggregate, as one name.

    Examples
    --------
    >>> from sqlglot.dialects.spark import Spark
    >>> [token.text for token in folded(Spark().tokenize("a[i].p > a[i - 1].p AND avg(a[..i-1].p) < b.p"))]
    ['a[i].p', '>', 'a[i-1].p', 'AND', 'avg(a[..i-1].p)', '<', 'b', '.', 'p']
    """
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        length = _aggregate_length(tokens, at) or _indexed_length(tokens, at)
        if length:
            found.append(_joined(tokens[at : at + length]))
            at += length
        else:
            found.append(tokens[at])
            at += 1
    return found


def _joined(tokens: list[Token]) -> Token:
    first, last = tokens[0], tokens[-1]
    text = "".join(token.text for token in tokens)
    return Token(TokenType.IDENTIFIER, text, last.line, last.col, first.start, last.end)


def _texts(tokens: list[Token], at: int, *wanted: str) -> bool:
    return [token.text.lower() for token in tokens[at : at + len(wanted)]] == list(wanted)


def _index_length(tokens: list[Token], at: int) -> int:
    """Length of `[1]`, `[i]`, `[i-1]`, `[last]` or `[..i-1]` at a place; 0 where there is none."""
    for inner in (("1",), ("i",), ("i", "-", "1"), ("last",), (".", ".", "i", "-", "1")):
        if _texts(tokens, at, "[", *inner, "]"):
            return len(inner) + 2
    return 0


def _is_name(tokens: list[Token], at: int) -> bool:
    return at < len(tokens) and (tokens[at].token_type == TokenType.IDENTIFIER or tokens[at].text.isidentifier())


def _attribute_length(tokens: list[Token], at: int) -> int:
    return 2 if _texts(tokens, at, ".") and _is_name(tokens, at + 1) else 0


def _indexed_length(tokens: list[Token], at: int) -> int:
    if not _is_name(tokens, at) or not (index := _index_length(tokens, at + 1)):
        return 0
    attribute = _attribute_length(tokens, at + 1 + index)
    return 1 + index + attribute if attribute else 0


def _aggregate_length(tokens: list[Token], at: int) -> int:
    if tokens[at].text.lower() not in FUNCTIONS or not _texts(tokens, at + 1, "(") or not _is_name(tokens, at + 2):
        return 0
    index = _index_length(tokens, at + 3)
    end = at + 3 + index + _attribute_length(tokens, at + 3 + index)
    return end - at + 1 if _texts(tokens, end, ")") else 0
