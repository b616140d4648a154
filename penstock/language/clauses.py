"""Words, amounts, sources and windows: what the statements of the language are made of.

sqlglot parses expressions, joins and set operations; the methods here add what it does not know. They raise
`SyntaxMistake` themselves, so that sqlglot's attempts to parse a text in another way do not hide the first mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.strict import Reason, StrictParser
from penstock.language.syntax import Amount, Format, Text, WindowClause, Word, expected

#: Words that may follow an amount and are no unit.
_AFTER_AMOUNT = frozenset(
    {"ADVANCE", "MOVE", "TUMBLING", "SLIDE", "RETURN", "OPTIONS", "OUTPUT", "FROM", "WHERE", "WITHIN", "DEFINE", "SUBSET"}
    | {"AS", "AFTER", "WEIGHT", "SHOW", "USING", "ON", "IDLE", "PARTITIONED", "PUNCTUATIONS", "PUNCTUATE", "WITH", "VALID"}
    | {"AT", "TO", "MUST", "BEST", "DONT"}
)
#: Words of other dialects behind a source that would otherwise be read as its alias.
_NO_ALIASES = {
    "FINAL": "rows of a stream have one version",
    "PARTITION": "write the condition into WHERE",
    "PARTITIONS": "write the condition into WHERE",
    "OPTION": "options of a source stand in CREATE STREAM … USING format OPTIONS (…)",
    "OPTIONS": "options of a source stand in CREATE STREAM … USING format OPTIONS (…)",
    "PIVOT": "write one aggregate with FILTER (WHERE …) for each column",
    "UNPIVOT": "write one select for each column and UNION ALL",
    "SAMPLE": "use a condition in WHERE",
    "WITH": "hints stand behind SELECT: /*+ … */",
    "BEGIN": "it stands before AS: CREATE CQ name BEGIN … AS SELECT",
    "EMIT": "it stands before AS: CREATE CQ name EMIT PARTIAL AS SELECT",
    "WITHIN": "it belongs to EVENT and MATCH_RECOGNIZE; a window stands in brackets: [RANGE 1 HOUR]",
    "WATERMARK": "it is declared in CREATE STREAM",
    "ASOF": "write JOIN … ON with a window on each source",
    "VERSION": "a stream has no versions",
    "TIMESTAMP": "a stream has no versions",
}


class Located(ParseError):
    """sqlglot's error, in our words and with our place."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.mistake = SyntaxMistake(message, place)


class ClauseParser(StrictParser):
    """sqlglot's Spark parser with windows behind the sources of FROM."""

    source = "the text"

    # -- words -----------------------------------------------------------------------------------------------------

    def _place(self, token: Token | None = None, last: Token | None = None) -> Place:
        token = token or self._curr or self._prev
        end = last or token
        return Text(self.sql, self.source).place(token.start, end.end) if token else Place(self.source)

    def where(self, token: Token) -> Place:
        return self._place(token)

    def here(self) -> Place:
        """The place of the word that is read now."""
        return self._place()

    def _mistake(self, message: str, token: Token | None = None) -> SyntaxMistake:
        return SyntaxMistake(message, self._place(token))

    def raise_error(self, message: str, token: Token | None = None) -> None:
        # Stays sqlglot's class because sqlglot retries on it; `parse` translates what comes out at the top.
        raise Located(self._translated(message), self._place(token))

    def _translated(self, message: str) -> str:
        if isinstance(message, Reason):
            return message
        found = f"'{self._curr.text}'" if self._curr else "the end of the statement"
        if message.startswith("Expect"):
            wanted = message.split(" ", 1)[1]
            return f"found {found}; expected {wanted}"
        if message.startswith("Required"):
            return f"something is missing before {found}"
        return f"{found} is not expected here"

    def _is(self, *words: str) -> bool:
        return bool(self._match_text_seq(*words, advance=False))

    def _expect(self, *words: str, context: str) -> None:
        for word in words:
            if not self._match_text_seq(word):
                raise self._mistake(expected(self._curr.text if self._curr else "", [word], context))

    def _choose(self, legal: tuple[str, ...], context: str) -> Word:
        """One of the legal phrases; a phrase may have several words."""
        for phrase in legal:
            token = self._curr
            if self._match_text_seq(*phrase.split()):
                return Word(phrase, self._place(token))
        raise self._mistake(expected(self._curr.text if self._curr else "", list(legal), context))

    def _name(self, what: str) -> Word:
        token = self._curr
        if not token or (token.token_type != TokenType.IDENTIFIER and token.token_type not in self.ID_VAR_TOKENS):
            raise self._mistake(expected(token.text if token else "", [what], "here"))
        self._advance()
        return Word(token.text, self._place(token))

    def _names(self, what: str) -> list[Word]:
        return self._listed(lambda: self._name(what))

    def _listed(self, item: Callable[[], Any]) -> list[Any]:
        self._bracket(TokenType.L_PAREN, "(")
        found = [item()]
        while self._match(TokenType.COMMA):
            found.append(item())
        self._bracket(TokenType.R_PAREN, ")")
        return found

    def _bracket(self, kind: TokenType, sign: str) -> None:
        if not self._match(kind):
            legal = [sign, ","] if sign == ")" else [sign]
            raise self._mistake(expected(self._curr.text if self._curr else "", legal, "here"))

    # -- hints -----------------------------------------------------------------------------------------------------

    def _parse_hint(self) -> exp.Hint | None:
        """A hint is a comment that sqlglot parses by itself: its words get their places in the whole text."""
        token = self._curr
        if token is None or token.token_type != TokenType.HINT:
            return None
        if not "".join(token.comments).strip():
            raise self._mistake("the hint is empty; name a join such as PJOIN, or leave it out", token)
        try:
            hint = super()._parse_hint()
        except (ParseError, TokenError):
            hint = None
        if hint is None or not all(isinstance(part, exp.Expr) for part in hint.expressions):
            raise self._mistake("the hint cannot be read; write NAME or NAME(option = value, …)", token)
        start = token.start + len("/*+")
        for node in hint.walk():
            if "start" in node.meta:
                node.meta.update(start=start + node.meta["start"], end=start + node.meta["end"])
        hint.meta.update(start=token.start, end=token.end)
        return hint

    def _parse_hint_function_call(self) -> exp.Expr | None:
        """`NAME(option = value, …)`; the name of an option may be a word that means something elsewhere, such as `drop`."""
        name = self._curr
        if not name or not self._next or self._next.token_type != TokenType.L_PAREN:
            return None
        self._advance(2)
        options: list[exp.Expr | None] = []
        if self._curr and self._curr.token_type != TokenType.R_PAREN:
            options.append(self._parse_hint_option())
            while self._match(TokenType.COMMA):
                options.append(self._parse_hint_option())
        self._match_r_paren()
        if None in options:
            self.raise_error("an option is missing")
        return exp.Anonymous(this=name.text, expressions=options).update_positions(name)

    def _parse_hint_option(self) -> exp.Expr | None:
        name, value = self._curr, self._tokens[self._index + 2 :][:1]
        if not value or not self._next or self._next.token_type != TokenType.EQ:
            return self._parse_disjunction()
        self._advance(2)
        column = exp.Column(this=exp.to_identifier(name.text)).update_positions(name)
        option = exp.EQ(this=column, expression=self._parse_hint_value())
        option.meta.update(start=name.start, end=self._prev.end)
        return option

    def _parse_hint_value(self) -> exp.Expr:
        """A literal; or any single word, which whoever knows the option will refuse by name."""
        token = self._curr
        following = self._next.token_type if self._next else None
        is_word = token.text.isidentifier() and token.token_type not in (TokenType.STRING, TokenType.TRUE, TokenType.FALSE)
        if is_word and following in (TokenType.COMMA, TokenType.R_PAREN):
            self._advance()
            return exp.column(token.text)
        return self._parse_unary() or exp.Var(this="nothing")

    # -- formats ---------------------------------------------------------------------------------------------------

    def _parse_format(self) -> Format:
        name = self._name("a format such as feed, json, parquet or kafka")
        options: dict[str, str] = {}
        if self._match_text_seq("OPTIONS"):
            options = self._parse_options()
        return Format(name, options)

    def _parse_options(self) -> dict[str, str]:
        """`(name value, …)`, each name once, whatever its case."""
        options: dict[str, str] = {}
        for (name, value), token in self._listed(lambda: (self._parse_option(), self._prev)):
            if name.lower() in (known.lower() for known in options):
                raise self._mistake(f"option '{name}' stands twice; keep one", token)
            options[name] = value
        return options

    def _parse_option(self) -> tuple[str, str]:
        if self._match(TokenType.STRING):
            key = self._prev.text
        else:
            key = self._name("an option").text
            while self._match(TokenType.DOT):
                key += "." + self._name("the rest of the option's name").text
        self._match(TokenType.EQ)
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._match_set((TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE)):
            raise self._mistake(f"option '{key}' has no value; write for example {key} 'text' or {key} 10")
        return key, sign + self._prev.text

    # -- sources and their windows ---------------------------------------------------------------------------------

    def _parse_table(self, *_: Any, **__: Any) -> exp.Expr | None:
        if self._match(TokenType.L_PAREN):
            source: exp.Expr = exp.Subquery(this=self._parse_whole_select())
            self._bracket(TokenType.R_PAREN, ")")
        else:
            announced = self._is("PUNCTUATIONS", "OF")
            if announced:
                self._advance(2)
            token = self._curr
            self._name("a query" if announced else "a stream, a query or '('")
            source = exp.Table(this=exp.to_identifier(token.text).update_positions(token))
            source.meta["announced"] = announced
        window = self._parse_window_clause_of_source()
        self._parse_alias_of(source)
        source.meta["window"] = window or self._parse_window_clause_of_source()
        return source

    def _parse_alias_of(self, source: exp.Expr) -> None:
        """An alias, with columns or without; words that mean something elsewhere are none unless AS stands before them."""
        first = self._curr
        if self._is("OUTPUT", "TO"):
            return
        if first and first.token_type != TokenType.IDENTIFIER and (advice := _NO_ALIASES.get(first.text.upper())):
            raise self._mistake(f"{first.text.upper()} is not available here: {advice}; for an alias write AS {first.text}", first)
        if alias := self._parse_table_alias():
            source.set("alias", alias)

    def _parse_whole_select(self) -> exp.Expr:
        """A select with its unions, in parentheses or not."""
        select = self._parse_set_operations(self._parse_select(nested=True, parse_subquery_alias=False))
        if select is None:
            raise self._mistake(expected(self._curr.text if self._curr else "", ["SELECT"], "here"))
        return select

    def _parse_window_clause_of_source(self) -> WindowClause | None:
        opening = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        partition_by = self._parse_window_partition() if self._match(TokenType.PARTITION_BY) else ()
        anchor = self._prev.text.upper() if self._match_texts(("LANDMARK", "FIXED")) else ""
        measure, size = self._parse_window_size(anchor)
        self._skip_comma()
        advance = self._parse_amount() if self._match_text_seq("ADVANCE") else None
        self._skip_comma()
        move = self._parse_move() if self._match_text_seq("MOVE") else None
        self._skip_comma()
        form = "TUMBLING" if self._match_text_seq("TUMBLING") else ""
        if self._match_text_seq("SLIDE"):
            self._expect("PER", "TUPLE", context="after SLIDE")
            form = "SLIDE"
        if not self._match(TokenType.R_BRACKET):
            legal = ["ADVANCE", "MOVE", "TUMBLING", "SLIDE PER TUPLE", "]"]
            raise self._mistake(expected(self._curr.text if self._curr else "", legal, "in the window"))
        if anchor == "LANDMARK" and not measure:
            measure = _measure_of(advance)
        return WindowClause(self._place(opening), measure, size, advance, move, anchor, form, partition_by)

    def _skip_comma(self) -> None:
        comma = self._curr
        if self._match(TokenType.COMMA) and not self._match_texts(("ADVANCE", "MOVE", "TUMBLING", "SLIDE"), advance=False):
            legal = ["ADVANCE", "MOVE", "TUMBLING", "SLIDE PER TUPLE"]
            raise self._mistake(expected(self._curr.text if self._curr else "", legal, "behind the comma"), self._curr or comma)

    def _parse_window_partition(self) -> tuple[Word, ...]:
        names = [self._name("a column")]
        while self._match(TokenType.COMMA) and not self._match_texts(("RANGE", "ROW", "ROWS"), advance=False):
            names.append(self._name("a column"))
        return tuple(names)

    def _parse_window_size(self, anchor: str) -> tuple[str, Amount | None]:
        if anchor == "LANDMARK" and (self._match(TokenType.COMMA) or self._is("ADVANCE")):
            return "", None
        word = self._choose(("RANGE", "ROWS", "ROW", *(() if anchor else ("UNBOUNDED", "LANDMARK", "FIXED"))), "in the window")
        if word.text == "UNBOUNDED":
            return "UNBOUNDED", None
        return ("RANGE" if word.text == "RANGE" else "ROWS"), self._parse_amount()

    def _parse_move(self) -> tuple[Amount, Amount]:
        amounts = self._listed(self._parse_amount)
        if len(amounts) != 2:
            raise self._mistake("MOVE takes two amounts: how far the start and how far the end of the window move")
        return amounts[0], amounts[1]

    def _parse_amount(self) -> Amount:
        """`5`, `5 SECONDS`, `INTERVAL 1 HOUR 30 MINUTES`, `10 TUPLES`."""
        self._match(TokenType.INTERVAL)
        parts: list[tuple[Word, Word | None]] = []
        while True:
            first = self._curr
            sign = "-" if self._match(TokenType.DASH) else ""
            if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
                break
            number = Word(sign + self._prev.text, self._place(first, self._prev))
            unit = self._curr
            is_unit = bool(unit) and unit.text.isalpha() and unit.text.upper() not in _AFTER_AMOUNT
            if is_unit:
                self._advance()
            parts.append((number, Word(unit.text, self._place(unit)) if is_unit else None))
        if not parts:
            raise self._mistake(expected(self._curr.text if self._curr else "", ["a number"], "here"))
        return Amount(tuple(parts))

    def _parse_having(self, skip_having_token: bool = False) -> exp.Having | None:
        # GFILTER is tokenised as HAVING; which of the two was written decides about a warning.
        token = self._curr
        having = super()._parse_having(skip_having_token)
        if having:
            having.meta["word"] = token.text.upper()
            having.meta.update(start=token.start, end=token.end)
        return having


def _measure_of(advance: Amount | None) -> str:
    unit = advance.parts[0][1] if advance else None
    return "ROWS" if unit and unit.upper in ("TUPLE", "TUPLES", "ROW", "ROWS") else "RANGE"
