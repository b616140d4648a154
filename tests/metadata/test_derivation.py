"""Punctuations from declared constraints: any batching closes the same values, and never one that still comes."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.closed_set import ClosedSet
from penstock.metadata.derivation import ClusteredAttribute, UniqueAttribute
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Field
from penstock.model.value_sets import constant, one_of

NAN = float("nan")


def batch(values, kind=None):
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["k"])


def derive_in_pieces(derivation, values, cuts, kind):
    """Rows cut into batches; yields what holds after each batch."""
    edges = [0, *sorted(cut for cut in cuts if cut <= len(values)), len(values)]
    for start, stop in pairwise(edges):
        rows = batch(values[start:stop], kind)
        yield derivation.derive(rows, np.arange(start, stop)), values[stop:]


KINDS = [(pa.int64(), list(range(6))), (pa.float64(), [-0.0, 0.5, 1.5, NAN]), (pa.string(), ["a", "b", "c", "d"])]


@st.composite
def clustered_streams(draw):
    kind, domain = draw(st.sampled_from(KINDS))
    order = draw(st.permutations(domain))
    runs = [[value] * draw(st.integers(0, 3)) for value in order]
    values = [value for run in runs for value in run]
    holes = draw(st.lists(st.integers(0, len(values)), max_size=3))
    for hole in holes:
        values.insert(hole, None)
    return kind, values, draw(st.lists(st.integers(0, 20), max_size=4))


@settings(max_examples=80, deadline=None)
@given(clustered_streams(), st.sampled_from(["clustered", "unique"]))
def test_derived_punctuations_are_true_and_do_not_depend_on_batching(case, constraint):
    kind, values, cuts = case
    present = [value for value in values if value is not None]
    if constraint == "unique":
        values = list(dict.fromkeys(values))
    derivation = {"clustered": ClusteredAttribute("k"), "unique": UniqueAttribute("k")}[constraint]
    closed = ClosedSet([Field("k", kind)])
    for derived, still_to_come in derive_in_pieces(derivation, values, cuts, kind):
        for punctuation in derived:
            assert closed.add(punctuation)
        assert not any(closed.contains(value) for value in still_to_come if value is not None)
    last = [value for value in values if value is not None][-1:]
    opened = last if constraint == "clustered" else []
    for value in present:
        assert closed.contains(value) == (not any(constant(still).matches(value) for still in opened))


def test_a_unique_attribute_closes_a_batch_with_one_global_list():
    (closed,) = UniqueAttribute("k").derive(batch([3, None, 1]), np.array([10, 11, 12]), np.array([7, 8, 9]))
    assert closed == Punctuation(("k",), (one_of([1, 3]),), ts=9, pos=12, is_global=True)


def test_a_clustered_value_is_closed_when_the_next_one_begins():
    clustered = ClusteredAttribute("k")
    assert clustered.derive(batch(["a", "a"]), np.array([0, 1])) == []
    (closed,) = clustered.derive(batch(["b", "c", None, "c"]), np.array([2, 3, 4, 5]))
    assert closed == Punctuation(("k",), (one_of(["a", "b"]),), pos=3)
    (closed,) = clustered.derive(batch(["d"]), np.array([6]))
    assert closed == Punctuation(("k",), (constant("c"),), pos=6)


@pytest.mark.parametrize("derivation", [UniqueAttribute("k"), ClusteredAttribute("k")])
def test_batches_without_values_derive_nothing(derivation):
    assert derivation.derive(batch([], pa.int64()), np.empty(0, np.int64)) == []
    assert derivation.derive(batch([None, None], pa.int64()), np.arange(2)) == []
