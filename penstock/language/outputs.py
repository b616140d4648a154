"""A text without its destinations, or without its contracts."""

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


def without_contracts(text: str) -> str:
    """The same application with queries that promise nothing.

    Examples
    --------
    >>> without_contracts("CREATE CQ a WEIGHT 2 WITH QOS (MEMORY <= ('1 MB' AT INTERVAL 1 SECOND)) AS SELECT k FROM s")
    'CREATE CQ a WEIGHT 2  AS SELECT k FROM s'
    """
    tokens = Penstock().tokenize(text)
    words = [token.text.upper() for token in tokens]
    kept, at, depth, begins = list[str](), 0, 0, -1
    for number, token in enumerate(tokens):
        if depth == 0 and words[number : number + 3] == ["WITH", "QOS", "("]:
            kept.append(text[at : token.start])
            begins = depth
        depth += (token.text == "(") - (token.text == ")")
        if begins == depth and token.text == ")":
            at, begins = token.end + 1, -1
    return "".join([*kept, text[at:]])
