"""Compiled: which rows are events that their trace has had already."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance
from penstock.model.elements import NEVER
from penstock.operators.patterns.tables import NAMED, TERMINAL


@entrance
def first_of_each(  # pragma: no cover - compiled
    keys: Any,
    events: Any,
    is_named: Any,
    ts: Any,
    classes: Any,
    owners: Any,
    last: Any,
    active: Any,
    within: int,
    ttl: int,
    is_total: bool,
) -> Any:
    """Go through rows in order of time; traces end as in `split_traces`.

    Parameters
    ----------
    keys, events
        Number of the key of each row, and of the key with the event. Rows whose event is not named are events of their own.
    owners
        Key of each event.
    last, active
        When each event was last met in the trace of its key, and when each trace was last active, or `NEVER`; brought up to
        date here.
    within, ttl
        How long an event is remembered, and the silence that ends a trace; negative: for ever, and none.

    Returns
    -------
    for each row whether it is the first of its event, and for each event whether it is of a trace that goes on
    """
    is_first = np.ones(len(keys), np.bool_)
    trace, of_trace = np.zeros(len(active), np.int64), np.zeros(len(last), np.int64)
    finished = np.full(len(active), NEVER, np.int64)
    for row in range(len(keys)):
        key, now = keys[row], ts[row]
        is_silent = ttl >= 0 and active[key] != NEVER and now - active[key] > ttl
        if is_silent or (finished[key] != NEVER and (is_total or finished[key] != now)):
            trace[key] += 1
            active[key], finished[key] = NEVER, NEVER
        event = events[row]
        is_known = is_named[row] and last[event] != NEVER and of_trace[event] == trace[key]
        is_first[row] = not (is_known and (within < 0 or now - last[event] <= within))
        last[event], of_trace[event] = now, trace[key]
        if is_first[row]:
            if active[key] == NEVER or classes[row] & NAMED:
                active[key] = now
            if classes[row] & TERMINAL:
                finished[key] = now
    goes_on = np.zeros(len(last), np.bool_)
    for event in range(len(last)):
        key = owners[event]
        goes_on[event] = last[event] != NEVER and of_trace[event] == trace[key] and finished[key] == NEVER
    return is_first, goes_on
