"""All scheduling strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidDeclaration, suggestion
from penstock.kernel.contracts import Policy
from penstock.qos.scheduling.auto import Auto
from penstock.qos.scheduling.basic import Basic
from penstock.qos.scheduling.basic_deadline import BasicDeadline
from penstock.qos.scheduling.basic_profit_deadline import BasicProfitDeadline
from penstock.qos.scheduling.chain import Chain
from penstock.qos.scheduling.deadline import Deadline
from penstock.qos.scheduling.earliest_deadline import EarliestDeadline
from penstock.qos.scheduling.fifo import Fifo
from penstock.qos.scheduling.greedy import Greedy
from penstock.qos.scheduling.greedy_segment import GreedySegment
from penstock.qos.scheduling.parameters import (
    Parameter,
    duration_ns,
    number,
    one_of,
    size,
    values_of,
    weights,
    whole_number,
    yes_or_no,
)
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.path_share import PathShare
from penstock.qos.scheduling.profit import Profit
from penstock.qos.scheduling.profit_deadline import ProfitDeadline
from penstock.qos.scheduling.round_robin import TURNS, RoundRobin
from penstock.qos.scheduling.segment import Segment
from penstock.qos.scheduling.simple_segment import SimpleSegment
from penstock.qos.scheduling.starvation import StarvationFree
from penstock.qos.scheduling.threshold import NORMAL, Threshold
from penstock.qos.scheduling.weighted_round_robin import WeightedRoundRobin


@dataclass(frozen=True, slots=True)
class Strategy:
    """A row of the table.

    Parameters
    ----------
    description
        One line for people.
    make
        Makes the policy of the values of its own parameters.
    own
        Parameters that only this strategy has.
    starves
        Whether something could wait for ever if the oldest were not picked now and then; that is then done by default.
    by_deadline
        Whether it means nothing where no query says how long its answers are of use.
    """

    description: str
    make: Callable[..., Policy]
    own: tuple[Parameter, ...] = ()
    starves: bool = True
    by_deadline: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its own, and those that every strategy has."""
        every = 50 if self.starves else 0
        return (
            *self.own,
            Parameter("oldest_every", whole_number(0), every, "one of so many picks goes to what has waited longest; 0: none"),
            Parameter("max_age", duration_ns, None, "what has waited longer goes first, such as 10 seconds, > 0; not given: never"),
        )


def _auto(memory: int) -> Auto:
    return Auto(lambda: Threshold(memory=memory, normal="path_share"))


#: Of strategies that go by deadlines and profits.
_PROFIT = Parameter(
    "profit", one_of("answers", "weight"), "answers", "whether all answers of a query share its weight, or each earns it"
)
_PUBLISHED = Parameter("published", yes_or_no, False, "form fragments by the published rule, which may earn less")
_NL_DEADLINE = Parameter(
    "nl_deadline",
    one_of("path", "subtree"),
    "path",
    "an operator must end before the longest path behind it, or before all of them",
)
_RESCUE = (
    Parameter("save_both", yes_or_no, False, "also interrupt when what runs can wait, so that neither is late"),
    Parameter("guard", yes_or_no, False, "interrupt what cannot wait only for 1.3 times its profit per time"),
    Parameter("splitting", yes_or_no, True, "a batch is late when all its rows are, not when the oldest is"),
)
_PATIENT = Parameter("threshold", number(above=0), 1.3, "times the profit per time of what runs that interrupts it, > 0")
_GREEDY = Parameter("threshold", number(above=0), 0.65, "times the profit per time of what runs that interrupts it, > 0")
_DYNAMIC = Parameter("dynamic", yes_or_no, False, "multiply priorities by age and size of what waits; does not stop starvation")

POLICIES: Mapping[str, Strategy] = {
    "round_robin": Strategy(
        "Operators take turns, or paths, or queries; nothing waits long.",
        RoundRobin,
        (
            Parameter("slices", whole_number(1), 1, "slices served per visit, >= 1"),
            Parameter("over", one_of(*TURNS), "operators", f"who takes turns: {', '.join(TURNS)}"),
        ),
        starves=False,
    ),
    "weighted_round_robin": Strategy(
        "Operators take turns, those of queries with more weight more often.",
        WeightedRoundRobin,
        (
            Parameter(
                "weights", weights, None, "weights of queries by name, such as 'alerts=10, report=1', > 0; not given: their own"
            ),
        ),
        starves=False,
    ),
    "fifo": Strategy("What has waited longest first, through to its answers: the shortest tail of latency.", Fifo, starves=False),
    "greedy": Strategy("The operator that releases memory fastest first; for comparison.", Greedy, (_DYNAMIC,)),
    "chain": Strategy("The operator on the steepest part of its path first: short queues, late answers.", Chain, (_DYNAMIC,)),
    "path_capacity": Strategy(
        "The path that takes in rows fastest first: least mean latency per input row.", PathCapacity, (_DYNAMIC,)
    ),
    "path_answers": Strategy("The path that makes answers fastest first: least mean latency per answer.", PathAnswers, (_DYNAMIC,)),
    "path_share": Strategy(
        "The path that needs least of the processor first: as many queries as possible are up to date.", PathShare, (_DYNAMIC,)
    ),
    "greedy_segment": Strategy(
        "Segments that release memory fastest first, cut in one pass; for comparison.", GreedySegment, (_DYNAMIC,)
    ),
    "segment": Strategy("Segments that release memory fastest first: shortest queues.", Segment, (_DYNAMIC,)),
    "simple_segment": Strategy(
        "Two segments per path: queues almost as short, answers almost as soon.", SimpleSegment, (_DYNAMIC,)
    ),
    "threshold": Strategy(
        "Paths until queues take much memory, then segments until they take little.",
        Threshold,
        (
            Parameter("memory", size, ..., "for the queues of a shard, such as 200 MB, > 0"),
            Parameter(
                "beta", number(above=0.5, below=1), 0.9, "saving begins at this part of the memory at the latest, 0.5 < x < 1"
            ),
            Parameter("upper", size, None, "where saving begins, < memory; not given: calculated from the mean"),
            Parameter("lower", size, None, "where saving ends, < upper; not given: calculated from the mean"),
            Parameter("normal", one_of(*NORMAL), "path_capacity", f"what picks otherwise: {' or '.join(NORMAL)}"),
            _DYNAMIC,
        ),
    ),
    "earliest_deadline": Strategy("The earliest deadline first; needs queries with VALID FOR.", EarliestDeadline, by_deadline=True),
    "basic": Strategy("The operator with most profit for its own time first; for comparison.", Basic, (_PROFIT,)),
    "basic_deadline": Strategy(
        "What can wait least first, operator by operator; for comparison.",
        BasicDeadline,
        (_PATIENT, _NL_DEADLINE, *_RESCUE, _PROFIT),
        by_deadline=True,
    ),
    "basic_profit_deadline": Strategy(
        "Most profit per time first unless something else would be late, operator by operator; for comparison.",
        BasicProfitDeadline,
        (_GREEDY, _NL_DEADLINE, *_RESCUE, _PROFIT),
        by_deadline=True,
    ),
    "profit": Strategy("Most profit per time first, with all the work up to the answers.", Profit, (_PUBLISHED, _PROFIT)),
    "deadline": Strategy(
        "What can wait least first: for queries with VALID FOR, while the load can be served.",
        Deadline,
        (_PATIENT, _PUBLISHED, *_RESCUE, _PROFIT),
        by_deadline=True,
    ),
    "profit_deadline": Strategy(
        "Most profit per time first unless something else would be late: for queries with VALID FOR, under overload.",
        ProfitDeadline,
        (_GREEDY, _PUBLISHED, *_RESCUE, _PROFIT),
        by_deadline=True,
    ),
    "auto": Strategy(
        "By deadlines and load where queries have VALID FOR; else as many queries as possible are up to date.",
        _auto,
        (Parameter("memory", size, 256_000_000, "for the queues of a shard, such as 200 MB, > 0"),),
    ),
}


def weighted_queries(name: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Queries that the parameters of a strategy name.

    Examples
    --------
    >>> weighted_queries("weighted_round_robin", {"weights": "alerts=10, report=1"})
    ('alerts', 'report')
    """
    named = (parameter.name for parameter in POLICIES[name].own if parameter.read is weights and parameter.name in parameters)
    return tuple(query for parameter in named for query in weights(parameters[parameter]))


#: The strategy of applications that name none.
DEFAULT = "auto"


def make_policy(name: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """A strategy by its name.

    Examples
    --------
    >>> type(make_policy("round_robin", {"slices": 2})).__name__
    'RoundRobin'
    """
    strategy = POLICIES.get(name)
    if strategy is None:
        raise InvalidDeclaration(f"there is no scheduling strategy '{name}'; {suggestion(name, POLICIES)}")
    values = values_of(name, strategy.parameters, parameters or {})
    oldest_every, max_age_ns = values.pop("oldest_every"), values.pop("max_age")
    policy = strategy.make(**values)
    return StarvationFree(policy, oldest_every, max_age_ns) if oldest_every or max_age_ns else policy
