"""How a multiway join runs: the operator and its settings, and which inputs are spread over the shards, which are copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.kernel.contracts import Operator
from penstock.kernel.spreading import EVERYWHERE
from penstock.lowering.filters import filter_settings
from penstock.model.join_variants import JoinHint
from penstock.model.order_hints import OrderHint
from penstock.operators.filtering.settings import Algorithm, FilterSettings
from penstock.operators.joins.matching.multiway.graph import Edge, JoinGraph
from penstock.operators.joins.matching.multiway.orders import OrderBy
from penstock.operators.joins.multiway_join import MJoin
from penstock.plan.analysis.estimation import InputEstimate
from penstock.plan.analysis.holdings import label
from penstock.plan.analysis.knowledge import declared_rate
from penstock.plan.nodes import base
from penstock.plan.nodes import multiway as nodes
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.relational import Scan

_STILL = (Algorithm.FIXED, Algorithm.RANDOM)


def multiway_recipe(node: nodes.MJoin) -> Callable[[], Operator]:
    """How to make the operator of a multiway join; refuses now what its shards would refuse."""
    settings = probe_settings(node.hint)
    schemas = tuple(part.schema.arrow for part in node.parts)
    recipe = partial(
        MJoin, schemas, graph_of(node), node.windows, node.schema.arrow, OrderBy(settings.order), residual=node.residual,
        life=node.life, share=_share(settings), seed=settings.seed, chunk_rows=settings.chunk_rows,
    )  # fmt: skip
    recipe()
    return recipe


def graph_of(node: nodes.MJoin) -> JoinGraph:
    """The equalities as the operator wants them."""
    edges = [Edge(link.left, (link.left_column,), link.right, (link.right_column,)) for link in node.links]
    return JoinGraph(len(node.parts), tuple(edges))


def _share(settings: FilterSettings) -> float:
    return 0.0 if settings.order.algorithm in _STILL else settings.order.profiled_share


def probe_settings(hint: JoinHint | None) -> FilterSettings:
    """The settings that the options of MJOIN describe; `policy` names the algorithm.

    Examples
    --------
    >>> from penstock.model.join_variants import JoinVariant
    >>> probe_settings(JoinHint(JoinVariant.MJOIN, (("policy", "sweep"),))).order.algorithm.value
    'sweep'
    """
    if hint is None:
        return FilterSettings()
    return filter_settings(OrderHint(hint.options, hint.place))


def probes_text(node: nodes.MJoin) -> str:
    """Who orders the probes of a multiway join, in words."""
    settings = probe_settings(node.hint)
    algorithm = settings.order.algorithm
    if algorithm in _STILL:
        return f"inputs are probed {'as written' if algorithm is Algorithm.FIXED else 'in a random order'}"
    share = f"{_share(settings) * 100:g} % of rejected rows is profiled"
    return f"rows of each input probe the others in an order of their own, kept by {algorithm.value} in each shard; {share}"


# -- shards ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """How the inputs of a multiway join reach the shards.

    A combination has one value of the columns that spread some inputs, so it is made in the shard of that value and nowhere
    else; rows of the other inputs must be there whichever shard that is.
    """

    keys: tuple[tuple[str, ...], ...]
    why: str

    def __str__(self) -> str:
        return self.why


def spread_of(node: nodes.MJoin) -> Spread:
    """Spread the inputs that share one value, copy the others to every shard: the value by which least is copied.

    Least counts rows where all inputs declare a rate, else inputs; among equals the value written first decides.
    """
    columns = [_first_columns(members) for members in node.classes()]
    rates = [_rate(part) for part in node.parts]
    known = [rate for rate in rates if rate is not None]
    weights = known if len(known) == len(rates) else [1.0 for _ in rates]

    def copied(chosen: dict[int, str]) -> list[int]:
        return [port for port in range(len(node.parts)) if port not in chosen]

    best = min(columns, key=lambda chosen: sum(weights[port] for port in copied(chosen)))
    keys = tuple((best[port],) if port in best else EVERYWHERE for port in range(len(node.parts)))
    names = [label(part, (*node.columns_of(port),)) for port, part in enumerate(node.parts)]
    shared = " = ".join(best[port] for port in sorted(best))
    left = [names[port] for port in copied(best)]
    if not left:
        return Spread(keys, f"all inputs are spread by {shared}")
    least = f"{sum(weights[port] for port in copied(best)):,.0f} rows/s" if len(known) == len(rates) else "fewest inputs"
    copies = f"{' and '.join(left)} {'is' if len(left) == 1 else 'are'} copied to every shard, which is least ({least})"
    return Spread(keys, f"no column is in all inputs: spread by {shared}; {copies}")


def wanted_spread(node: nodes.MJoin, known: Sequence[base.Spread]) -> list[base.Keys]:
    """How the inputs are spread, whatever they are spread by below: rates decide."""
    return list(spread_of(node).keys)


def explained_probes(node: nodes.MJoin) -> list[str]:
    """Who orders the probes, and how the inputs are spread."""
    return [probes_text(node), str(spread_of(node))]


def with_copies(node: WindowJoin, estimates: tuple[InputEstimate, ...], shards: int) -> tuple[InputEstimate, ...]:
    """Estimates of a join's memory that count the copies of inputs that are not spread."""
    if not isinstance(node, nodes.MJoin):
        return estimates
    copies = [shards if keys == EVERYWHERE else 1 for keys in spread_of(node).keys]
    return tuple(replace(one, copies=many) for one, many in zip(estimates, copies, strict=True))


def _first_columns(members: list[tuple[int, str]]) -> dict[int, str]:
    """One column of each input that has the value; others of the same input equal it in every result."""
    return dict(reversed(members))


def _rate(part: Node) -> float | None:
    below = part.rows_from
    return declared_rate(below.stream) if isinstance(below, Scan) else None
