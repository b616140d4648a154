"""Damaged text never gets anything but an answer for its author."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import UserError
from penstock.language.application import parse_application

FOLDER = Path(__file__).parents[1] / "golden" / "language"
CASES = [case.partition("\n----")[0] for path in sorted(FOLDER.glob("*.sql")) for case in path.read_text().split("\n====\n")]
WORDS = [re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", case) for case in CASES]

#: Signs and words of this language and of others, to be put where they do not belong.
FOREIGN = [
    *"()[],;.*'`-=<>+/%|&!?:@~^{}$", "SELECT", "AS", "NULL", "é", "²", "1e99", "1e999", "99999999999999999999", "[RANGE 1]", "''",
    *("FROM", "UNION ALL BY NAME", "DISTINCT ON (a)", "CASE", "END", "OVER ()", "FILTER (WHERE a)", "max_by(a, b)", "struct(a)"),
    *("map(a)", "ARRAY(1)", "a.b.c", "::int", "x -> x", "/*+ PJOIN */", "/*", "MATCH_RECOGNIZE", "EVENT", "SEQ(", "WITHIN"),
    *("RLIKE '('", "EXISTS", "TIMESTAMP '0001-01-01 00:00:00+05:00'", "x'AB'", "?", "@x", ":x", "$$", "CAST(a AS DECIMAL(1, 2))"),
    *("LATERAL VIEW", "PIVOT", "VALUES", "WITH", "GROUP BY ALL", "INTERVAL '1' DAY TO HOUR", "a COLLATE x", "SYMMETRIC", "|>"),
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    words = list(draw(st.sampled_from(WORDS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(words) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "put"])):
            case "drop":
                words.pop(place)
            case "double":
                words.insert(place, words[place])
            case "swap":
                other = draw(st.integers(0, len(words) - 1))
                words[place], words[other] = words[other], words[place]
            case _:
                words[place] = draw(st.sampled_from(FOREIGN))
    return "".join(words)


@given(damaged())
@example("CREATE STREAM s (a INT); CREATE CQ q AS SELECT DISTINCT FROM s")
@example("CREATE STREAM s (a INT); CREATE CQ q AS SELECT map(a) FROM s")
@example("CREATE STREAM s (a INT) PUNCTUATE a WHEN a BETWEEN ? AND 2")
@settings(max_examples=200, deadline=None)
def test_damaged_text_is_read_or_refused_with_a_place(text: str) -> None:
    mistake = mistake_in(text)
    if mistake is not None:
        assert mistake.place is not None
        assert mistake.place.line
        assert "sqlglot" not in str(mistake)


def mistake_in(text: str) -> UserError | None:
    try:
        parse_application(text, now=0)
    except UserError as error:
        return error
    return None
