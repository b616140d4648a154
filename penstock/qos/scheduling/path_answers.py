"""The path that makes answers fastest goes first."""

from __future__ import annotations

from functools import partial

from penstock.kernel.work import WorkPlan
from penstock.qos.scheduling.capacities import paths, per_ns, time_ns
from penstock.qos.scheduling.explanation import number_text, operators_text, per_second, time_text
from penstock.qos.scheduling.stretches import ServesStretches, Stretch, merged
from penstock.qos.scheduling.trees import Step


class PathAnswers(ServesStretches):
    """Serve the operator path from which the most answers come per unit of time; inside it, what is nearest to the answer.

    For a fixed backlog this order gives the least mean latency per answer, where `path_capacity` gives the least per input
    row. Choose it when queries of different selectivity compete; queues get longer. Answers of a query count by its weight.

    Notes
    -----
    Not in the book, whose path capacity is not best for the latency it measures.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6, (6.2).

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> policy = PathAnswers()
    >>> rare = PlannedOperator("rare", (Price(row_ns=100, selectivity=0.1),), entrances=(0,), answers=("alerts",))
    >>> policy.plan(WorkPlan((rare,)))
    >>> policy.explained()[0]
    "1. path 'rare': 1,000,000 answers/s, as a row makes 0.1 in 100 ns"
    """

    def stretches(self, plan: WorkPlan) -> list[Stretch]:
        return merged(_stretch(plan, tree) for tree in paths(plan))


def _stretch(plan: WorkPlan, tree: Step) -> Stretch:
    steps = tuple(tree.walk())
    answers = sum(step.rows_out * plan.terms_of(query).weight for step in steps for query in step.answers)
    return Stretch(steps, per_ns(answers, time_ns(steps)), partial(_figures, steps, answers), tree.price.rate)


def _figures(steps: tuple[Step, ...], answers: float) -> str:
    time = time_ns(steps)
    reason = f"as a row makes {number_text(answers)} in {time_text(time)}"
    names, rate = operators_text(step.operator for step in steps), per_ns(answers, time)
    return f"path {names}: {per_second(rate, 'answers')}, {reason}"
