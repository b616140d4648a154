"""What a row that waits somewhere still sets going, what that costs, and what it earns.

A row at a port of an operator is the root of a tree of jobs: the operator's own and those behind it. So whatever has been done
already for an arrival, what is left of it is reckoned by the same rule. Everything is reckoned once per plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from penstock.kernel.work import Place, PlannedOperator, Price, WorkPlan
from penstock.qos.scheduling.opt_profit import Job, fragments
from penstock.qos.scheduling.trees import Step, trees

#: An operator that lets nothing pass may do so tomorrow; what lies behind it must not be forgotten.
LEAST_SELECTIVITY = 1e-6
#: Instead of a price of zero, which only means that it is not known.
UNKNOWN_NS = 1_000.0

#: Profit of an answer as a share of all answers of its query, or of a row that enters.
ProfitOf = Literal["answers", "weight"]
NlDeadline = Literal["path", "subtree"]


class Validity(NamedTuple):
    """Until when answers are of use; queries with the same one are late together."""

    after_event_us: int | None
    after_arrival_us: int | None


@dataclass(frozen=True, slots=True)
class Prospect:
    """A job, or several that run as one, for a row that waits at a place.

    Parameters
    ----------
    places
        Where the job leads: its own operator, and those behind it that belong to it.
    behind_ns
        Time in those behind.
    earnings
        For each validity that counts: its number, the profit of a row, and the time from the own operator to the answers.
    """

    places: tuple[Place, ...]
    behind_ns: float
    earnings: tuple[tuple[int, float, float], ...]


@dataclass(slots=True)
class Known:
    """All about a place.

    Parameters
    ----------
    tree
        What a row there sets going; its root is the operator itself.
    validities
        Those of the queries it leads to, as bits.
    """

    tree: Step
    price: Price
    validities: int
    #: By the validities that can still be met.
    prospects: dict[int, Prospect]


class Valuation(Protocol):
    """How jobs are formed and valued."""

    def prospect(self, tree: Step, validities: int, worth: Worth) -> Prospect:
        """The next job of a row at the root of a tree, if only answers with these validities count."""
        ...

    def explained(self, entrance: Step, known: Mapping[Place, Known], worth: Worth) -> Iterator[str]:
        """Lines for people about what rows at an entrance set going."""
        ...


class Worth:
    """Profits and validities of the queries of a plan.

    Parameters
    ----------
    arrivals
        Rows that came to each entrance, or none if that is not known; only their proportions count.
    """

    def __init__(self, plan: WorkPlan, profit: ProfitOf, arrivals: Mapping[Place, float]) -> None:
        self.plan = plan
        self._profit = profit
        self.validities: list[Validity] = []
        self._of_query: dict[str, int] = {}
        for query in dict.fromkeys(query for operator in plan.operators for query in operator.answers):
            terms = plan.terms_of(query)
            validity = Validity(terms.after_event_us, terms.after_arrival_us)
            if validity not in self.validities:
                self.validities.append(validity)
            self._of_query[query] = self.validities.index(validity)
        self.entrances = trees(plan)
        self._answers, self._reach = self._expected(arrivals)

    def _expected(self, arrivals: Mapping[Place, float]) -> tuple[dict[str, float], dict[Place, float]]:
        """Answers of each query for a row that enters anywhere; rows at each place for one that enters where it leads there."""
        shares = [arrivals.get((tree.operator, tree.port), 0.0) for tree in self.entrances]
        total = sum(shares)
        if not total:
            shares, total = [1.0] * len(self.entrances), float(len(self.entrances))
        answers: dict[str, float] = {}
        reach: dict[Place, list[float]] = {}
        for tree, share in zip(self.entrances, shares, strict=True):
            here: dict[Place, float] = {}
            for step in tree.walk():
                for query in step.answers:
                    answers[query] = answers.get(query, 0.0) + step.rows_out * share / total
                here[step.operator, step.port] = here.get((step.operator, step.port), 0.0) + step.reach
            for place, rows in here.items():
                reach.setdefault(place, []).append(rows)
        return answers, {place: sum(rows) / len(rows) for place, rows in reach.items()}

    @property
    def queries(self) -> list[str]:
        return list(self._of_query)

    def validity_of(self, query: str) -> int:
        return self._of_query[query]

    def profit_of(self, query: str, step: Step, place: Place) -> float:
        """Of a row at a place, for the answers of a query at a step behind it."""
        weight = self.plan.terms_of(query).weight
        if self._profit == "weight":
            return weight / (self._reach.get(place) or 1.0)
        return weight * step.rows_out / (self._answers.get(query) or 1.0)


def known_places(plan: WorkPlan, worth: Worth) -> dict[Place, Known]:
    """Trees of all places, whether rows can be there according to the plan or not."""
    everywhere = [replace(operator, entrances=tuple(range(len(operator.prices)))) for operator in plan.operators]
    known = {}
    for tree in trees(replace(plan, operators=tuple(everywhere))):
        validities = 0
        for step in tree.walk():
            for query in step.answers:
                validities |= 1 << worth.validity_of(query)
        known[tree.operator, tree.port] = Known(tree, tree.price, validities, {})
    return known


def usable(plan: WorkPlan) -> WorkPlan:
    """The same with prices that are not zero."""
    return replace(plan, operators=tuple(_usable(operator) for operator in plan.operators))


def _usable(operator: PlannedOperator) -> PlannedOperator:
    return replace(operator, prices=tuple(_usable_price(price) for price in operator.prices))


def _usable_price(price: Price) -> Price:
    row_ns = price.row_ns if price.share_ns > 0 else UNKNOWN_NS
    return replace(price, row_ns=row_ns, selectivity=max(price.selectivity, LEAST_SELECTIVITY))


@dataclass(frozen=True, slots=True)
class JobByJob:
    """Each operator by itself: the profit of all answers behind it for its own time (Basic).

    This counts a profit again at every operator on the way, and no time behind.
    """

    nl_deadline: NlDeadline = "path"

    def prospect(self, tree: Step, validities: int, worth: Worth) -> Prospect:
        place = tree.operator, tree.port
        profits: dict[int, float] = {}
        times: dict[int, float] = {}
        total = sum(step.time_ns for step in tree.walk()) - tree.time_ns
        for step, ends_ns in _with_times(tree, -tree.time_ns):
            for query in step.answers:
                number = worth.validity_of(query)
                if validities >> number & 1:
                    profits[number] = profits.get(number, 0.0) + worth.profit_of(query, step, place)
                    times[number] = max(times.get(number, 0.0), ends_ns) if self.nl_deadline == "path" else total
        return Prospect((place,), 0.0, tuple((number, profits[number], times[number]) for number in sorted(profits)))

    def explained(self, entrance: Step, known: Mapping[Place, Known], worth: Worth) -> Iterator[str]:
        for place in dict.fromkeys((step.operator, step.port) for step in entrance.walk()):
            tree = known[place].tree
            profit = sum(earning[1] for earning in self.prospect(tree, -1, worth).earnings)
            yield _line(tree.operator, tree.time_ns, profit, (query for step in tree.walk() for query in step.answers))


def _with_times(step: Step, before_ns: float) -> Iterator[tuple[Step, float]]:
    """Steps of a tree, and when they end if nothing but what leads to them is done."""
    ends_ns = before_ns + step.time_ns
    yield step, ends_ns
    for child in step.children:
        yield from _with_times(child, ends_ns)


@dataclass(frozen=True, slots=True)
class ByFragments:
    """What is best run as one: the part of the tree that earns most for its time (OptProfit)."""

    published: bool = False

    def prospect(self, tree: Step, validities: int, worth: Worth) -> Prospect:
        place = tree.operator, tree.port
        steps = list(tree.walk())
        first = fragments(_jobs(tree, steps, validities, worth), self.published)[0]
        behind_ns = float(first.cost) - tree.time_ns
        profits: dict[int, float] = {}
        for number in first.jobs:
            for query in steps[number].answers:
                validity = worth.validity_of(query)
                if validities >> validity & 1:
                    profits[validity] = profits.get(validity, 0.0) + worth.profit_of(query, steps[number], place)
        places = tuple(dict.fromkeys((steps[number].operator, steps[number].port) for number in first.jobs))
        return Prospect(places, behind_ns, tuple((number, profits[number], behind_ns) for number in sorted(profits)))

    def explained(self, entrance: Step, known: Mapping[Place, Known], worth: Worth) -> Iterator[str]:
        steps = list(entrance.walk())
        for number, fragment in enumerate(fragments(_jobs(entrance, steps, -1, worth), self.published), 1):
            names = " → ".join(steps[job].operator for job in fragment.jobs)
            queries = (query for job in fragment.jobs for query in steps[job].answers)
            yield f"{number}. {_line(names, float(fragment.cost), float(fragment.profit), queries)}"


def _jobs(tree: Step, steps: Sequence[Step], validities: int, worth: Worth) -> list[Job]:
    place = tree.operator, tree.port
    found: list[Job] = []
    #: Of the last step seen at each depth, as a walk goes down before it goes on.
    last: list[int] = []
    for number, step in enumerate(steps):
        counted = (query for query in step.answers if validities >> worth.validity_of(query) & 1)
        profit = sum(worth.profit_of(query, step, place) for query in counted)
        depth = step.depth - tree.depth
        found.append(Job(step.time_ns, profit, last[depth - 1] if depth else None))
        last[depth:] = [number]
    return found


def _line(names: str, time_ns: float, profit: float, queries: Iterable[str]) -> str:
    answered = ", ".join(dict.fromkeys(queries)) or "nobody"
    return f"{names}: {time_ns / 1e3:.4g} µs and profit {profit:.4g} a row, {profit / time_ns * 1e6:.4g} a ms; for {answered}"
