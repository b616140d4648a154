"""A text without its destinations."""

from __future__ import annotations

from penstock.language.dialect import Penstock

_ENDS = ";"


def without_outputs(text: str) -> str:
    """The same application with all answers in memory, whatever destinations its queries name.

    Examples
    --------
    >>> without_outputs("CREATE CQ a AS SELECT k FROM s OUTPUT TO parquet OPTIONS (path 'x;y'), console; CREATE FUNCTION …")
    'CREATE CQ a AS SELECT k FROM s ; CREATE FUNCTION …'
    """
    tokens = Penstock().tokenize(text)
    kept, at, skips, depth = list[str](), 0, False, 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        depth += (token.text == "(") - (token.text == ")")
        if token.text == _ENDS and skips:
            at, skips = token.start, False
        is_clause = token.text.upper() == "OUTPUT" and following is not None and following.text.upper() == "TO"
        if is_clause and not depth and not skips:
            kept.append(text[at : token.start])
            skips = True
    return "".join([*kept, "" if skips else text[at:]])
