"""The estimate of the database's clock: never ahead, and not behind for longer than one quick answer ago."""

from datetime import timedelta

import pytest

from rota.clock import DRIFT, DatabaseClock

from .coordinator.fakes import FakeClock


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.estimate = DatabaseClock(self.clock)
        self.stepped_s = 0.0

    @property
    def behind_s(self) -> float:
        return self.clock.utc().timestamp() + self.stepped_s - self.estimate.now()

    def read(self, *, there_s: float = 0.001, back_s: float = 0.001) -> None:
        """A reading that takes so long on its way there and back."""
        sent_at = self.clock.monotonic()
        self.clock.now += there_s
        reading = self.clock.utc() + timedelta(seconds=self.stepped_s)
        self.clock.now += back_s
        self.estimate.observe(reading, sent_at)


def test_a_slow_answer_does_not_set_a_quick_one_back() -> None:
    scene = Scene()
    scene.read(back_s=0.001)
    assert scene.behind_s == pytest.approx(0.001, abs=1e-6)
    for _ in range(10):
        scene.clock.now += 2.0
        scene.read(back_s=0.08)
        assert 0.001 - 1e-6 <= scene.behind_s <= 0.001 + 25 * DRIFT
    scene.read(back_s=0.0005)
    assert scene.behind_s == pytest.approx(0.0005, abs=1e-6)


def test_it_is_never_ahead_by_more_than_drift() -> None:
    scene = Scene()
    for there_s, back_s in ((0.05, 0.001), (0.001, 0.05), (0.0, 0.0), (0.3, 0.3), (0.001, 0.001)) * 5:
        scene.read(there_s=there_s, back_s=back_s)
        assert scene.behind_s >= -1e-6
        scene.clock.now += 0.5


@pytest.mark.parametrize("back_s", [-0.5, -5.0, -3_600.0])
def test_a_database_clock_that_goes_back_is_followed_at_once(back_s: float) -> None:
    scene = Scene()
    scene.read()
    scene.stepped_s = back_s
    scene.read(there_s=0.1, back_s=0.02)
    assert 0 <= scene.behind_s <= 0.02 + 1e-6


@pytest.mark.parametrize("step_s", [2.0, -2.0, 3_600.0, -3_600.0])
def test_a_step_is_told_once_and_with_its_size(step_s: float) -> None:
    scene = Scene()
    told: list[float] = []
    scene.estimate.on_step.append(told.append)
    for there_s, back_s in ((0.001, 0.001), (0.8, 0.9), (0.001, 0.001), (0.9, 0.001)) * 3:
        scene.read(there_s=there_s, back_s=back_s)
        scene.clock.now += 2.0
    assert told == []
    scene.stepped_s = step_s
    scene.read()
    assert told == [pytest.approx(step_s, abs=1.0)]
    for _ in range(5):
        scene.clock.now += 2.0
        scene.read()
    assert len(told) == 1


def test_a_small_step_back_is_followed_by_the_next_quick_answer() -> None:
    scene = Scene()
    scene.read()
    scene.stepped_s = -0.05
    scene.read(there_s=0.1, back_s=0.1)
    scene.read()
    assert scene.behind_s == pytest.approx(0.001, abs=1e-6)
