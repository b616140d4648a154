"""Event patterns on ordinary streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.errors import InvalidDeclaration
from penstock.language.application import extend
from penstock.language.constraints import POLICIES
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.declared import DeclaredConstraints
from penstock.metadata.constraints.workflows.workflow import Workflow
from penstock.model.event_patterns import Absent, And, Atom, EventPattern, Seq
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.runners.spark.dataframes.arguments import Piece, Written, joined_pieces, quoted
from penstock.runners.spark.dataframes.composing import Call, composed
from penstock.runners.spark.dataframes.inputs import Names, Stream, as_tuple, input_of

#: What the one stream is called inside.
_EVENTS = "events"


def match(
    frames: Stream | Mapping[str, Stream],
    pattern: str | EventPattern,
    by: Names = (),
    where: Names = (),
    within: str = "",
    strategy: str = "",
    returns: str | Mapping[str, str] = "",
    type_column: str = "type",
    quarantine: str | Path = "",
    constraints: str | Workflow = "",
    on_violation: str = "quarantine",
    reuse_keys: bool = False,
    **options: str | int | bool,
) -> DataFrame:
    """Matches of an event pattern.

    Parameters
    ----------
    frames
        One stream whose `type_column` says what type each event has; or streams by type.
    pattern
        `"SEQ(A a, !(B b), C+ c[])"`, or with its clauses `"SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 5 minutes"`; or an
        object that `ps.seq`, `ps.both`, `ps.either`, `ps.atom`, `ps.any_of` and `ps.absent` make. What stands in the text
        is not given again by a parameter.
    by
        Columns on which all events of a match agree; they spread the work over shards.
    where
        Conditions in SQL over attributes of the variables: `"a.x < b.x"`, `"c[i].x > c[i-1].x"`, `"count(c) > 2"`.
    within
        Greatest distance of the last event from the first: "10 minutes".
    strategy
        "skip-till-any-match" (as nothing), "skip-till-next-match", "partition-contiguity" or "strict-contiguity".
    returns
        Measures: name to SQL, or a list in SQL such as "a.x, b.x - a.x AS gain"; "events": a row for each event of a match.
        Nothing: one row per match, with a struct for each variable and a list of structs for each repeated one.
    quarantine
        Directory for late and bad rows and events without key. Without one they fail the query.
    constraints
        What the process behind the events allows, as in `CREATE CONSTRAINT`: `"EXCLUSIVE(A, B), PRIOR(C, D)"`; or a `ps.Workflow`,
        which tells it. They hold for events that agree on `by`.
    on_violation
        What happens to events that break them: "quarantine" (needs the directory), "error", or "shadow": nothing is given up.
    reuse_keys
        Whether events behind one that ends a trace begin a new trace, as with `REUSE KEYS`. Otherwise they break the constraint.
    options
        `order="total"`, `reuse=False`, `kleene_last="maximal"`, `trace_ttl="1 hour"`, `terminal="Done"`,
        `max_runs_per_key=1000`, `position="offset"`, `kleene="collapse"`, `dedup=True` with `event_id="offset"`,
        `dedup_branches=True`, `reasoning="exact"`.

    Returns
    -------
    DataFrame
        The matches; write them with `writeStream` in append mode. A match comes when event time has passed its last event.

    Examples
    --------
    ``ps.match(orders, "SEQ(Quote q, Order o)", by="order_id", where="o.price > q.price", within="1 day")``

    ``ps.match({"Shelf": shelf, "Exit": exits}, ps.seq(ps.atom("Shelf", "s"), ps.atom("Exit", "x")), by="tag", within="1 hour")``
    """
    is_one = not isinstance(frames, Mapping)
    given = {_EVENTS: frames} if not isinstance(frames, Mapping) else dict(frames)
    if not given:
        raise InvalidDeclaration("there is no stream to search; give a DataFrame, or one for each type", "ps.match")
    inputs = {name: input_of("ps.match", "frames" if is_one else f"frames['{name}']", frame) for name, frame in given.items()}
    rules = MatchRules(constraints, on_violation, _EVENTS if is_one else "", as_tuple(by), reuse_keys) if constraints else None
    text = pattern if isinstance(pattern, str) else pattern_text(pattern)
    clauses = [
        [Piece("" if text.strip().upper().startswith("EVENT ") else "EVENT "), Piece(text, "pattern")],
        [Piece(f"FROM {quoted(_EVENTS)} TYPE {quoted(type_column)}")] if is_one else [],
        [Piece("PARTITION BY "), Piece(", ".join(map(quoted, as_tuple(by))), "by")] if by else [],
        _where(where, strategy),
        [Piece("WITHIN "), Piece(within, "within")] if within else [],
        [Piece("RETURN "), *_measures(returns)] if returns else [],
        [Piece("OPTIONS ("), *joined_pieces(", ", map(_option, options.items())), Piece(")")] if options else [],
    ]
    written = Written("ps.match", joined_pieces(" ", filter(None, clauses)))
    # Streams that are types keep their names, so that their call is not taken into another.
    return composed(Call(inputs, partial(_build, written, rules), str(quarantine)), is_fusable=False)


def _build(written: Written, rules: MatchRules | None, name: str, catalog: Catalog, names: Mapping[str, str]) -> ContinuousQuery:
    if rules is not None:
        rules.declare(catalog)
    return written.parsed(name, catalog)


@dataclass(frozen=True, slots=True)
class MatchRules:
    """Constraints of a call, and what they are about.

    Examples
    --------
    >>> MatchRules("EXCLUSIVE(Cash, Card), TERMINAL(Done)", "shadow", "", ("order_id",)).text
    'CREATE CONSTRAINT constraints ON (`order_id`) AS EXCLUSIVE(Cash, Card), TERMINAL(Done) ON VIOLATION SHADOW'
    """

    given: str | Workflow
    on_violation: str
    stream: str
    key: tuple[str, ...]
    reuse_keys: bool = False

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidDeclaration(
                "constraints speak of events that belong together; say by which columns, with by=…", "ps.match"
            )
        if self.on_violation.upper() not in POLICIES:
            choices = ", ".join(map(str.lower, POLICIES))
            raise InvalidDeclaration(f"on_violation is '{self.on_violation}'; choose one of {choices}", "ps.match")

    @property
    def text(self) -> str:
        """The declaration, where the constraints are written down."""
        about = f"{quoted(self.stream)} " if self.stream else ""
        key = ", ".join(map(quoted, self.key))
        reuse = " REUSE KEYS" if self.reuse_keys else ""
        return f"CREATE CONSTRAINT constraints ON {about}({key}) AS {self.given}{reuse} ON VIOLATION {self.on_violation.upper()}"

    def declare(self, catalog: Catalog) -> None:
        if isinstance(self.given, str):
            extend(catalog, self.text)
            return
        rules = self.given.constraints()
        known = ConstraintSet(self.key, rules.event_types, rules.constraints, rules.is_trusted)
        policy = POLICIES[self.on_violation.upper()]
        catalog.add_constraints(DeclaredConstraints("constraints", self.stream, known, policy, self.reuse_keys, True))


def pattern_text(pattern: EventPattern) -> str:
    """The pattern as the language writes it, whatever its types are called.

    Examples
    --------
    >>> from penstock.model.event_patterns import absent, atom, seq
    >>> print(pattern_text(seq(atom("shelf read", "s"), absent("B"), atom("C", "c", "+"))))
    SEQ(`shelf read` `s`, !(`B`), `C`+ `c`)
    """
    if isinstance(pattern, Atom | Absent):
        types = ", ".join(map(quoted, pattern.types))
        name = types if len(pattern.types) == 1 else f"ANY({types})"
        variable = f" {quoted(pattern.variable)}" if pattern.variable else ""
        return f"!({name}{variable})" if isinstance(pattern, Absent) else f"{name}{pattern.repeat}{variable}"
    word = "SEQ" if isinstance(pattern, Seq) else "AND" if isinstance(pattern, And) else "OR"
    return f"{word}({', '.join(map(pattern_text, pattern.parts))})"


def _where(where: Names, strategy: str) -> Sequence[Piece]:
    """Each condition in parentheses, so that alternatives stay together; several in one text are meant to be read as they are."""
    conditions = [[Piece("("), Piece(text, "where"), Piece(")")] for text in as_tuple(where)]
    parts = [*([[Piece(strategy, "strategy")]] if strategy else []), *conditions]
    return [Piece("WHERE "), *joined_pieces(" AND ", parts)] if parts else []


def _measures(returns: str | Mapping[str, str]) -> Sequence[Piece]:
    if isinstance(returns, str):
        return [Piece(returns, "returns")]
    return joined_pieces(
        ", ", ([Piece(text, f"returns['{name}']"), Piece(f" AS {quoted(name)}")] for name, text in returns.items())
    )


def _option(option: tuple[str, str | int | bool]) -> Sequence[Piece]:
    name, value = option
    text = str(value).lower() if isinstance(value, bool | int) else "'" + value.replace("'", "\\'") + "'"
    return [Piece(f"{name} {text}", name)]
