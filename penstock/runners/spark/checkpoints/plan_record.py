"""What a checkpoint remembers of the plan it belongs to, and how another plan differs from it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from penstock.kernel.segments import FORMAT
from penstock.lowering.stages import Job
from penstock.plan.catalog import Catalog
from penstock.plan.describe import tree

#: Changes that are listed; who has changed more has another application.
_MOST = 8


def plan_record(job: Job, catalog: Catalog) -> dict[str, Any]:
    """The fingerprint decides; the rest is for people."""
    return {
        "format": FORMAT,
        "plan": job.fingerprint,
        "streams": [source.prefix.stream.name for stage in job.stages for source in stage.sources],
        "shards": job.shards,
        "queries": {query.name: _lines(query.plan, query.life) for query in catalog.queries.values()},
        "columns": {stream.name: {field.name: str(field.type) for field in stream.schema} for stream in catalog.streams.values()},
    }


def is_same(known: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    return all(known[name] == plan[name] for name in ("plan", "streams"))


def _lines(plan: Any, life: Any) -> list[str]:
    return [*tree(plan).splitlines(), *([f"life {life}"] if life != type(life)() else [])]


def differences(known: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    r"""Each change in a sentence.

    Examples
    --------
    >>> before = {"plan": "a", "streams": ["s"], "shards": 2, "columns": {"s": {"k": "int64"}},
    ...           "queries": {"busy": ["GroupBy k [tumbling 30]", "  Scan s"], "old": ["Scan s"]}}
    >>> after = {**before, "columns": {"s": {"k": "string"}}, "queries": {"busy": ["GroupBy k [tumbling 40]", "  Scan s"]}}
    >>> print("\n".join(differences(before, after)))
    query 'old' is missing
    query 'busy': GroupBy k [tumbling 30], now GroupBy k [tumbling 40]
    column 'k' of stream 's': int64, now string
    """
    found = [*_named("query", known["queries"], plan["queries"])]
    for query, before in known["queries"].items():
        if query in plan["queries"]:
            found += _changed(f"query '{query}'", before, plan["queries"][query])
    for stream in known["streams"]:
        if stream in plan["columns"] and stream in known["columns"]:
            found += _columns(stream, known["columns"][stream], plan["columns"][stream])
    if known["shards"] != plan["shards"]:
        found.append(f"shards: {known['shards']}, now {plan['shards']}")
    return list(dict.fromkeys(found))


def _named(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{kind} '{name}' is missing" for name in before if name not in after)
    yield from (f"{kind} '{name}' is new" for name in after if name not in before)


def _columns(stream: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in before:
        if before[name] != after.get(name):
            yield f"column '{name}' of stream '{stream}': {before[name]}, now {after.get(name, 'none')}"


def _changed(place: str, before: list[str], after: list[str]) -> Iterator[str]:
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield f"{place}: {_joined(before[a:b])}, now {_joined(after[c:d])}"


def _joined(lines: list[str]) -> str:
    return " / ".join(line.strip() for line in lines) or "nothing"


def told(known: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """What has changed, as the middle of a message."""
    found = differences(known, plan)
    if not found:
        return "schemas, filters, keys, windows, hints or functions of the application have changed"
    rest = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return "\n".join(["what has changed:", *(f"  {line}" for line in [*found[:_MOST], *rest])])
