"""Random queries of every kind while rows are left out: the answers are those of the rows that are left, however they are run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings

from penstock.columnar.coins import coins
from penstock.columnar.hashing import mixed
from penstock.lowering.jobs import Job
from penstock.lowering.shedding import changed_meanings
from penstock.model.elements import SHED, Control
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.relational import GroupBy
from penstock.qos.shedding.table import is_number
from penstock.runners.local.runner import LocalRunner
from penstock.testing.coming_and_going import is_part_of
from penstock.testing.random_queries.applications import STREAMS, outer_applications
from penstock.testing.soak import (
    ALL_THE_TIME,
    Case,
    cases,
    found_by_duckdb,
    found_by_penstock,
    micro_batches,
    play,
    runner_for,
    unaccounted,
)

_SEED = 5
_SHARES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.6]), min_size=1, max_size=3)


def entries(job: Job) -> Iterator[tuple[str, str, pa.Schema]]:
    for stage in job.stages:
        for source in stage.sources:
            yield source.route.entry, source.route.stream.name, source.route.columns


def at_random(job: Job, shares: Sequence[float]) -> Callable[[int], list[Control]]:
    """In each micro-batch another share, of all entries the same rows."""
    names = [entry for entry, _, _ in entries(job)]
    return lambda number: [
        Control(number, SHED, {"entry": name, "share": shares[number % len(shares)], "seed": _SEED}) for name in names
    ]


def drawn(stream: str, positions: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The coins of rows; each stream has its own."""
    return coins(int(mixed(_SEED, crc32(stream.encode()))), 0, positions)


def what_is_left(batches: Sequence[Mapping[str, pa.RecordBatch]], shares: Sequence[float]) -> dict[str, pa.RecordBatch]:
    """By the definition: a row is left out if its coin is below the share."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in STREAMS}
    for number, batch in enumerate(batches):
        for name, rows in batch.items():
            stays = drawn(name, rows.column("id").to_numpy()) >= shares[number % len(shares)]
            found[name].append(rows.filter(pa.array(stays)))
    return {name: pa.concat_batches(parts) for name, parts in found.items() if parts}


def has_its_newest_rows(left: Mapping[str, pa.RecordBatch], tables: Mapping[str, pa.RecordBatch]) -> bool:
    """Time goes on by all rows, and the equivalent of some windows asks for the newest."""
    return all(
        rows.num_rows == 0 or (name in left and max(rows.column("ts").to_pylist()) in left[name].column("ts").to_pylist())
        for name, rows in tables.items()
    )


def run(case: Case, decided: Callable[[int], Sequence[Control]] = lambda _: ()) -> LocalRunner:
    runner = runner_for(case)
    play(runner, micro_batches(case.tables, dict(case.host.cuts)), case.host, decided=decided)
    return runner


def all_the_time(case: Case) -> Case:
    return replace(case, host=replace(case.host, spans=ALL_THE_TIME))


@given(st.one_of(cases(), cases(outer_applications())).map(all_the_time), _SHARES)
@settings(max_examples=40, deadline=None)
def test_answers_are_those_of_the_rows_that_are_left(case: Case, shares: list[float]) -> None:
    """Of all kinds of queries, on any number of shards, however rows are cut and budgets are small; nothing else gets lost."""
    left = what_is_left(micro_batches(case.tables, dict(case.host.cuts)), shares)
    left |= {name: rows.slice(0, 0) for name, rows in case.tables.items() if name not in left}
    assume(has_its_newest_rows(left, case.tables))
    runner = runner_for(case)
    play(runner, micro_batches(case.tables, dict(case.host.cuts)), case.host, decided=at_random(runner.job, shares))
    for query in case.application.queries:
        assert found_by_penstock(runner, query.name) == found_by_duckdb(query, left), case
    assert unaccounted(runner) == []
    assert read_and_shed(runner, case) == []


def read_and_shed(runner: LocalRunner, case: Case) -> list[str]:
    """Entries that have not read all rows of their stream, or that count more rows as left out than there are."""
    report, wrong = runner.report(), []
    for entry, stream, _ in entries(runner.job):
        counted, there = report[entry], case.tables[stream].num_rows
        if counted["read"] != there or not 0 <= counted["shed"] <= there - counted["filtered"]:
            wrong.append(f"{entry}: {counted} of {there} rows")
    return wrong


@given(cases().map(all_the_time))
@settings(max_examples=12, deadline=None)
def test_a_share_of_nothing_changes_nothing(case: Case) -> None:
    """P1, for decisions by any rule."""
    exact = run(case)
    job = runner_for(case).job
    for decided in (at_random(job, [0.0]), by_column(job, [0.0], "lowest")):
        shed = run(case, decided)
        assert [found_by_penstock(shed, query.name) for query in case.application.queries] == [
            found_by_penstock(exact, query.name) for query in case.application.queries
        ], case
        assert sum(shed.report()[entry]["shed"] for entry, _, _ in entries(job)) == 0


def by_column(job: Job, shares: Sequence[float], kind: str) -> Callable[[int], list[Control]]:
    """Of each entry that has numbers rows by the first of them, of the others any."""
    details = []
    for entry, _, columns in entries(job):
        numbers = [item.name for item in columns if is_number(item.type)]
        details.append({"entry": entry, "seed": _SEED, **({"kind": kind, "column": numbers[0]} if numbers else {})})
    return lambda number: [Control(number, SHED, {**detail, "share": shares[number % len(shares)]}) for detail in details]


def plans_of(catalog: Catalog, query: str) -> Iterator[Node]:
    """The plan of a query and those of all queries that it reads."""
    plan = catalog.queries[query.lower()].plan
    yield plan
    for node in walk(plan):
        if node.query_read:
            yield from plans_of(catalog, node.query_read)


def only_loses(job: Job, query: str) -> bool:
    """Whether a decision would be allowed without ANYWHERE, and no aggregate counts what is left."""
    nodes = (node for catalog in job.plans.values() for plan in plans_of(catalog, query) for node in walk(plan))
    return not any(changed_meanings(job, query)) and not any(isinstance(node, GroupBy) for node in nodes)


@given(
    st.one_of(cases(), cases(outer_applications())).map(all_the_time),
    _SHARES,
    st.sampled_from(["random", "lowest", "highest", "center", "outlier"]),
)
@settings(max_examples=40, deadline=None)
def test_what_may_be_lost_without_anywhere_only_makes_answers_missing(case: Case, shares: list[float], kind: str) -> None:
    """P2: each answer is one of all rows, as often at most; by whatever rule rows are chosen."""
    job = runner_for(case).job
    usable = [query for query in case.application.queries if only_loses(job, query.name)]
    assume(usable)
    exact = run(case)
    shed = run(case, at_random(job, shares) if kind == "random" else by_column(job, shares, kind))
    for query in usable:
        ours, theirs = found_by_penstock(shed, query.name), found_by_penstock(exact, query.name)
        assert is_part_of(ours, theirs), f"{Counter(ours) - Counter(theirs)}\n{case}"
    assert unaccounted(shed) == []


@given(
    cases().map(all_the_time), st.sampled_from([0.2, 0.5]), st.lists(st.integers(1, 13), max_size=4).map(tuple), st.integers(1, 4)
)
@settings(max_examples=12, deadline=None)
def test_which_rows_are_left_out_depends_on_positions_alone(case: Case, share: float, places: tuple[int, ...], shards: int) -> None:
    other = replace(case, host=replace(case.host, shards=shards, cuts=tuple((name, places) for name in STREAMS)))
    runs = [run(each, at_random(runner_for(each).job, [share])) for each in (case, other)]
    for query in case.application.queries:
        assert found_by_penstock(runs[0], query.name) == found_by_penstock(runs[1], query.name), case
    of_streams = []
    for found in runs:
        by_stream: dict[str, set[int]] = {}
        for entry, stream, _ in entries(found.job):
            if not found.report()[entry]["filtered"]:
                by_stream.setdefault(stream, set()).add(found.report()[entry]["shed"])
        of_streams.append(by_stream)
    for name in of_streams[0].keys() & of_streams[1].keys():
        expected = int((drawn(name, np.arange(case.tables[name].num_rows)) < share).sum())
        assert of_streams[0][name] == of_streams[1][name] == {expected}
