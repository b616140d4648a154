"""What a query promises its users, as written: `WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST, LOSS <= 5 PERCENT)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import InvalidDeclaration, Place
from penstock.language.clauses import ClauseParser
from penstock.language.syntax import Amount, Word, expected
from penstock.language.windows import length
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.model.qos import Expectation, Interval, Measure, Priority, QoSGraph, QoSSpecification
from penstock.model.schema import Field, is_numeric
from penstock.model.sizes import size_in_bytes

#: How serious a violation is, as written; the first one holds where nothing is said.
_CLASSES = {
    "MUST": Priority.MUST_SATISFY,
    "BEST EFFORT": Priority.BEST_EFFORT,
    "DONT CARE": Priority.DONT_CARE,
}
#: How each promise is compared, in the order of the manual.
_BOUNDS = {"LATENCY": "<=", "MEMORY": "<=", "THROUGHPUT": ">=", "LOSS": "<="}
_SIGNS = {"<=": TokenType.LTE, ">=": TokenType.GTE}
_EXAMPLES = {
    "LATENCY": "LATENCY <= INTERVAL 2 SECONDS",
    "MEMORY": "MEMORY <= '200 MB'",
    "THROUGHPUT": "THROUGHPUT >= 500",
    "LOSS": "LOSS <= 5 PERCENT",
}


@dataclass(frozen=True, slots=True)
class CornerText:
    """A bound, from a moment after the query's start on; None: all the time."""

    bound: Amount | Word
    at: Amount | None = None


@dataclass(frozen=True, slots=True)
class PromiseText:
    """`LATENCY <= INTERVAL 2 SECONDS MUST`, or with straight pieces in parentheses."""

    measure: Word
    pieces: tuple[tuple[CornerText, CornerText], ...]
    priority: Word | None = None


@dataclass(frozen=True, slots=True)
class LossText:
    """`LOSS <= 5 PERCENT DROP LOWEST price …`."""

    word: Word
    percent: Word
    kind: Word | None = None
    column: Word | None = None
    center: Word | None = None
    is_by_range: bool = False
    is_compensated: bool = False
    is_anywhere: bool = False


@dataclass(slots=True)
class ContractText:
    """Everything between the parentheses behind WITH QOS."""

    place: Place
    promises: list[PromiseText] = field(default_factory=list)
    loss: LossText | None = None


class ContractParser(ClauseParser):
    """`WITH QOS (…)`."""

    def _parse_contract(self) -> ContractText:
        """Behind WITH."""
        token = self._prev
        self._expect("QOS", context="after WITH, in front of the select")
        contract = ContractText(self._place(token, self._prev))
        self._listed(lambda: self._parse_promise(contract))
        return contract

    def _parse_promise(self, contract: ContractText) -> None:
        token = self._curr
        measure = self._choose(tuple(_BOUNDS), "in WITH QOS")
        given = [promise.measure.text for promise in contract.promises] + (["LOSS"] if contract.loss else [])
        if measure.text in given:
            raise self._mistake(f"{measure.text} stands twice; keep one", token)
        sign = _BOUNDS[measure.text]
        if not self._match(_SIGNS[sign]):
            found = expected(self._curr.text if self._curr else "", [sign], f"after {measure.text}")
            raise self._mistake(f"{found}, as in {_EXAMPLES[measure.text]}")
        if measure.text == "LOSS":
            contract.loss = self._parse_loss(measure)
        else:
            contract.promises.append(self._parse_expectation(measure))

    def _parse_expectation(self, measure: Word) -> PromiseText:
        if self._match(TokenType.L_PAREN, advance=False):
            pieces = tuple(self._listed(lambda: self._parse_piece(measure.text)))
        else:
            corner = CornerText(self._parse_bound(measure.text))
            pieces = ((corner, corner),)
        is_last = self._curr is None or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN)
        return PromiseText(measure, pieces, None if is_last else self._choose(tuple(_CLASSES), f"behind {measure.text}"))

    def _parse_piece(self, measure: str) -> tuple[CornerText, CornerText]:
        first = self._parse_corner(measure)
        return first, self._parse_corner(measure) if self._match_text_seq("TO") else first

    def _parse_corner(self, measure: str) -> CornerText:
        bound = self._parse_bound(measure)
        self._expect("AT", context="behind a bound that changes with time")
        return CornerText(bound, self._parse_amount())

    def _parse_bound(self, measure: str) -> Amount | Word:
        if measure == "LATENCY":
            return self._parse_amount()
        token = self._curr
        kind, what = (TokenType.STRING, "a size such as '200 MB'") if measure == "MEMORY" else (TokenType.NUMBER, "a number")
        return self._literal(kind, what, measure, token)

    def _literal(self, kind: TokenType, what: str, measure: str, token: Token) -> Word:
        sign = "-" if kind is TokenType.NUMBER and self._match(TokenType.DASH) else ""
        if not self._match(kind):
            raise self._mistake(expected(self._curr.text if self._curr else "", [what], f"after {measure}"))
        return Word(sign + self._prev.text, self._place(token, self._prev))

    def _parse_loss(self, word: Word) -> LossText:
        percent = self._literal(TokenType.NUMBER, "a number", "LOSS <=", self._curr)
        self._expect("PERCENT", context="behind the number of LOSS")
        kind = column = center = None
        is_by_range = is_compensated = is_anywhere = False
        if self._match_text_seq("DROP"):
            kind = self._choose(tuple(name.name for name in DropKind), "after DROP")
            if kind.text != DropKind.RANDOM.name:
                column = self._name("a column")
                if self._match_text_seq("AROUND"):
                    center = self._literal(TokenType.NUMBER, "a number", "AROUND", self._curr)
                is_by_range = bool(self._match_text_seq("BY", "RANGE"))
        while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            if not is_compensated and self._match_text_seq("COMPENSATE"):
                is_compensated = True
            elif not is_anywhere and self._match_text_seq("ANYWHERE"):
                is_anywhere = True
            else:
                legal = [*([] if kind else ["DROP"]), *([] if is_compensated else ["COMPENSATE"])]
                raise self._mistake(
                    expected(self._curr.text, [*legal, *([] if is_anywhere else ["ANYWHERE"]), ",", ")"], "in LOSS")
                )
        return LossText(word, percent, kind, column, center, is_by_range, is_compensated, is_anywhere)


def contract(text: ContractText | None, warn: Callable[[str], None]) -> QoSSpecification | None:
    """What the words mean; None where there are none."""
    if text is None:
        return None
    expectations = tuple(_expectation(promise) for promise in text.promises)
    latency = next((item for item in expectations if item.measure is Measure.LATENCY), None)
    share = _share(text.loss) if text.loss else 0.0
    if share and (latency is None or latency.priority is not Priority.MUST_SATISFY):
        warn("LOSS allows rows to be dropped, and no LATENCY … MUST asks for it: they will only be dropped for other queries")
    strictest = (
        min((corner for piece in latency.graph.intervals for corner in (piece.y1, piece.y2)), default=None) if latency else None
    )
    return QoSSpecification(expectations, strictest, share, _preference(text.loss) if text.loss else DropPreference())


def _expectation(promise: PromiseText) -> Expectation:
    measure = Measure(promise.measure.text.lower())
    priority = _CLASSES[promise.priority.text] if promise.priority else Priority.MUST_SATISFY
    pieces = [_interval(measure, first, last) for first, last in promise.pieces]
    try:
        return Expectation(measure, QoSGraph(tuple(pieces)), priority)
    except InvalidDeclaration as error:
        error.at(promise.measure.place)
        raise


def _interval(measure: Measure, first: CornerText, last: CornerText) -> Interval:
    return Interval(_moment(first), _bound(measure, first.bound), _moment(last), _bound(measure, last.bound))


def _moment(corner: CornerText) -> float:
    if corner.at is None:
        return 0.0
    seconds = _seconds(corner.at, "a moment after the start of the query")
    if seconds < 0:
        raise InvalidDeclaration("a moment is counted from the start of the query; it cannot lie before it", corner.at.place)
    return seconds


def _bound(measure: Measure, written: Amount | Word) -> float:
    if isinstance(written, Amount):
        seconds = _seconds(written, "a latency")
        if seconds <= 0:
            raise InvalidDeclaration("a latency is longer than 0; write for example LATENCY <= INTERVAL 2 SECONDS", written.place)
        return seconds
    if measure is Measure.MEMORY:
        try:
            return float(size_in_bytes(written.text))
        except InvalidDeclaration as error:
            error.at(written.place)
            raise
    number = float(written.text)
    if not 0 <= number < inf:
        raise InvalidDeclaration(f"THROUGHPUT is a number of answers per second, 0 or more; found {written.text}", written.place)
    return number


def _seconds(amount: Amount, what: str) -> float:
    for number, unit in amount.parts:
        if unit is None:
            raise InvalidDeclaration(f"{what} is a time; write for example INTERVAL {number.text} SECONDS", number.place)
    return length(amount, clock=True) / 1e6


def _share(loss: LossText) -> float:
    percent = float(loss.percent.text)
    if not 0 <= percent <= 100:
        text = f"LOSS is a share of all rows, from 0 to 100 PERCENT; found {loss.percent.text}"
        raise InvalidDeclaration(text, loss.percent.place)
    return percent / 100


def _preference(loss: LossText) -> DropPreference:
    kind = DropKind(loss.kind.text.lower()) if loss.kind else DropKind.RANDOM
    if loss.is_compensated and kind is not DropKind.RANDOM:
        text = f"COMPENSATE scales COUNT and SUM by the share that was kept; with DROP {kind.name} the rest is no fair sample"
        raise InvalidDeclaration(f"{text}. Leave one of them out", loss.word.place)
    if loss.center is not None and kind not in (DropKind.CENTER, DropKind.OUTLIER):
        raise InvalidDeclaration(f"AROUND belongs to CENTER and OUTLIER, not to {kind.name}; leave it out", loss.center.place)
    return DropPreference(
        kind,
        loss.column.text if loss.column else None,
        float(loss.center.text) if loss.center else None,
        DropMode.RANGE if loss.is_by_range else DropMode.QUANTILE,
        loss.is_compensated,
        loss.is_anywhere,
    )


def refuse_unknown_column(loss: LossText, fields: Sequence[Field]) -> None:
    """Refuse a preference for a column that no stream of the query has, or not as a number.

    Parameters
    ----------
    fields
        Of all streams that the query reads in the end.
    """
    if loss.column is None:
        return
    numbers = {item.name for item in fields if is_numeric(item.type)}
    if loss.column.text.lower() not in (name.lower() for name in numbers):
        is_there = loss.column.text.lower() in (item.name.lower() for item in fields)
        what = "which is no number" if is_there else "which no stream of this query has"
        text = (
            f"LOSS drops by column '{loss.column.text}', {what}; numbers are {', '.join(sorted(numbers)) or 'none of its columns'}"
        )
        raise InvalidDeclaration(text, loss.column.place)
