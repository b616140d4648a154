"""Decisions about the order of work: what could not be obeyed is refused where somebody can still hear it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Any

from penstock.errors import InvalidConfiguration, InvalidDeclaration, PenstockError, suggestion
from penstock.kernel.contracts import Explained
from penstock.kernel.work import Price, Terms, with_news
from penstock.lowering.jobs import Job
from penstock.lowering.terms import terms_of
from penstock.model.elements import BUDGET, POLICY, STATISTICS, Control
from penstock.model.service import ChosenPolicy
from penstock.plan.catalog import Catalog
from penstock.qos.scheduling.checks import check_validity
from penstock.qos.scheduling.table import DEFAULT, POLICIES, make_policy, weighted_queries

_FIGURES = tuple(item.name for item in fields(Price))


def check_scheduling(job: Job, decision: Control) -> None:
    """Refuse a budget, a strategy or prices that cannot be; other kinds are not looked at."""
    if decision.kind == BUDGET:
        _check_budget(decision.detail)
    elif decision.kind == POLICY:
        named = dict(decision.detail)
        chosen = ChosenPolicy(str(named.pop("name", "")), named)
        check_strategy(chosen, {query: terms for stage in job.stages for query, terms in stage.graph.terms.items()})
    elif decision.kind == STATISTICS:
        _check_prices(job, decision.detail)


def check_policy(catalog: Catalog, chosen: ChosenPolicy | None = None) -> None:
    """Refuse a strategy for an application that cannot be; None: the one that its text names, if it does."""
    chosen = chosen or catalog.policy
    if chosen is None:
        return
    try:
        check_strategy(chosen, _terms(catalog))
    except PenstockError as error:
        if chosen.place is not None:
            error.at(chosen.place)
        raise


def check_policy_stays(catalog: Catalog, chosen: ChosenPolicy) -> None:
    """Refuse other queries for which the strategy that works would mean nothing. It may name queries that are gone."""
    if chosen.name in POLICIES and POLICIES[chosen.name].by_deadline:
        check_validity(chosen.name, _terms(catalog).values())


def _terms(catalog: Catalog) -> dict[str, Terms]:
    return {query.name: terms_of(catalog, query.name) for query in catalog.queries.values()}


def check_strategy(chosen: ChosenPolicy, terms: Mapping[str, Terms]) -> None:
    """Refuse one that does not exist, goes by deadlines where there are none, or names queries that are not there.

    Parameters
    ----------
    terms
        Of all queries, by name.
    """
    make_policy(chosen.name, chosen.parameters)
    if POLICIES[chosen.name].by_deadline:
        check_validity(chosen.name, terms.values())
    known = [query.lower() for query in terms]
    for query in weighted_queries(chosen.name, chosen.parameters):
        if query.lower() not in known:
            found = f"scheduling strategy '{chosen.name}' has a weight for query '{query}', which is not there"
            raise InvalidDeclaration(f"{found}; {suggestion(query, terms)}")


def scheduling_lines(job: Job, policy: ChosenPolicy | None, told: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """What a strategy goes by, for people; None: the one that works unless somebody says otherwise.

    Parameters
    ----------
    told
        Prices that a run has measured, as its decisions have them, oldest first.
    """
    chosen = policy or ChosenPolicy(DEFAULT)
    lines = [f"{chosen.name}: {POLICIES[chosen.name].description}"]
    news = list(told)
    prices = remembered_prices(job, news)
    for stage in job.stages:
        strategy = make_policy(chosen.name, chosen.parameters)
        strategy.plan(stage.graph.work_plan({node.id: tuple(prices[node.id]) for node in stage.graph.nodes}))
        lines += strategy.explained() if isinstance(strategy, Explained) else []
    source = "prices as measured by the run" if news else "estimated prices; a run measures them, see --checkpoint"
    return [*lines, f"({source})"]


def remembered_prices(job: Job, said: Iterable[Mapping[str, Any]]) -> dict[str, list[Price]]:
    """What shards know after decisions: an operator that took over another's state has its prices too."""
    news: dict[str, list[Sequence[Mapping[str, Any] | None]]] = {}
    for decision in said:
        for node, figures_of in decision["operators"].items():
            news.setdefault(node, []).append(figures_of)
    found = {}
    for stage in job.stages:
        for node in stage.graph.nodes:
            name = node.id
            while name and name not in news:
                name = stage.graph.heirs.get(name, "")
            prices = node.prices
            for told in news.get(name, ()):
                if len(told) == len(prices):
                    prices = with_news(prices, told)
            found[node.id] = list(prices)
    return found


def _check_budget(detail: Mapping[str, Any]) -> None:
    ns = detail.get("ns")
    if set(detail) != {"ns"} or (ns is not None and (not isinstance(ns, int) or isinstance(ns, bool) or ns <= 0)):
        raise InvalidConfiguration(
            "a budget says how many nanoseconds of work a shard may do in a micro-batch, as {'ns': 800000000}, or {'ns': None} for "
            f"no limit; found {dict(detail)}"
        )


def _check_prices(job: Job, detail: Mapping[str, Any]) -> None:
    ports = {node.id: len(node.sources) for stage in job.stages for node in stage.graph.nodes}
    told = detail.get("operators")
    if not isinstance(told, Mapping):
        raise InvalidConfiguration(f"prices stand under 'operators', by operator and port; found {dict(detail)}")
    for operator, prices in told.items():
        if operator not in ports:
            raise InvalidConfiguration(f"there is no operator '{operator}'; {suggestion(operator, ports)}")
        if not isinstance(prices, list | tuple) or len(prices) != ports[operator]:
            raise InvalidConfiguration(f"'{operator}' has {ports[operator]} inputs and needs a price for each; found {prices!r}")
        for price in prices:
            if price is not None:
                _check_price(operator, price)


def _check_price(operator: str, price: Mapping[str, Any]) -> None:
    for name, value in price.items():
        if name not in _FIGURES:
            raise InvalidConfiguration(f"a price of '{operator}' has no '{name}'; {suggestion(name, _FIGURES)}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not is_number or value < 0 or (name in ("row_ns", "row_bytes", "call_rows") and value == 0):
            least = "0 or more" if name in ("call_ns", "selectivity", "rate") else "above 0"
            raise InvalidConfiguration(f"'{name}' of '{operator}' is {value!r}; it must be a number, {least}")
