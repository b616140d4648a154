"""Mistakes in the text of an application, with marks around the words at which an error must point: `SELECT «pirce» FROM …`."""

from __future__ import annotations

import pytest

from penstock.errors import Place, UserError
from penstock.language.application import parse_application


def refused(marked: str, code: str, message: str, source: str = "the application", now: int | None = None) -> Place:
    """Check that the text is refused for a reason, where the marked words begin; gives the place of the error."""
    start, text = marked.index("«"), unmarked(marked)
    with pytest.raises(UserError) as caught:
        parse_application(text, source, now=now)
    error = caught.value
    assert error.code == code, str(error)
    assert message in error.message, str(error)
    assert error.place is not None, str(error)
    expected = (text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
    assert (error.place.line, error.place.column) == expected, str(error)
    assert not any(word in str(error) for word in ("sqlglot", "int64", "int32", "timestamp[us", "DataType"))
    return error.place


def unmarked(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


def width_of(marked: str) -> int:
    """How many characters are marked."""
    return marked.index("»") - marked.index("«") - 1
