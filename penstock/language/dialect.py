"""The Penstock dialect: Spark SQL plus `CREATE STREAM`, `CREATE CQ`, window clauses and GFILTER.

Only the differences to sqlglot's Spark dialect stand here and in `clauses`.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.literals import no_decimals
from penstock.language.accepted_syntax import refuse_unread
from penstock.language.clauses import Located
from penstock.language.constraint_clauses import ConstraintParser, ConstraintStatement
from penstock.language.event_clauses import EventParser
from penstock.language.match_clauses import MatchParser
from penstock.language.quality_clauses import PolicyStatement, QualityParser, TermsText
from penstock.language.syntax import (
    ColumnText,
    Format,
    FunctionStatement,
    GeneratorText,
    QueryStatement,
    StreamStatement,
    Text,
    Watermark,
    Word,
    expected,
)
from penstock.model.nesting import too_deep

Statement = StreamStatement | QueryStatement | FunctionStatement | ConstraintStatement | PolicyStatement

_CONSTRAINTS = ("UNIQUE", "CLUSTERED", "ORDERED")
_SELECTS = (TokenType.SELECT, TokenType.L_PAREN, TokenType.WITH)
#: The name of a select that stands alone, without CREATE CQ.
UNNAMED = "query"
_POLICY_SUBJECTS = ("LATE ROWS", "BAD ROWS", "VIOLATION")


class PenstockParser(MatchParser, EventParser, ConstraintParser, QualityParser):
    """The statements of the language; `statements` and `query` are its doors."""

    def statements(self, tokens: list[Token], sql: str, source: str) -> list[Statement]:
        self.reset()
        self.sql, self.source = sql, source
        self.refuse_excess(tokens)
        self._chunks = _split(tokens)
        found: list[Statement] = []
        while self._chunk_index < len(self._chunks):
            self.source = source
            self._advance_chunk()
            statement = self._parse_declaration()
            if self._curr:
                raise self._mistake(f"'{self._curr.text}' is not expected here; is a comma, an operator or ';' missing?")
            refuse_unread(statement, statement.text, statement.name.place)
            found.append(statement)
        return found

    def _parse_declaration(self) -> Statement:
        if self._curr.token_type in _SELECTS or self._is("EVENT"):
            return self._parse_query_body(Word(UNNAMED, self._place()), is_bare=True)
        if self._match(TokenType.SET):
            return self._parse_policy_statement()
        if not self._match(TokenType.CREATE):
            legal = ["CREATE STREAM", "CREATE CQ", "CREATE FUNCTION", "SET POLICY"]
            raise self._mistake(expected(self._curr.text, legal, "at the start of a statement"))
        kind = self._choose(("STREAM", "CQ", "FUNCTION", "CONSTRAINT", "CONSTRAINTS"), "after CREATE")
        if kind.text == "STREAM":
            return self._parse_stream_statement()
        if kind.text == "FUNCTION":
            return self._parse_function_statement()
        if kind.text.startswith("CONSTRAINT"):
            return self._parse_constraint_statement(is_workflow=kind.text == "CONSTRAINTS")
        name = self._name("a name for the query")
        self.source = f"query '{name.text}'"
        return self._parse_query_statement(name)

    def _parse_stream_statement(self) -> StreamStatement:
        name = self._name("a name for the stream")
        self.source = f"stream '{name.text}'"
        statement = StreamStatement(Text(self.sql, self.source), name)
        self._listed(lambda: self._parse_stream_element(statement))
        while self._curr:
            self._parse_stream_clause(statement)
        return statement

    def _parse_function_statement(self) -> FunctionStatement:
        name = self._name("a name for the function")
        self.source = f"function '{name.text}'"
        parameters = self._listed(lambda: self._parse_stream_column("a parameter"))
        self._expect("RETURNS", context="after the parameters of a function")
        returns = self._type_word("RETURNS")
        if not self._match(TokenType.USING):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["USING python"], "after RETURNS"))
        return FunctionStatement(Text(self.sql, self.source), name, tuple(parameters), returns, self._parse_format())

    def _parse_stream_element(self, statement: StreamStatement) -> None:
        following = self._next.text.upper() if self._next else ""
        if following == "(" and self._curr.text.upper() in _CONSTRAINTS:
            kind = self._choose(_CONSTRAINTS, "here")
            names = self._names("a column")
            if len(names) > 1:
                raise SyntaxMistake(_of_several(kind.text, names), names[1].place)
            statement.constraints.append((kind, names[0], self._parse_within(kind)))
        elif self._is("WATERMARK") and self._tokens[self._index + 2 :][:1] and self._word_at(2) == "DELAY":
            self._once(statement.watermark, self._curr)
            self._advance()
            column = self._name("a column")
            self._expect("DELAY", "OF", context="after WATERMARK column")
            statement.watermark = Watermark(column, self._parse_amount())
        else:
            statement.columns.append(self._parse_stream_column())

    def _parse_within(self, kind: Word) -> Word | None:
        """`WITHIN 10 ROWS` behind CLUSTERED (column)."""
        if not self._is("WITHIN"):
            return None
        if kind.text != "CLUSTERED":
            raise self._mistake(f"WITHIN belongs to CLUSTERED; {kind.text} has no gaps")
        self._advance()
        return self._parse_rows("after WITHIN")

    def _parse_rows(self, context: str) -> Word:
        token = self._curr
        if not self._match(TokenType.NUMBER):
            raise self._mistake(expected(token.text if token else "", ["a number of rows"], context))
        rows = Word(token.text, self._place(token))
        if not self._match_texts(("ROWS", "ROW")):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["ROWS"], f"after {rows.text}"))
        return rows

    def _parse_partitions(self) -> Word:
        """`4 PARTITIONS` behind INTO."""
        token = self._curr
        if not self._match(TokenType.NUMBER):
            raise self._mistake(expected(token.text if token else "", ["a number of partitions"], "after INTO"))
        if not self._match_texts(("PARTITIONS", "PARTITION")):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["PARTITIONS"], f"after {token.text}"))
        return Word(token.text, self._place(token))

    def _parse_generator(self) -> GeneratorText:
        """What stands behind PUNCTUATE."""
        column = self._name("a column")
        how = self._choose(("WHEN", "AFTER", "BY"), "after PUNCTUATE column")
        if how.text == "WHEN":
            condition = self._parse_disjunction()
            if condition is None:
                raise self._mistake(expected(self._curr.text if self._curr else "", ["a condition"], "after WHEN"))
            return GeneratorText(column, how, condition=condition)
        if how.text == "AFTER":
            stream, time = self._parse_dotted("after AFTER")
            key = None
            if self._is("ON") and len(self._tokens) > self._index + 2 and self._word_at(2) == ".":  # else it is a policy
                self._advance()
                key = self._parse_dotted("after ON")[1]
            return GeneratorText(column, how, stream=stream, time=time, key=key)
        kind = self._choose(("SORTING", "PARTITIONING", "SAMPLING"), "after BY")
        return GeneratorText(column, kind, rows=self._parse_rows(f"after {kind.text}"))

    def _parse_dotted(self, context: str) -> tuple[Word, Word]:
        stream = self._name("a stream")
        if not self._match(TokenType.DOT):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["stream.column"], context))
        return stream, self._name("a column")

    def _word_at(self, ahead: int) -> str:
        return self._tokens[self._index + ahead].text.upper()

    def _parse_stream_column(self, what: str = "a column, UNIQUE, CLUSTERED, ORDERED or WATERMARK") -> ColumnText:
        name = self._name(what)
        kind = self._type_word(name.text, f"column '{name.text}' has no type; write for example {name.text} BIGINT")
        return ColumnText(name, kind, nullable=not self._match_text_seq("NOT", "NULL"))

    def _type_word(self, of: str, missing: str = "") -> Word:
        token = self._curr
        if not token or token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            raise self._mistake(missing or f"{of} has no type; write for example {of} BIGINT")
        self._advance()
        kind = Word(token.text, self._place(token))
        if kind.upper in ("DECIMAL", "NUMERIC", "DEC"):
            raise SyntaxMistake(no_decimals(kind.text), kind.place)
        opening = self._curr
        if self._match(TokenType.L_PAREN):
            if kind.upper != "VARCHAR":
                raise self._mistake(f"{kind.text} takes no length; leave the brackets out", opening)
            # Spark reads the length of VARCHAR(20) and so do we; it restricts nothing.
            self._match(TokenType.NUMBER)
            self._bracket(TokenType.R_PAREN, ")")
        return kind

    def _parse_stream_clause(self, statement: StreamStatement) -> None:
        """One clause behind the columns; they come in any order, each at most once."""
        first = self._curr
        if self._match(TokenType.USING):
            self._once(statement.using, first)
            statement.using = self._parse_format()
        elif self._match_text_seq("PUNCTUATIONS"):
            self._once(statement.punctuations, first)
            self._expect("FROM", context="after PUNCTUATIONS")
            statement.punctuations = self._name("a column")
            statement.punctuations_global = bool(self._match_text_seq("GLOBAL"))
            if self._match_text_seq("ON", "(", advance=False):  # without the bracket it is a policy
                self._advance()
                statement.punctuations_on = self._names("a column")
        elif self._match_text_seq("PUNCTUATE"):
            statement.generators.append(self._parse_generator())
        elif self._match(TokenType.PARTITION_BY):
            self._once(statement.partition, first)
            column = self._name("a column")
            position = self._name("a column") if self._match_text_seq("POSITION") else None
            statement.partition = (column, position)
            statement.partitions = self._parse_partitions() if self._match_text_seq("INTO") else None
        elif self._match_text_seq("IDLE"):
            self._once(statement.idle, first)
            self._expect("AFTER", context="after IDLE")
            statement.idle = self._parse_amount()
        elif self._match_text_seq("VALID"):
            self._once(statement.validity, first)
            statement.validity = self._parse_validity()
        elif self._match(TokenType.ON):
            subject = self._choose((*_POLICY_SUBJECTS, "BAD PUNCTUATION"), "after ON")
            self._once(statement.policies.get(subject.text), first)
            legal = {"VIOLATION": ("QUARANTINE", "ERROR", "TRUST"), "BAD PUNCTUATION": ("SKIP", "ERROR")}
            policy = self._choose(legal.get(subject.text, ("QUARANTINE", "ERROR")), f"after ON {subject.text}")
            statement.policies[subject.text] = policy
        else:
            words = [
                "USING",
                "PUNCTUATIONS FROM",
                "PARTITIONED BY",
                "IDLE AFTER",
                "VALID FOR",
                *(f"ON {word}" for word in _POLICY_SUBJECTS),
                "PUNCTUATE",
                "';'",
            ]
            raise self._mistake(expected(first.text, words, "behind the columns of a stream"))

    def _once(self, present: object, token: Token) -> None:
        if present is not None:
            raise self._mistake("this clause stands twice; keep one", token)

    def _parse_query_statement(self, name: Word) -> QueryStatement:
        begin = self._parse_time("BEGIN") if self._match_text_seq("BEGIN") else None
        end = self._parse_time("END") if self._match_text_seq("END") else None
        emit_partial = bool(self._match_text_seq("EMIT", "PARTIAL"))
        terms = self._parse_terms()
        if not self._match(TokenType.ALIAS):
            legal = ["AS", *(["EMIT PARTIAL"] if not emit_partial else []), *(["END"] if not end else [])]
            legal += ["VALID FOR"] if terms.validity is None else []
            legal += ["WEIGHT"] if terms.weight is None else []
            legal += ["SHOW TIMING"] if not terms.shows_timing else []
            legal += ["ON LATE ANSWERS"] if terms.late is None else []
            legal += ["WITH QOS"] if terms.contract is None else []
            raise self._mistake(expected(self._curr.text if self._curr else "", legal, "before the select"))
        return self._parse_query_body(name, begin, end, emit_partial, terms=terms)

    def _parse_query_body(
        self,
        name: Word,
        begin: Word | None = None,
        end: Word | None = None,
        emit_partial: bool = False,
        is_bare: bool = False,
        terms: TermsText | None = None,
    ) -> QueryStatement:
        if self._match(TokenType.WITH, advance=False):
            raise self._mistake("WITH is not available; give the inner select a name with CREATE CQ")
        event = None
        if self._is("EVENT"):
            event = self._parse_event()
            select: exp.Expr = event.tables
        elif not self._curr or self._curr.token_type not in _SELECTS:
            raise self._mistake(expected(self._curr.text if self._curr else "", ["SELECT", "EVENT"], "here"))
        else:
            select = self._parse_whole_select()
        outputs: list[Format] = []
        if self._match_text_seq("OUTPUT", "TO"):
            outputs.append(self._parse_format())
            while self._match(TokenType.COMMA):
                outputs.append(self._parse_format())
        text = Text(self.sql, self.source)
        return QueryStatement(text, name, select, begin, end, emit_partial, tuple(outputs), is_bare, event, terms or TermsText())

    def _parse_time(self, clause: str) -> Word:
        self._match_text_seq("TIMESTAMP")
        token = self._curr
        sign = "-" if self._match(TokenType.DASH) else ""
        if self._match_set((TokenType.STRING, TokenType.NUMBER)) or self._match_texts(("NOW", "INFINITY")):
            return Word(sign + self._prev.text, self._place(token, self._prev))
        legal = ["a timestamp 'YYYY-MM-DD HH:MM:SS'", "a clock time 'HH:MM'", "an integer", "Now", "Infinity"]
        raise self._mistake(expected(self._curr.text if self._curr else "", legal, f"after {clause}"))


class Penstock(Spark):
    """Spark SQL with the words of continuous queries."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS = {  # noqa: RUF012  (sqlglot's own form)
            **Spark.Tokenizer.KEYWORDS,
            "GFILTER": TokenType.HAVING,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    Parser = PenstockParser


def _of_several(kind: str, names: list[Word]) -> str:
    """What to do where a constraint names several columns."""
    each = ", ".join(f"{kind} ({name.text})" for name in names)
    return (
        f"{kind} takes one column. {each} would promise it of each column alone, which is more than of all together; "
        "if it holds of all together only, hand them in as one column"
    )


def parse_statements(sql: str, source: str) -> list[Statement]:
    """Statements of a text as written; mistakes are `SyntaxMistake` with their place.

    Examples
    --------
    >>> [statement.name.text for statement in parse_statements("CREATE CQ a AS SELECT x FROM s;", "demo")]
    ['a']
    """
    statements = _parsed(sql, source)
    for statement in statements:
        if isinstance(statement, QueryStatement) and statement.is_bare:
            raise SyntaxMistake("a query of an application needs a name: CREATE CQ name AS SELECT …", statement.name.place)
    return statements


def _parsed(sql: str, source: str) -> list[Statement]:
    dialect = Penstock()
    try:
        tokens = dialect.tokenize(sql)
    except TokenError as error:
        start = error.start or 0
        message = "a quoted text or a comment is opened and not closed"
        raise SyntaxMistake(message, Text(sql, source).place(start, start)) from None
    parser = dialect.parser()
    assert isinstance(parser, PenstockParser)
    try:
        return parser.statements(tokens, sql, source)
    except Located as error:
        raise error.mistake from None
    except RecursionError:
        raise SyntaxMistake(too_deep("the text"), parser.here()) from None


def parse_query_statement(sql: str, source: str) -> QueryStatement:
    """The one query of a text: `CREATE CQ …`, or a bare select, which is called `query`."""
    found = _parsed(sql, source)
    if len(found) == 1 and isinstance(found[0], QueryStatement):
        return found[0]
    place = found[-1].name.place if found else Place(source)
    raise SyntaxMistake("expected exactly one query: CREATE CQ name AS SELECT …, or SELECT …", place)


def parse_policy_statement(sql: str) -> PolicyStatement:
    """What follows SET POLICY."""
    found = _parsed(f"SET POLICY {sql}", "SET POLICY")
    if len(found) == 1 and isinstance(found[0], PolicyStatement):
        return found[0]
    raise SyntaxMistake("expected one strategy, such as segment or threshold (memory = '200 MB')", Place("SET POLICY"))


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Tokens of each statement; empty statements are dropped."""
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]
