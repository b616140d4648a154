"""What people ask of the service, as written: how long answers are of use, what they are worth, and who chooses the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any

from sqlglot.tokenizer_core import TokenType

from penstock.errors import InvalidDeclaration
from penstock.language.contract_clauses import ContractParser, ContractText
from penstock.language.syntax import Amount, Text, Word, expected
from penstock.language.windows import length
from penstock.model.service import LONGEST_US, ChosenPolicy, LateAnswers, Since, Validity


@dataclass(frozen=True, slots=True)
class ValidityText:
    """`VALID FOR INTERVAL 5 SECONDS [AFTER ARRIVAL | AFTER EVENT]`."""

    amount: Amount
    since: Word | None = None


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """`SET POLICY name (parameter = value, …)`."""

    text: Text
    name: Word
    parameters: tuple[tuple[Word, Any], ...] = ()


@dataclass(slots=True)
class TermsText:
    """`VALID FOR …`, `WEIGHT n`, `SHOW TIMING`, `ON LATE ANSWERS …` and `WITH QOS (…)` of a query, in any order, each once."""

    validity: ValidityText | None = None
    weight: Word | None = None
    shows_timing: bool = False
    late: Word | None = None
    contract: ContractText | None = None


class QualityParser(ContractParser):
    """Clauses of streams and queries, and `SET POLICY`."""

    def _parse_validity(self) -> ValidityText:
        """Behind VALID."""
        if not self._match(TokenType.FOR):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["FOR INTERVAL 5 SECONDS"], "after VALID"))
        amount = self._parse_amount()
        since = self._choose(("ARRIVAL", "EVENT"), "after AFTER") if self._match_text_seq("AFTER") else None
        return ValidityText(amount, since)

    def _parse_terms(self) -> TermsText:
        terms = TermsText()
        while self._curr:
            first = self._curr
            if terms.validity is None and self._match_text_seq("VALID"):
                terms.validity = self._parse_validity()
            elif terms.weight is None and self._match_text_seq("WEIGHT"):
                token = self._curr
                sign = "-" if self._match(TokenType.DASH) else ""
                if not self._match(TokenType.NUMBER):
                    raise self._mistake(expected(self._curr.text if self._curr else "", ["a number"], "after WEIGHT"))
                terms.weight = Word(sign + self._prev.text, self._place(token, self._prev))
            elif not terms.shows_timing and self._match_text_seq("SHOW"):
                self._expect("TIMING", context="after SHOW")
                terms.shows_timing = True
            elif terms.late is None and self._match(TokenType.ON):
                self._expect("LATE", context="after ON")
                self._expect("ANSWERS", context="after ON LATE")
                terms.late = self._choose(tuple(policy.name for policy in LateAnswers), "after ON LATE ANSWERS")
            elif terms.contract is None and self._match(TokenType.WITH):
                terms.contract = self._parse_contract()
            elif first.text.upper() in ("VALID", "WEIGHT", "SHOW", "ON", "WITH"):
                raise self._mistake("this clause stands twice; keep one", first)
            else:
                break
        return terms

    def _parse_policy_statement(self) -> PolicyStatement:
        """Behind SET."""
        self._expect("POLICY", context="after SET")
        name = self._name("a strategy")
        self.source = f"SET POLICY {name.text}"
        parameters: list[tuple[Word, Any]] = []
        if self._match(TokenType.L_PAREN):
            while not parameters or self._match(TokenType.COMMA):
                parameters.append(self._parse_setting())
            if not self._match(TokenType.R_PAREN):
                raise self._mistake(expected(self._curr.text if self._curr else "", [",", ")"], "in the parameters"))
        return PolicyStatement(Text(self.sql, self.source), name, tuple(parameters))

    def _parse_setting(self) -> tuple[Word, Any]:
        name = self._name("a parameter")
        if not self._match(TokenType.EQ):
            raise self._mistake(expected(self._curr.text if self._curr else "", ["="], f"after {name.text}"))
        if self._match(TokenType.STRING):
            return name, self._prev.text
        if self._match_texts(("TRUE", "FALSE")):
            return name, self._prev.text.upper() == "TRUE"
        sign = "-" if self._match(TokenType.DASH) else ""
        if self._match(TokenType.NUMBER):
            number = Decimal(sign + self._prev.text)
            return name, int(number) if number == number.to_integral_value() else float(number)
        legal = ["a number", "'a text'", "TRUE", "FALSE"]
        raise self._mistake(expected(self._curr.text if self._curr else "", legal, f"after {name.text} ="))


def chosen_policy(statement: PolicyStatement) -> ChosenPolicy:
    """Whether there is such a strategy is judged by who knows them."""
    parameters: dict[str, Any] = {}
    for name, value in statement.parameters:
        if name.text.lower() in parameters:
            raise InvalidDeclaration(f"the parameter '{name.text}' stands twice; keep one", name.place)
        parameters[name.text.lower()] = value
    return ChosenPolicy(statement.name.text.lower(), parameters, statement.name.place)


def validity(text: ValidityText | None, has_clock_time: bool) -> Validity | None:
    """From event time where that is a time of the clock, else from arrival, unless the words say it."""
    if text is None:
        return None
    for number, unit in text.amount.parts:
        if unit is None:
            raise InvalidDeclaration(
                f"a validity is a time; write for example VALID FOR INTERVAL {number.text} SECONDS", number.place
            )
    us = length(text.amount, clock=True)
    if us <= 0:
        raise InvalidDeclaration("a validity is longer than 0; write for example VALID FOR INTERVAL 5 SECONDS", text.amount.place)
    if us > LONGEST_US:
        raise InvalidDeclaration(
            "a validity is at most 100 years long; answers of queries without VALID FOR are of use for ever", text.amount.place
        )
    since = Since(text.since.text.lower()) if text.since else Since.EVENT if has_clock_time else Since.ARRIVAL
    if since is Since.EVENT and not has_clock_time:
        assert text.since is not None
        raise InvalidDeclaration("the timestamp is an integer, which no clock counts; write AFTER ARRIVAL", text.since.place)
    return Validity(us, since)


def weight(word: Word | None) -> float:
    """What an answer in time is worth."""
    if word is None:
        return 1.0
    found = float(word.text)  # infinite, or 0, where a number has no other room
    if not 0 < found < inf:
        raise InvalidDeclaration(f"a weight is a number above 0, found {word.text}; 1 is that of queries without one", word.place)
    return found


def late_answers(word: Word | None, validities: Sequence[Validity]) -> LateAnswers:
    """What becomes of late answers; none is late where nothing says until when answers are of use."""
    if word is None:
        return LateAnswers.KEEP
    if not validities:
        text = "no answer of this query is ever late; write for example VALID FOR INTERVAL 5 SECONDS, or leave ON LATE ANSWERS out"
        raise InvalidDeclaration(text, word.place)
    return LateAnswers(word.text.lower())
