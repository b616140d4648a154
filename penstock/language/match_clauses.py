"""The words of `MATCH_RECOGNIZE (…)` behind a source of FROM, as written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place
from penstock.expressions.row_queries import SkipTo
from penstock.language.clauses import ClauseParser
from penstock.language.syntax import Amount, Text, Word, expected
from penstock.model.row_pattern_text import parse_row_pattern
from penstock.model.row_patterns import RowPattern

#: Functions over rows of a match, which SQL knows nowhere else (or with other arguments).
NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")
_SEMANTICS = ("FINAL", "RUNNING")


@dataclass(slots=True)
class MatchText:
    """`MATCH_RECOGNIZE (…)`, filled in by the parser clause by clause."""

    place: Place
    key: list[Word] = field(default_factory=list)
    order_by: list[tuple[Word, bool]] = field(default_factory=list)
    measures: list[tuple[Word, exp.Expr]] = field(default_factory=list)
    all_rows: bool = False
    omits_empty: bool = False
    shows_unmatched: bool = False
    skip: tuple[SkipTo, Word | None] = (SkipTo.PAST_LAST, None)
    pattern: RowPattern | None = None
    pattern_place: Place | None = None
    within: Amount | None = None
    subsets: list[tuple[Word, list[Word]]] = field(default_factory=list)
    definitions: list[tuple[Word, exp.Expr]] = field(default_factory=list)


def match_of(source: exp.Expr) -> MatchText | None:
    """The clause the parser found beside a source of FROM."""
    found = source.meta.get("match")
    return found if isinstance(found, MatchText) else None


class MatchParser(ClauseParser):
    """Sources of FROM with `MATCH_RECOGNIZE` behind them."""

    _inside_match = False

    def _parse_table(self, *_: Any, **__: Any) -> exp.Expr | None:
        source = super()._parse_table()
        if source is not None and self._match(TokenType.MATCH_RECOGNIZE):
            inner = source.copy()
            source.meta.update(match=self._parse_match(), matched=inner, window=None)
            source.set("alias", None)
            self._parse_alias_of(source)
            source.meta["window"] = self._parse_window_clause_of_source()
        return source

    def _parse_match(self) -> MatchText:
        found = MatchText(self._place(self._prev))
        self._bracket(TokenType.L_PAREN, "(")
        self._inside_match = True
        try:
            self._parse_match_rows(found)
            self._parse_match_pattern(found)
            if self._match_text_seq("DEFINE"):
                found.definitions = self._several(self._parse_definition)
        finally:
            self._inside_match = False
        if not self._match(TokenType.R_PAREN):
            raise self._mistake(expected(self._curr.text if self._curr else "", self._legal_next(found), "in MATCH_RECOGNIZE"))
        return found

    def _parse_match_rows(self, found: MatchText) -> None:
        """Everything before PATTERN."""
        if self._match(TokenType.PARTITION_BY):
            found.key = self._several(lambda: self._name("a column"))
        if self._match(TokenType.ORDER_BY):
            found.order_by = self._several(self._parse_order_column)
        if self._match_text_seq("MEASURES"):
            found.measures = self._several(self._parse_row_measure)
        if self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            found.all_rows = True
            if self._match_text_seq("WITH"):
                self._expect("UNMATCHED", "ROWS", context="after WITH")
                found.shows_unmatched = True
            elif self._match_texts(("SHOW", "OMIT")):
                found.omits_empty = self._prev.text.upper() == "OMIT"
                self._expect("EMPTY", "MATCHES", context=f"after {self._prev.text.upper()}")
        elif self._is("ONE"):
            self._expect("ONE", "ROW", "PER", "MATCH", context="in MATCH_RECOGNIZE")
        if self._match_text_seq("AFTER"):
            self._expect("MATCH", "SKIP", context="after AFTER")
            found.skip = self._parse_skip()

    def _parse_order_column(self) -> tuple[Word, bool]:
        word = self._name("a column")
        is_falling = bool(self._match(TokenType.DESC))
        if not is_falling:
            self._match(TokenType.ASC)
        return word, is_falling

    def _parse_row_measure(self) -> tuple[Word, exp.Expr]:
        tree = self._parse_match_expression("a measure")
        if not self._match(TokenType.ALIAS):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["AS name"], "behind a measure"))
        return self._name("a name for the measure"), tree

    def _parse_definition(self) -> tuple[Word, exp.Expr]:
        name = self._name("a variable of the pattern")
        if not self._match(TokenType.ALIAS):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["AS"], f"behind the variable '{name.text}'"))
        return name, self._parse_match_expression(f"a condition for '{name.text}'")

    def _parse_match_expression(self, what: str) -> exp.Expr:
        tree = self._parse_disjunction()
        if tree is None:
            raise self._mistake(expected(self._curr.text if self._curr else "", [what], "here"))
        return tree

    def _parse_skip(self) -> tuple[SkipTo, Word | None]:
        if self._match_text_seq("PAST"):
            self._expect("LAST", "ROW", context="after PAST")
            return SkipTo.PAST_LAST, None
        self._expect("TO", context="after AFTER MATCH SKIP")
        if self._match_text_seq("NEXT", "ROW"):
            return SkipTo.NEXT, None
        to = SkipTo.FIRST if self._is("FIRST") else SkipTo.LAST
        self._match_texts(("FIRST", "LAST"))
        return to, self._name("a variable of the pattern")

    def _parse_match_pattern(self, found: MatchText) -> None:
        if not self._match_text_seq("PATTERN"):
            raise self._mistake(expected(self._curr.text if self._curr else "", self._legal_next(found), "in MATCH_RECOGNIZE"))
        opening = self._curr
        self._bracket(TokenType.L_PAREN, "(")
        depth = 1
        while self._curr and depth:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._advance()
        if depth:
            raise self._mistake("the bracket of PATTERN is not closed", opening)
        start, end = opening.end + 1, self._prev.start
        text = Text(self.sql, self.source)
        found.pattern = parse_row_pattern(self.sql[start:end], lambda one, other: text.place(start + one, start + other))
        found.pattern_place = text.place(start, end - 1)
        if self._match_text_seq("WITHIN"):
            found.within = self._parse_amount()
        if self._match_text_seq("SUBSET"):
            found.subsets = self._several(self._parse_subset)

    def _parse_subset(self) -> tuple[Word, list[Word]]:
        name = self._name("a name for several variables")
        if not self._match(TokenType.EQ):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["="], f"behind '{name.text}' in SUBSET"))
        self._bracket(TokenType.L_PAREN, "(")
        members = self._several(lambda: self._name("a variable of the pattern"))
        self._bracket(TokenType.R_PAREN, ")")
        return name, members

    def _legal_next(self, found: MatchText) -> list[str]:
        if found.pattern is not None:
            missing = [("WITHIN", found.within), ("SUBSET", found.subsets), ("DEFINE", found.definitions)]
            return [*(word for word, known in missing if not known), ")"]
        ahead = [("PARTITION BY", found.key), ("ORDER BY", found.order_by), ("MEASURES", found.measures)]
        return [*(word for word, known in ahead if not known), "ALL ROWS PER MATCH", "AFTER MATCH SKIP", "PATTERN"]

    def _several(self, item: Any) -> list[Any]:
        found = [item()]
        while self._match(TokenType.COMMA):
            found.append(item())
        return found

    # -- functions over rows of a match -----------------------------------------------------------------------------

    def _parse_unary(self) -> exp.Expr | None:
        if not self._inside_match or not self._curr:
            return super()._parse_unary()
        word, following = self._curr.text.upper(), self._next
        if word in _SEMANTICS and following and following.token_type not in (TokenType.DOT, TokenType.COMMA, TokenType.R_PAREN):
            token = self._curr
            self._advance()
            inner = self._parse_unary()
            is_navigation = isinstance(inner, exp.Anonymous) and inner.name.upper() in NAVIGATION
            if inner is None or not (is_navigation or isinstance(inner, exp.AggFunc)):
                raise self._mistake(f"{word} stands before FIRST, LAST or an aggregate", token)
            inner.meta["semantics"] = word
            return inner
        if word in NAVIGATION and following and following.token_type == TokenType.L_PAREN:
            return self._parse_navigation(self._curr)
        return super()._parse_unary()

    def _parse_navigation(self, token: Token) -> exp.Expr:
        self._advance(2)
        arguments: list[exp.Expr] = []
        if not self._match(TokenType.R_PAREN, advance=False):
            arguments = self._several(lambda: self._parse_match_expression("a column"))
        self._bracket(TokenType.R_PAREN, ")")
        found = exp.Anonymous(this=token.text.upper(), expressions=arguments)
        found.update_positions(token)
        return found
