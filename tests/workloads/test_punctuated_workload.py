"""The feed of punctuated streams: every promise of its punctuations, checked by brute force."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.metadata.embedded import read_punctuation
from penstock.model.batch import int64s
from penstock.workloads.contracts import Marks, Options
from penstock.workloads.disorder import Disorder
from penstock.workloads.playback import Playback
from penstock.workloads.punctuated import Punctuated
from penstock.workloads.segments import USELESS

ROWS = 3_000


def closed_values(text: str, workload: Punctuated) -> list[int]:
    pattern = read_punctuation(text, workload.streams["a"], "a", 0).pattern("key")
    return list(pattern.values) or list(range(pattern.lo, pattern.hi + 1))


def rows(workload: Punctuated, stream: str, part: int, partitions: int, options: Options) -> list[dict[str, object]]:
    found: list[dict[str, object]] = workload.generate(stream, part, partitions, 0, ROWS // partitions, options).to_pylist()
    return found


@settings(max_examples=25, deadline=None)
@given(
    pattern=st.sampled_from(["cluster-asc-9", "punct-asc-12-40", "punct-desc-12-40", "punct-random-20-60"]),
    stream=st.sampled_from("abcd"),
    partitions=st.integers(1, 4),
    lockstep=st.booleans(),
    marks=st.sampled_from([Marks.CONSTANT, Marks.RANGE]),
    faults=st.sampled_from([Disorder(), Disorder(bound_us=10**6, duplicate_fraction=0.3, late_fraction=0.1)]),
)
def test_no_row_follows_the_punctuation_on_its_value_in_any_partition(
    pattern: str, stream: str, partitions: int, lockstep: bool, marks: Marks, faults: Disorder
) -> None:
    workload = Punctuated(pattern, lockstep)
    announced = []
    for part in range(partitions):
        closed: set[int] = set()
        for row in rows(workload, stream, part, partitions, Options(marks=marks, disorder=faults)):
            if row["mark"] is None:
                assert row["key"] not in closed
                continue
            assert row["key"] is None
            newly = closed_values(str(row["mark"]), workload)
            assert not closed & set(newly)
            closed.update(newly)
        announced.append(closed)
    assert all(closed == announced[0] for closed in announced)
    assert announced[0]


@pytest.mark.parametrize("pattern", ["punct-asc-12-40", "punct-desc-12-40", "punct-random-12-40"])
def test_every_value_is_closed_in_order_as_constants_and_as_ranges(pattern: str) -> None:
    workload = Punctuated(pattern)
    found = {}
    for marks in (Marks.CONSTANT, Marks.RANGE):
        # Four whole blocks of fifty segments.
        texts = workload.generate("a", 0, 1, 0, 4 * 50 * 13, Options(marks=marks)).column("mark").drop_null().to_pylist()
        found[marks] = list(chain.from_iterable(closed_values(text, workload) for text in texts))
    sign = -1 if "desc" in pattern else 1
    assert len(found[Marks.CONSTANT]) == len(found[Marks.RANGE]) == 200
    assert set(found[Marks.RANGE]) == set(found[Marks.CONSTANT]) == {sign * at for at in range(200)}


def test_unique_rows_alternate_with_their_punctuations() -> None:
    batch = Punctuated("unique").generate("b", 0, 1, 0, 6, Options(marks=Marks.CONSTANT)).to_pydict()
    assert batch["key"] == [0, None, 1, None, 2, None]
    assert batch["mark"] == [None, '{"key": 0}', None, '{"key": 1}', None, '{"key": 2}']


def test_a_block_of_fifty_segments_has_the_expected_rows_and_sizes_that_look_poisson() -> None:
    marks = Punctuated("punct-asc-30-40").generate("a", 0, 1, 0, 31 * 5_000, Options(marks=Marks.CONSTANT)).column("mark")
    ends = np.flatnonzero(marks.is_valid().to_numpy(zero_copy_only=False))
    assert len(ends) == 5_000
    assert (ends[49::50] + 1 == np.arange(1, 101) * 31 * 50).all()
    sizes = np.diff(np.concatenate([[-1], ends])) - 1
    assert sizes.mean() == 30
    # One tuple is certain and fifty segments share the others: 29 · 49/50.
    assert sizes.var() == pytest.approx(28.4, rel=0.1)


def test_lockstep_streams_close_the_same_value_at_the_same_time() -> None:
    options = Options(marks=Marks.CONSTANT, is_poisson=True)
    left, right = (rows(Punctuated("punct-random-20-40", lockstep=True), name, 0, 1, options) for name in "ab")
    assert [(row["ts"], row["mark"]) for row in left if row["mark"]] == [(row["ts"], row["mark"]) for row in right if row["mark"]]
    assert [row["key"] for row in left] != [row["key"] for row in right]


def test_useless_punctuations_leave_the_rows_as_they_are() -> None:
    options = Options(marks=Marks.CONSTANT)
    plain, useless = (Punctuated(useless=share).generate("a", 0, 1, 0, 20_000, options) for share in (0.0, 0.5))
    assert plain.column("key").equals(useless.column("key"))
    texts = [text for text in useless.column("mark").to_pylist() if text]
    far = [closed_values(text, Punctuated())[0] >= USELESS for text in texts]
    assert np.mean(far) == pytest.approx(0.5, abs=0.06)
    assert int64s(plain.column("key").drop_null()).max() < USELESS


def test_streams_declare_their_patterns_and_rates_apart() -> None:
    fast = Playback.from_text({"workload": "punctuated.a", "pattern": "cluster-asc-5", "marks": "constant", "rate": "500"})
    slow = Playback.from_text({"workload": "punctuated.b", "pattern": "uniform-15000", "rate": "100"})
    assert fast.due(1_000_000) == 501
    assert slow.due(1_000_000) == 101
    with pytest.raises(InvalidOption, match="embeds no punctuations"):
        Playback.from_text({"workload": "punctuated.b", "pattern": "uniform-15000", "marks": "constant"})


def test_too_many_partitions_for_the_announcements_are_refused() -> None:
    with pytest.raises(InvalidOption, match="use 15 or more"):
        Punctuated("punct-asc-10-40").generate("a", 0, 8, 0, 10, Options(marks=Marks.CONSTANT))


@pytest.mark.parametrize("options", [{"pattern": "sorted"}, {"useless": 2.0}])
def test_impossible_feeds_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        Punctuated(**options)  # type: ignore[arg-type]
