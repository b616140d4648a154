"""Snapshot and restore of a PWJoin: rows as segments, announcements as a log, the rest derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import State
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin.keys import BookCodes

if TYPE_CHECKING:
    from penstock.operators.joins.pwjoin.operator import PWJoin

_STREAM_COLUMNS = (lay.ARRIVED, lay.FRONTIER, lay.LIMIT, lay.ENDED, lay.PROBES, lay.MATCHES)
_NUMBERS = (lay.NOW, lay.BORN)


def saved(join: PWJoin) -> State:
    """Everything a join needs to go on."""
    memory = join.core.memory
    segments: dict[str, pa.RecordBatch] = {}
    meta: dict[str, Any] = {
        "frontiers": list(join.frontiers),
        "sent": [join.sent, join.told],
        "rows": list(join.next_rows),
        "outside_life": join.outside_life,
        "promised": join.promised.tolist(),
        "counts": memory.counts.tolist(),
        "streams": memory.streams[:, _STREAM_COLUMNS].tolist(),
        "numbers": memory.numbers[list(_NUMBERS)].tolist(),
        "ranges": memory.ranges[: memory.numbers[lay.RANGES], : lay.P_LIVE].tolist(),
        "announcer": join.announcer.snapshot(),
        "stores": [],
    }
    for port, store in enumerate(join.stores):
        part, stored = store.snapshot(join.core.live_rows(port))
        meta["stores"].append(part)
        segments |= stored
    meta["known"], known = join.knowledge.snapshot()
    segments |= known
    if join.ordering is not None:
        meta["ordering"], waiting = join.ordering.snapshot()
        segments |= waiting
    if isinstance(join.codes, BookCodes):
        meta["book"], keys = join.codes.snapshot()
        segments |= keys
    # Merging intervals may have forgotten the oldest.
    meta["counts"] = memory.counts.tolist()
    return State(meta, segments)


def restored(join: PWJoin, state: State) -> None:
    """Become what was saved; `join` is new."""
    meta, segments, core = state.meta, state.segments, join.core
    join.frontiers, (join.sent, join.told) = list(meta["frontiers"]), meta["sent"]
    join.next_rows, join.outside_life = list(meta["rows"]), meta["outside_life"]
    join.promised = np.array(meta["promised"], np.int64)
    join.announcer.restore(meta["announcer"])
    if join.ordering is not None:
        join.ordering.restore(meta["ordering"], segments)
    if isinstance(join.codes, BookCodes):
        join.codes.restore(meta["book"], segments)
    masks = join.knowledge.restore(meta["known"], segments)
    ranges = np.array(meta["ranges"], np.int64).reshape(-1, lay.P_LIVE)
    core.put_ranges(ranges)
    for column, values in zip(_STREAM_COLUMNS, np.array(meta["streams"], np.int64).T, strict=True):
        core.memory.streams[:, column] = values
    core.memory.numbers[list(_NUMBERS)] = meta["numbers"]
    for port, store in enumerate(join.stores):
        for segment, alive in store.restore(meta["stores"][port], segments):
            chosen = np.flatnonzero(alive)
            if len(chosen):
                part = pa.array(chosen)
                keys = join.codes.of([segment.batch.column(name).take(part) for name in join.keys[port]])
                core.reload(port, keys, segment.batch.ts[chosen], segment.ats[chosen], segment.rows[chosen], masks.of(keys))
    core.reschedule()
    core.memory.counts[:] = meta["counts"]
    # What is on disk is known; only later changes are logged.
    core.memory.numbers[[lay.LOG, lay.RELOG]] = 0
