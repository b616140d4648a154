"""Where a stream enters a shard: order, lateness, violations, alignment of partitions, constraints; then clean elements.

Behind the ingress every promise holds: no row is older than an earlier heartbeat, none matches an earlier punctuation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import group_codes
from penstock.errors import BadRows, LateRows, PunctuationViolated
from penstock.kernel.contracts import State
from penstock.kernel.damage import shown
from penstock.kernel.edges import Edges, overlap
from penstock.kernel.frontiers import Frontiers, Holder
from penstock.kernel.packets import LAST, NOBODY, OVER, PAST, Packet, PacketKind
from penstock.kernel.sharding import foreign_run
from penstock.metadata.alignment import Alignment
from penstock.metadata.announcements import Announcements
from penstock.metadata.batches import follows_its_punctuation, merged
from penstock.metadata.derivation import UniqueAttribute
from penstock.metadata.scoped import ScopeBoard, coded, decoded
from penstock.model.batch import Batch
from penstock.model.declarations import Constraint, ConstraintKind, RowPolicy
from penstock.model.durations import duration_text
from penstock.model.elements import CLOCK, FOREVER, NEVER, Control, Element, End, Heartbeat, Quarantined
from penstock.model.masks import Mask, booleans
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation

#: Reason of rows older than what was promised.
LATE = "late"

_TOTALS = ("read", "filtered", "shed", "late", "after_end", "bad", "violating", "trusted", "used", "useless_punctuations")


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """What a shard must know to guard one entry; `constraints` are in entry names.

    `partitions` is the number of shards a derived stream comes from; 0 for the streams of sources. `key` is the column
    whose hash alone chose the shard, if there is one. `is_copied` if every shard gets every row: the first one then speaks for
    all where rows are counted or refused. `has_clock_time`: `disorder` is in microseconds. `has_order`: rows of a micro-batch
    come one after another. `is_partitioned`: rows name their source partition; `source_partitions` is how many of them there are
    at least, 0 where nobody knows. `idle_us` as in a declaration; `is_arrival`: event time is the time of arrival.
    """

    name: str
    stream: str
    schema: pa.Schema
    disorder: int = 0
    constraints: tuple[Constraint, ...] = ()
    on_late: RowPolicy = RowPolicy.QUARANTINE
    on_bad: RowPolicy = RowPolicy.QUARANTINE
    on_violation: RowPolicy = RowPolicy.ERROR
    partitions: int = 0
    key: str = ""
    is_copied: bool = False
    has_clock_time: bool = False
    has_order: bool = True
    is_partitioned: bool = False
    source_partitions: int = 0
    idle_us: int | None = None
    is_arrival: bool = False


class Ingress:
    """Guard of one entry in one shard of several."""

    def __init__(self, spec: EntrySpec, shard: int = 0, shards: int = 1) -> None:
        self.spec = spec
        self.frontiers = Frontiers(spec.disorder, spec.idle_us, spec.has_clock_time, spec.is_arrival)
        self.schema = Schema.from_arrow(spec.schema)
        self._widen = {spec.key: foreign_run(self.schema[spec.key].type, shard, shards)} if spec.key and shards > 1 else {}
        self._speaks = shard == 0 or not spec.is_copied
        self.alignment = Alignment((), self.schema, self._widen, spec.is_partitioned)
        self.closed = Announcements(self.schema, self._widen)
        self._edges = Edges(spec.schema.names)
        self.scopes = ScopeBoard()
        self._told: ScopedPunctuation | None = None
        self.ended: dict[str, set[int]] = {}
        self.totals = dict.fromkeys(_TOTALS, 0)
        #: Source partitions by a decision: the source was asked.
        self._decided = 0
        self._expect()

    def _expect(self) -> None:
        """Partitions that are known before they say anything: nothing holds before they have said so too."""
        declared = max(self.spec.source_partitions, self.spec.partitions, 0 if self.spec.is_partitioned else 1)
        known = range(max(declared, self._decided))
        self.frontiers.expect(len(known))
        self.alignment.expect(known)
        for partition in known:
            self.scopes.see_partition(partition)

    def admit(self, packets: Sequence[Packet]) -> list[Element | Quarantined]:
        """Elements of one micro-batch: rows, then what became known, then the frontier, then ends.

        Rows are judged by what was promised before the micro-batch; in which order its packets come makes no difference.
        """
        refused: list[Quarantined] = []
        found: list[tuple[Batch, Mask]] = []
        ordered = sorted(packets, key=lambda packet: (packet.partition, packet.sequence))
        for packet in ordered:
            self._count(packet)
        known = self._announced([packet for packet in ordered if packet.partition != NOBODY])
        past = _past(ordered)
        for packet in ordered:
            if packet.kind is PacketKind.BAD:
                refused.append(self._bad(packet))
            elif packet.batch is not None:
                batch = self._in_time(packet.batch, packet.partition, past.get(packet.partition, ()), refused)
                batch = self._expected_by_others(batch, packet.partition, known, refused)
                is_broken = packet.kind is PacketKind.VIOLATING
                found.append((batch, np.full(batch.num_rows, is_broken) | self._closed_before(batch, packet.partition, known)))
        for packet in ordered:
            if packet.partition != NOBODY:
                self._advance(packet)
        self.alignment.set_idle(self.frontiers.idle)
        usable = self._grammatical(found, refused)
        for partition, marks in known.items():
            if self.alignment.missed_by(partition) is not None:
                for mark in marks:
                    self.alignment.confirm(partition, mark)
        released = [
            valid
            for partition, marks in known.items()
            for mark in self._useful(merged(marks))
            for valid in self.alignment.announce(partition, mark)
        ]
        # What is closed is remembered to detect violations.
        news = [mark for mark in merged([*released, *self._unique(usable)]) if self.closed.add(mark)]
        return [*refused, *usable, *news, *self._scoped(ordered), *self._heartbeat(), *self._ends(ordered)]

    def _advance(self, packet: Packet) -> None:
        """What a piece of a partition says about time: its rows, its host, and punctuations in it."""
        if packet.last >= packet.sequence:
            self.frontiers.touch(packet.partition)
        self.frontiers.advance(packet.partition, packet.newest, packet.frontier)
        for last, _, is_global in packet.edges.get(PAST, ()):
            self.frontiers.state(last + 1, None if is_global else packet.partition)
        if OVER in packet.edges:
            self.frontiers.end(None if packet.edges[OVER] else packet.partition)

    def _closed_before(self, batch: Batch, partition: int, known: Mapping[int, Sequence[Punctuation]]) -> Mask:
        """Rows that match a punctuation before them: of an earlier micro-batch, or at a smaller position of their partition."""
        wrong = self.closed.mask(_columns(batch), batch.num_rows)
        return wrong | self._against_own_word(batch, partition, known)

    def _against_own_word(self, batch: Batch, partition: int, known: Mapping[int, Sequence[Punctuation]]) -> Mask:
        wrong = np.zeros(batch.num_rows, np.bool_)
        if len(self.alignment.partitions) > 1:  # what a single partition says is closed at once
            wrong |= self.alignment.announced_by(partition).mask(_columns(batch), batch.num_rows)
        among_rows = [mark for mark in known.get(partition, ()) if mark.pos != LAST]
        return wrong | follows_its_punctuation(batch, among_rows) if among_rows else wrong

    def _expected_by_others(
        self, batch: Batch, partition: int, known: Mapping[int, Sequence[Punctuation]], refused: list[Quarantined]
    ) -> Batch:
        """The rows but those that others had announced not to come, before this partition was known or while it was idle.

        They break no promise of their partition, and cannot be used either: their values have been reported and forgotten.
        """
        missed = self.alignment.missed_by(partition)
        if missed is None or self.spec.on_violation is RowPolicy.TRUST:
            return batch
        late = missed.mask(_columns(batch), batch.num_rows) & ~self._against_own_word(batch, partition, known)
        if not late.any():
            return batch
        if self._speaks:
            why = "match a punctuation that all other partitions had announced before this one was heard of"
            refused.append(self._late(batch.filter(late), partition, why))
        return batch.filter(~late)

    def _announced(self, packets: Sequence[Packet]) -> dict[int, list[Punctuation]]:
        """What the pieces of each source partition say, one by one and together."""
        known = {}
        for partition, same in groupby(packets, lambda packet: packet.partition):
            pieces = list(same)
            said = [mark for packet in pieces for mark in packet.marks]
            known[partition] = [*said, *self._edges.together(partition, [packet for packet in pieces if packet.edges])]
        return known

    def _count(self, packet: Packet) -> None:
        if packet.partition != NOBODY:
            self.alignment.see_partition(packet.partition)
        self.totals["read"] += packet.total
        self.totals["filtered"] += packet.filtered
        self.totals["shed"] += packet.shed

    def end(self) -> list[Element]:
        """The stream has ended: nothing comes any more."""
        self.frontiers.current = FOREVER
        return [Heartbeat(FOREVER)]

    def _ends(self, packets: Sequence[Packet]) -> list[Element]:
        """A query has ended here when it has in every shard that sends rows."""
        ended: list[Element] = []
        for packet in packets:
            for query in packet.ends:
                told = self.ended.setdefault(query, set())
                told.add(packet.partition)
                if len(told) == self.spec.partitions:
                    ended += [End(query)] if query else [*self.end(), End()]
        return ended

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _bad(self, packet: Packet) -> Quarantined:
        assert packet.batch is not None
        self.totals["bad"] += packet.batch.num_rows
        if packet.text:
            return Quarantined(packet.batch, packet.reason, packet.text, self.spec.stream)
        text = f"{packet.batch.num_rows} rows of stream '{self.spec.stream}' are {packet.reason}"
        if self.spec.on_bad is RowPolicy.ERROR:
            raise BadRows(f"{text}; repair the source, or declare ON BAD ROWS QUARANTINE", f"stream '{self.spec.stream}'")
        return Quarantined(packet.batch, packet.reason, text, self.spec.stream)

    def _late(self, batch: Batch, partition: int, why: str) -> Quarantined:
        if self.frontiers.current == FOREVER:
            return self._after_end(batch)
        self.totals["late"] += batch.num_rows
        text = f"{batch.num_rows} rows of stream '{self.spec.stream}' (source partition {partition}) {why}"
        if self.spec.on_late is RowPolicy.ERROR:
            advice = "declare a larger bound (WATERMARK … DELAY OF), or ON LATE ROWS QUARANTINE"
            raise LateRows(f"{text}; {advice}", f"stream '{self.spec.stream}'")
        return Quarantined(batch, LATE, text, self.spec.stream)

    @property
    def _bound(self) -> str:
        if self.spec.disorder == FOREVER:
            return "are older than what its host had promised before: Spark's watermark"
        if self.frontiers.is_stated:
            return "are older than what a heartbeat, a punctuation on the time, or the clock had promised before"
        bound = duration_text(self.spec.disorder) if self.spec.has_clock_time else self.spec.disorder
        return f"are older than the newest row of earlier micro-batches by more than the declared disorder bound of {bound}"

    def _after_end(self, batch: Batch) -> Quarantined:
        """The stream was declared ended, and its source still had rows: no fault of theirs, so never an error."""
        self.totals["after_end"] += batch.num_rows
        text = f"{batch.num_rows} rows of stream '{self.spec.stream}' were read after the stream was declared ended"
        return Quarantined(batch, "after-end", text, self.spec.stream)

    def _in_time(self, batch: Batch, partition: int, past: Sequence[tuple[int, int]], refused: list[Quarantined]) -> Batch:
        """The rows but late ones: older than promised before the micro-batch, or by a punctuation before them in it."""
        promise = self.frontiers.promise(partition)
        if not batch.num_rows or int(batch.ts.min()) >= max([promise, *(last + 1 for last, _ in past)]):
            return batch
        late = batch.ts < promise
        for last, position in past:
            late |= (batch.ts <= last) & (batch.pos > position)
        if not late.any():
            return batch
        if self._speaks:
            refused.append(self._late(batch.filter(late), partition, self._bound))
        return batch.filter(~late)

    # -- punctuations -------------------------------------------------------------------------------------------------

    def _grammatical(self, found: Sequence[tuple[Batch, Mask]], refused: list[Quarantined]) -> list[Batch]:
        """One batch of the rows that match no earlier punctuation and repeat no unique value."""
        full = [(batch, wrong) for batch, wrong in found if batch.num_rows]
        if not full:
            return []
        batch = Batch.concat([batch for batch, _ in full])
        wrong = np.concatenate([wrong for _, wrong in full])
        for constraint in self.spec.constraints:
            if constraint.kind is ConstraintKind.UNIQUE:
                wrong |= _repeats(batch, constraint.column, wrong)
        good = self._violating(batch, wrong, refused) if wrong.any() else batch
        self.totals["used"] += good.num_rows if self._speaks else 0
        return [good] if good.num_rows else []

    def _violating(self, batch: Batch, wrong: Mask, refused: list[Quarantined]) -> Batch:
        count = int(wrong.sum())
        self.totals["violating"] += count if self._speaks else 0
        text = f"{count} rows of stream '{self.spec.stream}' match a punctuation that came before them"
        if self.spec.on_violation is RowPolicy.ERROR:
            first = batch.filter(wrong).slice(0, 1)
            raise PunctuationViolated(
                f"{text}, first {shown(first.rows)[0]}; repair the source, or declare ON VIOLATION QUARANTINE or TRUST",
                f"stream '{self.spec.stream}', position {int(first.pos[0])}",
            )
        if self.spec.on_violation is RowPolicy.TRUST:
            self.totals["trusted"] += count if self._speaks else 0
            return batch.take(np.argsort(batch.pos, kind="stable"))  # they came in packets of their own
        if self._speaks:
            refused.append(Quarantined(batch.filter(wrong), "punctuation-violated", text, self.spec.stream))
        return batch.filter(~wrong)

    def _useful(self, marks: Sequence[Punctuation]) -> list[Punctuation]:
        """Punctuations that announce something new; the others are counted."""
        found = [mark for mark in marks if not (mark.is_empty or self.closed.covers(mark))]
        self.totals["useless_punctuations"] += len(marks) - len(found)
        return found

    def _unique(self, batches: Sequence[Batch]) -> list[Punctuation]:
        columns = [constraint.column for constraint in self.spec.constraints if constraint.kind is ConstraintKind.UNIQUE]
        return [mark for batch in batches for column in columns for mark in UniqueAttribute(column).derive(batch.rows, batch.pos)]

    def _scoped(self, packets: Sequence[Packet]) -> list[Element]:
        """What is announced about the next rows, when that changes; statements about a probable end pass at once."""
        probable: list[Element] = []
        for partition, same in groupby(packets, lambda packet: packet.partition):
            if partition == NOBODY:
                continue
            self.scopes.see_partition(partition)
            pieces = [packet for packet in same if packet.kind is PacketKind.ROWS]
            told = [packet.edges.get("scope:", (0, ())) for packet in pieces]
            if not self.spec.has_order or overlap(pieces):
                # Any row may have come behind a scope: what is left behind all of them is sure.
                told = [(0, [scope for _, left in told for scope in left]), (sum(passed for passed, _ in told), ())]
            for passed, left in told:
                self.scopes.pass_rows(partition, passed)
                for statement in map(decoded, left):
                    probable += self._scope(partition, statement)
        current = self.scopes.current()
        if current == self._told:
            return probable
        # Rows that only use a scope up are no news: the operator counts them itself.
        changed = current is None or self._told is None or current.patterns != self._told.patterns
        self._told = current
        return [*probable, (current or ScopedPunctuation.nothing_known()).to_herald()] if changed else probable

    def _scope(self, partition: int, statement: ScopedPunctuation) -> list[Element]:
        if statement.is_positive:
            if statement.rows:
                self.scopes.announce(partition, statement)
            return []
        agreed = self.scopes.doubt(partition, statement)
        return [] if agreed is None else [agreed.to_herald()]

    # -- progress -----------------------------------------------------------------------------------------------------

    def hear(self, decisions: Sequence[Control]) -> list[Element]:
        """What follows from decisions about time; they hold behind the rows of their micro-batch."""
        for decision in decisions:
            self._obey(decision)
        released = merged(self.alignment.set_idle(self.frontiers.idle))
        news = [mark.extend(self.spec.schema.names) for mark in released if self.closed.add(mark)]
        return [*(replace(mark, pos=LAST) for mark in news), *self._heartbeat()]

    def _obey(self, decision: Control) -> None:
        detail = decision.detail
        if decision.kind == CLOCK:
            self.frontiers.pass_time(detail["us"], bool(detail.get("begins")))
        elif detail["stream"].lower() != self.spec.stream.lower():
            return
        elif detail.get("partition") is None:
            self.frontiers.state(detail["ts"])
        else:
            self.alignment.see_partition(detail["partition"])
            self.frontiers.state(detail["ts"], detail["partition"])

    def learn_partitions(self, decision: Control) -> None:
        """How many partitions a stream has: before the rows of the micro-batch, so that none of them is released too early."""
        if decision.detail["stream"].lower() == self.spec.stream.lower() and not self.spec.partitions:
            self._decided = max(self._decided, decision.detail["count"])
            self._expect()

    def holder(self) -> Holder | None:
        """The source partition that holds the stream back, if one does; shards that send a derived stream never do for long."""
        return self.frontiers.holder() if not self.spec.partitions else None

    def follow(self, ts: int) -> list[Element]:
        """The stream is idle, and those it meets have come so far without it."""
        return self._heartbeat(ts)

    def _heartbeat(self, followed: int = NEVER) -> list[Element]:
        before = self.frontiers.current
        self.frontiers.follow(followed)
        now = self.frontiers.release()
        return [Heartbeat(now)] if now > before else []

    def snapshot(self) -> State:
        return State(
            {
                "frontiers": self.frontiers.snapshot(),
                "alignment": self.alignment.to_json(),
                "closed": self.closed.to_json(),
                **self._edges.to_json(),
                "scopes": self.scopes.to_json(),
                "told": None if self._told is None else coded(self._told),
                "ended": {query: sorted(told) for query, told in self.ended.items()},
                "totals": dict(self.totals),
                "decided": self._decided,
            }
        )

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self.frontiers.restore(meta["frontiers"])
        self.alignment = Alignment.from_json(meta["alignment"], self.schema, self._widen, self.spec.is_partitioned)
        self.closed = Announcements.from_json(meta["closed"], self.schema, self._widen)
        self._edges.restore(meta)
        # Shards saved before there were scopes have none of these.
        self.scopes = ScopeBoard.from_json(meta["scopes"]) if "scopes" in meta else ScopeBoard()
        self._told = decoded(meta["told"]) if meta.get("told") else None
        self.ended = {query: set(told) for query, told in meta["ended"].items()}
        self.totals = {**dict.fromkeys(_TOTALS, 0), **meta["totals"]}
        self._decided = meta.get("decided", 0)
        self._expect()


def _past(packets: Sequence[Packet]) -> dict[int, list[tuple[int, int]]]:
    """For each partition the times up to which it has said that nothing follows, and where among its rows it has."""
    found: dict[int, list[tuple[int, int]]] = {}
    for packet in packets:
        for last, position, _ in packet.edges.get(PAST, ()):
            if position != LAST:
                found.setdefault(packet.partition, []).append((last, position))
    return found


def _columns(batch: Batch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.rows.columns, strict=True))


def _repeats(batch: Batch, column: str, wrong: Mask) -> Mask:
    """Rows whose value already stands in an earlier row of the batch that is not wrong; NULL repeats nothing."""
    values = batch.column(column)
    order = np.argsort(batch.pos, kind="stable")
    candidates = order[~wrong[order] & booleans(values.is_valid())[order]]
    _, first, _ = group_codes([values.take(pa.array(candidates))])
    repeated = np.zeros(batch.num_rows, np.bool_)
    repeated[candidates] = True
    repeated[candidates[first]] = False
    return repeated
