"""What an author could declare so that an operator's state becomes bounded.

Candidates are declarations on the streams an operator's keys come from, and windows on the sources it reads. Each
combination is applied to the application and judged again; only what was seen to help is offered, fewest words first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import cast

import pyarrow as pa

from penstock.errors import InvalidPlan
from penstock.model.declarations import Constraint, ConstraintKind, EmbeddedPunctuations, StreamDeclaration
from penstock.model.windows import Framed, Sliding, Unbounded, Window
from penstock.plan.analysis.holdings import label
from penstock.plan.analysis.origins import origins
from penstock.plan.analysis.propagate import Judged, propagate
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Scan
from penstock.plan.nodes.wording import length_text

#: Remedies offered for one operator, steps of one remedy, and steps that are tried.
_MOST_REMEDIES, _MOST_STEPS, _MOST_CANDIDATES = 4, 3, 10
_HOUR = 3_600_000_000

Change = Callable[[Catalog], Catalog]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to write.

    Parameters
    ----------
    stream
        The stream whose declaration gets `element` among its columns and `clause` behind them.
    query, source
        Or the query in which `source` gets `clause`, a window; `replaces` one that is there. Without a source: `clause` is
        about the query as a whole.
    instead
        Other declarations of the stream that would do as well.
    """

    clause: str = ""
    element: str = ""
    stream: str = ""
    query: str = ""
    source: str = ""
    replaces: bool = False
    instead: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.query and not self.source:
            return f"{self.clause} in CREATE CQ {self.query}"
        if self.query:
            return f"{self.clause} {'instead of the window ' if self.replaces else ''}on `{self.source}` in CREATE CQ {self.query}"
        return f"{_joined(self.element, self.clause)} in CREATE STREAM {self.stream}"


def _joined(element: str, clause: str) -> str:
    return " with ".join(part for part in (element, clause) if part)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Steps that together bound an operator's state."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        # With several steps the list of what would do instead hides more than it tells.
        instead = self.steps[0].instead if len(self.steps) == 1 else ()
        return " and ".join(map(str, self.steps)) + (f" (or {', '.join(instead)})" if instead else "")


@dataclass(frozen=True)
class _Candidate:
    """A step, or several that belong together, and what they do to an application."""

    steps: tuple[Step, ...]
    apply: Change
    column: tuple[str, str] = ("", "")


def remedies_for(catalog: Catalog, query: str, index: int, judged: Judged) -> tuple[Remedy, ...]:
    """Remedies for the node at place `index` (in the order of `walk`) of a query's plan."""
    found: list[Remedy] = []
    chosen: list[set[int]] = []
    pool = list(_candidates(catalog, query, judged.node, index))[:_MOST_CANDIDATES]
    wanted = {name.lower() for name in (query, *_read(catalog, query))}
    small = replace(catalog, queries={name: known for name, known in catalog.queries.items() if name in wanted})

    def helps(candidates: Sequence[_Candidate]) -> bool:
        try:
            changed = reduce(lambda known, candidate: candidate.apply(known), candidates, small)
        except InvalidPlan:  # a plan that nobody could write, such as a window beside a hint that takes none
            return False
        return propagate(changed)[query][index].is_bounded

    for size in range(1, _MOST_STEPS + 1):
        for picked in combinations(range(len(pool)), size):
            is_minimal = not any(smaller <= set(picked) for smaller in chosen)
            if len(found) < _MOST_REMEDIES and is_minimal and helps([pool[at] for at in picked]):
                chosen.append(set(picked))
                found.append(_worded([pool[at] for at in picked], isinstance(judged.node, WindowJoin), helps))
    return tuple(found)


def _candidates(catalog: Catalog, query: str, node: Node, index: int) -> Iterator[_Candidate]:
    """What could help: first for the node itself, then for operators below it, which may hold event time back."""
    seen: set[str] = set()
    places = [(query, index, node)]
    own = list(walk(node))[:-1]
    places += [(query, index - len(own) + at, below) for at, below in enumerate(own)]
    for name in _read(catalog, query):
        places += [(name, at, below) for at, below in enumerate(walk(catalog.queries[name.lower()].plan))]
    for owner, place, below in places:
        for candidate in (*_without_hint(owner, place, below), *_windows(owner, place, below), *_declarations(catalog, below)):
            text = str(Remedy(candidate.steps))
            if text not in seen:
                seen.add(text)
                yield candidate


def _read(catalog: Catalog, query: str) -> list[str]:
    """Queries a query reads, also through others."""
    direct = [catalog.queries[name.lower()].name for name in catalog.queries[query.lower()].depends_on]
    return list(dict.fromkeys([*direct, *(name for other in direct for name in _read(catalog, other))]))


# -- declarations ------------------------------------------------------------------------------------------------------


def _declarations(catalog: Catalog, node: Node) -> Iterator[_Candidate]:
    for port, name in node.state_columns:
        found = origins(catalog, node.inputs[port], name)
        columns = sorted(found.columns)
        if found.is_complete and not any(_is_told_anything(catalog.stream(stream)) for stream, _ in columns):
            steps = tuple(_punctuated(catalog.stream(stream), column) for stream, column in columns)
            yield _Candidate(steps, _with_punctuations(columns), columns[0] if len(columns) == 1 else ("", ""))


def _is_told_anything(stream: StreamDeclaration) -> bool:
    """Punctuations are declared and may be about any column: more cannot be said."""
    return stream.punctuations is not None and not stream.punctuations.columns


def _mark_column(stream: StreamDeclaration) -> str:
    """The column that holds punctuations; one that is called `mark` is taken to be meant for them."""
    if stream.punctuations is not None:
        return stream.punctuations.column
    is_free = "mark" not in stream.schema or pa.types.is_string(stream.schema["mark"].type)
    return "mark" if is_free else "punctuation"


def _closed_columns(stream: StreamDeclaration, column: str) -> tuple[str, ...]:
    known = stream.punctuations.columns if stream.punctuations is not None else ()
    return known if column in known else (*known, column)


def _punctuated(stream: StreamDeclaration, column: str) -> Step:
    mark = _mark_column(stream)
    element = "" if mark in stream.schema else f"{mark} STRING"
    clause = f"PUNCTUATIONS FROM {mark} ON ({', '.join(_closed_columns(stream, column))})"
    return Step(clause, element, stream.name, replaces=stream.punctuations is not None)


def _with_punctuations(origins: Iterable[tuple[str, str]]) -> Change:
    """Punctuations on these columns are declared; the column that brings them reaches no plan and is left out."""
    wanted = list(origins)

    def apply(catalog: Catalog) -> Catalog:
        for name, column in wanted:
            stream = catalog.stream(name)
            told = EmbeddedPunctuations(stream.timestamp, columns=_closed_columns(stream, column))
            catalog = _with_stream(catalog, replace(stream, punctuations=told))
        return catalog

    return apply


def _constrained(origin: tuple[str, str], kind: ConstraintKind) -> Change:
    def apply(catalog: Catalog) -> Catalog:
        stream = catalog.stream(origin[0])
        return _with_stream(catalog, replace(stream, constraints=(*stream.constraints, Constraint(kind, origin[1]))))

    return apply


def _with_stream(catalog: Catalog, stream: StreamDeclaration) -> Catalog:
    def changed(node: Node) -> Node:
        if isinstance(node, Scan):
            return replace(node, stream=stream) if node.stream.name == stream.name else node
        return node.with_inputs([changed(part) for part in node.inputs])

    queries = {name: replace(query, plan=changed(query.plan)) for name, query in catalog.queries.items()}
    return replace(catalog, streams={**catalog.streams, stream.name.lower(): stream}, queries=queries)


def _worded(picked: Sequence[_Candidate], is_join: bool, helps: Callable[[Sequence[_Candidate]], bool]) -> Remedy:
    """The steps, each with the declarations that would do: a constraint is easier to give than punctuations."""
    steps: list[Step] = []
    for at, candidate in enumerate(picked):
        if not candidate.column[0]:
            steps += candidate.steps
            continue
        # Unique keys suit joins; a unique key to group by would make groups of one row.
        kinds = [kind for kind in ConstraintKind if is_join or kind is not ConstraintKind.UNIQUE]
        others = [replace(candidate, apply=_constrained(candidate.column, kind)) for kind in kinds]
        legal = [kind for kind, other in zip(kinds, others, strict=True) if helps([*picked[:at], other, *picked[at + 1 :]])]
        words = [f"{kind.upper()} ({candidate.column[1]})" for kind in legal]
        (told,) = candidate.steps
        if not words:
            steps.append(told)
        else:
            instead = (*words[1:], _joined(told.element, told.clause))
            steps.append(Step(element=words[0], stream=told.stream, instead=instead))
    return Remedy(tuple(steps))


# -- hints -------------------------------------------------------------------------------------------------------------


def _without_hint(query: str, place: int, node: Node) -> Iterator[_Candidate]:
    """Without its hint a join uses all that is known."""
    if isinstance(node, WindowJoin) and node.hint is not None:
        step = Step(f"no hint {node.hint.variant.name}", query=query)
        yield _Candidate((step,), _changed(query, {place: lambda known: replace(cast(WindowJoin, known), hint=None)}))


# -- windows -----------------------------------------------------------------------------------------------------------


def _windows(query: str, place: int, node: Node) -> Iterator[_Candidate]:
    if isinstance(node, WindowJoin):
        yield from _join_windows(query, place, node)
        return
    for window in node.frames:
        source = _source(node.inputs[0])
        if source is not None and not _ends_by_itself(window):
            size = _sample(node)
            clause = f"[RANGE {length_text(size, node.has_clock_time).upper()}]"
            step = Step(clause, query=query, source=source, replaces=isinstance(window, Framed))
            yield _Candidate((step,), _changed(query, {place: _tumbles(size)}))


def _tumbles(size: int) -> Callable[[Node], Node]:
    return lambda node: node.with_frames([Framed(size, size, size)])


def _ends_by_itself(window: Window) -> bool:
    return isinstance(window, Framed) and window.kind in ("tumbling", "sliding", "hopping", "fixed") and not window.partition_by


def _join_windows(query: str, place: int, node: WindowJoin) -> Iterator[_Candidate]:
    """A window for each input without one; inputs with ADVANCE need one form, so these change together."""
    framed = any(isinstance(window, Framed) for window in node.windows)
    size = _sample(node)
    clause = f"[RANGE {length_text(size, node.has_clock_time).upper()}]"
    ports = [port for port, window in enumerate(node.windows) if framed or isinstance(window, Unbounded)]
    if framed and all(isinstance(window, Framed) and _ends_by_itself(window) for window in node.windows):
        return
    for chosen in [ports] if framed else [[port] for port in ports]:
        steps = [
            Step(clause, query=query, source=source, replaces=framed) for port in chosen for source in _sources(node.parts[port])
        ]
        below = [at for port in chosen for at in _joins_below(node, place, port)]
        changes: dict[int, Callable[[Node], Node]] = {at: _slides_everywhere(size) for at in below}
        changes[place] = _slides(size, chosen)
        yield _Candidate(tuple(steps), _changed(query, changes))


def _slides(size: int, ports: Sequence[int]) -> Callable[[Node], Node]:
    return lambda node: node.with_frames([Sliding(size) if at in ports else old for at, old in enumerate(node.frames)])


def _slides_everywhere(size: int) -> Callable[[Node], Node]:
    """For the steps of a join of several inputs: what has no window gets one."""
    return lambda node: node.with_frames([Sliding(size) if isinstance(old, Unbounded) else old for old in node.frames])


def _joins_below(node: WindowJoin, place: int, port: int) -> list[int]:
    """Places of the joins that are one input of a join, in the order of `walk`."""
    start = place - sum(len(walk(part)) for part in node.parts[port:])
    inner = node.parts[port]
    return [start + at for at, below in enumerate(walk(inner)) if isinstance(inner, WindowJoin) and isinstance(below, WindowJoin)]


def _sample(node: Node) -> int:
    """A length to show: that of a window beside it, else an hour. The author will know a better one."""
    return max(_sliding_sizes(node), default=_HOUR if node.has_clock_time else 1000)


def _source(node: Node) -> str | None:
    """A stream or query as FROM names it, where filters and lists only lie above it."""
    return node.rows_from.from_text or None


def _sliding_sizes(node: Node) -> list[int]:
    return [window.size for window in node.frames if isinstance(window, Sliding)]


def _sources(node: Node) -> list[str]:
    """Sources of a join's input that have no window yet."""
    inner = node
    if isinstance(inner, WindowJoin):
        unbounded = [part for part, window in zip(inner.parts, inner.windows, strict=True) if isinstance(window, Unbounded)]
        return [source for part in unbounded for source in _sources(part)]
    return [_source(node) or label(node, node.schema.names)]


def _changed(query: str, changes: Mapping[int, Callable[[Node], Node]]) -> Change:
    """Other nodes at some places of a query's plan."""

    def apply(catalog: Catalog) -> Catalog:
        known = catalog.queries[query.lower()]
        places = iter(range(len(walk(known.plan))))

        def rebuilt(node: Node) -> Node:
            inner = node.with_inputs([rebuilt(part) for part in node.inputs])
            place = next(places)
            return changes[place](inner) if place in changes else inner

        plan = _with_derived_windows(rebuilt(known.plan))
        return replace(catalog, queries={**catalog.queries, query.lower(): replace(known, plan=plan)})

    return apply


def _with_derived_windows(node: Node) -> Node:
    """As the language has it: over a join whose inputs all slide, aggregates tumble by the longest of their windows."""
    node = node.with_inputs([_with_derived_windows(part) for part in node.inputs])
    is_joined = len(node.inputs) != 1
    if is_joined or not any(isinstance(window, Unbounded) for window in node.frames):
        return node
    below = node.inputs[0].rows_from
    sizes = _sliding_sizes(below)
    if not sizes or len(sizes) < len(below.inputs):
        return node
    return node.with_frames([Framed(max(sizes), max(sizes), max(sizes))])
