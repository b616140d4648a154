"""Which rows shedders drop: golden examples, budgets, and comparison with sorting all that was seen."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shedding_rows import batch, pieces

from penstock.errors import InvalidDeclaration
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.qos.shedding.coin import Coin
from penstock.qos.shedding.contracts import Shedder
from penstock.qos.shedding.exact_rate import ExactRate
from penstock.qos.shedding.gate import Gate
from penstock.qos.shedding.quantiles import QuantileSummary
from penstock.qos.shedding.semantic import SemanticShedder
from penstock.qos.shedding.table import check_preference, make_shedder

SEMANTIC = [kind for kind in DropKind if kind is not DropKind.RANDOM]
PREFERENCES = [DropPreference()] + [DropPreference(kind, "value", mode=mode) for kind in SEMANTIC for mode in DropMode]

shares = st.floats(0.0, 1.0)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)
some_values = st.lists(st.one_of(st.none(), st.integers(0, 20).map(float), st.floats(-1e6, 1e6)), min_size=1, max_size=120)


def dropped(shedder: Shedder, values: list[float | None], share: float) -> set[float]:
    rows = batch(values)
    shedder.observe(rows)
    return {values[at] for at in np.flatnonzero(~shedder.keep_mask(rows, share))}  # type: ignore[misc]


def semantic(kind: DropKind, center: float | None = None, mode: DropMode = DropMode.QUANTILE, capacity: float = 1.0) -> Shedder:
    return SemanticShedder(DropPreference(kind, "value", center, mode), capacity)


# -- random ---------------------------------------------------------------------------------------------------------------


def test_exact_rate_drops_whole_rows_as_they_fall_due() -> None:
    """G7."""
    shedder, total, found = ExactRate(), 0, []
    for rows in pieces([0.0] * 100, (7, 13, 20, 60)):
        total += int((~shedder.keep_mask(rows, 0.15)).sum())
        found.append(total)
    assert found == [1, 3, 6, 15]


def test_exact_rate_is_not_misled_by_binary_numbers() -> None:
    assert int((~ExactRate().keep_mask(batch([0.0] * 100), 0.29)).sum()) == 29


@settings(deadline=None)
@given(share=shares, rows=st.integers(1, 500), cuts=sizes)
def test_exact_rate_is_less_than_a_row_off_at_the_end_of_every_batch(share: float, rows: int, cuts: list[int]) -> None:
    shedder, received, lost = ExactRate(seed=3), 0, 0
    for piece in pieces([0.0] * rows, cuts):
        received += piece.num_rows
        lost += int((~shedder.keep_mask(piece, share)).sum())
        assert abs(lost - share * received) < 1 + 1e-6


def test_every_row_is_as_likely_to_be_dropped_by_exact_rate() -> None:
    counts = np.zeros(20)
    for seed in range(2_000):
        counts += ~ExactRate(seed).keep_mask(batch([0.0] * 20), 0.25)
    assert np.abs(counts / 2_000 - 0.25).max() < 0.05


@settings(deadline=None)
@given(share=shares, cuts=sizes)
def test_a_coin_does_not_see_how_rows_are_cut(share: float, cuts: list[int]) -> None:
    whole = Coin(5).keep_mask(batch([0.0] * 100), share)
    parts = [Coin(5).keep_mask(piece, share) for piece in pieces([0.0] * 100, cuts)]
    assert np.array_equal(whole, np.concatenate(parts))


@settings(deadline=None)
@given(less=shares, more=shares)
def test_a_coin_drops_at_a_greater_share_what_it_drops_at_a_smaller_one(less: float, more: float) -> None:
    less, more = sorted((less, more))
    rows = batch([0.0] * 200)
    assert not (Coin(1).keep_mask(rows, more) & ~Coin(1).keep_mask(rows, less)).any()


def test_coins_keep_the_rate_and_differ_by_seed_and_partition() -> None:
    rows = batch([0.0] * 100_000)
    masks = [Coin(seed, partition).keep_mask(rows, 0.2) for seed, partition in ((1, 0), (2, 0), (1, 1))]
    assert all(abs((~mask).mean() - 0.2) < 0.005 for mask in masks)
    assert len({mask.tobytes() for mask in masks}) == 3
    assert Coin().keep_mask(rows, 0.0).all()
    assert not Coin().keep_mask(rows, 1.0).any()


# -- by value -------------------------------------------------------------------------------------------------------------

ONE_TO_TEN = [float(value) for value in range(1, 11)]


@pytest.mark.parametrize(
    ("kind", "center", "expected"),
    [
        (DropKind.LOWEST, None, {1, 2}),
        (DropKind.HIGHEST, None, {9, 10}),
        (DropKind.CENTER, 5.5, {5, 6}),
        (DropKind.OUTLIER, 5.5, {1, 10}),
        (DropKind.CENTER, 3.0, {3, 2}),
        (DropKind.OUTLIER, 3.0, {9, 10}),
        (DropKind.CENTER, None, {5, 6}),  # the running mean
    ],
)
def test_a_fifth_of_ten_values_by_quantiles(kind: DropKind, center: float | None, expected: set[float]) -> None:
    """G8."""
    assert dropped(semantic(kind, center), list(ONE_TO_TEN), 0.2) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (DropKind.LOWEST, {0.0, 10.0, 20.0}), (DropKind.HIGHEST, {80.0, 100.0}), (DropKind.CENTER, {50.0}),
        (DropKind.OUTLIER, {0.0, 100.0}),
    ],
)  # fmt: skip
def test_a_fifth_of_the_range(kind: DropKind, expected: set[float]) -> None:
    values: list[float | None] = [0.0, 10.0, 20.0, 25.0, 50.0, 65.0, 80.0, 100.0]
    center = 50.0 if kind is DropKind.CENTER else 48.0
    assert dropped(semantic(kind, center, DropMode.RANGE), values, 0.2) == expected


def test_ranges_without_width_are_held_by_the_cap() -> None:
    shedder = semantic(DropKind.LOWEST, mode=DropMode.RANGE, capacity=0.2)
    rows = batch([7.0] * 50)
    shedder.observe(rows)
    assert int((~shedder.keep_mask(rows, 0.2)).sum()) == 10
    assert shedder.counters()["cap_hits"] == 40


@settings(deadline=None)
@given(values=some_values, kind=st.sampled_from(SEMANTIC), share=shares, center=st.one_of(st.none(), st.floats(-10, 30)))
def test_quantiles_of_few_values_are_those_of_sorting(
    values: list[float | None], kind: DropKind, share: float, center: float | None
) -> None:
    rows, shedder = batch(values), semantic(kind, center)
    shedder.observe(rows)
    keep = shedder.keep_mask(rows, share)
    known = np.array([np.nan if value is None else value for value in values])
    assert keep[np.isnan(known)].all()
    there = ~np.isnan(known)
    if not there.any():
        return
    middle = float(np.sum(known[there]) / there.sum()) if center is None else center
    distance = np.abs(known - middle)
    ranks = {DropKind.LOWEST: known, DropKind.HIGHEST: -known, DropKind.CENTER: distance, DropKind.OUTLIER: -distance}[kind]
    number = int(np.floor(share * there.sum() + 1e-9))
    assert int((~keep).sum()) == number
    expected = np.sort(ranks[there])[:number]
    assert np.allclose(np.sort(ranks[~keep]), expected, atol=1e-6)


@settings(deadline=None)
@given(
    values=some_values, preference=st.sampled_from(PREFERENCES[1:]), cuts=sizes, capacity=st.floats(0.0, 1.0),
    asked=st.lists(shares, min_size=1, max_size=4),
)  # fmt: skip
def test_no_more_than_the_capacity_is_dropped_at_any_time(
    values: list[float | None], preference: DropPreference, cuts: list[int], capacity: float, asked: list[float]
) -> None:
    """P3 (i)."""
    shedder, received, lost = make_shedder(preference, capacity), 0, 0
    for turn, piece in enumerate(pieces(values, cuts)):
        shedder.observe(piece)
        received += piece.num_rows
        lost += int((~shedder.keep_mask(piece, min(asked[turn % len(asked)], capacity))).sum())
        assert lost <= capacity * received + 1


@pytest.mark.parametrize("kind", SEMANTIC)
def test_the_share_asked_for_is_dropped_of_a_steady_stream(kind: DropKind) -> None:
    drawn = np.random.default_rng(4).lognormal(3, 1, 60_000)
    shedder, lost = semantic(kind), 0
    for piece in pieces(drawn.tolist(), (700, 1300)):
        shedder.observe(piece)
        lost += int((~shedder.keep_mask(piece, 0.2)).sum())
    assert lost / len(drawn) == pytest.approx(0.2, abs=0.01)


def test_a_rising_stream_loses_no_more_than_its_capacity_although_all_its_values_are_the_highest() -> None:
    shedder, lost = semantic(DropKind.HIGHEST, capacity=0.3), 0
    for piece in pieces(np.arange(10_000.0).tolist(), (100,)):
        shedder.observe(piece)
        lost += int((~shedder.keep_mask(piece, 0.2)).sum())
    assert 0.29 < lost / 10_000 <= 0.3


def test_rows_without_a_value_pass_and_are_counted() -> None:
    shedder = semantic(DropKind.LOWEST)
    rows = batch([None, 1.0, float("nan"), 2.0])
    shedder.observe(rows)
    assert shedder.keep_mask(rows, 1.0).tolist() == [True, False, True, False]
    assert shedder.counters()["null_passed"] == 2


@settings(deadline=None, max_examples=20)
@given(parts=st.integers(1, 5), seed=st.integers(0, 20))
def test_summaries_of_parts_know_the_ranks_of_all(parts: int, seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(0, 1, 50_000)
    merged = QuantileSummary(seed)
    for part in np.array_split(drawn, parts):
        other = QuantileSummary(seed + 1)
        for piece in np.array_split(part, 20):
            other.add(piece)
        merged.merge(other)
    values, weights = merged.weighted()
    for bound in np.quantile(drawn, [0.01, 0.1, 0.5, 0.9, 0.99]):
        assert abs(weights[values < bound].sum() - (drawn < bound).sum()) < 0.01 * len(drawn)
    assert weights.sum() == len(drawn) == merged.count


# -- all of them ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preference", PREFERENCES, ids=lambda each: f"{each.kind}-{each.mode}")
def test_a_shedder_goes_on_where_another_one_stood(preference: DropPreference) -> None:
    values = np.random.default_rng(2).integers(0, 30, 4_000).astype(float).tolist()
    gate, masks = Gate(make_shedder(preference, 0.5)), []
    gate.activate(0.3)
    for at, piece in enumerate(pieces(values, (90, 10, 400))):
        if at == 7:
            stored = json.loads(json.dumps(gate.snapshot()))
            gate = Gate(make_shedder(preference, 0.5))
            gate.restore(stored)
        masks.append(gate.admit(piece).pos)
    other = Gate(make_shedder(preference, 0.5))
    other.activate(0.3)
    assert np.array_equal(
        np.concatenate(masks), np.concatenate([other.admit(piece).pos for piece in pieces(values, (90, 10, 400))])
    )
    assert gate.counters() == other.counters()


@settings(deadline=None)
@given(values=some_values, preference=st.sampled_from(PREFERENCES), cuts=sizes, share=shares)
def test_a_gate_accounts_for_every_row(
    values: list[float | None], preference: DropPreference, cuts: list[int], share: float
) -> None:
    """P1 and P7."""
    gate, left = Gate(make_shedder(preference)), 0
    for turn, piece in enumerate(pieces(values, cuts)):
        if turn % 3:
            gate.activate(share)
        else:
            gate.deactivate()
            assert gate.admit(piece) is piece
            left += piece.num_rows
            continue
        left += gate.admit(piece).num_rows
        counted = gate.counters()
        assert counted["enqueued"] == left
        assert counted["received"] == left + counted["shed"]


@pytest.mark.parametrize(
    ("column", "found"), [("speeds", "does not exist; of numeric columns it has speed, limit. Did you mean 'speed'?"),
                          ("name", "is no number; of numeric columns it has speed, limit.")],
)  # fmt: skip
def test_a_preference_must_be_about_a_number(column: str, found: str) -> None:
    schema = pa.schema({"speed": pa.float64(), "limit": pa.int32(), "name": pa.string()})
    with pytest.raises(InvalidDeclaration, match="query 'cars' drops the lowest rows") as error:
        check_preference(DropPreference(DropKind.LOWEST, column), schema, "cars")
    assert found in str(error.value)
    check_preference(DropPreference(DropKind.LOWEST, "limit"), schema, "cars")
