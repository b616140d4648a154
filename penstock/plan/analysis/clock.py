"""Which streams go on by the clock, and how often they must hear what time it is."""

from __future__ import annotations

from penstock.model.declarations import StreamDeclaration
from penstock.model.durations import duration_text
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.relational import scans_of

#: How often time is told where rows have the time of arrival; each time costs a micro-batch if nothing else comes.
_ARRIVAL_US = 1_000_000
#: A part of the idle timeout, within limits, is precise enough: it is how much later an idle partition is noticed.
_PARTS, _LEAST_US, _MOST_US = 10, 200_000, 5_000_000


def clocked_streams(catalog: Catalog) -> dict[str, int]:
    """Streams whose time goes on without rows, as far as an operator waits for it, and how many microseconds may pass between.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> text = "CREATE STREAM click (page STRING); CREATE CQ all AS SELECT page FROM click;"
    >>> clocked_streams(parse_application(text))
    {}
    >>> text += "CREATE CQ n AS SELECT page, COUNT(*) AS n FROM all [RANGE 5 MINUTES] GROUP BY page;"
    >>> clocked_streams(parse_application(text))
    {'click': 1000000}
    """
    read: dict[str, set[str]] = {}
    waiting: set[str] = set()
    for query in catalog.in_order():
        read[query.name.lower()] = {scan.stream.name for scan in scans_of(query.plan)}.union(
            *(read[name.lower()] for name in query.depends_on)
        )
        if not all(node.is_prompt for node in walk(query.plan)):
            waiting |= read[query.name.lower()]
    return {stream.name: pace for stream in catalog.streams.values() if stream.name in waiting and (pace := _pace(stream))}


def _pace(stream: StreamDeclaration) -> int:
    paces = [_ARRIVAL_US] if stream.arrival_time else []
    if stream.idle_us is not None:
        paces.append(min(max(stream.idle_us // _PARTS, _LEAST_US), _MOST_US))
    return min(paces, default=0)


def tick_us(catalog: Catalog) -> int:
    """How often an application must hear what time it is; 0: never."""
    return min(clocked_streams(catalog).values(), default=0)


def clock_lines(catalog: Catalog) -> list[str]:
    """What the clock does for each stream, for people."""
    found = []
    for name, pace in clocked_streams(catalog).items():
        idle_us = catalog.stream(name).idle_us
        what = "its time is that of arrival" if idle_us is None else f"partitions may be silent for {duration_text(idle_us)}"
        found.append(f"{name}: {what}; the clock is told every {duration_text(pace)}")
    return found
