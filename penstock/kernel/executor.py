"""The kernel of one shard: queues between operators and the loop that lets a policy choose what runs.

A micro-batch is: feed packets, run under a budget, take outputs, snapshot. What a budget leaves in the queues is state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.kernel.contracts import (
    CutsArrivals,
    HearsArrivals,
    JudgesLate,
    Operator,
    PassesRows,
    Policy,
    RowGate,
    Spilling,
    State,
    Steered,
    Timed,
)
from penstock.kernel.graph import Graph, GraphNode, Port
from penstock.kernel.ingress import LATE, Ingress
from penstock.kernel.measures import PortMeasure
from penstock.kernel.packets import Packet
from penstock.kernel.queue_state import load_queue, save_queue
from penstock.kernel.segments import part_of, prefixed
from penstock.kernel.timing import AnswerTimes, timed, without_late
from penstock.kernel.work import Choice, Item, Place, Price, Terms, WaitingWork, WorkPlan, with_news
from penstock.model.batch import Batch
from penstock.model.elements import (
    BUDGET,
    CLOCK,
    ENDED_AT,
    FOREVER,
    HEARTBEAT,
    NEVER,
    PARTITIONS,
    PLAN,
    POLICY,
    STATISTICS,
    Control,
    Element,
    End,
    Quarantined,
    Routed,
)
from penstock.model.service import LateAnswers

#: What an operator gets at once when a budget is in force, as the grain of scheduling: rows, and nanoseconds of priced work.
SLICE_ROWS, SLICE_NS = 8192, 50_000_000
#: Priced work that may be done at once of small elements in one queue.
VISIT_NS = 1_000_000
#: Answers are handed to the host when there are so many, so that those of one micro-batch need not fit into memory.
ANSWER_ROWS = 1 << 20

#: Decisions that entries obey behind the rows of a micro-batch.
_OF_TIME = (CLOCK, HEARTBEAT)


@dataclass(slots=True)
class _Running:
    """An operator and what it has done so far."""

    node: GraphNode
    operator: Operator
    rows_in: int = 0
    rows_out: int = 0
    #: Left out in front of its queue.
    shed: int = 0
    nanoseconds: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    #: By port, since the last report.
    measures: list[PortMeasure] = field(default_factory=list)

    def forget_measures(self) -> None:
        self.measures = [PortMeasure() for _ in self.node.sources]


@dataclass(frozen=True, slots=True)
class Answer:
    """An element that leaves the shard under the name of an output."""

    output: str
    element: Element
    #: Since when the rows that it is made of wait, and when it was made: the difference is its age.
    since_ns: int = 0
    made_ns: int = 0


#: Makes a strategy by its name and parameters.
MakePolicy = Callable[[str, Mapping[str, Any]], Policy]


class Kernel:
    """Run a graph of operators over the packets of one shard.

    Parameters
    ----------
    make_policy, policy
        The strategies that decisions may name, and the one that works until a decision names another.
    clock
        Nanoseconds for reports; a virtual clock makes them exact. Results never depend on it.
    slice_ns
        Priced work after which a strategy is asked again, while a budget is in force.
    spill
        Directory for what operators do not keep in memory; None: the host has none.
    """

    def __init__(
        self, graph: Graph, make_policy: MakePolicy, policy: str, clock: Callable[[], int] = time.perf_counter_ns, shard: int = 0,
        shards: int = 1, spill: Path | None = None, slice_ns: int = SLICE_NS,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.clock = clock
        self.slice_ns = slice_ns
        self.ingresses = {spec.name: Ingress(spec, shard, shards) for spec in graph.entries}
        self._running = {node.id: _Running(node, node.make(), live=set(node.queries)) for node in graph.nodes}
        for running in self._running.values():
            running.forget_measures()
            if isinstance(running.operator, Timed):
                running.operator.use_clock(clock)
            if spill is not None and isinstance(running.operator, Spilling):
                running.operator.spill_to(spill)
        self._prices = {node.id: node.prices for node in graph.nodes}
        self._make_policy = make_policy
        self.work = WaitingWork(self._plan())
        #: The strategy that a decision has named, with its parameters; None: the first one still works.
        self._decided_policy: tuple[str, Mapping[str, Any]] | None = None
        self._use_policy(policy, {})
        #: What leaves rows out, by the place in front of which it does; put there by the host, perhaps for one micro-batch.
        self.gates: dict[Place, RowGate] = {}
        #: The time of the micro-batch.
        self._batch_ns = 0
        #: Counts what enters from outside.
        self._arrivals = 0
        self._answers: list[Answer] = []
        self._answer_rows = 0
        self._refused: list[Quarantined] = []
        #: Rows refused since the checkpoint began, by entry or operator and by reason.
        self._set_aside: dict[str, Counter[str]] = {}
        #: How far derived streams that come back to this kernel had come when the other shards were last told, by output.
        self.crossed: dict[str, int] = {}
        #: Rows each entry had read before the last micro-batch.
        self._read_before: dict[str, int] = {}
        self._budget_ns: int | None = None
        self._next_segment = 0
        #: Entries that have just taken over the state of another, by that one's name: rows may be on their way there.
        self._heirs: dict[str, list[str]] = {}
        #: Operators whose queries have all ended.
        self._retired: set[str] = set()
        self._outputs_of: dict[Port, list[str]] = {}
        for name, port in graph.outputs.items():
            self._outputs_of.setdefault(port, []).append(name)
        #: Of the answers of every query.
        self._times = {name: AnswerTimes() for name in graph.answers}

    # -- one micro-batch ----------------------------------------------------------------------------------------------

    def feed(self, packets: Iterable[Packet], controls: Sequence[Control] = (), now_ns: int = 0) -> None:
        """Take in a micro-batch: decisions first, so that they hold for all of it; `end` last.

        Parameters
        ----------
        now_ns
            The time of the micro-batch, in nanoseconds since 1970; a repeated one has the same.
        """
        self.work.now_ns = self._batch_ns = now_ns
        for running in self._running.values():
            running.forget_measures()
        self._read_before = {entry: ingress.totals["read"] for entry, ingress in self.ingresses.items()}
        for control in controls:
            self.decide(control)
        by_entry: dict[str, list[Packet]] = {}
        for packet in packets:
            for entry in (packet.entry, *self._heirs.get(packet.entry, ())):
                by_entry.setdefault(entry, []).append(packet)
        self._heirs = {}
        for entry, mine in by_entry.items():
            if entry in self.ingresses:  # else its query is gone
                since_ns = min((packet.since_ns for packet in mine if packet.since_ns), default=now_ns)
                for element in self.ingresses[entry].admit(mine):
                    self._enter(entry, element, since_ns)
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
        if self._budget_ns is None:
            yield from self._drain()
            return
        left = max(self._budget_ns, 1)  # however little it is, one thing is done, or nothing ever would be
        while left > 0 and (choice := self.policy.pick(self.work)) is not None:
            before = self.work.now_ns
            yield from self.serve(choice, left)
            yield from self._serve_small(choice, before + min(left, VISIT_NS))
            left -= max(self.work.now_ns - before, 1)

    def _serve_small(self, choice: Choice, until_ns: int) -> Iterator[None]:
        """What stands right behind in the same queue, while the visit is short: choosing anew would cost more than the work."""
        while choice.position == 0 and (queue := self.work.waiting.get(choice.operator)) is not None:
            if self.work.now_ns + self.work.price_of(choice.operator, queue.head) >= until_ns:
                return
            yield from self.serve(choice)

    def _drain(self) -> Iterator[None]:
        """Everything: the strategy decides about memory only, and need not be asked about every element."""
        while (choice := self.policy.pick(self.work)) is not None:
            yield from self.serve(choice)
            queue = self.work.waiting.get(choice.operator)
            for _ in range(len(queue.items) if queue is not None else 0):
                yield from self.serve(Choice(choice.operator))

    def serve(self, choice: Choice, left_ns: int | None = None) -> Iterator[None]:
        """Let an operator process what was chosen; with a limit, a slice of it."""
        running = self._running[choice.operator]
        item = self.work.take(choice, None if left_ns is None else self._affordable(choice, left_ns))
        yield from self._process(running, item)

    def _affordable(self, choice: Choice, left_ns: int) -> int:
        """Rows of what was chosen that may run before the strategy is asked again; at least one, or nothing would go on."""
        port = self.work.waiting[choice.operator].items[choice.position].port
        price = self._prices[choice.operator][port]
        if price.row_ns <= 0:
            return SLICE_ROWS
        return max(min(SLICE_ROWS, int((min(left_ns, self.slice_ns) - price.call_ns) / price.row_ns)), 1)

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

    def decide(self, control: Control) -> None:
        """Obey a decision from now on."""
        if control.kind == PARTITIONS:
            for guard in self.ingresses.values():
                guard.learn_partitions(control)
        if control.kind in (*_OF_TIME, PARTITIONS, PLAN):
            return  # no operator hears of it
        if control.kind == BUDGET:
            self._budget_ns = control.detail.get("ns")
        elif control.kind == STATISTICS:
            self._learn(control.detail["operators"])
        elif control.kind == POLICY:
            named = {name: value for name, value in control.detail.items() if name != "name"}
            self._decided_policy = control.detail["name"], named
            self._use_policy(*self._decided_policy)
        # A decision may name the operators it is for; the name is no part of what they hear.
        meant = control.detail.get("to", self._running)
        heard = replace(control, detail={key: value for key, value in control.detail.items() if key != "to"})
        for node, running in self._running.items():
            if node in meant:
                self._emit(running, running.operator.on_control(heard), self._arrival())

    def _learn(self, operators: Mapping[str, Sequence[Mapping[str, Any] | None]]) -> None:
        """Other prices, by operator and port; None: as before."""
        for node, told in operators.items():
            known = self._prices.get(node)
            if known is not None:
                self._prices[node] = with_news(known, told)
        self._replan()

    def _use_policy(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Queues stay as they are: a strategy serves whatever waits, wherever it does."""
        self._policy_name = name
        self.policy = self._make_policy(name, parameters)
        self.policy.plan(self._plan())
        # Asked for every element that comes in, so looked up once.
        self._hears_arrivals = self.policy if isinstance(self.policy, HearsArrivals) else None
        self._cuts_arrivals = self.policy if isinstance(self.policy, CutsArrivals) else None

    def _replan(self) -> None:
        plan = self._plan()
        self.work.replan(plan)
        self.policy.plan(plan)

    def _plan(self) -> WorkPlan:
        """What strategies know."""
        return self.graph.work_plan({node: self._prices[node] for node in self._running})

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
        for node, running in self._running.items():
            if reached.get(node, NEVER) != NEVER:
                told = Control(control.epoch, ENDED_AT, {"ts": reached[node]})
                self._emit(running, running.operator.on_control(told), self._arrival())

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

    def _arrival(self, since_ns: int | None = None) -> Item:
        """A mark for what comes from outside now: what is made of it inherits its age."""
        self._arrivals += 1
        return Item(0, End(), self.work.now_ns if since_ns is None else since_ns, self._arrivals)

    def _enter(self, entry: str, element: Element | Quarantined, since_ns: int | None = None) -> None:
        if not isinstance(element, Quarantined):
            places = self.graph.consumers.get((entry, ""), ())
            for piece in self._pieces(places, element):
                origin = self._arrival(since_ns)
                self._send((entry, ""), piece, origin)
                if self._hears_arrivals is not None:
                    for target, number in places:
                        self._hears_arrivals.on_arrival(
                            target, Item(number, piece, origin.since_ns, origin.number), self.work.now_ns
                        )
        elif element.reason == LATE:
            self._refuse(entry, self._judged((entry, ""), element))
        else:
            self._refuse(entry, [element])

    def _pieces(self, places: Sequence[Place], element: Element) -> Iterator[Element]:
        """What comes in, as the strategy wants it cut."""
        if not isinstance(element, Batch) or self._cuts_arrivals is None:
            yield element
            return
        edges = [0, *self._cuts_arrivals.cut(places, element), element.num_rows]
        for begin, end in pairwise(edges):
            yield element.slice(begin, end - begin) if end - begin < element.num_rows else element

    def _refuse(self, owner: str, found: Sequence[Quarantined]) -> None:
        self._refused += found
        for item in found:
            self._set_aside.setdefault(owner, Counter())[item.reason] += item.batch.num_rows

    def _judged(self, port: Port, late: Quarantined) -> list[Quarantined]:
        """What the operators for which they were meant say of late rows."""
        pieces = [late]
        for target, _ in self.graph.consumers.get(port, ()):
            running = self._running.get(target)
            if running is None:
                continue
            if isinstance(running.operator, JudgesLate):
                pieces = [part for piece in pieces for part in running.operator.judge_late(piece)]
            elif isinstance(running.operator, PassesRows):
                pieces = [part for piece in pieces for part in self._judged((target, ""), piece)]
        return pieces

    def _send(self, port: Port, element: Element, origin: Item) -> None:
        """Hand on an element; it waits since `origin` does."""
        for target, number in self.graph.consumers.get(port, ()):
            running = self._running.get(target)
            if running is None or (isinstance(element, End) and element.query and element.query not in running.node.queries):
                continue
            admitted = element
            if isinstance(element, Batch) and (target, number) in self.gates:
                admitted = self.gates[target, number].admit(element)
                running.shed += element.num_rows - admitted.num_rows
                if not admitted.num_rows:
                    continue
            self.work.add(target, Item(number, admitted, origin.since_ns, origin.number))
        for output in self._outputs_of.get(port, ()):
            self._answer(output, port[0], element, origin.since_ns)

    def _answer(self, output: str, maker: str, element: Element, since_ns: int) -> None:
        if isinstance(element, Batch):
            if output in self._times:
                element = self._of_use(output, maker, element, since_ns)
                if not element.num_rows:
                    return
            self._answer_rows += element.num_rows
        self._answers.append(Answer(output, element, since_ns, self.work.now_ns))

    def _of_use(self, query: str, maker: str, answers: Batch, since_ns: int) -> Batch:
        """Answers of a query, without late ones if it does not want them."""
        terms, now_ns = self.graph.terms.get(query, Terms()), self.work.now_ns
        self._times[query].add(answers, terms, since_ns, self._batch_ns, now_ns)
        if terms.late is not LateAnswers.KEEP and terms.has_validity:
            answers, late = without_late(query, answers, terms, since_ns, now_ns)
            self._refuse(maker, late)
        return timed(answers, terms, since_ns, now_ns) if query in self.graph.timed else answers

    def _emit(self, running: _Running, elements: Iterable[Element | Quarantined | Routed], origin: Item) -> None:
        for element in elements:
            if isinstance(element, Quarantined):
                self._refuse(running.node.id, [element])
                continue
            output, plain = (element.output, element.element) if isinstance(element, Routed) else ("", element)
            if isinstance(plain, Batch):
                if not plain.num_rows:
                    continue
                running.rows_out += plain.num_rows
                running.measures[origin.port].rows_out += plain.num_rows
            for port in self._ports(running.node.id, output):
                self._send(port, plain, origin)

    def _ports(self, node: str, output: str) -> list[Port]:
        """A routed element goes to its output, any other to all outputs of the node."""
        if output:
            return [(node, output)]
        named = {port for port in (*self.graph.consumers, *self._outputs_of) if port[0] == node}
        return sorted(named) or [(node, "")]

    def _process(self, running: _Running, item: Item) -> Iterator[None]:
        """One element; its price passes on the clock of priced work before what it makes is handed on."""
        started = self.clock()
        element = item.element
        if isinstance(element, Batch):
            running.rows_in += element.num_rows
            results = running.operator.on_batch(item.port, element)
        elif isinstance(element, End):
            results = self._ended(running, element)
        else:
            results = running.operator.on_metadata(item.port, element)
        spent = self.clock() - started
        self.work.now_ns += self._prices[running.node.id][item.port].of(item.rows)
        if isinstance(results, Iterator):
            spent += yield from self._emit_piecewise(running, results, item)
        else:
            self._emit(running, results, item)
        running.nanoseconds += spent
        running.measures[item.port].add(item, spent)
        if self._answer_rows > ANSWER_ROWS:
            yield
        if isinstance(element, End):
            self._retire(running, element)

    def _emit_piecewise(
        self, running: _Running, results: Iterator[Element | Quarantined | Routed], origin: Item
    ) -> Generator[None, None, int]:
        """Results that do not fit into memory: each piece goes all the way before the next one is made, whatever the policy."""
        behind = self._behind(running.node.id)
        spent = 0
        while True:
            started = self.clock()
            piece = next(results, None)
            spent += self.clock() - started
            if piece is None:
                return spent
            self._emit(running, [piece], origin)
            for other in behind:
                while other in self.work.waiting:
                    yield from self.serve(Choice(other))
            if self._answer_rows > ANSWER_ROWS:
                yield

    def _behind(self, node: str) -> list[str]:
        """The operators that get something of what a node emits, each behind those it hears from."""
        reached = {node}
        for other in self.graph.nodes:
            if any(source in reached for source, _ in other.sources):
                reached.add(other.id)
        return [other.id for other in self.graph.nodes if other.id in reached - {node} and other.id in self._running]

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _ended(self, running: _Running, end: End) -> Iterable[Element | Quarantined | Routed]:
        """Count the end on each port; the operator hears of it once, when all ports have it."""
        running.ended[end.query] = running.ended.get(end.query, 0) + 1
        if running.ended[end.query] < len(running.node.sources):
            return ()
        if end.query and len(running.live) > 1:
            return (end,)  # others still use this operator: its state is not final
        return (*running.operator.on_metadata(0, end), end)

    def _retire(self, running: _Running, end: End) -> None:
        if running.ended[end.query] < len(running.node.sources):
            return
        running.live = set() if not end.query else running.live - {end.query}
        if end.query and not running.live:
            del self._running[running.node.id]
            self._retired.add(running.node.id)
            self.work.drop(running.node.id)
            self._replan()

    # -- state, reports ----------------------------------------------------------------------------------------------

    @property
    def waiting_rows(self) -> int:
        return self.work.rows

    @property
    def is_idle(self) -> bool:
        """Whether no element waits in any queue."""
        return not self.work.waiting

    @property
    def nodes(self) -> tuple[str, ...]:
        """Operators that still run."""
        return tuple(self._running)

    def snapshot(self) -> State:
        policy = {"name": self._policy_name, "decided": self._decided_policy, "state": self.policy.snapshot()}
        meta: dict[str, Any] = {"budget": self._budget_ns, "policy": policy, "arrivals": self._arrivals}
        meta["prices"] = {node: [asdict(price) for price in self._prices[node]] for node in self._running}
        segments: dict[str, Any] = {}
        for node, running in self._running.items():
            part = prefixed(f"node:{node}", running.operator.snapshot())
            meta |= part.meta
            segments |= part.segments
            meta[f"work:{node}"] = self._save(running, segments)
        for name, ingress in self.ingresses.items():
            meta |= prefixed(f"entry:{name}", ingress.snapshot()).meta
        meta["next_segment"] = self._next_segment
        meta["crossed"] = dict(self.crossed)
        meta["retired"] = sorted(self._retired)
        meta["set_aside"] = {owner: dict(reasons) for owner, reasons in self._set_aside.items()}
        meta["times"] = {name: times.to_json() for name, times in self._times.items() if times.rows}
        return State(meta, segments)

    def _save(self, running: _Running, segments: dict[str, Any]) -> dict[str, Any]:
        node = running.node.id
        queue = self.work.waiting.get(node)
        return {
            "queue": save_queue(queue.items if queue is not None else (), segments, lambda: self._segment_name(node)),
            "rows": [running.rows_in, running.rows_out, running.nanoseconds], "ended": running.ended,
            "over": sorted(running.node.queries - running.live), **({"shed": running.shed} if running.shed else {}),
        }  # fmt: skip

    def _segment_name(self, node: str) -> str:
        name = f"queue:{node}/{self._next_segment}"
        self._next_segment += 1
        return name

    def restore(self, state: State) -> None:
        """Go on where a kernel stopped, perhaps one of another graph: what that did not have begins, what is gone is dropped."""
        self._next_segment = state.meta["next_segment"]
        self._budget_ns = state.meta["budget"]
        self._arrivals = state.meta["arrivals"]
        self._set_aside = {owner: Counter(reasons) for owner, reasons in state.meta.get("set_aside", {}).items()}
        self.crossed = dict(state.meta.get("crossed", {}))
        self._retired = set(state.meta.get("retired", ())) & self._running.keys()
        for node in self._retired:
            del self._running[node]
        self._restore_prices(state)
        for node, running in self._running.items():
            kept = self._kept("work", node, state)
            if kept:
                running.operator.restore(part_of(f"node:{kept}", state))
                self._load(running, state.meta[f"work:{kept}"], state)
        self._restore_policy(state.meta["policy"])
        for name, found in state.meta["times"].items():
            if name in self._times:
                self._times[name] = AnswerTimes.from_json(found)
        for name, ingress in self.ingresses.items():
            kept = self._kept("entry", name, state)
            if kept:
                ingress.restore(part_of(f"entry:{kept}", state))
            if kept not in ("", name):
                self._heirs.setdefault(kept, []).append(name)

    def _restore_prices(self, state: State) -> None:
        for node in self._running:
            known = state.meta["prices"].get(self._kept("work", node, state))
            if known is not None and len(known) == len(self._prices[node]):
                self._prices[node] = tuple(Price(**price) for price in known)
        self.work.replan(self._plan())

    def _restore_policy(self, saved: Mapping[str, Any]) -> None:
        """A strategy that a decision has named works on; else the one of this run does, and goes on if it is the same."""
        if saved["decided"] is not None:
            name, parameters = saved["decided"]
            self._decided_policy = name, parameters
            self._use_policy(name, parameters)
        else:
            self.policy.plan(self._plan())
        if saved["name"] == self._policy_name:
            self.policy.restore(saved["state"])

    def _kept(self, part: str, name: str, state: State) -> str:
        """Under which name the state has something for an operator or entry; empty if it has nothing."""
        while name and f"{part}:{name}" not in state.meta:
            name = self.graph.heirs.get(name, "")
        return name

    def _load(self, running: _Running, saved: Mapping[str, Any], state: State) -> None:
        running.rows_in, running.rows_out, running.nanoseconds = saved["rows"]
        running.shed = saved.get("shed", 0)
        running.ended, running.live = dict(saved["ended"]), set(running.node.queries - set(saved["over"]))
        self.work.drop(running.node.id)
        for item in load_queue(saved["queue"], state.segments):
            self.work.add(running.node.id, item)

    def driver_reports(self) -> dict[str, Any]:
        """What operators tell whoever decides about them, since the last call; once per micro-batch."""
        return {
            node: running.operator.driver_report()
            for node, running in self._running.items()
            if isinstance(running.operator, Steered)
        }

    def report(self) -> dict[str, Any]:
        """Levels and running totals per operator and entry; `arrived` are the rows of the last micro-batch.

        `holding` tells for entries of streams which source partition the others wait for.
        """
        operators = {
            node: {
                "rows_in": running.rows_in, "rows_out": running.rows_out, "ns": running.nanoseconds, **self._queue_counters(node),
                **({"shed": running.shed} if running.shed else {}), **running.operator.counters(),
            }
            for node, running in self._running.items()
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
        return {
            "operators": operators, "entries": entries, "set_aside": set_aside, "holding": holding, "policy": self._policy_name,
            "batch_ns": self._batch_ns,
            "times": {name: times.to_json() for name, times in self._times.items() if times.rows},
        }  # fmt: skip

    def _queue_counters(self, node: str) -> dict[str, int]:
        """What waits for an operator; `queue_since_ns` since when."""
        queue = self.work.waiting.get(node)
        if queue is None:
            return {"queue_rows": 0}
        return {"queue_rows": queue.rows, "queue_bytes": queue.memory, "queue_since_ns": queue.head.since_ns}

    def measures(self) -> dict[str, list[list[int]]]:
        """What operators took in this micro-batch, by port; see `PortMeasure`."""
        return {
            node: [measure.to_json() for measure in running.measures]
            for node, running in self._running.items()
            if any(measure.calls for measure in running.measures)
        }
