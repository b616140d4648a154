"""The table of hints is what the operators take: names, defaults, legal values; options of published joins are refused by name."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from penstock.errors import InvalidConfiguration, SyntaxMistake
from penstock.language.application import parse_application
from penstock.lowering.filters import filter_settings
from penstock.lowering.joins import join_settings
from penstock.lowering.stages import build_job, startable
from penstock.model.hint_options import HINTS, RETIRED, HintValue, Option
from penstock.model.join_variants import JoinHint, JoinVariant
from penstock.model.order_hints import OrderHint
from penstock.operators.filtering.settings import FilterSettings, OrderSettings
from penstock.operators.joins.window_join import WindowJoin

_JOINS = [name for name in HINTS if name not in ("ORDER", "MJOIN", "APPROXIMATE")]
#: Read by the plan, not by the operator.
_OF_THE_PLAN = {"spread"}


def _names(hint: str) -> set[str]:
    return {option.name for option in HINTS[hint].options}


@pytest.mark.parametrize("hint", _JOINS)
def test_every_option_is_a_parameter_of_the_operator_with_its_default(hint: str) -> None:
    taken = inspect.signature(WindowJoin).parameters
    for option in HINTS[hint].options:
        if option.name not in _OF_THE_PLAN:
            assert option.name in taken
            # What a hint says of violations holds only where the stream trusts such rows.
            assert option.name == "on_violation" or option.default == taken[option.name].default


def test_every_parameter_of_filters_is_an_option_of_order() -> None:
    of_order = {item.name for item in fields(OrderSettings)} | {item.name for item in fields(FilterSettings)}
    assert _names("ORDER") == of_order - {"algorithm", "order"} | {"policy"}


def _some_values(option: Option) -> list[HintValue]:
    numbers = {bool: [True, False], int: [max(1, option.least), 7], float: [0.5], str: []}[option.kind]
    return [*option.words, *[int(value) if option.kind is int else value for value in numbers]]


@pytest.mark.parametrize("hint", list(HINTS))
def test_every_value_in_the_table_can_run_and_others_are_refused(hint: str) -> None:
    for option in HINTS[hint].options:
        for value in _some_values(option):
            _configured(hint, ((option.name, value),))
        for wrong in ("foo", -1.5, True if option.kind is not bool else 3):
            if not option.takes(wrong):
                with pytest.raises(InvalidConfiguration, match=f"{option.name} is .*; expected "):
                    _configured(hint, ((option.name, wrong),))


def _configured(hint: str, options: tuple[tuple[str, HintValue], ...]) -> Any:
    if hint == "ORDER":
        extra = (("max_age", 5),) if ("window", "time") in options else ()
        return filter_settings(OrderHint((*options, *extra)))
    return join_settings(JoinHint(JoinVariant[hint], options))


@pytest.mark.parametrize("hint", _JOINS)
@pytest.mark.parametrize("option", RETIRED)
def test_options_of_published_joins_are_refused_by_name(hint: str, option: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"'{option}' was an option of a published join.*leave it out"):
        JoinHint(JoinVariant[hint], ((option, 1),))


@pytest.mark.parametrize(("hint", "heeds"), [("PJOIN", True), ("PWJOIN", True), ("XJOIN", False), ("WJOIN", False)])
def test_what_a_proof_may_lean_on_is_what_the_join_does(hint: str, heeds: bool) -> None:
    given = JoinHint(JoinVariant[hint])
    assert given.heeds_punctuations is heeds
    assert join_settings(given).get("heeds_punctuations", True) is heeds


JOIN = """
CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ q AS SELECT /*+ {} */ a.k FROM a [{window} 5], b [{window} 5] WHERE a.k = b.k;
"""


@pytest.mark.parametrize("window", ["RANGE", "ROWS"])
@pytest.mark.parametrize(
    "hint", ["PWJOIN(memory_bytes = 5)", "PWJOIN(MEMORY_BYTES = 7, on_violation = 'error', max_drop_markers = 9)", "WJOIN()"]
)
def test_options_reach_every_kind_of_join(hint: str, window: str) -> None:
    catalog = parse_application(JOIN.format(hint, window=window))
    startable(catalog)
    for stage in build_job(catalog, 2).stages:
        for node in stage.graph.nodes:
            node.make()


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("PWJOIN(spread = )", "found nothing as the value of 'spread'"),
        ("PWJOIN(spread = maybe)", "found maybe as the value of 'spread'"),
        ("PWJOIN(spread = TRUE,)", "cannot be read"),
        ("PWJOIN(memory_bytes = 5, memory_bytes = 6)", "memory_bytes stands twice"),
        ("PWJOIN(on_violation = 'errors')", "on_violation is 'errors'; expected 'error', 'quarantine' or 'trust'"),
        ("PWJOIN(memory_bytes = -3)", "memory_bytes is -3; expected a whole number of at least 1"),
        ("WJOIN(max_drop_markers = 5)", "there is no option 'max_drop_markers' of WJOIN"),
    ],
)
def test_what_cannot_be_an_option_is_refused_by_name(hint: str, message: str) -> None:
    with pytest.raises((InvalidConfiguration, SyntaxMistake)) as caught:
        parse_application(JOIN.format(hint, window="RANGE"))
    assert message in caught.value.message
    assert "column" in str(caught.value)
