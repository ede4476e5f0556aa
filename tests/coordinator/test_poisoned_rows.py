"""One row that the database does not take must not keep the reaper from the others (procrastinate#1446, oban#1498)."""

from collections.abc import Sequence

import pytest

from rota.coordinator import reaper as module
from rota.domain.errors import Unavailable
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Outcome
from rota.service.completions import LostLease

from .fakes import job_id
from .test_reaper import FakeCompletions, Scene, _undelivered


class Spoilt(FakeCompletions):
    """A statement with one of these jobs in it fails as a whole, for good."""

    def __init__(self, *poisoned: int) -> None:
        super().__init__()
        self.poisoned = {job_id(number) for number in poisoned}
        self.calls = 0

    async def lose(self, leases: Sequence[LostLease]) -> int:
        self._check([lease.job_id for lease in leases])
        return await super().lose(leases)

    async def expire(self, jobs: Sequence[tuple[TenantId, JobId]]) -> int:
        self._check([job for _, job in jobs])
        return await super().expire(jobs)

    def _check(self, jobs: Sequence[JobId]) -> None:
        self.calls += 1
        if self.poisoned & set(jobs):
            raise ValueError("invalid byte sequence")


async def test_leases_beside_one_that_cannot_be_ended_are_ended(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    completions = Spoilt(3, 17)
    scene.reaper._completions = completions  # type: ignore[assignment]
    scene.reaper.give_back([_undelivered(number) for number in range(40)])
    await scene.reaper.step()
    ended = {lease.job_id for lease in completions.ended}
    assert ended == {job_id(number) for number in range(40)} - completions.poisoned
    assert completions.calls < 40
    assert [record for record in caplog.records if job_id(17) in record.message]
    # What comes next does not wait behind them. The poller finds them again, as long as they are leased.
    scene.reaper.give_back([_undelivered(50)])
    await scene.reaper.step()
    assert job_id(50) in {lease.job_id for lease in completions.ended}


async def test_jobs_beside_one_that_cannot_expire_expire() -> None:
    scene = Scene()
    completions = Spoilt(105)
    scene.reaper._completions = completions  # type: ignore[assignment]
    scene.reaper.expire([scene.entry(number) for number in range(100, 110)])
    await scene.reaper.step()
    assert set(completions.expired) == {job_id(number) for number in range(100, 110)} - {job_id(105)}


async def test_an_outage_is_no_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all of them wait, and nothing is tried one by one."""
    monkeypatch.setattr(module, "BATCH", 40)
    scene = Scene()
    scene.completions.down = True
    scene.reaper.give_back([_undelivered(number) for number in range(40)])
    with pytest.raises(Unavailable):
        await scene.reaper.step()
    scene.completions.down = False
    await scene.reaper.step()
    assert scene.outcomes() == [(job_id(number), Outcome.UNDELIVERED) for number in range(40)]
