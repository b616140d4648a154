"""From one edition of an application to the next: what keeps its state, what begins, what ends, what cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from penstock.errors import InvalidDeclaration, StateFormat, UnknownQuery
from penstock.model.schema import sql_type
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.describe import tree
from penstock.runners.editions.content import contents, meaning, streams_of
from penstock.runners.editions.edition import ADD, Began, Edition, Step, parsed

#: Changes of a query that are listed; who has changed more has another query.
_MOST = 4


@dataclass(frozen=True)
class Changes:
    """What becomes of the queries of an application; names as its texts write them.

    Parameters
    ----------
    kept
        Go on as if nothing had happened.
    continued
        Have changed, but go on with their state.
    fresh
        Begin, and know nothing of earlier rows; those in `reset` have run under that name before.
    dropped
        End now; what they have kept is forgotten.
    refused
        Have changed so that their state means something else; for each, what has changed.
    """

    kept: tuple[str, ...] = ()
    continued: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.continued or self.fresh or self.dropped or self.refused)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Changes:
        listed = {"kept": "kept", "continued": "changed", "fresh": "new", "reset": "reset", "dropped": "dropped"}
        names = {own: tuple(found[shown]) for own, shown in listed.items()}
        return cls(**names, refused={name: tuple(lines) for name, lines in found["incompatible"].items()})

    def to_json(self) -> dict[str, Any]:
        return {
            "kept": list(self.kept), "changed": list(self.continued), "new": list(self.fresh), "reset": list(self.reset),
            "dropped": list(self.dropped), "incompatible": {name: list(lines) for name, lines in self.refused.items()},
        }  # fmt: skip


def changed(
    edition: Edition,
    shards: int,
    *,
    file: str | None = None,
    later: Iterable[Step] = (),
    reset: Collection[str] = (),
    now_us: int = 0,
) -> tuple[Edition, Changes]:
    """The edition that follows, and what that means for each query; the same edition if nothing changes for any query.

    Parameters
    ----------
    file
        Another text instead of the one that the last start was given.
    later
        Texts to add, queries to drop.
    reset
        Queries that are to begin anew.
    now_us
        What BEGIN NOW means in queries that begin.
    """
    wanted = replace(edition, file=edition.file if file is None else file, later=_shorter((*edition.later, *later)))
    if not wanted.catalog.queries:
        raise InvalidDeclaration("no query would be left; stop the run instead", f"application '{edition.name}'")
    _refuse_unknown(reset, wanted.catalog)
    sorted_out = _Sorted(edition, wanted, {name.lower() for name in reset})
    following = sorted_out.following(now_us or edition.now_us)
    return sorted_out.with_heirs(following, shards)


def refuse_incompatible(changes: Changes, place: str) -> None:
    """Say what has changed in queries whose state would mean something else."""
    if not changes.refused:
        return
    lines = [f"  query '{name}': {line}" for name, changed_ in changes.refused.items() for line in changed_]
    names = " ".join(f"--reset {name}" for name in changes.refused)
    raise StateFormat(
        "\n".join([
            "the state in the checkpoint means something else than these queries do now; what has changed:", *lines,
            f"take the change back, give the query another name, or let it begin anew with {names}",
        ]),
        place,
    )  # fmt: skip


def _shorter(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Without a query that was dropped twice in a row."""
    return tuple(step for at, step in enumerate(steps) if step not in steps[at + 1 :] or step[0] == ADD)


def _refuse_unknown(names: Iterable[str], catalog: Catalog) -> None:
    for name in names:
        if name.lower() not in catalog.queries:
            raise UnknownQuery("the application", "query", name, [query.name for query in catalog.queries.values()])


class _Sorted:
    """The queries of an edition that is wanted, by what they were before."""

    def __init__(self, before: Edition, wanted: Edition, reset: set[str]) -> None:
        self._before, self._wanted = before, wanted
        self._reset = reset
        self.kept: list[str] = []
        self.fresh: list[str] = []
        self.changed: list[str] = []
        for name, query in wanted.catalog.queries.items():
            began = before.began(name)
            if began is None or name in reset:
                self.fresh.append(name)
            elif self._is_same(query, began):
                self.kept.append(name)
            else:
                self.changed.append(name)
        self.dropped = [name for began in before.generations for name in began.living if name not in wanted.catalog.queries]

    def _is_same(self, query: ContinuousQuery, began: Began) -> bool:
        # What BEGIN NOW has meant it means for as long as the query runs.
        now = parsed(self._wanted.name, self._wanted.steps, began.now_us)
        return meaning(self._as_begun(began), query.name) == meaning(now, query.name)

    def _as_begun(self, began: Began) -> Catalog:
        return parsed(self._before.name, began.steps, began.now_us)

    def following(self, now_us: int) -> Edition:
        """The next edition: queries that begin or have changed are a generation of their own."""
        leaving = {*self.fresh, *self.changed, *self.dropped}
        older = [
            replace(began, living=tuple(name for name in began.living if name not in leaving)) for began in self._before.generations
        ]
        older = [began for began in older if began.living]
        own = (*self.changed, *self.fresh)
        number = self._before.number + 1
        newest = [Began(number, self._wanted.steps, now_us, own, own)] if own else []
        return replace(self._wanted, number=number, generations=(*older, *newest))

    def with_heirs(self, following: Edition, shards: int) -> tuple[Edition, Changes]:
        shown = {name: query.name for name, query in (self._before.catalog.queries | following.catalog.queries).items()}
        heirs = dict(self._before.heirs)  # no micro-batch may have known the edition before
        refused = self._readers_of_reset(shown)
        jobs = (self._before.job(shards), following.job(shards)) if self.changed else None
        for name in self.changed:
            assert jobs is not None
            before, after = (contents(job, shown[name]) for job in jobs)
            if before.states.keys() != after.states.keys():
                refused[shown[name]] = self._words(name)
                continue
            for old, new in ((before.states, after.states), (before.entries, after.entries)):
                heirs |= {mine: old[content] for content, mine in new.items() if content in old}
        found = Changes(
            tuple(shown[name] for name in self.kept if shown[name] not in refused),
            tuple(shown[name] for name in self.changed if shown[name] not in refused),
            tuple(shown[name] for name in self.fresh),
            tuple(shown[name] for name in self.fresh if name in self._reset),
            tuple(shown[name] for name in self.dropped),
            refused,
        )
        return (replace(following, heirs=heirs), found) if found else (self._same(), found)

    def _same(self) -> Edition:
        """Nothing changes for any query, but texts, and with them destinations, may be others."""
        if self._wanted == self._before:
            return self._before
        return replace(self._wanted, number=self._before.number + 1)

    def _readers_of_reset(self, shown: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Queries that go on and read one that begins anew: they would read the old one."""
        found: dict[str, tuple[str, ...]] = {}
        for name in (*self.kept, *self.changed):
            read = [each for each in self._wanted.catalog.queries[name].depends_on if each.lower() in self._reset]
            if read:
                found[shown[name]] = (f"it reads query '{read[0]}', which is to begin anew",)
        return found

    def _words(self, name: str) -> tuple[str, ...]:
        began = self._before.began(name)
        assert began is not None
        catalogs = (self._as_begun(began), parsed(self._wanted.name, self._wanted.steps, began.now_us))
        found = [*_differences(*(_lines(catalog.queries[name]) for catalog in catalogs)), *_other_columns(name, *catalogs)]
        if not found:
            return ("columns, keys, constraints, functions or queries that it reads have changed",)
        return (*found[:_MOST], *([f"and {len(found) - _MOST} more"] if len(found) > _MOST else ()))


def _other_columns(query: str, before: Catalog, after: Catalog) -> Iterator[str]:
    """Columns of its streams that have another type."""
    for stream in streams_of(before, query):
        now = after.streams.get(stream.name.lower())
        for field_ in stream.schema if now is not None else ():
            assert now is not None
            type_ = now.schema[field_.name].type if field_.name in now.schema else None
            if type_ != field_.type:
                shown = "none" if type_ is None else sql_type(type_)
                yield f"column '{field_.name}' of stream '{stream.name}' is {sql_type(field_.type)}, now {shown}"


def _lines(query: ContinuousQuery) -> list[str]:
    return [*tree(query.plan).splitlines(), *([f"life {query.life}"] if query.life != type(query.life)() else [])]


def _differences(before: list[str], after: list[str]) -> Iterable[str]:
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield f"{_joined(before[a:b])}, now {_joined(after[c:d])}"


def _joined(lines: list[str]) -> str:
    return " / ".join(line.strip() for line in lines) or "nothing"
