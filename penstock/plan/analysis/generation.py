"""Which declared generators of punctuations are worth their cost, and why.

A generator is used only for attributes that a join or a grouping of the application works with: nobody else could use its
punctuations. A rule costs next to nothing. Buffers hold rows back and cost memory and time; they pay only if the state of
the joins behind them, of which a scope leaves only a part hot, is larger than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from penstock.model.declarations import Generator, GeneratorKind, StreamDeclaration
from penstock.plan.analysis.estimation import bytes_per_row, bytes_text, declared_estimates
from penstock.plan.analysis.knowledge import declared_rate
from penstock.plan.analysis.origins import origins
from penstock.plan.analysis.propagate import propagate
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.joins import WindowJoin

#: Scopes made of one buffer, and bytes each takes on its way.
PIECES, _SCOPE_BYTES = 16, 64
#: A second of delay weighs as much as this many times the buffer's memory.
LATENCY_WEIGHT = 1.0
#: Bytes a sample keeps of each row.
_SAMPLE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """A declared generator, whether it is used, and why or why not."""

    stream: str
    generator: Generator
    is_used: bool
    why: str

    def __str__(self) -> str:
        return f"{self.generator.text}: {'used' if self.is_used else 'not used'}, {self.why}"


def choices(catalog: Catalog) -> list[Choice]:
    """All declared generators of an application, judged."""
    users = _users(catalog)
    saved = _colder_bytes(catalog)
    return [_judged(stream, generator, users, saved) for stream in catalog.streams.values() for generator in stream.generators]


def chosen(catalog: Catalog, stream: StreamDeclaration) -> tuple[Generator, ...]:
    """The generators of a stream that are used."""
    return tuple(choice.generator for choice in choices(catalog) if choice.stream == stream.name and choice.is_used)


_Attribute = tuple[str, str]


def _judged(
    stream: StreamDeclaration, generator: Generator, users: dict[_Attribute, str], saved: dict[_Attribute, float | None]
) -> Choice:
    attribute = (stream.name.lower(), generator.column.lower())
    if attribute not in users:
        return Choice(stream.name, generator, False, f"no join or grouping works with {generator.column}")
    user = f"{users[attribute]} works with {generator.column}"
    if generator.kind in (GeneratorKind.WHEN, GeneratorKind.AFTER):
        return Choice(stream.name, generator, True, user)
    if attribute not in saved:
        return Choice(stream.name, generator, False, "only joins keep state that a scope can make cold")
    rate, saving = declared_rate(stream), saved[attribute]
    if saving is None or rate is None:
        return Choice(stream.name, generator, True, f"{user}; rates are not declared, so its cost is not weighed")
    cost = generation_cost(generator, bytes_per_row(stream.schema), rate)
    figures = f"it costs about {bytes_text(cost)} and makes about {bytes_text(saving)} cold" if saving != inf else user
    return Choice(stream.name, generator, saving > cost, figures)


def generation_cost(generator: Generator, row_bytes: float, rate: float) -> float:
    """Memory of a generator, and its delay weighed as memory, in bytes.

    Examples
    --------
    >>> generation_cost(Generator(GeneratorKind.SORTING, "k", rows=1000), row_bytes=32, rate=500)
    97024.0
    """
    if generator.kind is GeneratorKind.SAMPLING:
        return generator.rows * _SAMPLE_BYTES + float(_SCOPE_BYTES)
    delay = generator.rows / rate if rate > 0 else inf
    return generator.rows * row_bytes * (1 + LATENCY_WEIGHT * delay) + PIECES * _SCOPE_BYTES


# -- who uses what ----------------------------------------------------------------------------------------------------


def _users(catalog: Catalog) -> dict[_Attribute, str]:
    """Attributes of streams that joins and groupings work with, each with one of the queries that does."""
    found: dict[_Attribute, str] = {}
    for query in catalog.in_order():
        for node in walk(query.plan):
            for port, name in node.state_columns:
                for attribute in _origins(catalog, node.inputs[port], name):
                    found.setdefault(attribute, f"query {query.name}")
    return found


def _origins(catalog: Catalog, node: Node, name: str) -> set[_Attribute]:
    return {(stream.lower(), column.lower()) for stream, column in origins(catalog, node, name).columns}


def _colder_bytes(catalog: Catalog) -> dict[_Attribute, float | None]:
    """Bytes of joins' other inputs that scopes on an attribute would make cold; None: not known, infinite: no bound."""
    found: dict[_Attribute, float | None] = {}
    for judged in propagate(catalog).values():
        known = {id(part.node): part.known for part in judged}
        for item in judged:
            node = item.node
            if not isinstance(node, WindowJoin):
                continue
            sizes = [
                estimate.num_bytes for estimate in declared_estimates(node, [known[id(part)] for part in node.parts], item.holdings)
            ]
            for port, (part, keys) in enumerate(zip(node.parts, node.keys, strict=True)):
                others = [size for other, size in enumerate(sizes) if other != port]
                cold = None if None in others else sum(size for size in others if size is not None) * (1 - 1 / PIECES)
                for attribute in (origin for name in keys for origin in _origins(catalog, part, name)):
                    before = found.get(attribute, 0.0)
                    found[attribute] = None if before is None or cold is None else before + cold
    return found
