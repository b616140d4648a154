"""A parser that loses nothing of what is written.

sqlglot reads many dialects and forgives: it drops empty places of a list, and builders of functions take the arguments they
know. Here both are mistakes, so that what is in the tree is all that was written; `understood` then checks the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

_Item = TypeVar("_Item")
#: What builders of functions raise where they are given fewer or other arguments than they expect.
_BUILDERS_STUMBLE = (IndexError, KeyError, AttributeError, TypeError, ValueError)
_Found = TypeVar("_Found", bound=exp.Expr)


class Reason(str):
    """A message for the author, as opposed to one of sqlglot's."""

    __slots__ = ()


class StrictParser(SparkParser):
    """Spark SQL without empty places in lists, arguments nobody takes, and pipes."""

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
