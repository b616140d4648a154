"""`PUNCTUATE …` and `CLUSTERED … WITHIN`: what they declare, and what is wrong with them."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidDeclaration, SyntaxMistake, TypeMistake, UnknownColumn, UnknownStream, UserError
from penstock.language.application import parse_application
from penstock.model.declarations import (
    Constraint,
    ConstraintKind,
    EndOfLife,
    Generator,
    GeneratorKind,
    RowPolicy,
    StreamDeclaration,
)

AUCTION = "CREATE STREAM auction (id BIGINT, item BIGINT, close BIGINT, label STRING, at BIGINT, WATERMARK at DELAY OF 0);"


def stream(clauses: str, element: str = "") -> StreamDeclaration:
    text = f"CREATE STREAM bid (item BIGINT, Status STRING, ts BIGINT, {element} WATERMARK ts DELAY OF 0) {clauses};"
    return parse_application(AUCTION + text).streams["bid"]


def test_a_cluster_may_have_gaps() -> None:
    assert stream("", "CLUSTERED (item) WITHIN 100 ROWS,").constraints == (Constraint(ConstraintKind.CLUSTERED, "item", 100),)
    assert stream("", "CLUSTERED (item),").constraints == (Constraint(ConstraintKind.CLUSTERED, "item"),)


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("PUNCTUATE ITEM WHEN status = 'closed'", Generator(GeneratorKind.WHEN, "item", condition="Status = 'closed'")),
        (
            "PUNCTUATE item AFTER auction.close",
            Generator(GeneratorKind.AFTER, "item", reference=EndOfLife("auction", "close", "item")),
        ),
        (
            "PUNCTUATE item AFTER auction.close ON auction.id",
            Generator(GeneratorKind.AFTER, "item", reference=EndOfLife("auction", "close", "id")),
        ),
        ("PUNCTUATE item BY SORTING 1000 ROWS", Generator(GeneratorKind.SORTING, "item", rows=1000)),
        ("punctuate item by partitioning 1 row", Generator(GeneratorKind.PARTITIONING, "item", rows=1)),
        ("PUNCTUATE item BY SAMPLING 500 ROWS", Generator(GeneratorKind.SAMPLING, "item", rows=500)),
    ],
)
def test_each_generator_is_kept(clause: str, expected: Generator) -> None:
    assert stream(clause).generators == (expected,)


def test_clauses_come_in_any_order_and_a_policy_behind_a_rule_is_a_policy() -> None:
    found = stream(
        "PUNCTUATE item AFTER auction.close ON VIOLATION TRUST PUNCTUATE item WHEN ts > 5 AND Status IS NULL ON LATE ROWS ERROR"
    )
    assert (found.on_violation, found.on_late, len(found.generators)) == (RowPolicy.TRUST, RowPolicy.ERROR, 2)
    assert found.generators[1].condition == "ts > 5 AND Status IS NULL"


@pytest.mark.parametrize("generator", stream(
    "PUNCTUATE item WHEN status = 'closed' PUNCTUATE item AFTER auction.close PUNCTUATE item BY SORTING 9 ROWS"
).generators)  # fmt: skip
def test_the_text_of_a_generator_declares_it_again(generator: Generator) -> None:
    assert stream(generator.text).generators == (generator,)


@pytest.mark.parametrize(
    ("clause", "error", "text"),
    [
        ("PUNCTUATE itm WHEN ts > 1", UnknownColumn, "Did you mean 'item'"),
        ("PUNCTUATE item WHEN tss > 1", UnknownColumn, "Did you mean 'ts'"),
        ("PUNCTUATE item WHEN bid.ts > 1", SyntaxMistake, "without 'bid.'"),
        ("PUNCTUATE item WHEN ts + 1", TypeMistake, ""),
        ("PUNCTUATE item WHEN", SyntaxMistake, ""),
        ("PUNCTUATE item", SyntaxMistake, "expected WHEN, AFTER or BY"),
        ("PUNCTUATE item BY SORTNG 3 ROWS", SyntaxMistake, "Did you mean 'SORTING'"),
        ("PUNCTUATE item BY SORTING 0 ROWS", SyntaxMistake, "1 or more"),
        ("PUNCTUATE item BY SORTING ROWS", SyntaxMistake, "a number of rows"),
        ("PUNCTUATE item BY SORTING 5 SECONDS", SyntaxMistake, "expected ROWS"),
        ("PUNCTUATE item AFTER close", SyntaxMistake, "stream.column"),
        ("PUNCTUATE item AFTER auktion.close", UnknownStream, "Did you mean 'auction'"),
        ("PUNCTUATE item AFTER auction.closes", UnknownColumn, "Did you mean 'close'"),
        ("PUNCTUATE item AFTER auction.label", InvalidDeclaration, "event time"),
        ("PUNCTUATE item AFTER auction.close ON auction.label", InvalidDeclaration, "both must have one type"),
        ("PUNCTUATE Status AFTER auction.close", UnknownColumn, "'Status'"),
    ],
)
def test_mistakes_are_shown_with_their_place(clause: str, error: type[UserError], text: str) -> None:
    with pytest.raises(error) as found:
        stream(clause)
    assert text in str(found.value)
    assert found.value.place is not None
    assert found.value.place.line > 0


@pytest.mark.parametrize(
    "element", ["UNIQUE (item) WITHIN 5 ROWS,", "CLUSTERED (item) WITHIN 0 ROWS,", "CLUSTERED (item) WITHIN ROWS,"]
)
def test_a_gap_belongs_to_clusters_and_is_a_number(element: str) -> None:
    with pytest.raises(SyntaxMistake):
        stream("", element)
