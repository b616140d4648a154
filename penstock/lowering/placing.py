"""How rows are spread over shards: what operators want, what is known of their inputs, what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kernel.graph import Port
from penstock.kernel.spreading import EVERYWHERE
from penstock.lowering.prefix import Prefix
from penstock.model.declarations import Constraint, ConstraintKind, RowPolicy
from penstock.model.schema import Schema
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Keys, Node, Spread


@dataclass(frozen=True)
class Placed:
    """An operator's output: where it comes out and how it is partitioned.

    `senders` are columns whose values, where they are not NULL, decide the shard as a partitioning does. `is_trusting` if rows
    that contradict a punctuation may be among its rows, because a stream below trusts them.
    """

    level: int
    port: Port
    schema: Schema
    partitionings: tuple[tuple[str, ...], ...]
    senders: tuple[tuple[str, ...], ...] = ()
    is_trusting: bool = False


@dataclass(frozen=True)
class Floating:
    """An operator without state over a stream, which Catalyst cannot evaluate: it runs wherever the rows are wanted."""

    node: nodes.Select | nodes.Project
    below: Prefix | Floating

    @property
    def schema(self) -> Schema:
        return self.node.schema

    def follows(self, keys: Keys) -> bool:
        """Whether the rows below can be spread by what these columns are there."""
        if not keys or keys == EVERYWHERE:
            return True
        return (below := keys_before(self.node, keys)) is not None and (isinstance(self.below, Prefix) or self.below.follows(below))


#: What a plan node is: a prefix or an operator that can still go anywhere, or one that has its place.
Found = Placed | Prefix | Floating


def is_trusting(found: Found) -> bool:
    """Whether rows may come from there that contradict a punctuation."""
    if isinstance(found, Prefix):
        return found.stream.on_violation is RowPolicy.TRUST
    return found.is_trusting if isinstance(found, Placed) else is_trusting(found.below)


def keys_before(node: nodes.Select | nodes.Project, keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """What columns of the output are called in the input; None if one of them is computed."""
    if keys == EVERYWHERE:
        return keys
    found = [column for name in keys for _, column in node.origins_of(name)]
    return tuple(found) if len(found) == len(keys) else None


def spread_by(keys: Keys) -> Spread:
    return () if keys is None else (keys,)


def suits(partitionings: tuple[tuple[str, ...], ...], keys: Keys) -> bool:
    return keys is None or keys in partitionings


def known_spread(found: Found) -> Spread:
    """How rows are known to be spread there."""
    return found.partitionings if isinstance(found, Placed) else ()


def _known_senders(found: Found) -> Spread:
    return found.senders if isinstance(found, Placed) else ()


def partitionings_of(node: Node, inputs: list[Found], wanted: list[Keys]) -> Spread:
    """How the output is partitioned, in output names."""
    return node.partitionings([known_spread(found) for found in inputs], _hashed(wanted))


def senders_of(node: Node, inputs: list[Found], wanted: list[Keys]) -> Spread:
    """Columns whose values tell the shard, unless they are NULL."""
    return node.senders([_known_senders(found) for found in inputs], _hashed(wanted))


def _hashed(wanted: list[Keys]) -> list[Keys]:
    """What of it spreads rows: copies in all shards do not."""
    return [None if keys == EVERYWHERE else keys for keys in wanted]


def shown_keys(wanted: list[Keys]) -> str:
    known = [keys for keys in wanted if keys is not None and keys != EVERYWHERE]
    if not known:
        return "any"
    return "one shard" if known[0] == () else ", ".join(known[0])


def meeting_keys(prefix: Prefix) -> Keys:
    """How rows are spread that nobody wants in a certain way: so that equal values of a unique column meet."""
    unique = [item.column for item in prefix.stream.constraints if item.kind is ConstraintKind.UNIQUE]
    names = dict(prefix.kept)
    return (names[prefix.stream.schema[unique[0]].name],) if unique else None


def can_be_watched(constraint: Constraint, column: str | None, keys: Keys) -> bool:
    """Whether every shard can tell if its rows keep the constraint: equal values of a unique column must meet in one."""
    if column is None or constraint.kind is not ConstraintKind.UNIQUE:
        return column is not None
    return keys is not None and (keys == EVERYWHERE or set(keys) <= {column})


def only_key(keys: Keys) -> str:
    """The column whose hash alone chooses the shard, if there is one."""
    return keys[0] if keys and len(keys) == 1 and keys != EVERYWHERE else ""
