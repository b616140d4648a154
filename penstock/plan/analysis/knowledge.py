"""What is known of the rows still to come, on every edge of a plan.

Two kinds of knowledge let an operator forget: event time that advances, and punctuations. Which single punctuations
will arrive is seen at run time only; *on which attributes* they will arrive follows from declarations. A set of such
attributes is a punctuation scheme, and schemes pass operators as the punctuations themselves do.

References
----------
[li2006] Li, Chen, Tatemura, Agrawal, Candan, Hsiung. Safety Guarantee of Continuous Join Queries over Punctuated Data
Streams. VLDB 2006. [tucker2003] for the rules of single operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from penstock.errors import UserError
from penstock.expressions.nodes import Column, columns_of
from penstock.expressions.parse import parse
from penstock.model.declarations import Constraint, ConstraintKind, Generator, StreamDeclaration
from penstock.plan.nodes.relational import Project, Reference, Scan, Select, Union
from penstock.workloads.playback import Playback


class SchemeKind(StrEnum):
    """How the punctuations of a scheme come about."""

    #: A unique or clustered attribute: a value is closed behind rows that have it, and only then.
    BEHIND_ROWS = "behind rows"
    #: An ordered attribute: everything below the newest value is closed.
    RANGE = "range"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Scheme:
    """Punctuations that restrict exactly `columns` will arrive.

    Parameters
    ----------
    origin
        The declaration it follows from, as a user would write it.
    condition
        What must be true of the data and is not declared; empty: nothing.
    among
        A condition that rows met before a unique attribute was looked at: values of other rows are never closed.
    """

    columns: frozenset[str]
    kind: SchemeKind
    origin: str
    condition: str = ""
    among: str = ""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What holds on one edge.

    Parameters
    ----------
    stalled
        Why event time does not advance here; empty: it does.
    lag
        How far event time may be behind the newest row, in the unit of the timestamp.
    rate
        Rows per second, where it is declared and no operator below changes it in unknown ways.
    """

    schemes: tuple[Scheme, ...] = ()
    stalled: str = ""
    lag: int = 0
    rate: float | None = None

    @property
    def advances(self) -> bool:
        return not self.stalled

    def within(self, columns: Iterable[str]) -> Scheme | None:
        """A scheme that restricts nothing but these columns; one that needs no condition is preferred."""
        allowed = {name.lower() for name in columns}
        found = [scheme for scheme in self.schemes if {name.lower() for name in scheme.columns} <= allowed]
        return min(found, key=lambda scheme: bool(scheme.condition) + 2 * bool(scheme.among), default=None)


def of_stream(scan: Scan) -> Knowledge:
    """What a declaration says."""
    stream = scan.stream
    names = dict(scan.stream_columns)
    schemes = [_of_constraint(constraint, stream, names) for constraint in stream.constraints]
    generated = [_generated(generator, stream, names) for generator in stream.generators if generator.rows == 0]
    return Knowledge((*schemes, *_embedded(stream, names), *generated), "", stream.disorder, declared_rate(stream))


def _of_constraint(constraint: Constraint, stream: StreamDeclaration, names: dict[str, str]) -> Scheme:
    kind = SchemeKind.RANGE if constraint.kind is ConstraintKind.ORDERED else SchemeKind.BEHIND_ROWS
    column = stream.schema[constraint.column].name
    gap = f" WITHIN {constraint.within} ROWS" if constraint.within else ""
    return Scheme(frozenset({names[column]}), kind, f"{constraint.kind.upper()} ({column}){gap} of {stream.name}")


def _generated(generator: Generator, stream: StreamDeclaration, names: dict[str, str]) -> Scheme:
    """A rule closes values once rows say so; scopes of buffers and samples close nothing."""
    end_of_life = generator.reference
    condition = (
        f"every {generator.column} of {stream.name} comes in {end_of_life.stream}"
        if end_of_life is not None
        else f"every {generator.column} of {stream.name} gets a row with {generator.condition}"
    )
    return Scheme(frozenset({names[generator.column]}), SchemeKind.EMBEDDED, f"{generator.text} of {stream.name}", condition)


def _embedded(stream: StreamDeclaration, names: dict[str, str]) -> list[Scheme]:
    declared = stream.punctuations
    if declared is None:
        return []
    mark = stream.schema[declared.column].name
    if declared.columns:
        closed = [stream.schema[name].name for name in declared.columns]
        origin = f"PUNCTUATIONS FROM {mark} ON ({', '.join(closed)}) of {stream.name}"
        return [Scheme(frozenset({names[name]}), SchemeKind.EMBEDDED, origin) for name in closed]
    origin = f"PUNCTUATIONS FROM {mark} of {stream.name}"
    return [
        Scheme(frozenset({names[name]}), SchemeKind.EMBEDDED, origin, f"punctuations on {name} arrive in {stream.name}")
        for name in stream.schema.names
        if name != mark
    ]


def promised_columns(stream: StreamDeclaration) -> tuple[str, ...]:
    """Columns of whose values something is promised that rows can break; all, where punctuations do not say what they close."""
    names = [constraint.column for constraint in stream.constraints]
    if stream.punctuations is not None:
        mark = stream.schema[stream.punctuations.column].name
        names += stream.punctuations.columns or [item.name for item in stream.schema if item.name != mark]
    for generator in stream.generators:
        # A rule is obeyed where rows leave the source, so what it looks at must come that far.
        names += [generator.column, *(columns_of(parse(generator.condition)) if generator.condition else ())]
    return tuple(dict.fromkeys(stream.schema[name].name for name in names))


def declared_rate(stream: StreamDeclaration) -> float | None:
    """Rows per second by the source's option `rate`; a feed knows how many of its workload's rows are in this stream."""
    options = {name.lower(): text for name, text in stream.source.options.items()}
    if "rate" not in options or not stream.has_clock_time:
        return None
    if stream.source.format == "feed":
        with suppress(UserError):  # whoever opens the source will say what is wrong with it
            return Playback.from_text(options).rows_per_second
    try:
        return float(options["rate"])
    except ValueError:
        return None


def renamed(known: Knowledge, names: Sequence[str], new: Sequence[str]) -> Knowledge:
    """The same over columns with other names, in the same order."""
    mapping = dict(zip(names, new, strict=True))
    schemes = [replace(scheme, columns=frozenset(mapping[name] for name in scheme.columns)) for scheme in known.schemes]
    return replace(known, schemes=tuple(schemes))


def of_reference(node: Reference, known: Knowledge) -> Knowledge:
    """What is known of another query's answers."""
    return renamed(known, node.output.names, node.schema.names)


def through_select(node: Select, known: Knowledge) -> Knowledge:
    """All punctuations pass; only values of a unique attribute whose row was filtered out are never closed.

    The filters right above a stream run before its rows are looked at.
    """
    if node.needs_python or not isinstance(node.rows_from, Scan):
        return known
    schemes = [
        replace(scheme, among=" AND ".join(filter(None, (scheme.among, str(node.condition)))))
        if scheme.origin.startswith(ConstraintKind.UNIQUE.upper())
        else scheme
        for scheme in known.schemes
    ]
    return replace(known, schemes=tuple(schemes))


def through_project(node: Project, known: Knowledge) -> Knowledge:
    """A punctuation passes if it restricts only attributes that are kept as they are."""
    kept = {expr.name.lower(): name for name, expr in reversed(node.items) if isinstance(expr, Column)}
    schemes = [
        replace(scheme, columns=frozenset(kept[name.lower()] for name in scheme.columns))
        for scheme in known.schemes
        if all(name.lower() in kept for name in scheme.columns)
    ]
    return replace(known, schemes=tuple(schemes))


def through_union(node: Union, inputs: Sequence[Knowledge]) -> Knowledge:
    """A punctuation holds for a union when all inputs have announced it, and event time is that of the slowest.

    Values closed behind their own rows say nothing about values that only come in another input.
    """
    aligned = [renamed(known, part.schema.names, node.schema.names) for known, part in zip(inputs, node.parts, strict=True)]
    usable = [[scheme for scheme in known.schemes if scheme.kind is not SchemeKind.BEHIND_ROWS] for known in aligned]
    schemes: dict[frozenset[str], Scheme] = {}
    for chosen in product(*usable):
        columns = frozenset[str]().union(*(scheme.columns for scheme in chosen))
        schemes.setdefault(columns, _together(columns, chosen))
    return Knowledge(tuple(schemes.values()), _first_stall(inputs), max(known.lag for known in inputs), _sum(inputs))


def _together(columns: frozenset[str], chosen: Sequence[Scheme]) -> Scheme:
    kinds = {scheme.kind for scheme in chosen}
    kind = SchemeKind.RANGE if kinds == {SchemeKind.RANGE} else SchemeKind.EMBEDDED
    origin = " and ".join(dict.fromkeys(scheme.origin for scheme in chosen))
    condition = " and ".join(dict.fromkeys(scheme.condition for scheme in chosen if scheme.condition))
    return Scheme(columns, kind, origin, condition)


def _first_stall(inputs: Sequence[Knowledge]) -> str:
    return next((known.stalled for known in inputs if known.stalled), "")


def _sum(inputs: Sequence[Knowledge]) -> float | None:
    rates = [known.rate for known in inputs if known.rate is not None]
    return sum(rates) if len(rates) == len(inputs) else None


def slowest(inputs: Sequence[Knowledge]) -> Knowledge:
    """Event time of an operator that follows all its inputs; no schemes, no rate."""
    return Knowledge((), _first_stall(inputs), max(known.lag for known in inputs))
