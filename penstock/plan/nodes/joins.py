"""The logical operator of joins on a key, with a window on each input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from penstock.errors import InvalidPlan
from penstock.expressions.nodes import Expr
from penstock.model.elements import FOREVER
from penstock.model.join_kinds import JoinKind
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.schema import Field, Schema, sql_type
from penstock.model.windows import MOST_WINDOWS, Framed, Lifespan, Rows, Unbounded, Window
from penstock.plan.nodes.base import (
    Keys,
    Node,
    RowTimes,
    Spread,
    as_wanted,
    columns_read,
    partition_columns,
)
from penstock.plan.nodes.wording import life_lines, window_text

#: The option of a hint that asks for rows to be counted first and joined in all shards.
SPREAD = "spread"


@dataclass(frozen=True)
class WindowJoin(Node):
    """Equi-join of two or more inputs, each with its window, and residual conditions.

    `keys[i]` are the key columns of input i; all inputs have equally many. Output columns are the inputs' columns in order
    (of semi and anti joins only the first input's); names must differ (aliases see to that). The residual condition reads
    `pair_schema` and decides whether two rows are partners. Every kind but inner takes two inputs.
    """

    parts: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    windows: tuple[Window, ...]
    residual: Expr | None = None
    life: Lifespan = field(default_factory=Lifespan)
    kind: JoinKind = JoinKind.INNER
    #: How the user wants it run; None: as the plan finds best.
    hint: JoinHint | None = None
    #: Whether windows with ADVANCE that end after the query count too, with the rows they have.
    emit_partial: bool = False
    #: The kind that was written, where a rewrite has found a cheaper one; it means nothing for the answer.
    written_as: JoinKind | None = field(default=None, compare=False, repr=False)
    row_times: ClassVar[RowTimes] = RowTimes.WITHIN_LIFE

    def __post_init__(self) -> None:
        _check_hint(self)
        if len({len(key) for key in self.keys}) != 1 or len(self.keys) != len(self.parts):
            raise InvalidPlan(f"every input of a join needs the same number of key columns; found {self.keys}")
        for part, key in zip(self.parts[1:], self.keys[1:], strict=True):
            for mine, other in zip(self.keys[0], key, strict=True):
                left, right = self.parts[0].schema[mine].type, part.schema[other].type
                if left != right:
                    raise InvalidPlan(
                        f"join keys {mine} ({sql_type(left)}) and {other} ({sql_type(right)}) differ in type; CAST one of them"
                    )
        framed = [isinstance(window, Framed) for window in self.windows]
        if any(framed) and not all(framed):
            raise InvalidPlan("a join mixes windows with and without ADVANCE; give every input the same form")
        if self.kind is not JoinKind.INNER and len(self.parts) != 2:
            raise InvalidPlan(f"{self.kind.words} JOIN takes two inputs; found {len(self.parts)}")
        if self.kind is not JoinKind.INNER and self.counts_rows:
            raise InvalidPlan(f"{self.kind.words} JOIN takes windows of time; windows that count rows are for inner joins")
        self._refuse_endless_landmarks()

    def _refuse_endless_landmarks(self) -> None:
        """A row of a landmark window is in all later ones: they must be counted."""
        landmarks = [isinstance(window, Framed) and window.is_landmark for window in self.windows]
        if all(landmarks):
            text = "every pair of a join of landmark windows is in all later windows"
        elif any(landmarks[port] for port in self.kind.watched):
            text = "a row of a landmark window may be without partner in all later windows"
        else:
            return
        if not self.life.has_begin or self.life.end == FOREVER:
            raise InvalidPlan(f"{text}, without end; give the query BEGIN and END")
        steps = [window.move_end for window in self.windows if isinstance(window, Framed) and window.is_landmark]
        most = max((self.life.end - self.life.begin) // step for step in steps)
        if most > MOST_WINDOWS:
            raise InvalidPlan(f"{text}: {most:,} of them, and {MOST_WINDOWS:,} are allowed; move it in larger steps")

    @cached_property
    def schema(self) -> Schema:
        """Columns of an input that rows of the other do without may be NULL, whatever was declared of them."""
        parts = self.parts if self.kind.shows_pairs else self.parts[:1]
        fields = [
            Field(item.name, item.type, True) if port in self.kind.extended else item
            for port, part in enumerate(parts)
            for item in part.schema
        ]
        return Schema(tuple(fields), "the join")

    @cached_property
    def pair_schema(self) -> Schema:
        """Columns of all inputs, which the residual condition reads."""
        return Schema(tuple(item for part in self.parts for item in part.schema), "the join")

    @property
    def has_common_key(self) -> bool:
        """Whether all inputs have the key, so that its values can be followed and closed."""
        return True

    @property
    def needs_every_row(self) -> str:
        # A row whose partner is left out would be reported as one without partner.
        return super().needs_every_row or (f"{self.kind.words} JOIN" if self.kind.preserved else "")

    @property
    def counts_rows(self) -> bool:
        """Whether some window is a number of rows: then all rows are put into one order, in one place."""
        return any(isinstance(window, Rows) for window in self.windows)

    @property
    def spreads_counted(self) -> bool:
        """Whether rows that were counted in one place are to be joined in all shards, as the option `spread` asks."""
        return self.counts_rows and self.hint is not None and bool(self.hint.value(SPREAD))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def _over(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, parts=inputs)

    def describe(self) -> list[str]:
        windows = " | ".join(window_text(window, self.has_clock_time) for window in self.windows)
        is_inner = self.kind is JoinKind.INNER
        # Of an inner join it may be thought as a filter; otherwise it decides who is a partner.
        residual = [f"{'where' if is_inner else 'on'} {self.residual}"] if self.residual is not None else []
        kind = "" if is_inner else f"{self.kind.words} "
        written = self.written_as
        why = "a condition above rejects rows without partner"
        narrowed = [f"written as {written.words} JOIN: {why}"] if written is not None else []
        partial = ["emit partial"] if self.emit_partial else []
        head = f"{type(self).__name__} {kind}{self.equalities} [{windows}]"
        return [head, *residual, *narrowed, *partial, *life_lines(self.life)]

    @property
    def equalities(self) -> str:
        """What must be equal, in words."""
        return " and ".join(" = ".join(columns) for columns in zip(*self.keys, strict=True))

    def origins_of(self, name: str) -> tuple[tuple[int, str], ...]:
        return next((((port, name),) for port, part in enumerate(self.parts) if name in part.schema), ())

    def columns_needed(self, port: int, above: set[str]) -> set[str]:
        schema, window = self.parts[port].schema, self.windows[port]
        residual = columns_read(self.residual, self.pair_schema) if self.residual is not None else set()
        read = {*above, *residual, *self.columns_of(port), *partition_columns(window)}
        return {schema[name].name for name in read if name in schema}

    def columns_of(self, port: int) -> tuple[str, ...]:
        """Columns of one input that must equal columns of others."""
        return self.keys[port]

    @property
    def state_columns(self) -> tuple[tuple[int, str], ...]:
        return tuple((port, name) for port, keys in enumerate(self.keys) for name in keys)

    @property
    def frames(self) -> tuple[Window, ...]:
        return self.windows

    def with_frames(self, frames: Sequence[Window]) -> Node:
        return replace(self, windows=tuple(frames))

    def keys_of(self, port: int) -> Keys:
        return self.columns_of(port)

    def wanted_keys(self, known: Sequence[Spread]) -> list[Keys]:
        # The last rows of an input are the last of all its keys: one place has to count them, here or before.
        if self.counts_rows:
            return list(self.keys) if self.spreads_counted else [() for _ in self.parts]
        for keys, spread in zip(self.keys, known, strict=True):
            for found in spread:
                if set(found) <= set(keys):
                    positions = [keys.index(name) for name in found]
                    return [tuple(mine[position] for position in positions) for mine in self.keys]
        return list(self.keys)

    def partitionings(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        """Where the columns of an input are NULL-extended the row is in the shard of its partner's key, not in that of NULL."""
        return tuple(keys for port, keys in enumerate(self.senders(known, wanted)) if port not in self.kind.extended)

    def senders(self, known: Sequence[Spread], wanted: Sequence[Keys]) -> Spread:
        """Keys that are columns of the output, for each input it shows."""
        return as_wanted(wanted if self.kind.shows_pairs else wanted[:1])


def _check_hint(node: WindowJoin) -> None:
    """Whether the variant that a hint asks for can run the join at all."""
    if node.hint is None:
        return
    variant, count = node.hint.variant, len(node.parts)
    windows = [window for window in node.windows if not isinstance(window, Unbounded)]
    text = ""
    if node.kind is not JoinKind.INNER:
        text = f"{variant.value} runs inner joins; leave the hint out for {node.kind.words} JOIN"
    elif variant in (JoinVariant.PJOIN, JoinVariant.XJOIN) and (windows or count != 2):
        text = f"{variant.value} joins two inputs without windows; found {count} inputs, {len(windows)} with a window"
    elif variant in (JoinVariant.WJOIN, JoinVariant.PWJOIN) and count != 2:
        text = f"{variant.value} joins two inputs; found {count}: ask for M{variant.value}"
    elif variant is JoinVariant.MJOIN and count < 3:
        text = f"{variant.value} joins three inputs or more; found {count}: leave the hint out"
    elif variant is JoinVariant.APPROXIMATE and count != 2:
        text = f"{variant.value} joins two inputs; found {count}: write the join of the others as a query of its own"
    elif any(isinstance(window, Framed) for window in windows):
        text = f"{variant.value} takes sliding windows; leave ADVANCE or the hint out"
    elif variant in (JoinVariant.APPROXIMATE, JoinVariant.MJOIN) and node.counts_rows:
        text = f"{variant.value} takes windows of time; leave ROWS or the hint out"
    elif node.hint.value(SPREAD) and not node.counts_rows:
        text = "spread is for windows that count rows, [ROWS n]; other joins are spread over the shards anyway"
    if text:
        raise InvalidPlan(text, node.hint.place)
