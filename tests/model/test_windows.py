"""Windows: the numbers computed for many positions at once equal the closed formula."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidWindow
from penstock.model.elements import FOREVER
from penstock.model.windows import Framed, Lifespan, Sliding


@st.composite
def legal_windows(draw: st.DrawFn) -> Framed:
    size, start = draw(st.integers(1, 15)), draw(st.integers(0, 20))
    return Framed(size, start, start + draw(st.sampled_from([0, 0, 1, 4])))


@settings(max_examples=200, deadline=None)
@given(legal_windows(), st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_a_position_is_in_exactly_the_windows_of_the_closed_formula(window, positions):
    first, last = window.windows_of(np.array(positions))
    numbers = range(1 if window.kind == "fixed" else 130)
    for position, low, high in zip(positions, first.tolist(), last.tolist(), strict=True):
        inside = [k for k in numbers if k * window.move_start <= position < window.size + k * window.move_end]
        assert inside == [k for k in numbers if low <= k <= high]


@settings(max_examples=200, deadline=None)
@given(legal_windows(), st.integers(0, 100))
def test_closed_windows_are_those_whose_end_was_reached(window, position):
    numbers = range(1 if window.kind == "fixed" else 130)
    ended = [k for k in numbers if window.size + k * window.move_end <= position]
    assert ended == list(range(window.closed_before(position)))


@settings(max_examples=100, deadline=None)
@given(legal_windows(), st.lists(st.integers(0, 100), min_size=2, max_size=20))
def test_window_numbers_never_fall_with_position(window, positions):
    first, last = window.windows_of(np.array(sorted(positions)))
    assert np.all(np.diff(first) >= 0)
    assert np.all(np.diff(last) >= 0)


@settings(max_examples=100, deadline=None)
@given(legal_windows(), st.integers(0, 20))
def test_every_window_is_made_of_whole_panes(window, number):
    start, end = window.bounds(number)
    assert start % window.pane == 0
    assert end % window.pane == 0


@pytest.mark.parametrize(
    ("moves", "kind"),
    [
        ((0, 0), "fixed"), ((0, 3), "landmark"), ((0, -3), "reverse landmark"), ((3, 3), "sliding"), ((10, 10), "tumbling"),
        ((12, 12), "hopping"), ((2, 5), "growing"), ((5, 2), "shrinking"), ((-3, -3), "reverse sliding"), ((-1, 2), "mixed"),
    ],
)  # fmt: skip
def test_types_are_named_as_in_the_table(moves, kind):
    assert Framed(10, *moves).kind == kind


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (Framed(0, 1, 1), "holds nothing"),
        (Framed(-5, 1, 1, in_rows=True), "holds nothing"),
        (Framed(5, -1, 1), "opposite directions"),
        (Framed(5, 0, -1), "reverse landmark"),
        (Framed(5, -1, -1), "reverse sliding"),
        (Framed(5, 3, 1), "shrinks"),
    ],
    ids=str,
)
def test_windows_that_cannot_be_evaluated_are_refused_with_the_reason(window, reason):
    with pytest.raises(InvalidWindow, match=reason):
        window.check(Lifespan())


def test_a_shrinking_window_is_legal_when_the_query_ends_before_it_vanishes():
    assert Framed(10, 3, 1).check(Lifespan(0, 15)).kind == "shrinking"


def test_a_life_must_end_after_it_begins():
    with pytest.raises(InvalidWindow, match="not after"):
        Lifespan(5, 5).check()
    assert Lifespan(5).check().end == FOREVER


def test_a_join_window_may_be_zero_but_not_negative():
    assert Sliding(0).check().size == 0
    with pytest.raises(InvalidWindow):
        Sliding(-1).check()
