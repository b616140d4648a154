"""Streams and continuous queries of one application, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.errors import InvalidDeclaration, UnknownStream
from penstock.expressions.user_functions import UserFunction
from penstock.metadata.constraints.declared import DeclaredConstraints
from penstock.model.declarations import Destination, StreamDeclaration
from penstock.model.qos import QoSSpecification
from penstock.model.service import ChosenPolicy, LateAnswers, Validity
from penstock.model.windows import Lifespan
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.relational import Reference, Scan


@dataclass(frozen=True, slots=True)
class ContinuousQuery:
    """A named plan, its life span and where its answers go.

    Parameters
    ----------
    weight, validity
        What an answer in time is worth, and how long it is of use; None: as long as the rows it is made of.
    shows_timing
        Whether answers have columns that say when they were made, until when they are of use, and whether that is over.
    late_answers
        What becomes of those that are of no use any more.
    contract
        What the query promises its users; None: nothing.
    """

    name: str
    plan: Node
    life: Lifespan = field(default_factory=Lifespan)
    destinations: tuple[Destination, ...] = ()
    weight: float = 1.0
    validity: Validity | None = None
    shows_timing: bool = False
    late_answers: LateAnswers = LateAnswers.KEEP
    contract: QoSSpecification | None = None

    @property
    def depends_on(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.query_read for node in walk(self.plan) if node.query_read))


@dataclass(slots=True)
class Catalog:
    """The dictionary of an application. Names are compared without case; registering an identical thing again is fine."""

    name: str = "app"
    streams: dict[str, StreamDeclaration] = field(default_factory=dict)
    queries: dict[str, ContinuousQuery] = field(default_factory=dict)
    #: What the author should know although the application is legal.
    warnings: list[str] = field(default_factory=list)
    #: Functions of the user, by name in lower case.
    functions: dict[str, UserFunction] = field(default_factory=dict)
    #: What is known of the processes behind events, by name in lower case.
    constraints: dict[str, DeclaredConstraints] = field(default_factory=dict)
    #: The strategy that SET POLICY names; None: that of whoever runs the application.
    policy: ChosenPolicy | None = None

    def add_constraints(self, declared: DeclaredConstraints) -> None:
        self._refuse_other(self.constraints.get(declared.name.lower()), declared, declared.name, {})
        self.constraints[declared.name.lower()] = declared

    def add_function(self, function: UserFunction) -> None:
        self._refuse_other(self.functions.get(function.name.lower()), function, function.name, {})
        self.functions[function.name.lower()] = function

    def add_stream(self, stream: StreamDeclaration) -> None:
        self._refuse_other(self.streams.get(stream.name.lower()), stream, stream.name, self.queries)
        self.streams[stream.name.lower()] = stream

    def add_query(self, query: ContinuousQuery) -> None:
        self._refuse_other(self.queries.get(query.name.lower()), query, query.name, self.streams)
        self.queries[query.name.lower()] = query

    def _refuse_other(self, known: object, new: object, name: str, others: dict[str, object] | object) -> None:
        if name.lower() in others or (known is not None and known != new):  # type: ignore[operator]
            text = f"'{name}' is declared twice with different content; rename one of them"
            raise InvalidDeclaration(text, f"application '{self.name}'")

    def read(self, name: str) -> Node:
        """The rows of a stream or of a query."""
        query = self.queries.get(name.lower())
        if query is None:
            return Scan(self.stream(name))
        return Reference(query.name, query.plan.schema, "", query.plan.has_clock_time)

    def stream(self, name: str) -> StreamDeclaration:
        try:
            return self.streams[name.lower()]
        except KeyError:
            raise UnknownStream(name, self.names()) from None

    def names(self) -> list[str]:
        return [*(stream.name for stream in self.streams.values()), *(query.name for query in self.queries.values())]

    def in_order(self) -> Iterator[ContinuousQuery]:
        """Queries so that each comes after those it reads."""
        done: set[str] = set()

        def visit(query: ContinuousQuery, path: tuple[str, ...]) -> Iterator[ContinuousQuery]:
            if query.name in path:
                circle = " -> ".join((*path, query.name))
                raise InvalidDeclaration(f"queries read each other in a circle: {circle}", f"application '{self.name}'")
            if query.name in done:
                return
            for name in query.depends_on:
                yield from visit(self.queries[name.lower()], (*path, query.name))
            done.add(query.name)
            yield query

        for query in list(self.queries.values()):
            yield from visit(query, ())
