"""A parser that loses nothing of what is written.

sqlglot reads many dialects and forgives: it drops empty places of a list, and builders of functions take the arguments they
know. Here both are mistakes, so that what is in the tree is all that was written; `accepted_syntax` then checks the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.literals import shortened

_Item = TypeVar("_Item")
#: What builders of functions raise where they are given fewer or other arguments than they expect.
_BUILDERS_STUMBLE = (IndexError, KeyError, AttributeError, TypeError, ValueError)
#: Words that sqlglot tries as a type before it reads them as a function, and how often they may stand inside each other.
_READ_TWICE = ("STRUCT", "ARRAY", "MAP", "NAMED_STRUCT", "NESTED", "OBJECT", "ROW", "TUPLE", "LIST", "UNION", "NULLABLE")
_MOST_RETRIED = 4
_LOOK_BACK = 100
#: More signs than any number needs.
_LONGEST_NUMBER = 400
_Found = TypeVar("_Found", bound=exp.Expr)


class Reason(str):
    """A message for the author, as opposed to one of sqlglot's."""

    __slots__ = ()


class StrictParser(SparkParser):
    """Spark SQL without empty places in lists, arguments nobody takes, and pipes."""

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        self.sql = sql
        self.refuse_excess(raw_tokens)
        return list(super().parse(raw_tokens, sql))

    def refuse_excess(self, tokens: list[Token]) -> None:
        """Raise at the first word that nobody could work with."""
        for token in tokens:
            if token.token_type == TokenType.NUMBER and len(token.text) > _LONGEST_NUMBER:
                raise SyntaxMistake(f"the number {shortened(token.text)} is too long", self.where(token))
        self._refuse_retried(tokens)

    def _refuse_retried(self, tokens: list[Token]) -> None:
        """Raise where words that sqlglot reads as a type and again as a function stand inside each other: it takes 2^n steps."""
        brackets: list[bool] = []
        for before, token in pairwise(tokens):
            if token.text in ("(", "<", "["):
                brackets.append(token.text != "[" and before.text.upper() in _READ_TWICE)
                if sum(brackets[-_LOOK_BACK:]) > _MOST_RETRIED and brackets[-1]:
                    text = f"{before.text} stands inside itself {_MOST_RETRIED} times and more; write it once, with all its columns"
                    raise SyntaxMistake(text, self.where(before))
            elif token.text in (")", ">", "]") and brackets:
                brackets.pop()

    def _parse_csv(self, parse_method: Callable[[], _Item | None], sep: TokenType = TokenType.COMMA) -> list[_Item]:
        def item() -> _Item | None:
            found = parse_method()
            is_missing = sep in (getattr(self._prev, "token_type", None), getattr(self._curr, "token_type", None))
            if found is None and is_missing:
                comma = self._prev if self._prev and self._prev.token_type == sep else self._curr
                self.raise_error(Reason("nothing stands on one side of this comma; leave it out, or write what is missing"), comma)
            return found

        return list(super()._parse_csv(item, sep))

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        try:
            return super()._parse_function_call(*args, **options)
        except _BUILDERS_STUMBLE:
            self.raise_error(Reason(f"{token.text}(…) cannot be read with these arguments"), token)
            return None

    def where(self, token: Token) -> Place:
        """The place of a word."""
        line = self.sql.count("\n", 0, token.start) + 1
        begin = self.sql.rfind("\n", 0, token.start) + 1
        return Place("the expression", line, token.start - begin + 1, self.sql[begin:].partition("\n")[0], len(token.text))

    def validate_expression(self, expression: _Found, args: list[exp.Expr] | None = None) -> _Found:
        found = super().validate_expression(expression, args)
        if args and (dropped := _dropped(found, args)) is not None:
            reason = f"{self._name_before(args[0])} has no use for {dropped.sql('spark')}; leave it out"
            self.raise_error(Reason(reason), self._token_of(dropped) or self._curr)
        return found

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        self.raise_error(Reason("|> is not available; write the select with its clauses, and CREATE CQ for one over another"))
        return query

    def _name_before(self, argument: exp.Expr) -> str:
        """The name of the function whose first argument this is, as written."""
        token = self._token_of(argument)
        position = self._tokens.index(token) if token is not None else 0
        return self._tokens[position - 2].text if position > 1 else "the function"

    def _token_of(self, node: exp.Expr) -> Token | None:
        start = min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=None)
        return next((token for token in self._tokens if token.start == start), None)


class Expressions(Spark):
    """The dialect of expressions that stand alone."""

    Parser = StrictParser


def _dropped(call: exp.Expr, args: list[exp.Expr]) -> exp.Expr | None:
    """The first argument of which something is not in the call that was built from it.

    Builders put arguments into nodes of their own, and turn the text of a unit into a word: so what is compared is how often
    each leaf stands there, and a word that nobody wrote makes up for one.
    """
    children = {id(part) for part in call.iter_expressions()}
    if all(id(arg) in children for arg in args):
        return None
    kept = Counter(_leaves([call]))
    written = Counter(_leaves(args))
    words = sum(isinstance(part, exp.Var) and _leaf(part) not in written for part in call.args.values())
    if (written - kept).total() <= words:
        return None
    for arg in args:
        mine = Counter(_leaves([arg]))
        if mine - kept:
            return arg
        kept -= mine
    return args[-1]


def _leaves(nodes: Iterable[exp.Expr]) -> Iterable[str]:
    return (_leaf(part) for node in nodes for part in node.walk() if next(part.iter_expressions(), None) is None)


def _leaf(node: exp.Expr) -> str:
    return node.name.casefold() or node.key
