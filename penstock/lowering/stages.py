"""Cut an application into stages: operators that can share a stateful step, connected by exchanges.

Every stage runs all operators of its level in every shard. An operator goes to the level of its inputs if they are already
partitioned the way it needs, else one level further, and its inputs cross an exchange. Fewer levels are better: a stateful
stage has a high fixed cost per micro-batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.expressions.nodes import Column
from penstock.kernel.graph import LOOP, Graph, GraphNode, Port
from penstock.kernel.ingress import EntrySpec
from penstock.kernel.packing import Route
from penstock.kernel.spreading import EVERYWHERE
from penstock.kernel.work import Terms
from penstock.lowering.filters import FilterRecipe
from penstock.lowering.jobs import Exchange, Generation, Job, SourceEntry, Stage
from penstock.lowering.placing import (
    Floating,
    Found,
    Placed,
    can_be_watched,
    is_trusting,
    keys_before,
    known_spread,
    meeting_keys,
    only_key,
    partitionings_of,
    senders_of,
    shown_keys,
    spread_by,
    suits,
)
from penstock.lowering.prefix import Prefix, can_filter_early, grown, prefix_of, with_filter
from penstock.lowering.row_windows import numbered, sequencer_recipe
from penstock.lowering.scheduling import check_policy
from penstock.lowering.sheddable import check_loss, with_ranked_columns
from penstock.lowering.table import BESIDE, Recipe, lowering_of, recipe_of, recipe_of_generator
from penstock.lowering.terms import answer_schema, promised, terms_of
from penstock.model.declarations import Constraint, ConstraintKind, EndOfLife, Generator, RowPolicy, StreamDeclaration
from penstock.model.schema import Schema
from penstock.operators.project import Project
from penstock.plan.analysis.generation import chosen
from penstock.plan.catalog import Catalog
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Keys, Node, Spread
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.rewrites.apply import rewritten

#: Instead of a level: before the exchange.
PACKING = -1


@dataclass
class _Level:
    nodes: list[GraphNode] = field(default_factory=list)
    entries: dict[str, EntrySpec] = field(default_factory=dict)
    sources: list[SourceEntry] = field(default_factory=list)
    outputs: dict[str, Port] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)


def build_job(
    catalog: Catalog, shards: int, queries: Iterable[str] | None = None, optimise: bool = True, filters_early: bool = True
) -> Job:
    """Stages for the queries of an application (all of them, or those named and what they read).

    Parameters
    ----------
    optimise
        Rewrite the plans first; the answers are the same without.
    filters_early
        Whether packing tasks run filters that call Python, which needs a host that tells them what is decided. Otherwise shards do.
    """
    return build_generations([Generation.only(catalog, queries)], shards, optimise, filters_early)


def build_generations(generations: Iterable[Generation], shards: int, optimise: bool = True, filters_early: bool = True) -> Job:
    """Stages for all queries that still run, oldest first."""
    builder = _Builder(shards, filters_early)
    for generation in generations:
        builder.add(generation, optimise)
    return builder.build()


def startable(catalog: Catalog) -> Job:
    """The application as it would run; what would stop it when it starts, such as options that exclude each other, stops here."""
    check_policy(catalog)
    job = build_job(catalog, shards=1)
    for stage in job.stages:
        for node in stage.graph.nodes:
            node.make()
    for item, _ in job.early_filters.values():
        item.make()
    check_loss(job, job.contracts)
    return job


class _Builder:
    def __init__(self, shards: int, filters_early: bool) -> None:
        self.shards = shards
        self._filters_early = filters_early
        self.levels: dict[int, _Level] = {}
        self.placements: dict[tuple[int, str], tuple[int, str, str]] = {}
        self._users: dict[str, set[str]] = {}
        #: Sender of each derived entry.
        self._crossings: dict[str, str] = {}
        self._unwatched: list[str] = []
        self._living: list[tuple[str, Schema]] = []
        self._terms: dict[str, Terms] = {}
        self._timed: set[str] = set()
        #: Where queries of all generations come out.
        self._ports: dict[str, Placed] = {}
        self._plans: dict[int, Catalog] = {}

    def add(self, generation: Generation, optimise: bool) -> None:
        """Build the queries of a generation, also those that run no more: what the others share with them stays as it is."""
        own = generation.queries
        self.catalog = _rewritten(generation) if optimise else generation.catalog
        self._plans[generation.number] = self.catalog
        self._number, self._own = generation.number, own
        #: Ends all names of this generation.
        self._suffix = f"~{generation.number}" if generation.number else ""
        self._known: dict[str, Found] = {}
        #: Places of operators that could have gone anywhere.
        self._settled: dict[str, Placed] = {}
        self._generators: dict[str, tuple[Generator, ...]] = {}
        self._count = 0
        ports = {}
        for query in self.catalog.in_order():
            if query.name.lower() not in own:
                continue
            self._query = query.name if query.name.lower() in generation.living else ""
            ports[query.name.lower()] = placed = self._placed(self._below(query.plan))
            if self._query:
                self._level(placed.level).outputs[query.name] = placed.port
                self._living.append((query.name, answer_schema(query)))
                self._terms[query.name] = terms_of(self.catalog, query.name)
                self._timed |= {query.name} if query.shows_timing else set()
        self._ports |= ports

    def build(self) -> Job:
        found = list(self._stages())
        stages = tuple(replace(stage, is_last=stage is found[-1]) for stage in found)
        placements, unwatched = self._living_placements(), tuple(dict.fromkeys(self._unwatched))
        contracts = promised(self.catalog, dict(self._living))
        return with_ranked_columns(Job(stages, dict(self._living), self.shards, placements, unwatched, self._plans, contracts))

    def _living_placements(self) -> dict[tuple[int, str], tuple[int, str, str]]:
        """Without operators that only queries which are gone have used: whoever looks for them in the graph finds none."""
        gone = {name for name, users in self._users.items() if not users - {""}}
        return {key: found for key, found in self.placements.items() if found[1] not in gone}

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _below(self, node: Node) -> Found:
        """What `node` is; equal nodes are built once."""
        key = repr(node)
        if key not in self._known:
            self._known[key] = self._build(node)
        found = self._settled.get(key) or self._known[key]
        if isinstance(found, Placed):
            self._mark_users(found)
        return found

    def _mark_users(self, placed: Placed) -> None:
        """The running query also uses everything below a shared operator."""
        waiting = [placed.port[0]]
        by_id = {node.id: node for level in self.levels.values() for node in level.nodes}
        while waiting:
            name = waiting.pop()
            name = self._crossings.get(name, name)
            if name in by_id and self._query not in self._users[name]:
                self._users[name].add(self._query)
                waiting += [source for source, _ in by_id[name].sources]

    def _build(self, node: Node) -> Found:
        prefix = prefix_of(node)
        if prefix is not None:
            return prefix
        if isinstance(node, nodes.Reference):
            return self._reference(node)
        inputs = [self._below(part) for part in node.inputs]
        if isinstance(node, WindowJoin) and node.spreads_counted:
            inputs = self._counted(node, inputs)
        if isinstance(node, nodes.Select | nodes.Project) and isinstance(inputs[0], Prefix | Floating):
            prefix = self._grown(inputs[0], node) if isinstance(inputs[0], Prefix) else None
            return Floating(node, inputs[0]) if prefix is None else prefix
        wanted = lowering_of(node).wanted_keys(node, [known_spread(found) for found in inputs])
        inputs = [self._followed(found, keys) for found, keys in zip(inputs, wanted, strict=True)]
        level = max([self._level_for(found, keys) for found, keys in zip(inputs, wanted, strict=True)], default=1)
        sources = tuple(self._at(found, keys, level) for found, keys in zip(inputs, wanted, strict=True))
        spread = partitionings_of(node, inputs, wanted), senders_of(node, inputs, wanted)
        return self._add(node, level, sources, spread, wanted, any(map(is_trusting, inputs)))

    def _grown(self, below: Prefix, node: nodes.Select | nodes.Project) -> Prefix | None:
        """The prefix with a node more; None if shards have to run that."""
        found, name = grown(below, node), ""
        if found is None and self._filters_early and isinstance(node, nodes.Select) and can_filter_early(node):
            name = self._named(type(node).__name__)
            found = with_filter(below, node, name)
        if found is not None:
            self.placements[self._number, repr(node)] = (PACKING, name, "")
        return found

    def _add(
        self, node: Node, level: int, sources: tuple[Port, ...], spread: tuple[Spread, Spread], wanted: list[Keys], trusts: bool
    ) -> Placed:
        branch = node.output_port
        recipe = recipe_of(node, trusts)
        shared = self._shared_split(recipe, level, sources) if branch else None
        if shared is None:
            shared = self._named(type(node).__name__)
            made = recipe.named(shared) if isinstance(recipe, FilterRecipe) else recipe
            self._level(level).nodes.append(GraphNode(shared, made, sources, price=lowering_of(node).price))
            self._users[shared] = {self._query}
            self.placements[self._number, repr(node)] = (level, shared, shown_keys(wanted))
        return Placed(level, (shared, branch), node.schema, *spread, trusts)

    def _counted(self, node: WindowJoin, inputs: list[Found]) -> list[Found]:
        """The inputs of a join behind the operator that counts their rows, in one shard."""
        inputs = [self._followed(found, ()) for found in inputs]
        level = max(self._level_for(found, ()) for found in inputs)
        sources = tuple(self._at(found, (), level) for found in inputs)
        name = self._apart("Sequencer", sequencer_recipe(node), level, sources)
        return [*numbered(node, name, level, any(map(is_trusting, inputs)))]

    def _shared_split(self, recipe: Recipe, level: int, sources: tuple[Port, ...]) -> str | None:
        for known in self._level(level).nodes:
            if known.id.endswith(self._suffix) and known.sources == sources and repr(known.make) == repr(recipe):
                return known.id
        return None

    def _reference(self, node: nodes.Reference) -> Found:
        query = self.catalog.queries[node.query.lower()]
        is_earlier = query.name.lower() in self._ports and query.name.lower() not in self._own
        # What Catalyst evaluates has no state that an earlier query could have: it is read anew.
        if is_earlier and prefix_of(query.plan) is None:
            plain = nodes.Reference(node.query, node.output, "", node.clock_time)
            found: Found = self._earlier(query.name)
            below: Node = plain
        else:
            found, below = self._below(query.plan), query.plan
        if not node.alias:
            return found
        items = tuple((new, Column(old)) for new, old in zip(node.schema.names, node.output.names, strict=True))
        return self._below(nodes.Project(below, items))

    def _earlier(self, query: str) -> Placed:
        """Where the answers of a query of an earlier generation come out."""
        placed = self._ports[query.lower()]
        self._mark_users(placed)
        return placed

    def _named(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}{self._suffix}"

    # -- placing ------------------------------------------------------------------------------------------------------

    def _level(self, number: int) -> _Level:
        return self.levels.setdefault(number, _Level())

    def _level_for(self, found: Found, keys: Keys) -> int:
        if isinstance(found, Prefix | Floating):
            return 1
        return found.level if suits(found.partitionings, keys) else found.level + 1

    def _followed(self, found: Found, keys: Keys) -> Found:
        """An operator that cannot run where the keys are wanted gets a place before they are known."""
        return self._settle(found, None, 1) if isinstance(found, Floating) and not found.follows(keys) else found

    def _settle(self, found: Floating, keys: Keys, level: int) -> Placed:
        """Give a floating operator its place, once: whoever else wants it crosses from there."""
        key = repr(found.node)
        known = self._settled.get(key)
        if known is None or (known.level, known.partitionings) != (level, spread_by(keys)):
            source = self._at(found.below, None if keys is None else keys_before(found.node, keys), level)
            known = self._add(found.node, level, (source,), (spread_by(keys), spread_by(keys)), [keys], is_trusting(found))
            if keys != EVERYWHERE:  # nobody else wants each row several times
                self._settled.setdefault(key, known)
        self._mark_users(known)
        return known

    def _placed(self, found: Found) -> Placed:
        """A query that is all prefix still needs a stage to pass through."""
        if isinstance(found, Placed):
            return found
        if isinstance(found, Floating):
            return self._settle(found, None, 1)
        names = found.schema.names
        everything = nodes.Project(nodes.Scan(found.stream), tuple((name, expr) for name, expr in found.items))
        port = self._at(found, None, 1)
        passing = nodes.Project(everything, tuple((name, Column(name)) for name in names))
        return self._add(passing, 1, (port,), ((), ()), [None], is_trusting(found))

    def _at(self, found: Found, keys: Keys, level: int) -> Port:
        """The port where `found` is available at `level`, partitioned by `keys`."""
        if isinstance(found, Floating):
            return self._settle(found, keys, level).port
        if isinstance(found, Prefix):
            return self._entered(found, keys, level)
        if found.level == level and suits(found.partitionings, keys):
            return found.port
        return self._exchange(found, keys, level), ""

    def _entered(self, prefix: Prefix, keys: Keys, level: int) -> Port:
        """Where rows of a stream are available, once they and their promises have been looked at."""
        watched = prefix.watched()
        entry = self._source(watched, meeting_keys(watched) if keys is None else keys, level)
        port = self._generated(watched, keys, level, (entry, ""))
        if watched is prefix:
            return port
        shown = tuple((name, Column(name)) for name in prefix.schema.names)
        recipe = partial(Project, watched.schema.arrow, shown, prefix.schema.arrow)
        return self._apart("Project", recipe, level, (port,)), ""

    def _generated(self, prefix: Prefix, keys: Keys, level: int, port: Port) -> Port:
        """Behind a source the operators that make its punctuations, as far as the keys of this entry are concerned."""
        for item in self._chosen(prefix.stream):
            column = dict(prefix.kept).get(item.column)
            # Where one shard has all rows it hears of every value that is closed; scopes are of use beside a key only.
            is_wanted = column is not None and (column in (keys or ()) or (keys == () and item.rows == 0))
            recipe = recipe_of_generator(item, prefix, column) if is_wanted and column is not None else None
            if recipe is None or (item.reference is not None and keys not in ((column,), ())):
                continue  # an end told elsewhere must be known in the shard of the value
            reference = item.reference
            sources = (port, *(((self._reference_entry(reference, level, keys == ()), ""),) if reference is not None else ()))
            port = (self._apart("Generator", recipe, level, sources), "")
        return port

    def _apart(self, kind: str, recipe: Recipe, level: int, sources: tuple[Port, ...]) -> str:
        """An operator that no node of the plan stands for; one for all who want the same."""
        name = self._shared_split(recipe, level, sources)
        if name is None:
            name = self._named(kind)
            self._level(level).nodes.append(GraphNode(name, recipe, sources, price=BESIDE))
            self._users[name] = set()
        self._users[name].add(self._query)
        return name

    def _chosen(self, stream: StreamDeclaration) -> tuple[Generator, ...]:
        if not stream.generators:
            return ()
        if stream.name not in self._generators:
            self._generators[stream.name] = chosen(self.catalog, stream)
        return self._generators[stream.name]

    def _reference_entry(self, reference: EndOfLife, level: int, in_one_shard: bool) -> str:
        """Where the stream that tells the ends enters: spread by the value, unless one shard has it all."""
        stream = self.catalog.stream(reference.stream)
        names = [stream.schema[name].name for name in dict.fromkeys((reference.key, reference.time))]
        prefix = Prefix(stream, tuple((name, Column(name)) for name in names), (), stream.schema.select(names))
        return self._source(prefix, () if in_one_shard else (names[0],), level)

    def _source(self, prefix: Prefix, keys: Keys, level: int) -> str:
        mine = [entry for entry in self._level(level).entries if self._is_own(entry)]
        for known in self._level(level).sources:
            if known.route.entry in mine and known.prefix == prefix and known.route.keys == keys:
                return known.route.entry
        stream = prefix.stream
        name = f"{stream.name}@{level}.{len(mine)}{self._suffix}"
        used = replace(stream, generators=self._chosen(stream))
        route = Route(name, used, prefix.schema.arrow, prefix.kept, keys, self.shards, prefix.weight)
        renamed = dict(prefix.kept)
        watched = [item for item in stream.constraints if can_be_watched(item, renamed.get(stream.schema[item.column].name), keys)]
        constraints = tuple(Constraint(item.kind, renamed[stream.schema[item.column].name]) for item in watched)
        self._unwatched += [
            f"{item.kind.upper()} ({item.column}) of {stream.name} is not checked by query {self._query}: "
            f"rows with equal {item.column} need not meet in one shard"
            for item in stream.constraints
            if self._query and item not in watched and item.kind is ConstraintKind.UNIQUE
        ]
        self._level(level).sources.append(SourceEntry(route, prefix))
        self._level(level).entries[name] = EntrySpec(
            name, stream.name, prefix.schema.arrow, stream.disorder, constraints,
            stream.on_late, stream.on_bad, stream.on_violation, key=only_key(keys), is_copied=keys == EVERYWHERE,
            has_clock_time=stream.has_clock_time, has_order=stream.has_order, is_partitioned=bool(stream.partition_column),
            source_partitions=stream.known_partitions, idle_us=stream.idle_us, is_arrival=stream.arrival_time,
        )  # fmt: skip
        return name

    def _exchange(self, found: Placed, keys: Keys, level: int) -> str:
        name = f"{found.port[0]}{found.port[1]}@{level}" + ("" if keys is None else f".{','.join(keys)}") + self._suffix
        if name not in self._level(level).entries:
            # Operators keep what they promise, unless their own inputs did not.
            policy = RowPolicy.TRUST if found.is_trusting else RowPolicy.ERROR
            self._level(level).entries[name] = EntrySpec(
                name, found.port[0], found.schema.arrow, on_violation=policy, partitions=self.shards, key=only_key(keys),
                is_copied=keys == EVERYWHERE,
            )  # fmt: skip
            self._crossings[name] = found.port[0]
            sender = self._level(found.level)
            sender.outputs[f"{LOOP}{name}"] = found.port
            sender.exchanges[f"{LOOP}{name}"] = Exchange(name, found.schema, keys, found.senders)
        return name

    def _is_own(self, entry: str) -> bool:
        return entry.rpartition("~")[1:] == ("~", self._suffix[1:]) if self._suffix else "~" not in entry

    def _stages(self) -> Iterator[Stage]:
        """All levels as far as queries that still run need them."""
        living = {node.id for level in self.levels.values() for node in level.nodes if self._users[node.id] - {""}}
        read = {source for level in self.levels.values() for node in level.nodes if node.id in living for source, _ in node.sources}
        for number in sorted(self.levels):
            stage = self._stage(number, living, read)
            if stage is not None:
                yield stage

    def _stage(self, number: int, living: set[str], read: set[str]) -> Stage | None:
        level = self.levels[number]
        finished = tuple(
            GraphNode(node.id, node.make, node.sources, frozenset(self._users[node.id] - {""}), node.price)
            for node in level.nodes
            if node.id in living
        )
        if not finished:
            return None
        entries = {name: entry for name, entry in level.entries.items() if name in read}
        exchanges = {name: exchange for name, exchange in level.exchanges.items() if exchange.entry in read}
        outputs = {name: port for name, port in level.outputs.items() if name in exchanges or name not in level.exchanges}
        kept = _Level(list(finished), entries, [item for item in level.sources if item.route.entry in read], outputs, exchanges)
        graph = Graph(
            finished, tuple(entries.values()), outputs, _fingerprint(finished, kept, self.shards), terms=self._terms,
            timed=frozenset(self._timed),
        )  # fmt: skip
        return Stage(number, graph, tuple(kept.sources), exchanges)


def _rewritten(generation: Generation) -> Catalog:
    """The application with the plans of a generation rewritten: together, and with no others, so that they stay as they are."""
    catalog = generation.catalog
    own = {name: query for name, query in catalog.queries.items() if name in generation.queries}
    if len(own) == len(catalog.queries):
        return rewritten(catalog)
    return replace(catalog, queries={**catalog.queries, **rewritten(replace(catalog, queries=own)).queries})


def _fingerprint(finished: tuple[GraphNode, ...], level: _Level, shards: int) -> str:
    parts = [f"{node.id}{node.sources}{node.make}" for node in finished]
    parts += [f"{entry.name}{entry.schema}" for entry in level.entries.values()]
    # What Catalyst evaluates decides what the state holds, although no state is its own.
    parts += [f"{source.prefix.items}{source.prefix.conditions}" for source in level.sources]
    parts += [item.content for source in level.sources for item in source.prefix.filters]
    # Whether an input is spread or copied may follow from declared rates, which are no part of the plan.
    parts += [entry.name for entry in level.entries.values() if entry.is_copied]
    parts += [str(shards), str(sorted(level.outputs))]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
