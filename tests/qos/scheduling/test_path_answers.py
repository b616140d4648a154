"""The path that makes answers fastest goes first."""

from __future__ import annotations

from penstock.kernel.work import Terms
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.testing.scheduling import drained, line, operator, per_unit, plan_of, waiting


def order(policy: PathAnswers, *names: str, terms: dict[str, Terms] | None = None) -> list[str]:
    lines = line("few", per_unit(9.0, 0.1)), line("many", per_unit(2.0, 1.0)), line("none", per_unit(99.0, 0.0))
    plan = plan_of(*(one for found in lines for one in found), terms=terms)
    policy.plan(plan)
    return drained(policy, waiting(plan, **dict.fromkeys(names, 1)))


def test_answers_per_time_count_and_what_makes_none_comes_last() -> None:
    assert order(PathAnswers(), "none1", "few1", "many1") == ["many1", "few1", "none1"]
    assert order(PathAnswers(), "none1") == ["none1"]


def test_answers_of_a_query_count_by_its_weight() -> None:
    assert order(PathAnswers(), "few1", "many1", terms={"few": Terms(weight=3)}) == ["few1", "many1"]


def test_answers_inside_a_path_and_for_several_queries_count() -> None:
    plan = plan_of(
        operator("a", per_unit(1.0, 1.0), to="b", entrances=(0,), answers="q r"),
        operator("b", per_unit(1.0, 0.5), answers="s"),
        *line("c", per_unit(1.2, 1.0)),
        *line("d", per_unit(1.3, 1.0)),
    )
    policy = PathAnswers()
    policy.plan(plan)
    assert drained(policy, waiting(plan, a=1, b=1, c1=1, d1=1)) == ["d1", "b", "a", "c1"]
    assert policy.explained()[2] == "2. path 'a', 'b': 1.25 answers/s, as a row makes 2.5 in 2 s"
