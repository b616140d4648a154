"""Which operator runs conditions that may change places, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidConfiguration
from penstock.expressions.nodes import Expr
from penstock.expressions.user_functions import FunctionKind, applications
from penstock.model.order_hints import OrderHint
from penstock.operators.filtering.descriptors import Arrangement, Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.orderer import Orderer
from penstock.operators.filtering.predicates import ExpressionPredicate
from penstock.operators.filtering.settings import Algorithm, FilterSettings, Mode, OrderSettings
from penstock.operators.select import Select
from penstock.plan.nodes import filtering as nodes

_POLICY = "policy"
#: What a row costs about, in seconds: where shards decide for themselves nothing that is measured may decide.
_USUAL_COST = {FunctionKind.ROWS: 2e-6, FunctionKind.PANDAS: 1e-6, FunctionKind.ARROW: 5e-8}
_SEARCH_COST = 1e-7


@dataclass(frozen=True)
class FilterRecipe:
    """How to make an adaptive filter, and the driver's part of it; can be shipped.

    Parameters
    ----------
    label
        Name of the operator in the job, by which reports and decisions find it.
    """

    schema: pa.Schema
    conjuncts: tuple[nodes.Conjunct, ...]
    settings: FilterSettings
    label: str = "filter"

    def __call__(self) -> AdaptiveFilter:
        return AdaptiveFilter(self.schema, self.filters(), self.settings, self.label)

    def filters(self) -> list[Filter]:
        return [
            Filter(item.name, ExpressionPredicate.of(item.condition, self.schema), self._cost(item), item.after, item.profilable)
            for item in self.conjuncts
        ]

    def _cost(self, item: nodes.Conjunct) -> float | None:
        return item.cost if item.cost is not None or self.settings.has_driver else _usual_cost(item)

    def usual_costs(self) -> dict[int, float]:
        """What such conditions usually cost, by number: good enough until the driver has heard what these do cost."""
        return {number: _usual_cost(item) for number, item in enumerate(self.conjuncts)}

    @property
    def is_steered(self) -> bool:
        """Whether the driver decides about the order."""
        still = (Algorithm.FIXED, Algorithm.RANDOM)
        return self.settings.has_driver and self.settings.order.algorithm not in still

    def orderer(self) -> Orderer:
        return Orderer(self.filters(), self.settings, self.label)

    def named(self, label: str) -> FilterRecipe:
        return replace(self, label=label)


def _usual_cost(item: nodes.Conjunct) -> float:
    return _SEARCH_COST + sum(_USUAL_COST[call.function.kind] for call in applications(item.condition))


@dataclass(frozen=True)
class SelectRecipe:
    """How to make an operator that keeps the rows that meet one condition; can be shipped."""

    schema: pa.Schema
    condition: Expr

    def __call__(self) -> Select:
        return Select(self.schema, self.condition)


def filter_recipe(schema: pa.Schema, conjuncts: tuple[nodes.Conjunct, ...], hint: OrderHint | None) -> FilterRecipe:
    """How to make an adaptive filter; refuses now what its tasks would refuse: circles of guards, too many conditions."""
    recipe = FilterRecipe(schema, conjuncts, filter_settings(hint))
    Arrangement(tuple(recipe.filters()))
    return recipe


def filter_settings(hint: OrderHint | None) -> FilterSettings:
    """The settings that the options of ORDER describe; `policy` names the algorithm.

    Examples
    --------
    >>> filter_settings(OrderHint((("policy", "sweep"), ("mode", "shard")))).order.algorithm.value
    'sweep'
    """
    if hint is None:
        return FilterSettings()
    of_filter = {item.name for item in fields(FilterSettings)} - {"order"}
    changes: dict[str, Any] = {name: value for name, value in hint.options if name in of_filter}
    order: dict[str, Any] = {
        "algorithm" if name == _POLICY else name: value for name, value in hint.options if name not in of_filter
    }
    try:
        return FilterSettings(OrderSettings(**order), **changes)
    except InvalidConfiguration as error:
        raise error.at(hint.place) if hint.place is not None else error from None


def explained_order(node: nodes.AdaptiveFilter) -> list[str]:
    """Who keeps the order of the conditions, for explain."""
    asked = f"; the hint {node.hint} asks for it" if node.hint is not None else ""
    return [settings_text(filter_settings(node.hint)) + asked]


def settings_text(settings: FilterSettings) -> str:
    """Who keeps the order, in words.

    Examples
    --------
    >>> settings_text(FilterSettings())
    'ordered by agreedy, decided on the driver; 1 % of rejected rows is profiled'
    """
    order = settings.order
    if order.algorithm in (Algorithm.FIXED, Algorithm.RANDOM):
        return "tried as written" if order.algorithm is Algorithm.FIXED else "tried in a random order"
    where = {Mode.GLOBAL: "on the driver", Mode.SHARD: "by each shard", Mode.BOTH: "on the driver and by each shard"}[settings.mode]
    return f"ordered by {order.algorithm.value}, decided {where}; {order.profiled_share * 100:g} % of rejected rows is profiled"
