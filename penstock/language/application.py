"""Text to catalog: the door of the language.

Examples
--------
>>> catalog = parse_application('''
...   CREATE STREAM bid (item_id BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
...   CREATE CQ busy AS SELECT item_id, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] GROUP BY item_id HAVING COUNT(*) > 3
... ''')
>>> catalog.queries["busy"].plan.schema.names
('item_id', 'bids')
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from penstock.errors import InvalidDeclaration, InvalidPlan, NotText, UnknownStream, UserError
from penstock.language.constraint_clauses import ConstraintStatement
from penstock.language.constraints import declare_constraints
from penstock.language.dialect import Statement, parse_policy_statement, parse_query_statement, parse_statements
from penstock.language.functions import declare_function
from penstock.language.generators import check_references
from penstock.language.quality_clauses import PolicyStatement, chosen_policy
from penstock.language.queries import build
from penstock.language.streams import declare
from penstock.language.syntax import FunctionStatement, QueryStatement, StreamStatement, Word
from penstock.model.declarations import StreamDeclaration
from penstock.model.nesting import DEEPEST_PLAN, make_room, on_deep_stack, too_deep
from penstock.model.service import ChosenPolicy
from penstock.plan.catalog import Catalog, ContinuousQuery


def parse_application(text: str, name: str = "app", now: int | None = None) -> Catalog:
    """Read an application.

    Streams and queries may stand in any order; a query may read queries that are defined further down.

    Parameters
    ----------
    text
        Statements, separated by semicolons.
    name
        The application's name, for messages.
    now
        The present time in microseconds since 1970, for `Now` and clock times without a date: the language itself
        reads no clock.

    Returns
    -------
    The catalog; what its author should know although everything is legal stands in `Catalog.warnings`.
    """
    catalog = Catalog(name)
    extend(catalog, text, now)
    return catalog


def read_utf8(path: Path) -> str:
    """The text of a file.

    Raises
    ------
    NotText
        It is not UTF-8.
    """
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise NotText(path.name, content, error.start) from None


def extend(catalog: Catalog, text: str, now: int | None = None) -> None:
    """Add the statements of a text to what a catalog holds already."""
    on_deep_stack(lambda: _Application(catalog, now).add(parse_statements(text, f"application '{catalog.name}'")))


def parse_policy(text: str) -> ChosenPolicy:
    """Read a strategy as `SET POLICY` names it, without these two words.

    Examples
    --------
    >>> parse_policy("threshold (memory = '200 MB')").parameters
    {'memory': '200 MB'}
    """
    if text.isprintable() and not set(text) & set("()'\""):
        return ChosenPolicy(text.strip().lower())  # whether there is such a strategy is judged by who knows them
    return chosen_policy(parse_policy_statement(text))


def policy_in(text: str, name: str = "app") -> ChosenPolicy | None:
    """The strategy that a text sets; None if it sets none."""
    statements = on_deep_stack(lambda: parse_statements(text, f"application '{name}'"))
    return next((chosen_policy(statement) for statement in statements if isinstance(statement, PolicyStatement)), None)


def parse_query(text: str, catalog: Catalog, now: int | None = None) -> ContinuousQuery:
    """Read one query over what a catalog holds: `CREATE CQ …`, or a bare select, which is called `query`.

    The query is not added to the catalog; warnings are.
    """
    return on_deep_stack(lambda: _Application(catalog, now).query(parse_query_statement(text, "query")))


class _Application:
    """Builds statements in the order they need each other."""

    def __init__(self, catalog: Catalog, now: int | None) -> None:
        self.catalog = catalog
        self._now = now
        self._waiting: dict[str, QueryStatement] = {}
        self._path: list[str] = []
        self._depths: dict[str, int] = {}

    def add(self, statements: list[Statement]) -> None:
        self._refuse_twins(statements)
        constraints: list[ConstraintStatement] = []
        for statement in statements:
            if isinstance(statement, FunctionStatement):
                with _located(statement):
                    self.catalog.add_function(declare_function(statement, self.catalog.functions))
            elif isinstance(statement, StreamStatement):
                with _located(statement):
                    self.catalog.add_stream(declare(statement))
            elif isinstance(statement, ConstraintStatement):
                constraints.append(statement)
            elif isinstance(statement, PolicyStatement):
                self._set_policy(statement)
            else:
                self._waiting[statement.name.text.lower()] = statement
        streams = [statement for statement in statements if isinstance(statement, StreamStatement)]
        self._declare_constraints(constraints)
        check_references(self.catalog, {statement.name.text.lower(): statement.generators for statement in streams})
        for name in list(self._waiting):
            if name in self._waiting:
                self._build_waiting(name)

    def _set_policy(self, statement: PolicyStatement) -> None:
        with _located(statement):
            self.catalog.policy = chosen_policy(statement)

    def _declare_constraints(self, statements: list[ConstraintStatement]) -> None:
        """Once all names are known, and before a query needs them."""
        for statement in statements:
            names = [*self.catalog.names(), *(waiting.name.text for waiting in self._waiting.values())]
            with _located(statement):
                self.catalog.add_constraints(declare_constraints(statement, self.catalog.streams.values(), names))

    def _refuse_twins(self, statements: list[Statement]) -> None:
        seen: dict[tuple[str, type | None], Statement] = {}
        for statement in statements:
            # Functions and constraints have names of their own.
            apart = isinstance(statement, FunctionStatement | ConstraintStatement | PolicyStatement)
            # There is one strategy, whatever it is called.
            called = "" if isinstance(statement, PolicyStatement) else statement.name.text.lower()
            name = called, type(statement) if apart else None
            if name in seen:
                line = seen[name].name.place.line
                text = f"'{statement.name.text}' is declared twice, first in line {line}; rename one of them"
                if isinstance(statement, PolicyStatement):
                    text = f"SET POLICY stands twice, first in line {line}; keep one"
                raise InvalidDeclaration(text, statement.name.place)
            seen[name] = statement

    def _build_waiting(self, name: str) -> ContinuousQuery:
        statement = self._waiting.pop(name)
        self._path.append(statement.name.text)
        query = self.query(statement)
        self._path.pop()
        self.catalog.add_query(query)
        return query

    def query(self, statement: QueryStatement) -> ContinuousQuery:
        with _located(statement):
            query = build(statement, self.find, self._now, self.catalog)
            self._refuse_deep(query)
            return query

    def _refuse_deep(self, query: ContinuousQuery) -> None:
        levels = self._levels(query)
        if levels > DEEPEST_PLAN:
            text = f"the query has {levels} steps above each other, with those of the queries it reads; {DEEPEST_PLAN} are possible"
            raise InvalidPlan(f"{text}. Leave some of the selects in between out")
        make_room(levels)

    def _levels(self, query: ContinuousQuery) -> int:
        """Steps above each other, from the streams on."""
        known = self._depths.get(query.name.lower())
        if known is not None:
            return known
        deepest, waiting = 0, [(query.plan, 1)]
        while waiting:
            node, depth = waiting.pop()
            if node.query_read.lower() in self.catalog.queries:
                depth += self._levels(self.catalog.queries[node.query_read.lower()])
            deepest = max(deepest, depth)
            waiting += [(part, depth + 1) for part in node.inputs]
        self._depths[query.name.lower()] = deepest
        return deepest

    def find(self, word: Word) -> StreamDeclaration | ContinuousQuery:
        name = word.text.lower()
        known = self.catalog.streams.get(name) or self.catalog.queries.get(name)
        if known is not None:
            return known
        if name in self._waiting:
            return self._build_waiting(name)
        if name in (step.lower() for step in self._path):
            circle = " -> ".join([*self._path, word.text])
            raise InvalidDeclaration(f"queries read each other in a circle: {circle}", word.place)
        names = [*self.catalog.names(), *(waiting.name.text for waiting in self._waiting.values())]
        raise UnknownStream(word.text, names, word.place)


@contextmanager
def _located(statement: Statement) -> Iterator[None]:
    """Give mistakes found without the text at hand the place of the statement they belong to."""
    try:
        yield
    except UserError as error:
        if error.place is None or not error.place.line:
            error.at(replace(statement.name.place, source=statement.text.source))
        raise
    except RecursionError:
        raise InvalidDeclaration(too_deep("the statement"), statement.name.place) from None
