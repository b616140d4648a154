"""What an operator keeps, and what makes it forget: the values the rules of single operators are written in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.model.elements import FOREVER
from penstock.model.windows import Framed, Lifespan
from penstock.plan.analysis.knowledge import Knowledge, Scheme, SchemeKind
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.wording import length_text


class BoundedBy(StrEnum):
    """What bounds a piece of state."""

    WINDOW = "window"
    COUNT = "count"
    PUNCTUATION = "punctuation"
    CONSTRAINT = "constraint"
    DISORDER = "disorder bound"
    ONE_GROUP = "one group"
    END = "end of the query"
    TRACE = "end of traces"


class Growth(StrEnum):
    """What unbounded state grows with."""

    KEYS = "grows-with-keys"
    ROWS = "grows-with-rows"
    TIME = "grows-with-time"


@dataclass(frozen=True, slots=True)
class Holding:
    """One piece of an operator's state.

    Parameters
    ----------
    what
        What is kept: rows of an input, groups, values, rows that wait.
    why
        A sentence: when it is forgotten, or why never.
    by
        What bounds it; None: it grows as `growth` says.
    size
        How many rows, as a formula.
    rows
        The formula's value where the rates are declared.
    conditions
        What the data must fulfil beyond what is declared.
    """

    what: str
    why: str
    by: BoundedBy | None = None
    growth: Growth | None = None
    size: str = ""
    rows: float | None = None
    conditions: tuple[str, ...] = ()

    @property
    def is_bounded(self) -> bool:
        return self.by is not None


def bound_of(scheme: Scheme) -> BoundedBy:
    return BoundedBy.PUNCTUATION if scheme.kind is SchemeKind.EMBEDDED else BoundedBy.CONSTRAINT


def ends(life: Lifespan) -> bool:
    return life.end != FOREVER


def until_end(what: str) -> Holding:
    return Holding(what, "the query ends", BoundedBy.END, size="rate × life of the query")


def sum_text(window: int, lag: int, clock: bool) -> str:
    """A window and what event time may be behind."""
    return f"({length_text(window, clock)} + {length_text(lag, clock)})" if lag else length_text(window, clock)


def rows_within(rate: float | None, length: int) -> float | None:
    """Rows of a stretch of clock time in microseconds."""
    return None if rate is None else rate * length / 1e6


def waiting(known: Knowledge, clock: bool) -> Holding:
    """Rows an operator cannot number or judge before the frontier has passed them."""
    what = "rows that wait for earlier ones"
    if not known.advances:
        return Holding(what, f"event time does not advance: {known.stalled}", growth=Growth.ROWS)
    text = length_text(known.lag, clock)
    return Holding(
        what, f"none is older than {text}", BoundedBy.DISORDER, None, f"rate × {text}", rows_within(known.rate, known.lag)
    )


def keeps_growing(window: Framed) -> bool:
    """Whether later windows are longer than earlier ones, without limit."""
    return 0 < window.move_start < window.move_end


def is_landmark(window: object) -> bool:
    return isinstance(window, Framed) and not window.move_start and window.move_end > 0


def label(node: Node, columns: tuple[str, ...] = ()) -> str:
    """What a query calls one of its inputs."""
    if name := node.rows_from.label:
        return name
    prefixes = {name.partition(".")[0] for name in columns if "." in name}
    return prefixes.pop() if len(prefixes) == 1 else "the inner select"
