"""Process models as YAML: a tree of nested forms, or a list of edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from penstock.errors import InvalidWorkflow
from penstock.metadata.constraints.workflows.trees import (
    Choice,
    Interruptible,
    Loop,
    Parallel,
    ProcessTree,
    Sequence,
    Silent,
    Task,
    optional,
)

_LISTS: dict[str, Callable[[tuple[ProcessTree, ...]], ProcessTree]] = {"sequence": Sequence, "choice": Choice, "parallel": Parallel}
_FORMS = (*_LISTS, "repeat", "optional", "interruptible", "task")


@dataclass(frozen=True, slots=True)
class WrittenWorkflow:
    """What a text says: a tree, or edges with the kinds of their nodes; `others` are types of events beside those of tasks."""

    name: str
    key: tuple[str, ...]
    tree: ProcessTree | None = None
    edges: tuple[tuple[str, str], ...] = ()
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def workflow_text(text: str, source: str = "workflow") -> WrittenWorkflow:
    """Read a process model.

    Examples
    --------
    >>> print(workflow_text("{process: p, key: [id], tree: {sequence: [A, {optional: B}]}}").tree)
    SEQ(A, XOR(B, tau))
    >>> workflow_text("{process: p, key: [id], edges: [[A, B], [B, C]]}").edges
    (('A', 'B'), ('B', 'C'))
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise InvalidWorkflow(f"the text is not YAML: {problem}", source) from problem
    if not isinstance(content, dict) or ("tree" in content) == ("edges" in content):
        raise InvalidWorkflow("a process has a 'tree' or 'edges', and may have a 'process' (its name) and a 'key'", source)
    strange = sorted(map(str, set(content) - {"process", "key", "tree", "edges", "nodes", "others"}))
    if strange:
        raise InvalidWorkflow(f"unknown entries {', '.join(strange)}; there are process, key, tree, edges, nodes, others", source)
    name = str(content.get("process", source))
    key = _names(content.get("key", ()), "the key is {!r}; give the attributes that tell runs apart, as a list of names", source)
    others = _names(content.get("others", ()), "'others' is {!r}; give event types that are no task, as a list of names", source)
    if "tree" in content:
        return WrittenWorkflow(name, key, _tree(content["tree"], source), others=others)
    return WrittenWorkflow(name, key, None, _edges(content["edges"], source), _kinds(content.get("nodes", {}), source), others)


def _names(found: Any, complaint: str, source: str) -> tuple[str, ...]:
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidWorkflow(complaint.format(found), source)
    return tuple(names)


def _tree(found: Any, source: str) -> ProcessTree:
    if found is None or found == "nothing":
        return Silent()
    if isinstance(found, str):
        return Task(found)
    if not isinstance(found, dict) or len(found) != 1 or next(iter(found)) not in _FORMS:
        raise InvalidWorkflow(f"{found!r} is no part of a process; give a name, 'nothing', or one of {', '.join(_FORMS)}", source)
    ((form, content),) = found.items()
    if form in _LISTS:
        if not isinstance(content, list):
            raise InvalidWorkflow(f"{form} needs a list of parts, not {content!r}", source)
        return _LISTS[form](tuple(_tree(part, source) for part in content))
    if form == "optional":
        return optional(_tree(content, source))
    return _record(form, content, source)


def _record(form: str, content: Any, source: str) -> ProcessTree:
    allowed = {"repeat": {"body", "least", "most"}, "interruptible": {"body", "by"}, "task": {"name", "events"}}[form]
    if not isinstance(content, dict) or not set(content) <= allowed:
        raise InvalidWorkflow(f"{form} takes {', '.join(sorted(allowed))}, not {content!r}", source)
    try:
        if form == "repeat":
            return Loop(_tree(content["body"], source), _count(content.get("least", 1), source), _most(content.get("most"), source))
        if form == "interruptible":
            return Interruptible(_tree(content["body"], source), str(content["by"]))
        events = content.get("events", "one")
        if events not in ("one", "none", "several"):
            raise InvalidWorkflow(f"a task emits one, none or several events, not {events!r}", source)
        return Task(str(content["name"]), events)
    except KeyError as missing:
        raise InvalidWorkflow(f"{form} lacks {missing.args[0]}", source) from None


def _most(found: Any, source: str) -> int | None:
    return None if found is None else _count(found, source)


def _count(found: Any, source: str) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidWorkflow(f"{found!r} is no number of times", source)
    return found


def _edges(found: Any, source: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
        raise InvalidWorkflow("edges is a list of pairs [from, to]", source)
    return tuple((str(one), str(other)) for one, other in found)


def _kinds(found: Any, source: str) -> dict[str, dict[str, str]]:
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise InvalidWorkflow("nodes maps names to {kind: ..., label: ...}", source)
    return {str(name): {str(key): str(value) for key, value in entries.items()} for name, entries in found.items()}
