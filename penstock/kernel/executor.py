"""The kernel of one shard: queues between operators and the loop that lets a policy choose what runs.

A micro-batch is: feed packets, run under a budget, take outputs, snapshot. What a budget leaves in the queues is state.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.kernel.contracts import JudgesLate, Operator, OperatorView, PassesRows, Policy, Spilling, State, Steered, Timed
from penstock.kernel.graph import Graph, GraphNode, Port
from penstock.kernel.ingress import LATE, Ingress
from penstock.kernel.packets import Packet
from penstock.kernel.segments import part_of, prefixed
from penstock.model.batch import Batch
from penstock.model.elements import (
    CLOCK,
    ENDED_AT,
    FOREVER,
    HEARTBEAT,
    NEVER,
    PARTITIONS,
    PLAN,
    Control,
    Element,
    End,
    Heartbeat,
    Herald,
    Quarantined,
    Request,
    Routed,
)
from penstock.model.punctuation import Punctuation

#: Rows an operator gets at once when a budget is in force: the grain of scheduling.
SLICE_ROWS = 8192
#: Answers are handed to the host when there are so many, so that those of one micro-batch need not fit into memory.
ANSWER_ROWS = 1 << 20

#: Decisions that entries obey behind the rows of a micro-batch.
_OF_TIME = (CLOCK, HEARTBEAT)


@dataclass(slots=True)
class _Item:
    """A queued element; batches get a segment identifier when they are first saved."""

    port: int
    element: Element
    segment: str = ""

    @property
    def rows(self) -> int:
        return self.element.num_rows if isinstance(self.element, Batch) else 0


@dataclass(slots=True)
class _Work:
    """An operator, its queue and what it has done so far."""

    node: GraphNode
    operator: Operator
    queue: deque[_Item] = field(default_factory=deque)
    waiting_rows: int = 0
    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Answer:
    """An element that leaves the shard under the name of an output."""

    output: str
    element: Element


class Kernel:
    """Run a graph of operators over the packets of one shard.

    Parameters
    ----------
    clock
        Nanoseconds for reports; a virtual clock makes them exact. Results never depend on it.
    spill
        Directory for what operators do not keep in memory; None: the host has none.
    """

    def __init__(
        self, graph: Graph, policy: Policy, clock: Callable[[], int] = time.perf_counter_ns, shard: int = 0, shards: int = 1,
        spill: Path | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.policy = policy
        self.clock = clock
        self.ingresses = {spec.name: Ingress(spec, shard, shards) for spec in graph.entries}
        self._work = {node.id: _Work(node, node.make(), live=set(node.queries)) for node in graph.nodes}
        for work in self._work.values():
            if isinstance(work.operator, Timed):
                work.operator.use_clock(clock)
            if spill is not None and isinstance(work.operator, Spilling):
                work.operator.spill_to(spill)
        self._answers: list[Answer] = []
        self._answer_rows = 0
        self._refused: list[Quarantined] = []
        #: Rows refused since the checkpoint began, by entry or operator and by reason.
        self._set_aside: dict[str, Counter[str]] = {}
        #: How far derived streams that come back to this kernel had come when the other shards were last told, by output.
        self.crossed: dict[str, int] = {}
        #: Rows each entry had read before the last micro-batch.
        self._read_before: dict[str, int] = {}
        self._budget_rows: int | None = None
        self._statistics: dict[str, tuple[float, float]] = {}
        self._next_segment = 0
        #: Entries that have just taken over the state of another, by that one's name: rows may be on their way there.
        self._heirs: dict[str, list[str]] = {}
        #: Operators whose queries have all ended.
        self._retired: set[str] = set()
        #: What policies have been told, and of whom that has changed since.
        self._told_views: dict[str, OperatorView] = {}
        self._changed = set(self._work)
        self._outputs_of: dict[Port, list[str]] = {}
        for name, port in graph.outputs.items():
            self._outputs_of.setdefault(port, []).append(name)

    # -- one micro-batch ----------------------------------------------------------------------------------------------

    def feed(self, packets: Iterable[Packet], controls: Sequence[Control] = ()) -> None:
        """Take in a micro-batch: decisions first, so that they hold for all of it; `end` last."""
        self._read_before = {entry: ingress.totals["read"] for entry, ingress in self.ingresses.items()}
        for control in controls:
            self._decide(control)
        by_entry: dict[str, list[Packet]] = {}
        for packet in packets:
            for entry in (packet.entry, *self._heirs.get(packet.entry, ())):
                by_entry.setdefault(entry, []).append(packet)
        self._heirs = {}
        for entry, mine in by_entry.items():
            if entry in self.ingresses:  # else its query is gone
                for element in self.ingresses[entry].admit(mine):
                    self._enter(entry, element)
        self._pass_time([control for control in controls if control.kind in _OF_TIME])
        for control in controls:
            if control.kind == "end":
                self._end(control)

    def run(self) -> None:
        """Work until the queues are empty or the budget is used up."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """The same; stops wherever there are so many answers that the host should `take` them first."""
        left = self._budget_rows
        while (chosen := self.policy.pick(self.views())) is not None:
            done = yield from self._step(self._work[chosen], left)
            if left is not None:
                left -= done
                if left <= 0 and self.waiting_rows:
                    return

    def take(self) -> tuple[list[Answer], list[Quarantined]]:
        """Answers and refused rows since the last call."""
        answers, refused = self._answers, self._refused
        self._answers, self._refused, self._answer_rows = [], [], 0
        return answers, refused

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _pass_time(self, decisions: Sequence[Control]) -> None:
        """What decisions about time mean for the entries of streams, behind their rows; idle ones follow those they meet."""
        sources = {name: guard for name, guard in self.ingresses.items() if not guard.spec.partitions}
        for entry, guard in sources.items() if decisions else ():
            for element in guard.hear(decisions):
                self._enter(entry, element)
        idle = {name for name, guard in sources.items() if guard.frontiers.is_idle()}
        for entry in sorted(idle):
            met = [self.ingresses[other].frontiers.current for other in self.graph.meeting[entry] - idle]
            for element in sources[entry].follow(min((ts for ts in met if ts != FOREVER), default=NEVER)):
                self._enter(entry, element)

    def _decide(self, control: Control) -> None:
        if control.kind == PARTITIONS:
            for guard in self.ingresses.values():
                guard.learn_partitions(control)
        if control.kind in (*_OF_TIME, PARTITIONS, PLAN):
            return  # no operator hears of it
        if control.kind == "budget":
            self._budget_rows = control.detail.get("rows")
        elif control.kind == "statistics":
            self._statistics = {node: (float(c), float(s)) for node, (c, s) in control.detail["operators"].items()}
            self._changed = set(self._work)
        self.policy.on_control(control)
        # A decision may name the operators it is for; the name is no part of what they hear.
        named = control.detail.get("to", self._work)
        heard = replace(control, detail={key: value for key, value in control.detail.items() if key != "to"})
        for node, work in self._work.items():
            if node in named:
                self._emit(work, work.operator.on_control(heard))

    def _end(self, control: Control) -> None:
        """End of one query, or of everything: promises first, then the mark that follows all rows.

        Derived streams hear of it in their packets, behind rows that a budget may have held back in an earlier stage.
        """
        query = str(control.detail.get("query", ""))
        if not query:
            self._tell_end(control)
        for entry, ingress in self.ingresses.items():
            if ingress.spec.partitions:
                continue
            if not query:
                for element in ingress.end():
                    self._enter(entry, element)
            self._enter(entry, End(query))

    def _tell_end(self, control: Control) -> None:
        """Tell operators how far the streams below them had come: rows of one shard do not show it."""
        reached = self.reached(control)
        for node, work in self._work.items():
            if reached.get(node, NEVER) != NEVER:
                self._emit(work, work.operator.on_control(Control(control.epoch, ENDED_AT, {"ts": reached[node]})))

    def reached(self, control: Control) -> dict[str, int]:
        """Time of the newest row of every stream, and of the streams below every operator.

        Parameters
        ----------
        control
            The end of all streams, with what earlier stages have added to it: they see other streams.
        """
        found: dict[str, int] = dict(control.detail.get("reached", {}))
        for ingress in self.ingresses.values():
            if not ingress.spec.partitions:
                found[ingress.spec.stream] = max(found.get(ingress.spec.stream, NEVER), ingress.frontiers.newest)
        streams = {name: ingress.spec.stream for name, ingress in self.ingresses.items()}
        for node in self.graph.nodes:
            found[node.id] = max((found.get(streams.get(source, source), NEVER) for source, _ in node.sources), default=NEVER)
        return found

    # -- elements -----------------------------------------------------------------------------------------------------

    def _enter(self, entry: str, element: Element | Quarantined) -> None:
        if not isinstance(element, Quarantined):
            self._send((entry, ""), element)
        elif element.reason == LATE:
            self._refuse(entry, self._judged((entry, ""), element))
        else:
            self._refuse(entry, [element])

    def _refuse(self, owner: str, found: Sequence[Quarantined]) -> None:
        self._refused += found
        for item in found:
            self._set_aside.setdefault(owner, Counter())[item.reason] += item.batch.num_rows

    def _judged(self, port: Port, late: Quarantined) -> list[Quarantined]:
        """What the operators for which they were meant say of late rows."""
        pieces = [late]
        for target, _ in self.graph.consumers.get(port, ()):
            work = self._work.get(target)
            if work is None:
                continue
            if isinstance(work.operator, JudgesLate):
                pieces = [part for piece in pieces for part in work.operator.judge_late(piece)]
            elif isinstance(work.operator, PassesRows):
                pieces = [part for piece in pieces for part in self._judged((target, ""), piece)]
        return pieces

    def _send(self, port: Port, element: Element) -> None:
        for target, number in self.graph.consumers.get(port, ()):
            work = self._work.get(target)
            if work is None or (isinstance(element, End) and element.query and element.query not in work.node.queries):
                continue
            item = _Item(number, element)
            self._changed.add(target)
            work.queue.append(item)
            work.waiting_rows += item.rows
        outputs = self._outputs_of.get(port, ())
        self._answers += [Answer(output, element) for output in outputs]
        if isinstance(element, Batch):
            self._answer_rows += element.num_rows * len(outputs)

    def _emit(self, work: _Work, elements: Iterable[Element | Quarantined | Routed]) -> None:
        for element in elements:
            if isinstance(element, Quarantined):
                self._refuse(work.node.id, [element])
                continue
            output, plain = (element.output, element.element) if isinstance(element, Routed) else ("", element)
            if isinstance(plain, Batch):
                if not plain.num_rows:
                    continue
                work.rows_out += plain.num_rows
            for port in self._ports(work.node.id, output):
                self._send(port, plain)

    def _ports(self, node: str, output: str) -> list[Port]:
        """A routed element goes to its output, any other to all outputs of the node."""
        if output:
            return [(node, output)]
        named = {port for port in (*self.graph.consumers, *self._outputs_of) if port[0] == node}
        return sorted(named) or [(node, "")]

    def _step(self, work: _Work, left: int | None) -> Generator[None, None, int]:
        """Let one operator process the head of its queue, or a slice of it; returns the rows used."""
        item = self._head(work, left)
        started = self.clock()
        element = item.element
        if isinstance(element, Batch):
            work.rows_in += element.num_rows
            results = work.operator.on_batch(item.port, element)
        elif isinstance(element, End):
            results = self._ended(work, element)
        else:
            results = work.operator.on_metadata(item.port, element)
        work.nanoseconds += self.clock() - started
        if isinstance(results, Iterator):
            yield from self._emit_piecewise(work, results)
        else:
            self._emit(work, results)
        if self._answer_rows > ANSWER_ROWS:
            yield
        if isinstance(element, End):
            self._retire(work, element)
        return item.rows

    def _emit_piecewise(self, work: _Work, results: Iterator[Element | Quarantined | Routed]) -> Iterator[None]:
        """Results that do not fit into memory: each piece goes all the way before the next one is made, whatever the policy."""
        behind = [self._work[node] for node in self._behind(work.node.id)]
        while True:
            started = self.clock()
            piece = next(results, None)
            work.nanoseconds += self.clock() - started
            if piece is None:
                return
            self._emit(work, [piece])
            for other in behind:
                while other.queue:
                    yield from self._step(other, None)
            if self._answer_rows > ANSWER_ROWS:
                yield

    def _behind(self, node: str) -> list[str]:
        """The operators that get something of what a node emits, each behind those it hears from."""
        reached = {node}
        for other in self.graph.nodes:
            if any(source in reached for source, _ in other.sources):
                reached.add(other.id)
        return [other.id for other in self.graph.nodes if other.id in reached - {node} and other.id in self._work]

    def _head(self, work: _Work, left: int | None) -> _Item:
        self._changed.add(work.node.id)
        item = work.queue.popleft()
        limit = SLICE_ROWS if left is None else max(min(SLICE_ROWS, left), 1)
        if left is not None and isinstance(item.element, Batch) and item.rows > limit:
            rest = item.element.slice(limit, item.rows - limit)
            work.queue.appendleft(_Item(item.port, rest))
            item = _Item(item.port, item.element.slice(0, limit))
        work.waiting_rows -= item.rows
        return item

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _ended(self, work: _Work, end: End) -> Iterable[Element | Quarantined | Routed]:
        """Count the end on each port; the operator hears of it once, when all ports have it."""
        work.ended[end.query] = work.ended.get(end.query, 0) + 1
        if work.ended[end.query] < len(work.node.sources):
            return ()
        if end.query and len(work.live) > 1:
            return (end,)  # others still use this operator: its state is not final
        return (*work.operator.on_metadata(0, end), end)

    def _retire(self, work: _Work, end: End) -> None:
        if work.ended[end.query] < len(work.node.sources):
            return
        work.live = set() if not end.query else work.live - {end.query}
        if end.query and not work.live:
            del self._work[work.node.id]
            self._retired.add(work.node.id)

    # -- views, state, reports ----------------------------------------------------------------------------------------

    @property
    def waiting_rows(self) -> int:
        return sum(work.waiting_rows for work in self._work.values())

    @property
    def is_idle(self) -> bool:
        """Whether no element waits in any queue."""
        return not any(work.queue for work in self._work.values())

    @property
    def nodes(self) -> tuple[str, ...]:
        """Operators that still run."""
        return tuple(self._work)

    def views(self) -> list[OperatorView]:
        """All operators, as policies see them; only those whose queue has changed are looked at again."""
        if self._changed or len(self._told_views) != len(self._work):
            fresh = {node: self._view(work) for node, work in self._work.items() if node in self._changed}
            self._told_views = {node: fresh.get(node) or self._told_views[node] for node in self._work}
            self._changed = set()
        return list(self._told_views.values())

    def _view(self, work: _Work) -> OperatorView:
        node = work.node.id
        capacity, selectivity = self._statistics.get(node, (1.0, 1.0))
        return OperatorView(
            node, work.waiting_rows, len(work.queue), self.graph.downstream[node], node in self.graph.leaves, capacity, selectivity
        )

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next_segment": self._next_segment, "budget": self._budget_rows, "policy": self.policy.snapshot()}
        meta["statistics"] = {node: list(pair) for node, pair in self._statistics.items()}
        segments: dict[str, Any] = {}
        for work in self._work.values():
            part = prefixed(f"node:{work.node.id}", work.operator.snapshot())
            meta |= part.meta
            segments |= part.segments
            meta[f"work:{work.node.id}"] = self._save_queue(work, segments)
        for name, ingress in self.ingresses.items():
            meta |= prefixed(f"entry:{name}", ingress.snapshot()).meta
        meta["next_segment"] = self._next_segment
        meta["crossed"] = dict(self.crossed)
        meta["retired"] = sorted(self._retired)
        meta["set_aside"] = {owner: dict(reasons) for owner, reasons in self._set_aside.items()}
        return State(meta, segments)

    def _save_queue(self, work: _Work, segments: dict[str, Any]) -> dict[str, Any]:
        saved = []
        for item in work.queue:
            if isinstance(item.element, Batch):
                if not item.segment:
                    item.segment = f"queue:{work.node.id}/{self._next_segment}"
                    self._next_segment += 1
                segments[item.segment] = item.element.stored()
                saved.append([item.port, "rows", item.segment])
            else:
                saved.append([item.port, *_encode_mark(item.element)])
        return {
            "queue": saved, "rows": [work.rows_in, work.rows_out, work.nanoseconds], "ended": work.ended,
            "over": sorted(work.node.queries - work.live),
        }  # fmt: skip

    def restore(self, state: State) -> None:
        """Go on where a kernel stopped, perhaps one of another graph: what that did not have begins, what is gone is dropped."""
        self._next_segment = state.meta["next_segment"]
        self._budget_rows = state.meta["budget"]
        self.policy.restore(state.meta["policy"])
        self._statistics = {node: (pair[0], pair[1]) for node, pair in state.meta["statistics"].items()}
        self._set_aside = {owner: Counter(reasons) for owner, reasons in state.meta.get("set_aside", {}).items()}
        self.crossed = dict(state.meta.get("crossed", {}))
        self._changed = set(self._work)
        self._retired = set(state.meta.get("retired", ())) & self._work.keys()
        for node in self._retired:
            del self._work[node]
        for node, work in self._work.items():
            kept = self._kept("work", node, state)
            if kept:
                work.operator.restore(part_of(f"node:{kept}", state))
                self._load_queue(work, state.meta[f"work:{kept}"], state)
        for name, ingress in self.ingresses.items():
            kept = self._kept("entry", name, state)
            if kept:
                ingress.restore(part_of(f"entry:{kept}", state))
            if kept not in ("", name):
                self._heirs.setdefault(kept, []).append(name)

    def _kept(self, part: str, name: str, state: State) -> str:
        """Under which name the state has something for an operator or entry; empty if it has nothing."""
        while name and f"{part}:{name}" not in state.meta:
            name = self.graph.heirs.get(name, "")
        return name

    def _load_queue(self, work: _Work, saved: Mapping[str, Any], state: State) -> None:
        work.rows_in, work.rows_out, work.nanoseconds = saved["rows"]
        work.ended, work.live = dict(saved["ended"]), set(work.node.queries - set(saved["over"]))
        work.queue.clear()
        for port, kind, value in saved["queue"]:
            if kind == "rows":
                work.queue.append(_Item(port, Batch.restored(state.segments[value]), value))
            else:
                work.queue.append(_Item(port, _decode_mark(kind, value)))
        work.waiting_rows = sum(item.rows for item in work.queue)

    def driver_reports(self) -> dict[str, Any]:
        """What operators tell whoever decides about them, since the last call; once per micro-batch."""
        return {node: work.operator.driver_report() for node, work in self._work.items() if isinstance(work.operator, Steered)}

    def report(self) -> dict[str, Any]:
        """Levels and running totals per operator and entry; `arrived` are the rows of the last micro-batch.

        `holding` tells for entries of streams which source partition the others wait for.
        """
        operators = {
            node: {
                "rows_in": work.rows_in, "rows_out": work.rows_out, "ns": work.nanoseconds, "queue_rows": work.waiting_rows,
                **work.operator.counters(),
            }
            for node, work in self._work.items()
        }  # fmt: skip
        entries = {
            name: {
                **guard.totals, "arrived": guard.totals["read"] - self._read_before.get(name, 0),
                "frontier": guard.frontiers.current,
            }
            for name, guard in self.ingresses.items()
        }  # fmt: skip
        holding = {name: asdict(found) for name, guard in self.ingresses.items() if (found := guard.holder()) is not None}
        set_aside = {owner: dict(by) for owner, by in self._set_aside.items()}
        return {"operators": operators, "entries": entries, "set_aside": set_aside, "holding": holding}


def _encode_mark(mark: Element) -> list[Any]:
    if isinstance(mark, Heartbeat):
        return ["heartbeat", mark.ts]
    if isinstance(mark, End):
        return ["end", mark.query]
    if isinstance(mark, Punctuation):
        return ["punctuation", mark.to_json()]
    if isinstance(mark, Request):
        return ["request", [mark.kind, dict(mark.detail)]]
    assert isinstance(mark, Herald)
    return ["herald", [mark.pattern.to_json(), dict(mark.detail)]]


def _decode_mark(kind: str, value: Any) -> Element:
    if kind == "heartbeat":
        return Heartbeat(value)
    if kind == "end":
        return End(value)
    if kind == "punctuation":
        return Punctuation.from_json(value)
    if kind == "request":
        return Request(value[0], value[1])
    return Herald(Punctuation.from_json(value[0]), value[1])
