"""`SET POLICY`, and the same words in an option."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.language.application import parse_application, parse_policy, policy_in
from penstock.lowering.explain import explain
from penstock.lowering.stages import startable
from penstock.model.service import ChosenPolicy

STREAM = "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);"
QUERIES = f"{STREAM} CREATE CQ large_trades AS SELECT k FROM s; CREATE CQ Pace AS SELECT k FROM s;"


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("segment", "segment", {}),
        (" Segment ", "segment", {}),
        ("threshold(memory='200 MB')", "threshold", {"memory": "200 MB"}),
        ("threshold (MEMORY = 1000, beta = 0.7, dynamic = TRUE)", "threshold", {"memory": 1000, "beta": 0.7, "dynamic": True}),
        ("weighted_round_robin(weights='large_trades=10, pace=1')", "weighted_round_robin", {"weights": "large_trades=10, pace=1"}),
    ],
)
def test_an_option_is_written_as_behind_set_policy(text: str, name: str, parameters: dict[str, object]) -> None:
    expected = ChosenPolicy(name, parameters)
    assert parse_policy(text) == policy_in(f"SET POLICY {text}; {STREAM}") == expected
    startable(parse_application(f"SET POLICY {text}; {QUERIES}"))
    explain(parse_application(QUERIES), policy=parse_policy(text))


@pytest.mark.parametrize(
    ("text", "complaint", "column"),
    [
        ("fifo(max_age='1 second', max_age='2 seconds')", "'max_age' stands twice", 37),
        ("fifo(max_age='1 second', MAX_AGE='1 second')", "'MAX_AGE' stands twice", 37),
        ("threshold(memory=", "expected", 28),
        ("threshold(memory='1 MB'", "expected", 0),
        ("segment(); SET POLICY fifo", "expected", 0),
        ("threshold('1 MB')", "expected a parameter", 22),
    ],
)
def test_mistakes_are_shown_at_their_place(text: str, complaint: str, column: int) -> None:
    for read in (lambda: parse_policy(text), lambda: parse_application(f"SET POLICY {text}")):
        with pytest.raises(PenstockError) as caught:
            read()
        assert complaint in str(caught.value)
        assert caught.value.place is not None
        assert column in (0, caught.value.place.column)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("weighted_round_robin(weights='large_trads=10')", "'large_trads', which is not there"),
        ("weighted_round_robin(weights='pace')", "'pace' is no query with its weight"),
        ("weighted_round_robin(weights='pace=1, PACE=2')", "'PACE' stands twice"),
        ("weighted_round_robin(weights='pace=0')", "'0' is no number with 0 < x"),
        ("weighted_round_robin(weights='pace=nan')", "'nan' is no number"),
        ("deadline", "no query says how long"),
        ("round-robin(slices=2)", ""),
        ("sgement", "Did you mean 'segment'?"),
    ],
)
def test_check_run_and_explain_refuse_the_same(text: str, complaint: str) -> None:
    attempts = [
        lambda: startable(parse_application(f"SET POLICY {text}; {QUERIES}")),
        lambda: explain(parse_application(f"SET POLICY {text}; {QUERIES}")),
        lambda: explain(parse_application(QUERIES), policy=parse_policy(text)),
    ]
    for attempt in attempts:
        with pytest.raises(PenstockError) as caught:
            attempt()
        assert complaint in str(caught.value)
