"""The table of hints is what the operators take: names, defaults, legal values, and what is made of punctuations."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

from penstock.errors import InvalidConfiguration, SyntaxMistake
from penstock.language.application import parse_application
from penstock.lowering.filters import filter_settings
from penstock.lowering.join_variants import pjoin_config, window_config
from penstock.lowering.stages import startable
from penstock.model.hint_options import HINTS, HintValue, Option
from penstock.model.join_variants import JoinHint, JoinVariant, MetadataUse
from penstock.model.order_hints import OrderHint
from penstock.model.windows import Sliding
from penstock.operators.filtering.settings import FilterSettings, OrderSettings
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.registry import PROPAGATIONS, Event
from penstock.operators.joins.pwjoin.config import JoinConfig

#: Of a window join: windows stand in the query, shards have one clock, and late rows are refused before the join.
_GIVEN = {"windows", "clock", "on_late"}
WINDOWS = (Sliding(5), Sliding(5))


def _names(hint: str) -> set[str]:
    return {option.name for option in HINTS[hint].options}


def _defaults(config: type) -> dict[str, Any]:
    return {item.name: item.default for item in fields(config) if item.default is not MISSING}


def test_every_parameter_of_an_operator_is_an_option_of_its_hint() -> None:
    assert _names("PJOIN") == {item.name for item in fields(PJoinConfig)}
    assert _names("PWJOIN") | _names("WJOIN") == {item.name for item in fields(JoinConfig)} - _GIVEN | {"spread"}
    of_order = {item.name for item in fields(OrderSettings)} | {item.name for item in fields(FilterSettings)}
    assert _names("ORDER") == of_order - {"algorithm", "order"} | {"policy"}


@pytest.mark.parametrize(("hint", "config"), [("PJOIN", PJoinConfig), ("PWJOIN", JoinConfig), ("WJOIN", JoinConfig)])
def test_defaults_in_the_table_are_those_of_the_operator(hint: str, config: type) -> None:
    known = _defaults(config)
    for option in HINTS[hint].options:
        if option.name not in ("spread", "registry"):
            assert option.default == known[option.name], option.name
    assert pjoin_config(JoinHint(JoinVariant.PJOIN)) == PJoinConfig()


def _some_values(option: Option) -> list[HintValue]:
    numbers = {bool: [True, False], int: [max(1, option.least), 7], float: [0.5], str: []}[option.kind]
    return [*option.words, *[int(value) if option.kind is int else value for value in numbers]]


@pytest.mark.parametrize("hint", list(HINTS))
def test_every_value_in_the_table_can_run_and_others_are_refused(hint: str) -> None:
    for option in HINTS[hint].options:
        given = [(option.only_with[0], option.only_with[1][0])] if option.only_with is not None else []
        for value in _some_values(option):
            _configured(hint, (*given, (option.name, value)))
        for wrong in ("foo", -1.5, True if option.kind is not bool else 3):
            if not option.takes(wrong):
                with pytest.raises(InvalidConfiguration, match=f"{option.name} is .*; expected "):
                    _configured(hint, ((option.name, wrong),))


def _configured(hint: str, options: tuple[tuple[str, HintValue], ...]) -> Any:
    if hint == "ORDER":
        extra = (("max_age", 5),) if ("window", "time") in options else ()
        return filter_settings(OrderHint((*options, *extra)))
    found = JoinHint(JoinVariant[hint], options)
    if hint in ("PJOIN", "XJOIN"):
        return pjoin_config(found)
    return window_config(found, WINDOWS) if hint in ("WJOIN", "MWJOIN", "PWJOIN", "MPWJOIN") else found


@pytest.mark.parametrize("registry", HINTS["PJOIN"].option("registry").words)  # type: ignore[union-attr]
@pytest.mark.parametrize("uses", [True, False])
def test_what_a_proof_may_lean_on_is_what_the_configured_join_does(registry: str, uses: bool) -> None:
    hint = JoinHint(JoinVariant.PJOIN, (("registry", registry), ("uses_punctuations", uses)))
    config = pjoin_config(hint)
    assert hint.use.removes is (config.uses_punctuations and config.registry.purges)
    by_itself = [
        rule for rule in config.registry.rules if rule.event not in (Event.PROPAGATE_REQUEST, Event.PROPAGATE_TIME_EXPIRED)
    ]
    passes = uses and any(PROPAGATIONS & set(rule.listeners) for rule in by_itself)
    assert (hint.use.passing != "none") is passes
    assert hint.use == MetadataUse(False, passing=hint.use.passing) or hint.use.keeps_waiting


JOIN = """
CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ q AS SELECT /*+ {} */ a.k FROM a [RANGE 5], b [RANGE 5] WHERE a.k = b.k;
"""


@pytest.mark.parametrize("hint", ["PWJOIN(drop = FALSE)", "PWJOIN(DROP = true, state = 'split')", "WJOIN()"])
def test_words_that_mean_something_elsewhere_can_name_an_option(hint: str) -> None:
    startable(parse_application(JOIN.format(hint)))


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("PWJOIN(drop = )", "found nothing as the value of 'drop'"),
        ("PWJOIN(drop = maybe)", "found maybe as the value of 'drop'"),
        ("PWJOIN(drop = TRUE,)", "cannot be read"),
        ("PWJOIN(drop = TRUE, drop = TRUE)", "drop stands twice"),
        ("PWJOIN(state = 'tables')", "state is 'tables'; expected 'cluster' or 'split'"),
        ("PWJOIN(buckets = -3)", "buckets is -3; expected a whole number of at least 0"),
        ("WJOIN(state = 'split')", "there is no option 'state' of WJOIN"),
    ],
)
def test_what_cannot_be_an_option_is_refused_by_name(hint: str, message: str) -> None:
    with pytest.raises((InvalidConfiguration, SyntaxMistake)) as caught:
        parse_application(JOIN.format(hint))
    assert message in caught.value.message
    assert "column" in str(caught.value)
