"""Query graphs as numbers: what operators cost, how much they pass on, who feeds whom. For simulations of schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PortSketch:
    """One input of an operator.

    Parameters
    ----------
    source
        A stream or an operator.
    row_ns
        Time for a row.
    selectivity
        Rows out for a row in.
    row_bytes
        Of a row that waits here.
    """

    source: str
    row_ns: float
    selectivity: float
    row_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorSketch:
    """An operator with its inputs: one, or two for a join of streams."""

    id: str
    kind: str
    ports: tuple[PortSketch, ...]


@dataclass(frozen=True, slots=True)
class QuerySketch:
    """A query whose answers leave at an operator.

    Parameters
    ----------
    weight
        What its answers in time are worth, compared with those of others.
    """

    id: str
    operator: str
    weight: float = 1.0


@dataclass(frozen=True)
class QueryGraph:
    """Operators in topological order, each fed by streams or by operators before it.

    Parameters
    ----------
    shares
        Of all rows that come, by stream; they add up to 1.
    validity_s
        How long rows of a stream are of use; streams that are not named: for ever.
    """

    operators: tuple[OperatorSketch, ...]
    queries: tuple[QuerySketch, ...]
    shares: Mapping[str, float]
    validity_s: Mapping[str, float]

    @cached_property
    def consumers(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """(operator, port) pairs fed by each stream or operator."""
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in (*self.shares, *(item.id for item in self.operators))}
        for operator in self.operators:
            for number, port in enumerate(operator.ports):
                found[port.source].append((operator.id, number))
        return {source: tuple(places) for source, places in found.items()}

    @cached_property
    def outputs_per_row(self) -> Mapping[str, Mapping[str, float]]:
        """By stream: rows of each operator's output for a row that enters."""
        return {stream: self._flow(stream)[0] for stream in self.shares}

    @cached_property
    def work_ns(self) -> Mapping[str, float]:
        """By stream: time that a row needs in all operators it reaches, on average."""
        return {stream: self._flow(stream)[1] for stream in self.shares}

    def _flow(self, stream: str) -> tuple[dict[str, float], float]:
        flowing, work = {stream: 1.0}, 0.0
        for operator in self.operators:
            arriving = [flowing.get(port.source, 0.0) for port in operator.ports]
            work += sum(rows * port.row_ns for rows, port in zip(arriving, operator.ports, strict=True))
            flowing[operator.id] = sum(rows * port.selectivity for rows, port in zip(arriving, operator.ports, strict=True))
        del flowing[stream]
        return flowing, work

    def rates(self, load: float) -> dict[str, float]:
        """Rows per second of each stream that keep one processor busy for this share of the time."""
        work = sum(share * self.work_ns[stream] for stream, share in self.shares.items())
        return {stream: load * share * SECOND_NS / work for stream, share in self.shares.items()}

    def load(self, rates: Mapping[str, float]) -> float:
        """Share of the time for which rates keep one processor busy."""
        return sum(rate * self.work_ns[stream] for stream, rate in rates.items()) / SECOND_NS

    def costing(self, load: float, rates: Mapping[str, float]) -> QueryGraph:
        """The same graph with operators so slow that rates keep one processor busy for this share of the time."""
        factor = load / self.load(rates)
        slower = tuple(
            replace(operator, ports=tuple(replace(port, row_ns=port.row_ns * factor) for port in operator.ports))
            for operator in self.operators
        )
        return replace(self, operators=slower)

    def to_csv(self) -> str:
        """A line for every input of every operator, for people and other programs.

        Examples
        --------
        >>> select = OperatorSketch("q1.1", "select", (PortSketch("s1", 200_000.0, 0.25, 100),))
        >>> print(QueryGraph((select,), (QuerySketch("q1", "q1.1"),), {"s1": 1.0}, {}).to_csv(), end="")
        operator,kind,port,source,microseconds,selectivity,bytes,answers
        q1.1,select,0,s1,200,0.25,100,q1
        """
        answers: dict[str, list[str]] = {}
        for query in self.queries:
            answers.setdefault(query.operator, []).append(query.id)
        lines = ["operator,kind,port,source,microseconds,selectivity,bytes,answers"]
        lines += [
            f"{operator.id},{operator.kind},{number},{port.source},{port.row_ns / 1000:.6g},{port.selectivity:.4g},"
            f"{port.row_bytes},{' '.join(answers.get(operator.id, ()))}"
            for operator in self.operators
            for number, port in enumerate(operator.ports)
        ]
        return "\n".join(lines) + "\n"
