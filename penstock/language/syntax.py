"""What the parser hands on: statements as written, every word with its place.

Nothing here knows what a name means; `streams`, `windows` and `queries` give these values their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.errors import Place
from penstock.expressions.literals import shortened

if TYPE_CHECKING:
    from penstock.language.event_clauses import EventText
    from penstock.language.quality_clauses import TermsText, ValidityText


@dataclass(frozen=True, slots=True)
class Text:
    """A text and what it is called in messages.

    Examples
    --------
    >>> print(Text("SELECT 1\\nFROM bit", "query 'q'").place(14, 16))
    query 'q', line 2, column 6
        FROM bit
             ^^^
    """

    sql: str
    source: str

    def place(self, start: int, end: int) -> Place:
        """The place of the characters `start` to `end` (both inclusive, counted from 0)."""
        start = min(start, len(self.sql))
        line = self.sql.count("\n", 0, start) + 1
        begin = self.sql.rfind("\n", 0, start) + 1
        excerpt = self.line(line)
        # A word that goes on in the next line is underlined to the end of its first line.
        width = max(min(end + 1, begin + len(excerpt)) - start, 1)
        return Place(self.source, line, start - begin + 1, excerpt, width)

    def line(self, number: int) -> str:
        return self.sql.split("\n")[number - 1]

    def place_of(self, node: exp.Expr) -> Place | None:
        """The place of the first word of a syntax node that has one."""
        for part in chain([node], node.find_all(exp.Identifier, exp.Literal, exp.Func, exp.Star)):
            if "start" in part.meta:
                return self.place(part.meta["start"], part.meta["end"])
        return None


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    place: Place

    @property
    def upper(self) -> str:
        return self.text.upper()


@dataclass(frozen=True, slots=True)
class Amount:
    """A length as written: `90`, `1 hour 30 minutes`, `10 tuples`; numbers may carry a sign."""

    parts: tuple[tuple[Word, Word | None], ...]

    @property
    def place(self) -> Place:
        return self.parts[0][0].place


@dataclass(frozen=True, slots=True)
class WindowClause:
    """`[PARTITION BY … RANGE … ADVANCE …]` as written; `measure` is RANGE, ROWS or UNBOUNDED."""

    place: Place
    measure: str
    size: Amount | None = None
    advance: Amount | None = None
    move: tuple[Amount, Amount] | None = None
    #: LANDMARK or FIXED.
    anchor: str = ""
    #: TUMBLING or SLIDE.
    form: str = ""
    partition_by: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """`name OPTIONS (…)` of a source or a destination."""

    name: Word
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class ColumnText:
    name: Word
    type: Word
    nullable: bool


@dataclass(frozen=True, slots=True)
class Watermark:
    column: Word
    delay: Amount


@dataclass(frozen=True, slots=True)
class GeneratorText:
    """`PUNCTUATE column …` as written: WHEN condition, AFTER stream.time [ON stream.key], or BY kind rows ROWS."""

    column: Word
    kind: Word
    condition: exp.Expr | None = None
    stream: Word | None = None
    time: Word | None = None
    key: Word | None = None
    rows: Word | None = None


@dataclass(slots=True)
class StreamStatement:
    """`CREATE STREAM`, filled in by the parser clause by clause."""

    text: Text
    name: Word
    columns: list[ColumnText] = field(default_factory=list)
    #: Kind, column, and the rows of WITHIN.
    constraints: list[tuple[Word, Word, Word | None]] = field(default_factory=list)
    generators: list[GeneratorText] = field(default_factory=list)
    watermark: Watermark | None = None
    using: Format | None = None
    punctuations: Word | None = None
    punctuations_global: bool = False
    #: The attributes that punctuations close, where the statement names them.
    punctuations_on: list[Word] = field(default_factory=list)
    partition: tuple[Word, Word | None] | None = None
    #: How many source partitions there are, where the statement says so.
    partitions: Word | None = None
    #: After how long a silent source partition is waited for no longer.
    idle: Amount | None = None
    validity: ValidityText | None = None
    #: LATE ROWS, BAD ROWS, VIOLATION, BAD PUNCTUATION to the policy's word.
    policies: dict[str, Word] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """`CREATE FUNCTION name(parameter TYPE, …) RETURNS TYPE USING language OPTIONS (…)`."""

    text: Text
    name: Word
    parameters: tuple[ColumnText, ...]
    returns: Word
    using: Format


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """`CREATE CQ`: the select is sqlglot's tree, windows hang at its sources (`window_of`)."""

    text: Text
    name: Word
    select: exp.Expr
    begin: Word | None = None
    end: Word | None = None
    emit_partial: bool = False
    outputs: tuple[Format, ...] = ()
    #: A select without CREATE CQ.
    is_bare: bool = False
    #: A pattern instead of a select, which then only lists its sources.
    event: EventText | None = None
    #: What is asked of the service.
    terms: TermsText | None = None


def window_of(source: exp.Expr) -> WindowClause | None:
    """The window clause the parser found beside a source of FROM."""
    clause = source.meta.get("window")
    return clause if isinstance(clause, WindowClause) else None


def expected(found: str, legal: list[str], context: str) -> str:
    """Return the sentence for a word that is none of the legal ones.

    Examples
    --------
    >>> expected("TABEL", ["STREAM", "CQ"], "after CREATE")
    "found 'TABEL' after CREATE; expected STREAM or CQ"
    >>> expected("fortnite", ["hour", "fortnight"], "as unit")
    "found 'fortnite' as unit; expected hour or fortnight. Did you mean 'fortnight'?"
    """
    lowered = {word.lower(): word for word in legal}
    near = get_close_matches(found.lower(), lowered, n=1, cutoff=0.5)
    hint = f". Did you mean '{lowered[near[0]]}'?" if near and len(legal) > 1 else ""
    shown = f"'{shortened(found)}'" if found else "the end of the statement"
    listed = legal[0] if len(legal) == 1 else f"{', '.join(legal[:-1])} or {legal[-1]}"
    return f"found {shown} {context}; expected {listed}{hint}"
