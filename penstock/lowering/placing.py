"""How rows are spread over shards: what operators want, what is known of their inputs, what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expressions.nodes import Column
from penstock.kernel.graph import Port
from penstock.kernel.spreading import EVERYWHERE
from penstock.lowering.multiway import spread_of
from penstock.lowering.prefix import Prefix
from penstock.model.declarations import Constraint, ConstraintKind, RowPolicy
from penstock.model.schema import Schema
from penstock.model.windows import Framed
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.multiway import MJoin
from penstock.plan.nodes.patterns import Merged, PatternMatch
from penstock.plan.nodes.row_patterns import RowPatternMatch

#: Columns whose hash decides the shard. Empty: one shard has it all. None: anywhere. EVERYWHERE: each shard has a copy.
Keys = tuple[str, ...] | None
#: All lists of columns whose hash has decided the shard.
Spread = tuple[tuple[str, ...], ...]


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
    if isinstance(node, nodes.Select) or keys == EVERYWHERE:
        return keys
    items = dict(node.items)
    found = [expr.name for name in keys if isinstance(expr := items[name], Column)]
    return tuple(found) if len(found) == len(keys) else None


def spread_by(keys: Keys) -> Spread:
    return () if keys is None else (keys,)


def suits(partitionings: tuple[tuple[str, ...], ...], keys: Keys) -> bool:
    return keys is None or keys in partitionings


def _known(found: Found) -> Spread:
    return found.partitionings if isinstance(found, Placed) else ()


def _known_senders(found: Found) -> Spread:
    return found.senders if isinstance(found, Placed) else ()


def wanted_keys(node: Node, inputs: list[Found]) -> list[Keys]:
    """How each input must be partitioned; an existing partitioning that suffices is kept."""
    if isinstance(node, MJoin):
        return list(spread_of(node).keys)
    if isinstance(node, nodes.WindowJoin):
        # The last rows of an input are the last of all its keys: one place has to count them, here or before.
        if node.counts_rows:
            return list(node.keys) if node.spreads_counted else [() for _ in inputs]
        return _join_keys(node, inputs)
    if isinstance(node, nodes.GroupBy | nodes.Distinct):
        columns = node.keys if isinstance(node, nodes.GroupBy) else node.schema.names
        return [_enough(_spread(node.window, columns), inputs[0])]
    if isinstance(node, PatternMatch | RowPatternMatch):
        return [_enough(node.query.key, inputs[0])]
    if isinstance(node, Merged):
        places = [node.schema.index(name) for name in node.keys]
        return [tuple(part.schema.names[at] for at in places) for part in node.parts]
    if isinstance(node, nodes.Announced):
        return [()]  # one place hears what all shards have to say
    return [None for _ in inputs]


def _spread(window: object, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Columns whose every value may live in its own shard: none if rows must be numbered in one place."""
    if isinstance(window, Framed) and (window.in_rows or window.partition_by):
        return window.partition_by if set(window.partition_by) <= set(columns) else ()
    return columns


def _enough(columns: tuple[str, ...], found: Found) -> tuple[str, ...]:
    for known in _known(found):
        if set(known) <= set(columns):
            return known
    return columns


def _join_keys(node: nodes.WindowJoin, inputs: list[Found]) -> list[Keys]:
    for keys, found in zip(node.keys, inputs, strict=True):
        for known in _known(found):
            if set(known) <= set(keys):
                positions = [keys.index(name) for name in known]
                return [tuple(mine[position] for position in positions) for mine in node.keys]
    return list(node.keys)


def partitionings_of(node: Node, inputs: list[Found], wanted: list[Keys]) -> Spread:
    """How the output is partitioned, in output names.

    Where the columns of an input are NULL-extended the row is in the shard of its partner's key, not in that of NULL.
    """
    if isinstance(node, nodes.WindowJoin):
        return tuple(keys for port, keys in enumerate(_shown_keys(node, wanted)) if port not in node.kind.extended)
    return _passed(node, _known(inputs[0]), wanted)


def senders_of(node: Node, inputs: list[Found], wanted: list[Keys]) -> Spread:
    """Columns whose values tell the shard, unless they are NULL."""
    if isinstance(node, nodes.WindowJoin):
        return tuple(_shown_keys(node, wanted))
    return _passed(node, _known_senders(inputs[0]), wanted)


def _shown_keys(node: nodes.WindowJoin, wanted: list[Keys]) -> list[tuple[str, ...]]:
    """Keys that are columns of the output, for each input it shows."""
    shown = wanted if node.kind.shows_pairs else wanted[:1]
    return [keys for keys in shown if keys is not None and keys != EVERYWHERE]


def _passed(node: Node, known: Spread, wanted: list[Keys]) -> Spread:
    """What a node with one input makes of its partitioning."""
    if isinstance(node, nodes.GroupBy | nodes.Distinct | nodes.Announced):
        return tuple(keys for keys in wanted if keys is not None)
    if isinstance(node, PatternMatch | RowPatternMatch):
        return tuple(keys for keys in wanted if keys is not None and set(keys) <= set(node.shown_key))
    if isinstance(node, Merged):
        return (node.keys,)
    if isinstance(node, nodes.Project):
        kept = {expr.name: name for name, expr in reversed(node.items) if isinstance(expr, Column)}
        return tuple(tuple(kept[name] for name in keys) for keys in known if all(name in kept for name in keys))
    return () if isinstance(node, nodes.Union) else known


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
