"""`check` and the run agree: state that is called bounded stays small on a long stream, other state grows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from penstock.errors import UserError
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job, startable
from penstock.model.hint_options import HINTS, Option
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner

COLUMNS = pa.schema({"k": pa.int64(), "x": pa.int64(), "last": pa.bool_(), "mark": pa.string(), "ts": pa.int64()})
#: What a stream may declare about its key; the rows below keep every one of these promises.
DECLARATIONS = ("", "UNIQUE (k)", "ORDERED (k)", "CLUSTERED (k)", "PUNCTUATIONS FROM mark ON (k)", "PUNCTUATIONS FROM mark ON (x)",
                "PUNCTUATIONS FROM mark", "PUNCTUATE k WHEN last")  # fmt: skip
_KEYS, _BATCHES = 3, 24


@dataclass(frozen=True)
class Case:
    """An application of one join, what its streams declare, and in how many shards it runs."""

    declared: tuple[str, ...]
    query: str
    shards: int = 1

    @property
    def pairs_by_arrival(self) -> bool:
        """Whether ranges of one stream are to be paired with single values of another."""
        return "'paired'" in self.query and len({declared.startswith("ORDERED") for declared in self.declared}) > 1

    @property
    def text(self) -> str:
        return "".join(map(_stream, "abc", self.declared)) + self.query


def _stream(name: str, declared: str) -> str:
    element = f"{declared}, " if declared.endswith("(k)") and not declared.startswith("PUNCT") else ""
    clause = "" if element else f" {declared}"
    columns = "k BIGINT, x BIGINT, last BOOLEAN, mark STRING, ts BIGINT"
    return f"CREATE STREAM {name} ({columns}, {element}WATERMARK ts DELAY OF 2){clause};\n"


def rows_of(declared: str, number: int) -> pa.RecordBatch:
    """Rows of one micro-batch: keys that were never seen before, each closed as soon as the stream can close it."""
    found: list[dict[str, object]] = []
    for key in range(number * _KEYS, (number + 1) * _KEYS):
        repeats = 1 if declared.startswith("UNIQUE") else 3
        found += [{"k": key, "x": key, "last": copy == repeats - 1, "mark": None, "ts": 5 * key + copy} for copy in range(repeats)]
        if declared.startswith("PUNCTUATIONS"):
            columns = ("x",) if "(x)" in declared else ("k", "x") if "ON" not in declared else ("k",)
            marks = [json.dumps({column: key}) for column in columns]
            found += [{"k": None, "x": None, "last": None, "mark": mark, "ts": 5 * key + 3} for mark in marks]
    return pa.RecordBatch.from_pylist(found, COLUMNS)


def sizes(catalog: Catalog, case: Case) -> dict[str, list[int]]:
    """Rows and waiting punctuations in the state of joins and of groupings, after each micro-batch, over all shards."""
    runner = LocalRunner(build_job(catalog, case.shards))
    found: dict[str, list[int]] = {"join": [], "group": []}
    for number in range(_BATCHES):
        runner.run({name: rows_of(declared, number) for name, declared in zip("abc", case.declared, strict=False)})
        report = runner.report()
        for kind, held in found.items():
            held.append(sum(_level(counters) for name, counters in report.items() if kind in name.lower()))
    return found


def _level(counters: Mapping[str, int]) -> int:
    return counters["state_rows"] + counters["queue_rows"] + counters.get("pending_punctuations", 0) + counters.get("inodes", 0)


def grows(held: Sequence[int]) -> bool:
    """Whether the second half of a run needs more than the first."""
    middle = len(held) // 2
    return max(held[-6:]) > max(held[middle - 6 : middle]) + _BATCHES // 3


@st.composite
def options(draw: st.DrawFn, hint: str) -> str:
    chosen = draw(st.lists(st.sampled_from(HINTS[hint].options), max_size=3, unique_by=lambda option: option.name))
    written = [option for option in HINTS[hint].options if option in chosen or option.is_required]
    return ", ".join(f"{option.name} = {draw(_values(option))}" for option in written)


def _values(option: Option) -> st.SearchStrategy[str]:
    words = [f"'{word}'" for word in option.words]
    if option.kind is bool:
        return st.sampled_from(["TRUE", "FALSE"])
    numbers: list[object] = []
    if option.kind is int:
        numbers = [max(1, option.least), 2, 40]
    elif option.kind is float:
        numbers = [0.5, 0.95] if option.most <= 1 else [0.5, 2.0]
    return st.sampled_from([*words, *map(str, numbers)])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    hint = draw(st.sampled_from(["", *(name for name in HINTS if name != "ORDER")]))
    least = 3 if hint == "MJOIN" else 2
    most = 3 if hint in ("", "MWJOIN", "MPWJOIN", "MJOIN") else 2
    count = draw(st.integers(least, most))
    takes_windows = hint not in ("PJOIN", "XJOIN")
    kinds = ["", " [RANGE 12]"] + ([" [ROWS 4]"] if takes_windows and hint not in ("APPROXIMATE", "MJOIN") else [])
    windows = [draw(st.sampled_from(kinds)) if takes_windows else "" for _ in range(count)]
    if any("ROWS" in window for window in windows):
        windows = [window or " [ROWS 4]" for window in windows]
    names = "abc"[:count]
    asked = f"/*+ {hint}({draw(options(hint))}) */ " if hint else ""
    sources = ", ".join(f"{name}{window}" for name, window in zip(names, windows, strict=True))
    grouped = f"CREATE CQ g AS SELECT k, count(*) AS n FROM {{}}{draw(st.sampled_from(['', ' [RANGE 12]']))} GROUP BY k;\n"
    where = " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(names))
    query = f"CREATE CQ j AS SELECT {asked}a.k AS k, b.x AS x FROM {sources} WHERE {where};\n"
    query += draw(st.sampled_from(["", grouped.format("j"), grouped.format("a")]))
    declared = tuple(draw(st.sampled_from(DECLARATIONS)) for _ in names)
    return Case(declared, query, draw(st.integers(1, 3)))


def _join(hint: str, group: str = "", windows: tuple[str, str] = ("", "")) -> str:
    return f"CREATE CQ j AS SELECT /*+ {hint} */ a.k AS k, b.x AS x FROM a{windows[0]}, b{windows[1]} WHERE a.k = b.k;\n{group}"


CLOSED, TOLD = "PUNCTUATIONS FROM mark ON (k)", "PUNCTUATE k WHEN last"
GROUPED = "CREATE CQ g AS SELECT k, count(*) AS n FROM j GROUP BY k;\n"
WINDOWED = "CREATE CQ g AS SELECT k, count(*) AS n FROM j [RANGE 12] GROUP BY k;\n"
THREE = "SELECT /*+ MPWJOIN */ a.k FROM a [RANGE 12], b, c [RANGE 12] WHERE a.k = b.k AND b.k = c.k"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
@example(case=Case((CLOSED, CLOSED), _join("XJOIN")))
@example(case=Case((CLOSED, CLOSED), _join("WJOIN", GROUPED)))
@example(case=Case((CLOSED, CLOSED), _join("PJOIN", GROUPED)))
@example(case=Case((CLOSED, CLOSED), _join("PJOIN(memory_bytes = 1)", WINDOWED), 2))
@example(case=Case((CLOSED, ""), _join("PWJOIN", GROUPED, (" [RANGE 12]", " [RANGE 12]"))))
@example(case=Case((CLOSED, CLOSED), _join("PWJOIN(max_drop_markers = 2)")))
@example(case=Case(("UNIQUE (k)", "ORDERED (k)"), _join("PJOIN", GROUPED)))
@example(case=Case(("UNIQUE (k)", "PUNCTUATIONS FROM mark"), _join("PJOIN")))
@example(case=Case(("", TOLD, TOLD), f"CREATE CQ j AS {THREE};"))
@example(case=Case((TOLD, TOLD), "CREATE CQ g AS SELECT k, count(*) AS n FROM a GROUP BY k;"))
def test_state_is_bounded_in_a_run_exactly_where_check_says_so(case: Case) -> None:
    try:
        catalog = parse_application(case.text)
    except UserError:
        return  # refused with a place and a reason; `check` and `run` read the same text
    report = check(catalog)
    startable(catalog)
    held = sizes(catalog, case)
    for kind, levels in held.items():
        judged = [verdict for verdict in report.verdicts if verdict.holdings and kind in type(verdict.node).__name__.lower()]
        is_bounded = all(verdict.is_bounded for verdict in judged)
        if kind == "group" and not is_bounded and case.pairs_by_arrival:
            continue  # whether such punctuations go on depends on which of two streams is ahead: nothing can be proved
        if not is_bounded and "PUNCTUATIONS FROM mark" in case.declared:
            continue  # which values will be closed is not declared: nothing can be proved, although they are closed here
        assert grows(levels) is not is_bounded, (kind, levels, str(report))


@pytest.mark.parametrize("hint", ["PJOIN", "XJOIN", "WJOIN", "PWJOIN", "APPROXIMATE(recall = 1)"])
def test_check_reports_unbounded_state_of_every_hint_and_offers_only_what_can_be_written(hint: str) -> None:
    report = check(parse_application(Case(("", ""), _join(hint)).text))
    assert not report.is_bounded
    (join,) = [verdict for verdict in report.verdicts if verdict.holdings]
    offered = [step for remedy in join.remedies for step in remedy.steps]
    assert offered
    if hint in ("PJOIN", "XJOIN"):
        assert all("[RANGE" not in str(remedy) or "no hint" in str(remedy) for remedy in join.remedies)
