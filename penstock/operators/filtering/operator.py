"""AdaptiveFilter: a conjunction whose filters change places while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidConfiguration
from penstock.kernel.contracts import State
from penstock.kernel.row_filters import FilterResult, failed_alike
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Control, Elements, End, Heartbeat, Metadata, Quarantined
from penstock.operators.filtering.coins import are_profiled
from penstock.operators.filtering.contract import Floats, arranged
from penstock.operators.filtering.costs import CostModel
from penstock.operators.filtering.descriptors import Arrangement, Filter
from penstock.operators.filtering.estimates import estimates
from penstock.operators.filtering.filter_counters import FilterCounters
from penstock.operators.filtering.pipeline import Clock, Passage, Pipeline
from penstock.operators.filtering.policies.table import make_order
from penstock.operators.filtering.predicates import Flags
from penstock.operators.filtering.reports import COSTS, ORDER, ShardReport
from penstock.operators.filtering.settings import Algorithm, FilterSettings, Mode
from penstock.operators.filtering.window import ProfileRows

#: Reason code of rows on which a filter raised.
FAILED = "filter-failed"

_PROFILE = pa.schema([("bits", pa.uint64()), ("known", pa.uint64()), ("ts", pa.int64())])


class AdaptiveFilter:
    """Keep rows that every filter passes, trying the filters in an order that follows the data.

    The rows that pass, and their order, are those of the plain conjunction whatever happens: another chunking, another seed,
    changes of the order, a lost profile. Only the work differs. Every punctuation passes: fewer rows break no promise.

    In `Mode.SHARD` the shard decides at once, from its own profile and from declared or told costs. In `Mode.GLOBAL` it
    hands profiled rows and measured calls to the driver in `report`, where an `Orderer` decides; its decisions come back as
    controls of the kinds `filter_order` and `filter_costs`. In `Mode.BOTH` it does both. Measured time never decides inside
    a shard, so a repeated micro-batch does the same work.

    Parameters
    ----------
    input_schema
        Of the rows.
    filters
        The conjunction, as written.
    label
        The name by which controls address this filter.
    order
        Names of all filters, in the order to start with; as written, guards first, when not given.
    clock
        Nanoseconds, handed in by the host; None: nothing is measured.

    References
    ----------
    [babu2004] Babu, Motwani, Munagala, Nishizawa, Widom. Adaptive Ordering of Pipelined Stream Filters. SIGMOD 2004.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> from penstock.operators.filtering.predicates import ExpressionPredicate, OnPandas
    >>> rows = pa.RecordBatch.from_pydict({"x": [1, 5, None, 8]})
    >>> even = Filter("even", OnPandas(lambda x: x % 2 == 0, ("x",)))
    >>> large = Filter("large", ExpressionPredicate.of(parse("x > 3"), rows.schema))
    >>> (kept,) = AdaptiveFilter(rows.schema, [even, large]).on_batch(0, Batch(rows, np.arange(4), np.arange(4)))
    >>> kept.rows.to_pydict()
    {'x': [8]}
    """

    failure = FAILED

    def __init__(
        self,
        input_schema: pa.Schema,
        filters: Sequence[Filter],
        settings: FilterSettings | None = None,
        label: str = "filter",
        order: Sequence[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.input_schema = input_schema
        self.settings = settings or FilterSettings()
        self.label = label
        self.arrangement = Arrangement(tuple(filters))
        self._check_columns()
        first = None if order is None else self.arrangement.started(order)
        self.policy = make_order(len(self.arrangement.free), self.settings.order, first, self.arrangement.free_guards)
        self.policy.clock = clock
        declared = [item.declared_cost for item in filters]
        self.costs = CostModel(declared, self.settings.chunk_rows, self.settings.trimmed)
        self.counts = FilterCounters(len(filters))
        self.pipeline = Pipeline(self.arrangement, self.costs, self.counts, self.settings.on_error, clock)
        self._pending: list[ProfileRows] = []
        self._reported = (0, 0)
        self._newest_ts: int | None = None
        self._segment = self._stored_changes = 0

    def _check_columns(self) -> None:
        for item in self.arrangement.filters:
            for name in item.predicate.columns or ():
                if name not in self.input_schema.names:
                    text = f"filter '{item.name}' reads column '{name}'; the rows have {', '.join(self.input_schema.names)}"
                    raise InvalidConfiguration(text, "configuration of an adaptive filter")

    # -- elements -----------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        found = self.filter_rows(batch)
        passed = batch if len(found.kept) == batch.num_rows else batch.take(found.kept)
        return (passed, *(Quarantined(batch.take(rows), FAILED, text) for rows, text in failed_alike(found.failed)))

    def filter_rows(self, batch: Batch) -> FilterResult:
        """Which rows pass every filter, and on which one raised."""
        if not self.arrangement.filters or not batch.num_rows:
            self.counts.chunk(batch.num_rows, batch.num_rows, 0)
            return FilterResult(np.arange(batch.num_rows))
        self._see(int(batch.ts.max()))
        coins = self._coins(batch)
        kept, failed = [], list[tuple[int, str]]()
        # All chunks are done before anything is returned: a filter that fails leaves no part of a batch behind.
        for start in range(0, batch.num_rows, self.settings.chunk_rows):
            chunk = batch.slice(start, self.settings.chunk_rows)
            tossed = None if coins is None else coins[start : start + chunk.num_rows]
            passage = self.pipeline.run(chunk, self.policy, tossed)
            kept.append(passage.kept + start)
            failed += [(start + at, text) for at, text in passage.failed]
            self._learn(passage, chunk)
        return FilterResult(np.concatenate(kept), failed)

    def _see(self, ts: int) -> None:
        self._newest_ts = ts if self._newest_ts is None else max(ts, self._newest_ts)

    def _coins(self, batch: Batch) -> Flags | None:
        """Which rows are profiled if rejected; None when there is nothing to order."""
        settings = self.settings.order
        is_still = settings.algorithm in (Algorithm.FIXED, Algorithm.RANDOM) or settings.profiled_share == 0.0
        if is_still or self.policy.filters < 2:
            return None
        return are_profiled(self.settings.seed, batch.pos, settings.profiled_share)

    def _learn(self, passage: Passage, chunk: Batch) -> None:
        rows = passage.profile
        if self.settings.has_driver and len(rows):
            self._pending.append(rows)
        if not self._decides:
            return
        if self.policy.settings.max_age is not None and chunk.num_rows:
            self.policy.expire(int(chunk.ts.max()))
        if len(rows):
            last = int(chunk.pos[passage.profiled[-1]])
            self.policy.observe(rows.bits, rows.known, self._free_costs(), rows.ts, at=last)

    @property
    def _decides(self) -> bool:
        """Whether this shard may change the order by itself."""
        mode = self.settings.mode
        # What is not told yet would have to be guessed, and a policy that asks differently after a change of its own would
        # tell the driver what it cannot use.
        return mode is Mode.SHARD or (mode is Mode.BOTH and self.policy.has_whole_rows and self.costs.is_known)

    def _free_costs(self, is_measured: bool = False) -> Floats:
        return self.costs.estimates(is_measured)[list(self.arrangement.free)]

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Heartbeat) and mark.ts != FOREVER:
            self._see(mark.ts)
            if self._decides:
                self.policy.expire(mark.ts)
        return () if isinstance(mark, End) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        detail = decision.detail
        if decision.kind not in (ORDER, COSTS) or detail.get("operator") != self.label:
            return ()
        if "costs" in detail:
            places = {name: number for number, name in enumerate(self.arrangement.names)}
            self.costs.set_costs({places[name]: cost for name, cost in detail["costs"].items() if name in places})
        if "mirror" in detail:
            self.policy.follow(detail["mirror"])
        elif "order" in detail:
            self.policy.set_order(self.arrangement.started(detail["order"]))
        return ()

    # -- reports ------------------------------------------------------------------------------------------------------

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the filters by position."""
        return tuple(self.arrangement.names[number] for number in self.arrangement.whole(self.policy.order()))

    def report(self) -> ShardReport:
        """What has happened since the last call, for the driver's `Orderer`; at most a window of profiled rows."""
        rows = ProfileRows.concat(self._pending)
        if self.settings.order.kept_rows is not None:
            rows = rows.newest(self.settings.order.kept_rows)
        arrived = self.counts.totals["arrived"]
        dropped = arrived - self.counts.totals["passed"] - self.counts.totals["failed"]
        before, self._reported, self._pending = self._reported, (arrived, dropped), []
        return ShardReport(
            self.label, self.policy.version, rows, self.costs.drain(), self._newest_ts, arrived - before[0], dropped - before[1]
        )  # fmt: skip

    def use_clock(self, clock: Clock) -> None:
        """The host's nanoseconds; measured costs leave in reports."""
        self.policy.clock = self.pipeline.clock = clock

    def driver_report(self) -> dict[str, Any]:
        """For the driver: what it decides on, or where this shard decides, how things stand."""
        if self.settings.has_driver:
            return {"report": self.report().to_json()}
        return {"standing": self.describe()}

    def describe(self) -> dict[str, Any]:
        """The state of affairs for people: order, costs, estimates, shares of time, what changed last."""
        costs = self.costs.estimates(is_measured=True)
        spent = self.counts.times | self.policy.spent
        whole = sum(spent.values())
        guess = estimates(self.policy, costs[list(self.arrangement.free)], self.counts.dropped_share)
        return {
            "order": list(self.order),
            "epoch": self.policy.epoch,
            "reorderings": self.policy.reorderings,
            "cost_per_row": dict(zip(self.arrangement.names, costs.tolist(), strict=True)),
            "estimated": None if guess is None else {"current": guess.current, "greedy": guess.greedy, "optimal": guess.optimal},
            "window": {"rows": len(self.policy.window), "age": self.policy.window.age},
            "time_shares": {part: ns / whole for part, ns in spent.items()} if whole else {},
            "events": [
                {"at": event.at, "row": event.row, "column": event.column, "left": event.left, "right": event.right}
                for event in list(self.policy.events)[-16:]
            ],
        }

    def counters(self) -> Mapping[str, int]:
        rows = len(self.policy.window)
        return {
            "state_rows": rows,
            "state_bytes": rows * 24,
            "window_fill": rows,
            "window_age": self.policy.window.age,
            "epoch": self.policy.epoch,
            "reorderings": self.policy.reorderings,
            "corrections": self.policy.corrections,
            "scans": self.policy.scans,
            **self.counts.counters(self.arrangement.names),
        }

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        window = self.policy.window
        if window.changes != self._stored_changes:
            self._segment += 1
            self._stored_changes = window.changes
        meta = {
            "names": list(self.arrangement.names),
            "order": list(self.order),
            "policy": self.policy.snapshot(),
            "costs": self.costs.snapshot(has_samples=False),
            "tally": self.counts.snapshot(),
            "segment": self._segment,
        }
        if not len(window):
            return State(meta)
        rows = window.content
        stored = pa.RecordBatch.from_arrays([pa.array(part) for part in (rows.bits, rows.known, rows.ts)], schema=_PROFILE)
        return State(meta, {f"profile-{self._segment}": stored})

    def restore(self, state: State) -> None:
        if not state.meta:
            return
        self._segment = state.meta["segment"]
        if list(self.arrangement.names) != state.meta["names"]:
            self._start_over(state.meta)
            return
        part = state.segments.get(f"profile-{self._segment}")
        rows = ProfileRows.empty()
        if part is not None:
            rows = ProfileRows(*(column.to_numpy(zero_copy_only=False) for column in part.columns))
        self.policy.restore(state.meta["policy"], rows)
        self.costs.restore(state.meta["costs"])
        self.counts.restore(state.meta["tally"])
        totals = self.counts.totals
        self._reported = (totals["arrived"], totals["arrived"] - totals["passed"] - totals["failed"])
        self._stored_changes = self.policy.window.changes

    def _start_over(self, meta: Mapping[str, Any]) -> None:
        """The filters have changed: the profile is worthless, the order of those that are left is not."""
        names = self.arrangement.names
        before = meta["order"]
        place = {names[number]: own for own, number in enumerate(self.arrangement.free)}
        kept = [place[name] for name in before if name in place]
        added = [own for own in range(len(place)) if own not in kept]
        self.policy.set_order(arranged([*kept, *added], self.arrangement.free_guards))
        self.counts.add("filters_changed", 1)
        self._segment += 1
