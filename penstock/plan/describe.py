"""Plans as text: one line per node, inputs indented below. Golden tests compare it, `explain` prints it."""

from __future__ import annotations

from penstock.expressions.match_output import MatchOutput, RowsPerMatch
from penstock.expressions.nodes import Column, Expr
from penstock.model.durations import duration_text
from penstock.model.elements import FOREVER
from penstock.model.event_patterns import EventOrder, LastRun, Lists
from penstock.model.join_kinds import JoinKind
from penstock.model.windows import Framed, Lifespan, Rows, Sliding, Unbounded, Window
from penstock.plan.nodes.filtering import AdaptiveFilter
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.relational import (
    Announced,
    Distinct,
    GroupBy,
    GroupFilter,
    Hushed,
    Lifetime,
    Node,
    Project,
    Reference,
    Scan,
    Select,
    Split,
    Union,
    WindowJoin,
    has_clock_time,
)
from penstock.plan.nodes.row_patterns import RowPatternMatch


def tree(plan: Node) -> str:
    """The plan as indented text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from penstock.model.declarations import Source, StreamDeclaration
    >>> from penstock.model.schema import Schema
    >>> bid = StreamDeclaration("bid", Schema.of(item=pa.int64(), ts=pa.int64()), Source("feed"), "ts")
    >>> print(tree(Distinct(Project(Scan(bid), (("item", Column("item")),)), Framed(60, 60, 60))))
    Distinct [tumbling 60]
      Project item
        Scan bid
    """
    return "\n".join(_lines(plan, 0))


def _lines(node: Node, depth: int) -> list[str]:
    first, *more = describe(node)
    head = ["  " * depth + first, *("  " * depth + "  . " + line for line in more)]
    return head + [line for part in node.inputs for line in _lines(part, depth + 1)]


def describe(node: Node) -> list[str]:
    """The node in one line, and further lines for what not every such node has."""
    clock = has_clock_time(node)
    match node:
        case Scan():
            return [f"Scan {node.stream.name}{_alias(node.alias, node.stream.name)}"]
        case Reference():
            return [f"Reference {node.query}{_alias(node.alias, node.query)}"]
        case AdaptiveFilter():
            return [f"AdaptiveFilter {node.condition}", *_declared_order(node)]
        case Select() | GroupFilter():
            return [f"{type(node).__name__} {node.condition}"]
        case Project():
            return [f"Project {', '.join(_item(name, expr) for name, expr in node.items)}"]
        case Merged():
            return [f"Merged {len(node.parts)} streams of events"]
        case Union():
            return [f"Union of {len(node.parts)}"]
        case Split():
            outputs = ", ".join(f"{name}: {condition}" for name, condition in node.branches)
            return [f"Split {node.branch} of ({outputs})"]
        case Distinct():
            return [f"Distinct [{window_text(node.window, clock)}]", *_life(node.life)]
        case Lifetime():
            return [f"Lifetime {_span(node.life)}"]
        case Hushed():
            return ["Hushed: punctuations without rows"]
        case Announced():
            return ["Announced: a row for each punctuation"]
        case WindowJoin():
            return _join(node, clock)
        case GroupBy():
            return _group_by(node, clock)
        case PatternMatch():
            return _pattern_match(node, clock)
        case RowPatternMatch():
            return _row_pattern_match(node, clock)


def _declared_order(node: AdaptiveFilter) -> list[str]:
    """What restricts the order of conditions, and what is known of their costs."""
    after = [f"{item.name} after {', '.join(item.after)}" for item in node.conjuncts if item.after]
    last = [f"{item.name} last: it is not profiled" for item in node.conjuncts if not item.profilable]
    costs = [f"{item.name} costs {item.cost:g} s per row" for item in node.conjuncts if item.cost is not None]
    return [*after, *last, *costs]


def _alias(alias: str, name: str) -> str:
    return f" as {alias}" if alias and alias != name else ""


def _item(name: str, expr: Expr) -> str:
    return name if expr == Column(name) else f"{name} = {expr}"


def _join(node: WindowJoin, clock: bool) -> list[str]:
    columns = zip(*node.keys, strict=True)
    keys = " and ".join(map(str, node.links) if isinstance(node, MJoin) else (" = ".join(column) for column in columns))
    windows = " | ".join(window_text(window, clock) for window in node.windows)
    is_inner = node.kind is JoinKind.INNER
    # Of an inner join it may be thought as a filter; otherwise it decides who is a partner.
    residual = [f"{'where' if is_inner else 'on'} {node.residual}"] if node.residual is not None else []
    kind = "" if is_inner else f"{node.kind.words} "
    written = node.written_as
    narrowed = [f"written as {written.words} JOIN: a condition above rejects rows without partner"] if written is not None else []
    partial = ["emit partial"] if node.emit_partial else []
    return [f"{type(node).__name__} {kind}{keys} [{windows}]", *residual, *narrowed, *partial, *_life(node.life)]


def _group_by(node: GroupBy, clock: bool) -> list[str]:
    keys = ", ".join(node.keys) or "()"
    aggregates = ", ".join(call.name for call in node.aggregates) or "nothing"
    more = [f"window bounds {', '.join(name for name in node.window_columns if name)}"] if any(node.window_columns) else []
    partial = ["emit partial"] if node.emit_partial else []
    return [f"GroupBy {keys}: {aggregates} [{window_text(node.window, clock)}]", *more, *partial, *_life(node.life)]


def _pattern_match(node: PatternMatch, clock: bool) -> list[str]:
    query = node.query
    within = [] if query.within is None else [f"within {duration_text(query.within) if clock else query.within}"]
    ttl = [] if query.trace_ttl is None else [f"trace_ttl {duration_text(query.trace_ttl) if clock else query.trace_ttl}"]
    ends = [f"until {' or '.join(query.terminal)}"] if query.terminal else []
    key = f" by {', '.join(query.key)}" if query.key else ""
    rules = [str(query.strategy), f"order {query.order}"] if query.order is not EventOrder.TIMESTAMP else [str(query.strategy)]
    rules += [] if query.reuse else ["no event twice in a match"]
    rules += [] if query.last_run is LastRun.EVERY else ["the longest run at the end"]
    rules += [] if query.lists is Lists.ENUMERATE else ["one list of all candidates"]
    rules += [f"each {query.id_column} once"] if query.id_column else []
    rules += ["alternatives with the same events once"] if query.dedup_branches else []
    # References are names with brackets; the marks around such a name say nothing here.
    conditions = [f"where {condition}".replace("`", "") for condition in query.conditions]
    return [
        f"PatternMatch {query.pattern}{key} [{', '.join((*within, *ttl, *ends))}]",
        ", ".join(rules),
        *conditions,
        *_shown(node.output),
    ]


def _shown(output: MatchOutput) -> list[str]:
    rows = ["a row for each event of a match"] if output.rows is RowsPerMatch.ALL else []
    measures = (
        [f"shows {', '.join(_item(name, expr) for name, expr in output.measures)}".replace("`", "")] if output.measures else []
    )
    return [*rows, *measures]


def _life(life: Lifespan) -> list[str]:
    return [] if life == Lifespan() else [_span(life)]


def _span(life: Lifespan) -> str:
    if not life.has_begin:
        return f"until {life.end}"
    return f"from {life.begin} to {'the end' if life.end == FOREVER else life.end}"


def _row_pattern_match(node: RowPatternMatch, clock: bool) -> list[str]:
    query = node.query
    key = f" by {', '.join(query.key)}" if query.key else ""
    within = "" if query.within is None else f" [within {duration_text(query.within) if clock else query.within}]"
    rows = "all rows per match" if node.shows_all_rows else "one row per match"
    rows += " with rows" if query.omits_empty else " and rows in none" if query.shows_unmatched else ""
    # References are names with brackets; the marks around such a name say nothing here.
    defined = [f"{name}: {condition}".replace("`", "") for name, condition in query.definitions]
    measures = ", ".join(f"{name} = {expr}" for name, expr in query.measures).replace("`", "")
    shown = [f"measures {measures}"] if measures else []
    defined = [*(f"{name} = {' or '.join(listed)}" for name, listed in query.subsets), *defined]
    return [f"RowPatternMatch ({query.pattern}){key}{within}", f"{rows}, skip {query.after}", *defined, *shown]


def window_text(window: Window, clock: bool) -> str:
    """A window in words; lengths of clock time get their unit.

    Examples
    --------
    >>> window_text(Framed(120_000_000, 30_000_000, 30_000_000), clock=True)
    'sliding 2 minutes advance 30 seconds'
    """
    if isinstance(window, Unbounded):
        return str(window)
    if isinstance(window, Rows):
        return "all rows" if window.size is None else f"last {window.size} rows"
    timed = clock and not (isinstance(window, Framed) and window.in_rows)

    def length(value: int) -> str:
        return duration_text(value) if timed else str(value)

    if isinstance(window, Sliding):
        return f"sliding {length(window.size)}"
    rows = " rows" if window.in_rows else ""
    text = f"{window.kind} {length(window.size)}{rows}"
    if window.kind not in ("tumbling", "fixed"):
        start, end = window.move_start, window.move_end
        text += f" advance {length(end)}" if start in (0, end) else f" move ({length(start)}, {length(end)})"
    return text + (f" partition by {', '.join(window.partition_by)}" if window.partition_by else "")
