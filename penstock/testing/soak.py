"""Compare random applications with DuckDB for as long as wanted.

``python -m penstock.testing.soak --minutes 60 --seed 7`` needs no Spark. Every application runs in this process, on one to five
shards, cut into micro-batches, with restarts, small budgets and both policies, rewritten or not; the answers must be those that
DuckDB finds in the whole of the streams. A disagreement is made as small as possible and printed with the seed that finds it
again; the command then ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.database import InMemoryExampleDatabase

from penstock.kernel.contracts import State
from penstock.kernel.segments import decode_meta, decode_segment, encode_meta, encode_segment
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.runners.local.runner import LocalRunner
from penstock.testing.coming_and_going import Programme, Spans, is_part_of, rows_since, spans
from penstock.testing.random_queries.applications import STREAMS, Application, Query, applications, tables

POLICIES = ("round_robin", "path_capacity")
#: Stages in one micro-batch; one stage with a loop that is emptied at once, or whose rows wait for the next rows.
LOOPS = ("", "at once", "waiting")
#: Applications of one run of Hypothesis; the clock is looked at between them.
_ROUND = 50
#: No query comes or goes.
ALL_THE_TIME = Spans()
#: Rows without a key are no events, and are refused as such.
_NO_EVENTS = ("null_key",)


@dataclass(frozen=True, slots=True)
class Host:
    """How an application is run: none of this may change an answer."""

    shards: int = 1
    optimise: bool = True
    policy: str = POLICIES[0]
    encode: bool = False
    budget: int | None = None
    restart: bool = False
    #: How rows cross from one stage to the next: in the same micro-batch, or round the loop.
    loop: str = ""
    cuts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    #: When queries come and go; this alone decides which rows they hear of.
    spans: Spans = ALL_THE_TIME


def hosts() -> st.SearchStrategy[Host]:
    places = st.lists(st.integers(0, 14), max_size=5).map(tuple)
    cuts = st.tuples(*(st.tuples(st.just(name), places) for name in STREAMS))
    return st.builds(
        Host,
        shards=st.sampled_from([1, 2, 3, 5]),
        optimise=st.booleans(),
        policy=st.sampled_from(POLICIES),
        encode=st.booleans(),
        budget=st.sampled_from([None, None, 1, 3, 20]),
        restart=st.booleans(),
        loop=st.sampled_from(LOOPS),
        cuts=cuts,
        spans=spans(),
    )


@dataclass(frozen=True, slots=True)
class Case:
    """An application, the rows of its streams, and a way to run it."""

    application: Application
    tables: Mapping[str, pa.RecordBatch]
    host: Host

    def __repr__(self) -> str:
        listed = "".join(f"\n{name} = {rows.to_pylist()}" for name, rows in self.tables.items())
        equivalents = "".join(f"\n-- {query.name} in DuckDB: {query.equivalent}" for query in self.application.queries)
        return f"{self.host}\n{self.application.text}{listed}{equivalents}"


@st.composite
def cases(draw: st.DrawFn, made: st.SearchStrategy[Application] | None = None) -> Case:
    application = draw(made if made is not None else applications())
    return Case(application, draw(tables(application.timeline)), draw(hosts()))


def disagreements(case: Case) -> list[str]:
    """What is wrong with the answers to a case; nothing if all is well."""
    batches = micro_batches(case.tables, dict(case.host.cuts))
    if case.host.spans == ALL_THE_TIME:
        runner = runner_for(case)
        play(runner, batches, case.host)
        wrong = [text for query in case.application.queries if (text := _difference(runner, query, case.tables))]
    else:
        runner, wrong = _changing(case, batches)
    wrong += [f"rows were refused: {part.text}" for part in runner.collected.refused if part.reason not in _NO_EVENTS]
    return [*wrong, *unaccounted(runner)]


def _difference(runner: LocalRunner, query: Query, found: Mapping[str, pa.RecordBatch], is_dropped: bool = False) -> str:
    ours, theirs = found_by_penstock(runner, query.name), found_by_duckdb(query, found)
    is_right = is_part_of(ours, theirs) if is_dropped else ours == theirs
    return "" if is_right else f"{query.name}: Penstock finds\n  {ours}\nDuckDB finds\n  {theirs}"


def _changing(case: Case, batches: Sequence[Mapping[str, pa.RecordBatch]]) -> tuple[LocalRunner, list[str]]:
    """Run with queries that come and go: each must answer as if its first micro-batch had been the first of all."""
    host, programme = case.host, Programme(case.application, case.host.spans)
    # What comes after the last rows comes before the end.
    last = max(*programme.begins.values(), *programme.drops.values(), len(batches) - 1, 0)
    batches = [*batches, *([{}] * (last + 1 - len(batches)))]
    edition = programme.first()
    runner = LocalRunner(edition.job(host.shards), host.policy, encode=host.encode, waits=host.loop == "waiting")

    def change(batch: int) -> None:
        nonlocal edition
        following = programme.next(edition, batch, host.shards)
        if following is not edition:
            edition = following
            runner.change(edition.job(host.shards))

    play(runner, batches, host, change)
    wrong = []
    for query in case.application.queries:
        if query.name in programme.alike:
            since = rows_since(batches, programme.begins[query.name], case.tables)
            wrong.append(_difference(runner, query, since, query.name in programme.drops))
    return runner, [text for text in wrong if text]


def runner_for(case: Case) -> LocalRunner:
    host = case.host
    job = build_job(parse_application(case.application.text), host.shards, optimise=host.optimise)
    return LocalRunner(looped(job) if host.loop else job, host.policy, encode=host.encode, waits=host.loop == "waiting")


def micro_batches(found: Mapping[str, pa.RecordBatch], cuts: Mapping[str, Sequence[int]]) -> list[dict[str, pa.RecordBatch]]:
    """Each stream cut at its own places; shorter lists of pieces leave their stream idle at the end."""
    pieces: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in found.items():
        bounds = sorted({0, rows.num_rows, *(cut for cut in cuts.get(name, ()) if cut < rows.num_rows)})
        pieces[name] = [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]
    longest = max(map(len, pieces.values()), default=0)
    return [{name: listed[at] for name, listed in pieces.items() if at < len(listed)} for at in range(longest)]


def play(
    runner: LocalRunner, batches: Sequence[Mapping[str, pa.RecordBatch]], host: Host,
    change: Callable[[int], None] = lambda _: None, decided: Callable[[int], Sequence[Control]] = lambda _: (),
) -> None:  # fmt: skip
    """Run all micro-batches, with what is `decided` for each, and the end; a restart goes through the bytes of the state."""
    controls = [Control(0, "budget", {"ns": host.budget and host.budget * 30_000})]
    for number, batch in enumerate(batches):
        change(number)
        runner.run(batch, [*controls, *decided(number)])
        controls = []
        if host.restart:
            runner.restore({place: _stored(state) for place, state in runner.snapshot().items()})
    runner.end()


def _stored(state: State) -> State:
    meta = decode_meta(encode_meta(state.meta, "soak"), "soak")
    return State(meta, {key: decode_segment(encode_segment(part)) for key, part in state.segments.items()})


def unaccounted(runner: LocalRunner) -> list[str]:
    """Entries where read is not used + filtered + shed + late + bad + violating: nothing gets lost, between stages either."""
    wrong = []
    for name, counters in runner.report().items():
        if "read" in counters:
            refused = counters["late"] + counters["bad"] + counters["violating"] - counters["trusted"]
            used = counters["used"] + counters["filtered"] + counters["shed"] + refused
            if counters["read"] not in (0, used) or (not counters["read"] and refused):
                wrong.append(f"rows of {name} are not accounted for: {counters}")
    return wrong


def shown(value: Any) -> str:
    """Nine digits are enough to tell answers apart and too few to see in which order doubles were added."""
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    return repr(value.replace(tzinfo=None)) if isinstance(value, datetime) else repr(value)


def found_by_penstock(runner: LocalRunner, name: str) -> list[tuple[str, ...]]:
    return sorted((*map(shown, row.values()), shown(ts)) for ts, row in runner.collected.timed(name))


def found_by_duckdb(query: Query, found: Mapping[str, pa.RecordBatch]) -> list[tuple[str, ...]]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in found.items():
            connection.register(name, pa.Table.from_batches([rows]))
        cursor = connection.execute(query.equivalent)
        names = [column[0] for column in cursor.description]
        time_at = names.index("_ts")
        answers = [(*row[:time_at], *row[time_at + 1 :], row[time_at]) for row in cursor.fetchall()]
    return sorted(tuple(map(shown, row)) for row in answers)


def check(case: Case) -> None:
    """Fail, with the whole case in words, where answers disagree."""
    try:
        wrong = disagreements(case)
    except Exception as error:
        error.add_note(repr(case))
        raise
    assert not wrong, "\n".join([*wrong, repr(case)])


def _round(number: int, count: int) -> Callable[[], None]:
    """A run of Hypothesis that draws `count` cases from a seed."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=InMemoryExampleDatabase(),
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
        verbosity=Verbosity.quiet,
    )
    @given(cases())
    def compare(case: Case) -> None:
        check(case)

    return compare


def soak(minutes: float, number: int, count: int = _ROUND, keep_going: bool = False) -> int:
    """Compare until the time is over or something disagrees; the number of rounds that found a disagreement.

    A round is `count` applications that follow from one seed; there is at least one.
    """
    until, rounds, failed = time.monotonic() + 60 * minutes, 0, 0
    while not rounds or (time.monotonic() < until and (keep_going or not failed)):
        try:
            _round(number + rounds, count)()
        except Exception:
            failed += 1
            traceback.print_exc()
            again = f"--seed {number + rounds} --applications {count} --minutes 0"
            print(f"found again by: python -m penstock.testing.soak {again}", flush=True)
        rounds += 1
        print(f"{rounds * count} applications compared, seeds {number} to {number + rounds - 1}, {failed} disagree", flush=True)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    reader = argparse.ArgumentParser(prog="python -m penstock.testing.soak", description=__doc__)
    reader.add_argument("--minutes", type=float, default=10.0, help="how long to compare")
    reader.add_argument("--seed", type=int, default=None, help="where to begin; the time if it is left out")
    reader.add_argument("--keep-going", action="store_true", help="do not stop at the first disagreement")
    reader.add_argument("--applications", type=int, default=_ROUND, help="how many follow from each seed")
    asked = reader.parse_args(arguments)
    number = asked.seed if asked.seed is not None else int(time.time())
    print(f"seed {number}", flush=True)
    return 1 if soak(asked.minutes, number, asked.applications, asked.keep_going) else 0


if __name__ == "__main__":
    sys.exit(main())
