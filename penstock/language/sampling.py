"""COMPENSATE, `sampled_fraction()` and `sampling_error(…)`: what answers would be over all rows, where LOSS leaves some out.

Aggregates stay as they are where nothing is left out: what rows stand for beyond themselves is added to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import InvalidDeclaration, InvalidPlan, Place
from penstock.expressions.aggregates import AggregateCall, column_of, result_type
from penstock.expressions.nodes import Call, Column, Expr, Literal
from penstock.language.contract_clauses import LossText
from penstock.language.weights import Weighed, weighed
from penstock.model.drop_preferences import DropKind
from penstock.model.schema import Schema
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import scans_of

#: Functions of the select list; in a plan they are columns called by their text.
FRACTION, ERROR = "sampled_fraction", "sampling_error"
#: What the rows that are left can tell of all rows, and what they show as it is, because nothing better can be said.
_ESTIMATED, _UNCHANGED = ("count", "sum", "avg"), ("min", "max", "min_by", "max_by")

#: Decisions know shares to three digits: more could mean that no row is left.
_MOST_PERCENT = 99.9

_ZERO, _ONE = Literal(0.0, pa.float64()), Literal(1.0, pa.float64())
OF_SAMPLES = (FRACTION, ERROR)

_EXAMPLE = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 5 PERCENT COMPENSATE)"


@dataclass
class Sampling:
    """What the contract of a query says about loss, and whether its words have been made use of.

    Parameters
    ----------
    loss
        As written; None where nothing is.
    estimated
        Aggregates that COMPENSATE has scaled, in all selects of the query.
    """

    loss: LossText | None = None
    estimated: list[str] = field(default_factory=list)

    @property
    def compensates(self) -> bool:
        return self.loss is not None and self.loss.is_compensated

    def check(self, function: str, place: Place | None) -> None:
        """Refuse a function where no row is left out, where rows are not a fair sample, and an error of what is no estimate."""
        if self.loss is None:
            text = f"{function}() tells of rows that LOSS leaves out, and the query has no such contract"
            raise InvalidDeclaration(f"{text}; write for example {_EXAMPLE}", place)
        if self.loss.kind is not None and self.loss.kind.text != DropKind.RANDOM.name:
            text = f"with DROP {self.loss.kind.text} the rows that are left are no fair sample of all"
            raise InvalidDeclaration(f"{text}; {function}() needs DROP RANDOM", place)
        if function == ERROR and not self.compensates:
            text = f"{ERROR}(…) is the error of an estimate; without COMPENSATE counts and sums are those of the rows that are left"
            raise InvalidDeclaration(f"{text}. Write LOSS <= n PERCENT COMPENSATE", place)
        self.refuse_all()

    def refuse_all(self) -> None:
        """Refuse a contract that allows every row to be left out: there would be nothing to estimate from."""
        if self.loss is not None and float(self.loss.percent.text) > _MOST_PERCENT:
            text = f"what all rows would give is estimated from those that are left; LOSS must be at most {_MOST_PERCENT} PERCENT"
            raise InvalidDeclaration(text, self.loss.percent.place)

    def refuse_idle(self) -> None:
        """Refuse COMPENSATE where nothing is there to scale."""
        if self.compensates and self.loss is not None and not self.estimated:
            text = "COMPENSATE scales COUNT, SUM and AVG, and the query has none; leave it out"
            raise InvalidDeclaration(text, self.loss.word.place)


@dataclass(frozen=True)
class Estimates:
    """A grouping's input, and what stands instead of columns that it puts out."""

    node: Node
    replaced: Mapping[str, Expr] = field(default_factory=dict)
    names: tuple[str, ...] = ()


def fraction_of_row(node: Node, place: Place | None) -> tuple[Node, Expr]:
    """The plan with the weights of its rows, and the chance of a row to be there."""
    found = weighed(node, f"{FRACTION}()", place)
    return found.node, Call("/", (_ONE, found.weight))


@dataclass(frozen=True)
class Estimator:
    """What a grouping shows instead of its aggregates.

    Parameters
    ----------
    wants_fraction
        Whether `sampled_fraction()` is asked for.
    errors
        Aggregates whose error is asked for, by the column that shows it.
    in_rows
        Whether its window counts rows.
    """

    sampling: Sampling
    wants_fraction: bool
    errors: Mapping[str, AggregateCall]
    in_rows: bool
    place: Place | None

    def estimates(self, node: Node, calls: list[AggregateCall]) -> Estimates:
        """`calls` gets what the estimates are computed of."""
        scaled = [call for call in calls if self.sampling.compensates and self._is_scaled(call)]
        if not (scaled or self.errors or self.wants_fraction):
            return Estimates(node)
        self.sampling.refuse_all()
        if self.in_rows and (scaled or self.errors):
            text = "COMPENSATE cannot be used with a window that counts rows: it counts those that are left; use RANGE"
            raise InvalidPlan(text, self.place)
        if self.errors:
            self._refuse_dependent(node)
        found = weighed(node, "COMPENSATE" if scaled or self.errors else f"{FRACTION}()", self.place)
        self.sampling.estimated.extend(call.name for call in scaled)
        replaced = dict(self._replaced(found, scaled, calls))
        return Estimates(found.node, replaced, tuple(call.name for call in scaled))

    def _replaced(self, found: Weighed, scaled: list[AggregateCall], calls: list[AggregateCall]) -> Iterator[tuple[str, Expr]]:
        terms = _Terms(found.weight, found.node.schema, calls)
        for call in scaled:
            yield call.name, terms.estimate(call)
        for name, call in self.errors.items():
            yield name, terms.error(call)
        if self.wants_fraction:
            yield f"{FRACTION}()", terms.fraction()

    def _is_scaled(self, call: AggregateCall) -> bool:
        if call.distinct or call.function not in (*_ESTIMATED, *_UNCHANGED):
            text = f"COMPENSATE cannot estimate '{call}' from a part of the rows; only COUNT, SUM, AVG, MIN, MAX, MIN_BY, MAX_BY"
            raise InvalidPlan(f"{text} go with it. Compute '{call}' in a query of its own, without COMPENSATE", self.place)
        return call.function in _ESTIMATED

    def _refuse_dependent(self, node: Node) -> None:
        """Errors add up only over rows whose chances have nothing to do with each other."""
        streams = [scan.stream.name for scan in scans_of(node)]
        is_join = any(isinstance(part, WindowJoin) for part in _below(node))
        if is_join or len(set(streams)) < len(streams):
            what = "a join, whose pairs share rows" if is_join else "a stream that is read twice"
            text = f"{ERROR}(…) cannot be used over {what}: they stay or go together. Leave it out; the estimate itself is sound"
            raise InvalidPlan(text, self.place)


def _below(node: Node) -> Iterator[Node]:
    yield node
    for part in node.inputs:
        yield from _below(part)


@dataclass(frozen=True)
class _Terms:
    """Expressions over what a grouping puts out, whose aggregates are added to `calls`."""

    weight: Expr
    schema: Schema
    calls: list[AggregateCall]

    def estimate(self, call: AggregateCall) -> Expr:
        """The aggregate as it is, and as much more as the rows stand for beyond themselves; NULL where that is nothing."""
        if call.function == "avg":
            return self._average(call)
        more = self._over_lost(self._more, call, f"{call} left out")
        if result_type(call, self.schema) == pa.int64():
            more = Call("cast", (Call("round", (more,)),), pa.int64())
        return Call("coalesce", (Call("+", (Column(call.name), more)), Column(call.name)))

    def _average(self, call: AggregateCall) -> Expr:
        assert call.argument is not None
        is_known = _is_known(call.argument)
        lost = self._sum(_case(Call("and", (self._is_more, is_known)), self._more), f"count({call.argument}) left out")
        total = self._sum(Call("*", (self.weight, call.argument)), f"estimated sum({call.argument})")
        rows = self._sum(_case(is_known, self.weight), f"estimated count({call.argument})")
        return _case(_is_null(lost), Column(call.name), Call("/", (total, rows)))

    def error(self, call: AggregateCall) -> Expr:
        """The standard error of an estimate: each row that is there adds its square as often as rows like it are missing."""
        value = Call("*", (self.weight, self._more))
        if call.function == "sum" and call.argument is not None:
            value = Call("*", (value, call.argument))
        return Call("coalesce", (Call("sqrt", (self._over_lost(value, call, f"variance of {call}"),)), _ZERO))

    def fraction(self) -> Expr:
        """Rows that are there for each that has been there."""
        return Call("/", (column_of(AggregateCall("count"), self.calls), self._sum(self.weight, "estimated count(*)")))

    @property
    def _more(self) -> Expr:
        return Call("-", (self.weight, _ONE))

    @property
    def _is_more(self) -> Expr:
        return Call(">", (self.weight, _ONE))

    def _over_lost(self, value: Expr, call: AggregateCall, name: str) -> Expr:
        """The sum over rows that stand for others too, of values times what is added up; NULL, not 0, where there is no such row.

        So nothing is added to infinite values, or to a zero with a sign, that nobody has left out.
        """
        is_more = self._is_more
        if call.function == "sum":
            assert call.argument is not None
            value = Call("*", (value, call.argument))
        elif call.argument is not None:
            is_more = Call("and", (is_more, _is_known(call.argument)))
        return self._sum(_case(is_more, value), name)

    def _sum(self, value: Expr, name: str) -> Expr:
        return column_of(AggregateCall("sum", value, name=name), self.calls)


def _is_null(value: Expr) -> Expr:
    return Call("is_null", (value,))


def _is_known(value: Expr) -> Expr:
    return Call("not", (_is_null(value),))


def _case(condition: Expr, value: Expr, otherwise: Expr | None = None) -> Expr:
    return Call("case", (condition, value, *(() if otherwise is None else (otherwise,))))
