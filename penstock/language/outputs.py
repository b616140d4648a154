"""A text without its destinations, or without its promises."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token

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


def without_promises(text: str) -> str:
    """The same application with queries that promise nothing; what they allow to be lost stays, as select lists may speak of it.

    Examples
    --------
    >>> without_promises("CREATE CQ a WEIGHT 2 WITH QOS (MEMORY <= ('1 MB' AT INTERVAL 1 SECOND)) AS SELECT k FROM s")
    'CREATE CQ a WEIGHT 2  AS SELECT k FROM s'
    >>> without_promises("CREATE CQ a WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 5 PERCENT DROP LOWEST k) AS SELECT k FROM s")
    'CREATE CQ a WITH QOS (LOSS <= 5 PERCENT DROP LOWEST k) AS SELECT k FROM s'
    """
    tokens = Penstock().tokenize(text)
    words = [token.text.upper() for token in tokens]
    kept, at, number = list[str](), 0, 0
    while number < len(tokens):
        if words[number : number + 3] == ["WITH", "QOS", "("]:
            stop, losses = _promises_end(tokens, words, number + 3)
            loss = f"WITH QOS ({text[losses[0].start : losses[-1].end + 1]})" if losses else ""
            kept, at, number = [*kept, text[at : tokens[number].start], loss], tokens[stop].end + 1, stop
        number += 1
    return "".join([*kept, text[at:]])


def _promises_end(tokens: Sequence[Token], words: Sequence[str], number: int) -> tuple[int, list[Token]]:
    """Where the contract that begins with a token ends, and what it says of LOSS."""
    depth, losses, is_loss = 0, list[Token](), words[number] == "LOSS"
    while depth or words[number] != ")":
        depth += (words[number] == "(") - (words[number] == ")")
        if not depth and words[number] == ",":
            is_loss = words[number + 1] == "LOSS"
        elif is_loss:
            losses.append(tokens[number])
        number += 1
    return number, losses
