"""A process model from any source, and its constraints.

Examples
--------
>>> workflow = order_fulfilment()
>>> len(workflow.constraints().event_types)
21
>>> relations = workflow.relations
>>> len(relations.prior), len(relations.exclusive) // 2, len(relations.require)
(235, 20, 278)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.workflows.net_extraction import net_relations
from penstock.metadata.constraints.workflows.nets import MOST_STATES, DirectedGraph, Net, net_of_edges, net_of_graph, reachability
from penstock.metadata.constraints.workflows.reading import workflow_text
from penstock.metadata.constraints.workflows.tree_extraction import Relations, duplicated_tasks, tree_relations
from penstock.metadata.constraints.workflows.trees import ProcessTree, tree_tasks


@dataclass(frozen=True, slots=True)
class Workflow:
    """What a process allows.

    Attributes
    ----------
    key
        Attributes that tell one run from another.
    relations
        Order, exclusion and requirement between its tasks.
    notices
        What its author should know.
    tree
        The process tree, if it came as one.
    others
        Types of events that are no task, of which nothing is known but that they exist.
    """

    key: tuple[str, ...]
    relations: Relations
    notices: tuple[str, ...] = ()
    tree: ProcessTree | None = None
    others: tuple[str, ...] = ()

    @classmethod
    def from_tree(cls, tree: ProcessTree, key: Iterable[str] = ()) -> Workflow:
        """Read a process tree."""
        twice = duplicated_tasks(tree)
        notices = (f"{', '.join(twice)}: several tasks of one name; constraints that also hold may be missing",) if twice else ()
        relations = tree_relations(tree)
        order = tuple(dict.fromkeys(task.name for task in tree_tasks(tree)))
        return cls(tuple(key), Relations(order, relations.prior, relations.exclusive, relations.require), notices, tree)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        kinds: Mapping[str, Mapping[str, str]] | None = None,
        key: Iterable[str] = (),
        most_states: int = MOST_STATES,
    ) -> Workflow:
        """Read pairs of names; a name is a task unless `kinds` gives it another kind or label.

        Examples
        --------
        >>> relations = Workflow.from_edges([("A", "B"), ("B", "D"), ("A", "C"), ("C", "D")]).relations
        >>> sorted(relations.exclusive)
        [('B', 'C'), ('C', 'B')]
        """
        return cls._from_net(net_of_edges(edges, kinds), key, most_states)

    @classmethod
    def from_graph(
        cls,
        graph: DirectedGraph,
        key: Iterable[str] = (),
        starts: Iterable[Hashable] | None = None,
        ends: Iterable[Hashable] | None = None,
        most_states: int = MOST_STATES,
    ) -> Workflow:
        """Read a `networkx.DiGraph` whose nodes may carry `kind` (task, silent, choice, parallel, start, end) and `label`."""
        return cls._from_net(net_of_graph(graph, starts, ends), key, most_states)

    @classmethod
    def from_yaml(cls, text: str, source: str = "workflow") -> Workflow:
        """Read a process tree or an edge list in YAML."""
        written = workflow_text(text, source)
        if written.tree is not None:
            return replace(cls.from_tree(written.tree, written.key), others=written.others)
        return replace(cls.from_edges(written.edges, written.kinds, written.key), others=written.others)

    @classmethod
    def from_file(cls, path: Path | str) -> Workflow:
        """Read a YAML file."""
        return cls.from_yaml(Path(path).read_text(encoding="utf-8"), str(path))

    @classmethod
    def _from_net(cls, net: Net, key: Iterable[str], most_states: int) -> Workflow:
        return cls(tuple(key), net_relations(reachability(net, most_states)))

    def constraints(self) -> ConstraintSet:
        """What every run satisfies, ready to be reviewed and registered."""
        return ConstraintSet(self.key, self.relations.names, self.relations.constraints()).extended(self.others)


def order_fulfilment() -> Workflow:
    """The order process that ships as an example."""
    text = files("penstock.metadata.constraints.workflows").joinpath("order_fulfilment.yaml").read_text(encoding="utf-8")
    return Workflow.from_yaml(text, "order_fulfilment.yaml")
