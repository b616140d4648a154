"""What the contracts of an application promise, and which rows they allow to be left out, in words and as data.

Examples
--------
>>> from penstock.language.application import parse_application
>>> from penstock.lowering.stages import build_job
>>> catalog = parse_application('''
...   CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
...   CREATE CQ dear WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST, LOSS <= 5 PERCENT DROP LOWEST price)
...     AS SELECT item, price FROM bid WHERE price > 100
... ''')
>>> print(*contract_lines(shown_contracts(build_job(catalog, 2))), sep="\\n")
query dear
. LATENCY <= 2.00 s MUST
. LOSS <= 5 %, when micro-batches take too long for a LATENCY … MUST
. of bid (bid@1.0) up to 5 % of the rows: those with the lowest price first
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.kernel.packing import READ
from penstock.lowering.jobs import Job
from penstock.lowering.looped import looped
from penstock.lowering.loss_paths import possible_places, query_paths
from penstock.lowering.sheddable import check_loss
from penstock.lowering.shedding import has_weights
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.model.qos import Expectation, Measure, Priority, QoSSpecification
from penstock.qos.contract_meter import amount
from penstock.qos.shedding.placement import PlacedShedder, QueryPath

_CLASSES = {Priority.MUST_SATISFY: "MUST", Priority.BEST_EFFORT: "BEST EFFORT", Priority.DONT_CARE: "DONT CARE"}
_RULES = {
    DropKind.LOWEST: "with the lowest {column} first",
    DropKind.HIGHEST: "with the highest {column} first",
    DropKind.CENTER: "whose {column} is nearest to {center} first",
    DropKind.OUTLIER: "whose {column} is farthest from {center} first",
}


@dataclass(frozen=True, slots=True)
class Losing:
    """Rows of an entry, and where some of them may be left out for a query.

    Parameters
    ----------
    operator
        In front of which they are left out; empty: before the shuffle, where the stream enters.
    most
        The greatest share.
    others
        Queries that lose the same rows.
    """

    entry: str
    stream: str
    operator: str
    most: float
    preference: DropPreference
    others: tuple[str, ...]

    def __str__(self) -> str:
        where = f", in front of {self.operator}," if self.operator else ""
        alike = f", for {', '.join(self.others)} too" if self.others else ""
        return f"of {self.stream} ({self.entry}){where} up to {_percent(self.most)} of the rows{alike}: {rule(self.preference)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": self.entry, "stream": self.stream, "operator": self.operator or None, "most": self.most,
            "others": list(self.others), **_preference_json(self.preference),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that are not left out for a query that allows loss, and why.

    Parameters
    ----------
    because_of
        Queries that get the same rows and do not allow it.
    column
        By which rows are to be chosen, and which these do not have.
    """

    entry: str
    stream: str
    because_of: tuple[str, ...] = ()
    column: str = ""

    def __str__(self) -> str:
        reads = "gets the same rows, and does" if len(self.because_of) == 1 else "get the same rows, and do"
        why = f"{', '.join(self.because_of)} {reads} not allow that"
        if self.column:
            why = f"it has no number '{self.column}'"
        elif not self.because_of:
            why = "nowhere do rows pass for this query alone"
        return f"{self.stream} ({self.entry}) loses no rows: {why}"

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": self.entry,
            "stream": self.stream,
            "because_of": list(self.because_of),
            "column": self.column or None,
            "text": str(self),
        }


@dataclass(frozen=True, slots=True)
class ShownContract:
    """The contract of one query.

    Parameters
    ----------
    losing, kept
        Of the rows that the query gets: where some may be left out, and where not although the query allows it.
    is_asked_for
        Whether any query of the application has a latency for which rows are left out.
    """

    query: str
    contract: QoSSpecification
    losing: tuple[Losing, ...]
    kept: tuple[Kept, ...]
    is_asked_for: bool

    @property
    def allows_loss(self) -> bool:
        return self.contract.max_relative_error > 0

    @property
    def is_loss_usable(self) -> bool:
        """Whether it can ever come to rows being left out for the contract."""
        return self.allows_loss and self.is_asked_for and bool(self.losing)

    @property
    def remarks(self) -> list[str]:
        """What stands in the way of LOSS."""
        if not self.allows_loss:
            return []
        found = list(map(str, self.kept))
        found += [
            f"queries of {item.stream} ({item.entry}) want to lose different rows, so any are left out"
            for item in self.losing
            if item.preference.kind is not self.contract.drop.kind
        ]
        if not self.is_asked_for:
            found.append("LOSS is never used: no query has a LATENCY … MUST")
        elif not self.losing:
            found.append("LOSS is never used: allow it in those queries too, or leave it out here")
        return found

    def lines(self) -> list[str]:
        told = [f"query {self.query}", *(f". {_promise(item)}" for item in self.contract.expectations)]
        if self.allows_loss:
            most = _percent(self.contract.max_relative_error)
            told.append(f". LOSS <= {most}, when micro-batches take too long for a LATENCY … MUST")
            told += [f". {item}" for item in self.losing]
        return [*told, *(f". but {text}" for text in self.remarks)]

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "promises": [_promise_json(item) for item in self.contract.expectations],
            "loss": self._loss_json() if self.allows_loss else None,
            "remarks": self.remarks,
        }

    def _loss_json(self) -> dict[str, Any]:
        return {
            "most": self.contract.max_relative_error,
            **_preference_json(self.contract.drop),
            "usable": self.is_loss_usable,
            "losing": [item.to_json() for item in self.losing],
            "kept": [each.to_json() for each in self.kept],
        }


def shown_contracts(job: Job) -> tuple[ShownContract, ...]:
    """The contracts of all queries.

    Raises
    ------
    InvalidDeclaration
        When a query allows loss that would make its answers wrong.
    """
    check_loss(job, job.contracts)
    paths = query_paths(looped(job), job.contracts)
    places = possible_places(looped(job), paths, lambda query: not has_weights(job, query))
    streams = {source.route.entry: source.route.stream.name for stage in job.stages for source in stage.sources}
    is_asked_for = any(map(_is_must_latency, job.contracts.values()))
    found = []
    for query, contract in job.contracts.items():
        mine = [path for path in paths if path.query == query] if contract.max_relative_error else []
        losing = [_losing(path, places[path.id], paths, contract, streams) for path in mine if path.id in places]
        kept = [_kept(path, paths, contract, streams) for path in mine if path.id not in places]
        found.append(ShownContract(query, contract, tuple(dict.fromkeys(losing)), tuple(dict.fromkeys(kept)), is_asked_for))
    return tuple(found)


def _losing(
    path: QueryPath, placed: PlacedShedder, paths: Sequence[QueryPath], contract: QoSSpecification, streams: Mapping[str, str]
) -> Losing:
    (entry, _), (operator, _) = path.steps[0], placed.place
    queries = {each.id: each.query for each in paths}
    others = tuple(sorted({queries[each] for each in placed.paths} - {path.query}))
    column = placed.drop.column.removeprefix(READ) if placed.drop.column is not None else None
    preference = replace(placed.drop, column=column, compensate=contract.drop.compensate, anywhere=contract.drop.anywhere)
    return Losing(entry, streams[entry], "" if operator == entry else operator, placed.capacity, preference, others)


def _kept(path: QueryPath, paths: Sequence[QueryPath], contract: QoSSpecification, streams: Mapping[str, str]) -> Kept:
    entry, _ = path.steps[0]
    if not path.max_error:
        return Kept(entry, streams[entry], column=contract.drop.column or "")
    forbidding = {other.query for other in paths if other.steps[0] == path.steps[0] and not other.max_error}
    return Kept(entry, streams[entry], tuple(sorted(forbidding - {path.query})))


def contract_lines(contracts: Iterable[ShownContract]) -> list[str]:
    """All contracts, one below the other."""
    return [line for contract in contracts for line in contract.lines()]


def rule(preference: DropPreference) -> str:
    """Which rows are left out, in words.

    Examples
    --------
    >>> rule(DropPreference(DropKind.CENTER, "price", mode=DropMode.RANGE))
    'those whose price is nearest to the mean first, so much of the range of its values'
    >>> rule(DropPreference(anywhere=True))
    'any, by their positions alone; also where answers become wrong instead of incomplete'
    """
    if preference.kind is DropKind.RANDOM:
        which = "any, by their positions alone"
    else:
        center = "the mean" if preference.center is None else f"{preference.center:g}"
        which = f"those {_RULES[preference.kind].format(column=preference.column, center=center)}"
        which += ", so much of the range of its values" if preference.mode is DropMode.RANGE else ""
    which += "; counts, sums and averages are estimated for all rows" if preference.compensate else ""
    return which + ("; also where answers become wrong instead of incomplete" if preference.anywhere else "")


def _is_must_latency(contract: QoSSpecification) -> bool:
    latency = contract.of(Measure.LATENCY)
    return latency is not None and latency.priority is Priority.MUST_SATISFY


def _promise(item: Expectation) -> str:
    """
    Examples
    --------
    >>> from penstock.model.qos import QoSGraph
    >>> _promise(Expectation(Measure.MEMORY, QoSGraph.of((0, 1e7, 500, 1e7), (500, 1e6, 500, 1e6)), Priority.BEST_EFFORT))
    'MEMORY <= 10.0 MB from 0 s to 500 s, then 1.0 MB from 500 s on BEST EFFORT'
    """
    sign = ">=" if item.measure is Measure.THROUGHPUT else "<="
    return f"{item.measure.value.upper()} {sign} {', then '.join(_pieces(item))} {_CLASSES[item.priority]}"


def _pieces(item: Expectation) -> Iterator[str]:
    pieces = item.graph.intervals
    if len({corner for piece in pieces for corner in (piece.y1, piece.y2)}) == 1:
        yield amount(item.measure, pieces[0].y1)
        return
    for piece in pieces:
        bound = amount(item.measure, piece.y1)
        if piece.y2 != piece.y1:
            bound += (
                f" falling to {amount(item.measure, piece.y2)}"
                if piece.y2 < piece.y1
                else f" rising to {amount(item.measure, piece.y2)}"
            )
        until = " on" if piece is pieces[-1] and piece.x1 == piece.x2 else f" to {piece.x2:g} s"
        yield f"{bound} from {piece.x1:g} s{until}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _promise_json(item: Expectation) -> dict[str, Any]:
    pieces = [[piece.x1, piece.y1, piece.x2, piece.y2] for piece in item.graph.intervals]
    return {"measure": item.measure.value, "class": item.priority.value, "pieces": pieces, "text": _promise(item)}


def _preference_json(preference: DropPreference) -> dict[str, Any]:
    return {
        "drop": preference.kind.value,
        "column": preference.column,
        "center": preference.center,
        "mode": preference.mode.value,
        "compensate": preference.compensate,
        "anywhere": preference.anywhere,
        "which": rule(preference),
    }
