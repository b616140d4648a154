"""Punctuations: the component-wise algebra, roles, and what is refused on arrival."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Defect, InvalidPattern
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Field, Schema
from penstock.model.value_sets import ANY, EMPTY, between, constant, one_of

BID = Schema(
    (Field("item_id", pa.int64()), Field("bidder_id", pa.int64()), Field("bid_price", pa.float64())),
    owner="stream 'Bid'",
)
VALUES = [None, 0, 1, 2, 3]

pattern_of_small_integers = st.one_of(
    st.just(ANY),
    st.just(EMPTY),
    st.builds(constant, st.sampled_from(VALUES)),
    st.builds(between, st.sampled_from(VALUES), st.sampled_from(VALUES), st.booleans(), st.booleans()),
    st.builds(one_of, st.lists(st.sampled_from(VALUES), max_size=3)),
)
punctuations = st.builds(
    lambda a, b, ts, pos: Punctuation(("a", "b"), (a, b), ts, pos),
    pattern_of_small_integers,
    pattern_of_small_integers,
    st.integers(0, 3),
    st.integers(0, 3),
)
ROWS = [{"a": a, "b": b} for a in VALUES for b in VALUES]
END = Punctuation(("a", "b"), (ANY, ANY))
NOTHING = Punctuation(("a", "b"), (EMPTY, EMPTY))


@settings(max_examples=70, deadline=None)
@given(punctuations, punctuations, punctuations)
def test_combination_obeys_the_laws_of_sets(p, q, r):
    assert p & q == q & p
    assert (p & q) & r == p & (q & r)
    assert (p & p).patterns == (p & END).patterns == (NOTHING.patterns if p.is_empty else p.patterns)
    assert (p & NOTHING).patterns == NOTHING.patterns


@settings(max_examples=70, deadline=None)
@given(punctuations, punctuations)
def test_a_row_matches_the_combination_when_it_matches_both(p, q):
    assert [(p & q).matches(row) for row in ROWS] == [p.matches(row) and q.matches(row) for row in ROWS]


@settings(max_examples=70, deadline=None)
@given(punctuations, punctuations)
def test_order_and_overlap_agree_with_matching(p, q):
    if p.issubset(q):
        assert all(q.matches(row) for row in ROWS if p.matches(row))
    if any(p.matches(row) and q.matches(row) for row in ROWS):
        assert not (p & q).is_empty
    assert (p & q).issubset(p)
    assert NOTHING.issubset(p)


@settings(max_examples=70, deadline=None)
@given(punctuations)
def test_matching_a_batch_equals_matching_each_row(p):
    batch = pa.RecordBatch.from_pylist(ROWS, pa.schema({"a": pa.int64(), "b": pa.int64()}))
    assert p.matches_batch(batch).tolist() == [p.matches(row) for row in ROWS]


@settings(max_examples=70, deadline=None)
@given(punctuations)
def test_json_gives_back_the_same_punctuation(p):
    assert Punctuation.from_json(json.loads(json.dumps(p.to_json()))) == p


@settings(max_examples=70, deadline=None)
@given(punctuations)
def test_extending_and_projecting_back_changes_nothing(p):
    assert p.extend(["c", "b", "a"]).project(["a", "b"]) == p
    assert p.rename({"a": "x"}).rename({"x": "a"}) == p


def bid(item_id, bidder_id, bid_price):
    return {"item_id": item_id, "bidder_id": bidder_id, "bid_price": bid_price}


def test_golden_g1_a_list_on_one_attribute():
    p = Punctuation.of(BID.names, item_id=one_of([1001, 2004]))
    assert p.matches(bid(1001, 7, 20.0))
    assert p.matches(bid(2004, 1, 5.0))
    assert not p.matches(bid(1002, 7, 20.0))


def test_golden_g2_only_the_closed_item_of_the_own_stream_is_a_violation():
    p = Punctuation.of(BID.names, item_id=constant(180))
    later = pa.RecordBatch.from_pylist([bid(180, 5, 1.0), bid(181, 5, 1.0)], BID.arrow)
    assert p.matches_batch(later).tolist() == [True, False]


def test_golden_g3_both_inputs_extend_to_the_same_output_punctuation():
    from_s1 = Punctuation(("A", "B"), (ANY, constant(5))).extend(("A", "B", "C"))
    from_s2 = Punctuation(("B", "C"), (constant(5), ANY)).extend(("A", "B", "C"))
    assert from_s1 == from_s2
    assert from_s1.patterns == (ANY, constant(5), ANY)


def test_golden_g5_a_restriction_on_another_attribute_forbids_purging():
    assert not Punctuation.of(BID.names, item_id=constant(180), bidder_id=constant(5)).is_exploitable_for(["item_id"])
    assert Punctuation.of(BID.names, item_id=constant(180)).is_exploitable_for(["item_id"])
    both = Punctuation.of(BID.names, bidder_id=constant(5))
    assert both.is_exploitable_for(["item_id", "bidder_id"])
    assert not Punctuation.of(BID.names, item_id=EMPTY).is_exploitable_for(["item_id"])


def test_all_wildcards_mean_end_of_stream():
    assert Punctuation.of(BID.names).is_end_of_stream
    assert not Punctuation.of(BID.names, item_id=between(None, None)).is_end_of_stream
    strict = Schema((Field("item_id", pa.int64(), nullable=False),))
    assert Punctuation.of(["item_id"], item_id=between(None, None)).normalised(strict).is_end_of_stream


def test_projection_is_refused_when_a_removed_attribute_is_restricted():
    p = Punctuation.of(BID.names, item_id=constant(180))
    assert p.project(["item_id"]) == Punctuation(("item_id",), (constant(180),))
    assert p.project(["bidder_id"]) is None


def test_an_empty_component_empties_the_whole_punctuation_when_normalised():
    p = Punctuation.of(BID.names, item_id=between(3, 4, False, False))
    assert not p.is_empty
    assert p.normalised(BID).patterns == (EMPTY, EMPTY, EMPTY)


def test_combination_over_different_attributes_restricts_both():
    p = Punctuation(("a",), (constant(1),)) & Punctuation(("b",), (constant(2),))
    assert p == Punctuation(("a", "b"), (constant(1), constant(2)))


def test_the_combination_holds_from_the_later_position_on():
    p, q = Punctuation(("a",), (ANY,), ts=5, pos=1), Punctuation(("a",), (ANY,), ts=2, pos=9)
    assert ((p & q).ts, (p & q).pos) == (5, 9)


def test_a_valid_punctuation_takes_the_schemas_spelling_and_normal_form():
    p = Punctuation(("ITEM_ID",), (between(1, 3, False, True),)).validated(BID, "stream 'Bid'")
    assert p == Punctuation(("item_id",), (between(2, 3),))


@pytest.mark.parametrize(
    ("names", "patterns", "complaint"),
    [
        (("item_id", "bidder_id"), (constant(180),), "1 patterns for 2 attributes"),
        (
            ("item",),
            (constant(180),),
            "no attribute 'item'; it has item_id, bidder_id, bid_price. Did you mean 'item_id'?",
        ),
        (("item_id", "ITEM_ID"), (ANY, ANY), "named twice"),
        (("item_id",), (constant("180"),), "attribute 'item_id' has type BIGINT, but the pattern '180' holds '180'"),
        (("item_id",), (between(None, "x"),), "attribute 'item_id'"),
        (("item_id",), (one_of([1, True, "x"]),), "attribute 'item_id'"),
        (("bid_price",), (constant(True),), "attribute 'bid_price'"),
    ],
)
def test_a_bad_punctuation_is_refused_with_stream_position_and_attribute(names, patterns, complaint):
    with pytest.raises(InvalidPattern) as refusal:
        Punctuation(names, patterns, pos=41).validated(BID, "stream 'Bid'")
    assert complaint in str(refusal.value)
    assert "stream 'Bid', punctuation at position 41" in str(refusal.value)


def test_losing_an_attribute_by_extension_is_a_defect():
    with pytest.raises(Defect):
        Punctuation(("a",), (ANY,)).extend(["b"])
    with pytest.raises(Defect):
        Punctuation.of(["a"], b=ANY)
