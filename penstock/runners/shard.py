"""One shard's part of one stage in one micro-batch: packets in; packets for later stages or the loop, answers, refused rows out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.kernel.executor import Answer, Kernel
from penstock.kernel.packets import Packet, PacketKind
from penstock.kernel.spreading import by_shard, lives_in, split_mark
from penstock.lowering.jobs import Exchange, Stage
from penstock.model.batch import Batch
from penstock.model.elements import NEVER, End, Heartbeat, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.qos.scheduling.table import make_policy
from penstock.runners.decisions import NO_DECISIONS, Decisions
from penstock.runners.queue_shedding import queue_shedders


@dataclass(slots=True)
class StepResult:
    """What leaves a shard after one micro-batch."""

    #: (shard of the next stage, packet)
    forward: list[tuple[int, Packet]] = field(default_factory=list)
    #: The same for rows that come back to this stage, in the next micro-batch; only what is news.
    loop: list[tuple[int, Packet]] = field(default_factory=list)
    answers: list[tuple[str, Batch]] = field(default_factory=list)
    refused: list[Quarantined] = field(default_factory=list)


def make_kernel(
    stage: Stage, policy: str, shard: int, shards: int, clock: Callable[[], int] = time.perf_counter_ns, spill: Path | None = None
) -> Kernel:
    return Kernel(stage.graph, make_policy, policy, clock, shard, shards, spill)


def step(
    kernel: Kernel, stage: Stage, shard: int, shards: int, packets: Iterable[Packet], now_ns: int = 0,
    decisions: Decisions = NO_DECISIONS,
) -> StepResult:  # fmt: skip
    """Run one micro-batch of one shard; `now_ns` is its time."""
    whole = StepResult()
    for part in steps(kernel, stage, shard, shards, packets, now_ns, decisions):
        whole.forward += part.forward
        whole.loop += part.loop
        whole.answers += part.answers
        whole.refused += part.refused
    return whole


def steps(
    kernel: Kernel, stage: Stage, shard: int, shards: int, packets: Iterable[Packet], now_ns: int = 0,
    bound: Decisions = NO_DECISIONS,
) -> Iterator[StepResult]:  # fmt: skip
    """The same in pieces where there are more answers than memory should hold; in nearly every micro-batch there is one piece.

    What crosses to other shards, and what is refused, is in the last one.

    Parameters
    ----------
    bound
        What is decided for this micro-batch alone.
    """
    mine: list[Packet] = []
    forward: list[tuple[int, Packet]] = []
    controls: list[Packet] = []
    for packet in packets:
        if packet.kind is PacketKind.CONTROL:
            controls.append(packet)
        elif packet.kind is not PacketKind.OUTPUT and (packet.entry in kernel.ingresses or stage.is_last):
            mine.append(packet)
        else:
            forward.append((shard, packet))
    decisions = [packet.control for packet in sorted(controls, key=lambda packet: packet.sequence) if packet.control is not None]
    kernel.gates = queue_shedders(bound.shed)
    kernel.feed(mine, decisions, now_ns)
    forward += [(shard, _with_reached(packet, kernel)) for packet in controls if not stage.is_last]
    crossing: dict[str, list[Answer]] = {output: [] for output in stage.exchanges}
    refused: list[Quarantined] = []
    for _ in kernel.steps():
        yield StepResult(answers=_taken(kernel, crossing, refused))
    last = StepResult(forward=forward, answers=_taken(kernel, crossing, refused), refused=refused)
    _leave(crossing, stage, shard, shards, kernel, last)
    yield last


def _taken(kernel: Kernel, crossing: Mapping[str, list[Answer]], refused: list[Quarantined]) -> list[tuple[str, Batch]]:
    """Answers that are ready; what crosses, and what is refused, goes to the others."""
    answers, more = kernel.take()
    refused += more
    ready: list[tuple[str, Batch]] = []
    for answer in answers:
        if answer.output in crossing:
            crossing[answer.output].append(answer)
        elif isinstance(answer.element, Batch):
            ready.append((answer.output, answer.element))
    return ready


def _with_reached(packet: Packet, kernel: Kernel) -> Packet:
    """A control for the next stage; the end of all streams says when their newest rows came."""
    control = packet.control
    if control is None or control.kind != "end" or control.detail.get("query"):
        return packet
    return replace(packet, control=replace(control, detail={**control.detail, "reached": kernel.reached(control)}))


def _leave(crossing: Mapping[str, list[Answer]], stage: Stage, shard: int, shards: int, kernel: Kernel, result: StepResult) -> None:
    for output, answers in crossing.items():
        exchange = stage.exchanges[output]
        packets = _cross(answers, exchange, shard, shards)
        if exchange.entry in kernel.ingresses:
            result.loop += _news(output, packets, kernel)
        else:
            result.forward += packets


def _news(output: str, packets: Iterable[tuple[int, Packet]], kernel: Kernel) -> Iterator[tuple[int, Packet]]:
    """What the receivers do not know yet: a packet that only repeats a frontier would keep the loop going for ever."""
    known = kernel.crossed.get(output, NEVER)
    for target, packet in packets:
        if packet.batch is not None or packet.marks or packet.ends or packet.frontier > known:
            yield target, packet
        kernel.crossed[output] = max(known, packet.frontier)


def _cross(answers: Sequence[Answer], exchange: Exchange, shard: int, shards: int) -> Iterator[tuple[int, Packet]]:
    """Spread a derived stream: this shard is one of its source partitions, and tells every receiver how far it has come."""
    elements = [answer.element for answer in answers]
    batches = [element for element in elements if isinstance(element, Batch)]
    since_ns = min((answer.since_ns for answer in answers if isinstance(answer.element, Batch)), default=0)
    frontier = max((element.ts for element in elements if isinstance(element, Heartbeat)), default=NEVER)
    marks: dict[int, list[Punctuation]] = {}
    for element in elements:
        if isinstance(element, Punctuation):
            announced = _announced(element, exchange, shard, shards)
            for target, share in split_mark(announced, exchange.keys, shards, exchange.schema):
                marks.setdefault(target, []).append(share)
    ends = tuple(element.query for element in elements if isinstance(element, End))
    shares = by_shard(Batch.concat(batches), exchange.keys, shards, shard) if batches else {}
    for target in range(shards):
        yield target, Packet(
            exchange.entry, PacketKind.ROWS, shard, 0, shares.get(target), frontier=frontier, marks=tuple(marks.get(target, ())),
            ends=ends, since_ns=since_ns,
        )  # fmt: skip


def _announced(mark: Punctuation, exchange: Exchange, shard: int, shards: int) -> Punctuation:
    """A derived stream's punctuation follows all its rows, and speaks for all shards if only this one has such rows."""
    only_here = any(lives_in(mark, keys, shard, shards, exchange.schema) for keys in exchange.sent_by)
    return Punctuation(mark.names, mark.patterns, mark.ts, 2**63 - 1, only_here)
