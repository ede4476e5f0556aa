"""The arithmetic of redrives: what is dealt with, what is left, and when it is over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.deadletter import FIRST, Place, Redrive, RedriveState, check_redrive
from rota.domain.errors import InvalidArgument
from rota.domain.ids import TenantId
from rota.domain.text import Problems

from .build import NOW

TENANT = TenantId(1)
PLACE = Place(7, "b")


def test_a_bite_is_no_larger_than_what_is_wanted() -> None:
    assert Redrive(TENANT).bite(200) == 200
    assert Redrive(TENANT, max_count=5, redriven=2, refused=1).bite(200) == 2
    assert Redrive(TENANT, max_count=5, redriven=5).bite(200) == 0


def test_it_goes_on_while_there_are_more() -> None:
    after = Redrive(TENANT, total=9).carried_on(4, 3, PLACE, over=False, now=NOW)
    assert (after.redriven, after.refused, after.cursor) == (3, 1, PLACE)
    assert (after.state, after.finished_at) == (RedriveState.RUNNING, None)


@pytest.mark.parametrize(
    ("total", "looked_at", "redriven", "counts"),
    [
        (4, 4, 3, (4, 3, 1)),
        # Two were gone before their turn came.
        (6, 4, 3, (6, 3, 3)),
        # Two more were found than counted: their deaths had not been committed.
        (2, 4, 4, (4, 4, 0)),
        (0, 0, 0, (0, 0, 0)),
    ],
)
def test_at_the_end_every_letter_is_accounted_for(
    total: int, looked_at: int, redriven: int, counts: tuple[int, int, int]
) -> None:
    after = Redrive(TENANT, total=total).carried_on(looked_at, redriven, PLACE, over=True, now=NOW)
    assert (after.total, after.redriven, after.refused) == counts
    assert (after.state, after.finished_at) == (RedriveState.SUCCEEDED, NOW)


def test_it_is_over_when_it_has_as_many_as_wanted() -> None:
    after = Redrive(TENANT, total=3, max_count=3).carried_on(3, 2, PLACE, over=False, now=NOW)
    assert (after.state, after.redriven, after.refused) == (RedriveState.SUCCEEDED, 2, 1)


@given(
    letters=st.lists(st.booleans(), max_size=50),
    most=st.none() | st.integers(1, 60),
    share=st.integers(1, 20),
    counted=st.integers(0, 60),
)
def test_any_redrive_ends_within_its_bounds(letters: list[bool], most: int | None, share: int, counted: int) -> None:
    """`letters`: for each whether it can be redriven when its turn comes."""
    redrive = Redrive(TENANT, max_count=most, total=counted if most is None else min(counted, most))
    at = 0
    while redrive.state is RedriveState.RUNNING:
        bite = letters[at : at + redrive.bite(share)]
        at += len(bite)
        redrive = redrive.carried_on(len(bite), sum(bite), FIRST, over=at >= len(letters), now=NOW)
    expected = letters if most is None else letters[:most]
    assert redrive.redriven == sum(expected)
    assert redrive.redriven + redrive.refused == redrive.total >= len(expected)


def test_what_is_over_cannot_be_cancelled() -> None:
    running = Redrive(TENANT)
    cancelled = running.cancelled(NOW)
    assert (cancelled.state, cancelled.finished_at) == (RedriveState.CANCELLED, NOW)
    assert cancelled.cancelled(NOW) is cancelled


@pytest.mark.parametrize("rate", [0.0, -1.0, 0.000_9, 1_000.1, float("inf"), float("nan")])
def test_rates_that_are_refused(rate: float) -> None:
    problems = Problems()
    check_redrive(problems, "redrive", Redrive(TENANT, rate=rate))
    with pytest.raises(InvalidArgument) as refusal:
        problems.raise_any()
    assert [v.field for v in refusal.value.violations] == ["redrive.rate"]
