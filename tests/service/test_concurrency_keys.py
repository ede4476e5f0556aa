"""A job's concurrency key reaches memory by each way that tells of a waiting job."""

from collections.abc import Sequence

import pytest

from rota.clock import SystemClock
from rota.domain.fairness import Entry
from rota.domain.model import Failure, Outcome
from rota.domain.schedule import JobTemplate
from rota.service.completions import Completions
from rota.service.jobs import Jobs
from rota.telemetry import Metrics

from ..store.world import World
from .clockwork import Clockwork, every
from .conftest import Told


class Hearing(Told):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def jobs_waiting(self, entries: Sequence[Entry]) -> None:
        self.entries += entries

    @property
    def last(self) -> tuple[str, str]:
        return self.entries[-1].id, self.entries[-1].concurrency_key


async def test_a_new_job_a_retry_and_a_claim_that_missed(world: World) -> None:
    told, metrics = Hearing(), Metrics()
    jobs = Jobs(world.jobs, world.reader, world.outcomes, told, metrics)
    completions = Completions(world.outcomes, told, SystemClock(), metrics, None)
    spec = world.spec(concurrency_key="order-1")
    await jobs.create([world.call(spec)])
    assert told.last == (spec.id, "order-1")
    held = await world.lease(spec)
    await completions.settle([world.result(held, Outcome.FAILED, failure=Failure("E"))])
    assert told.last == (spec.id, "order-1")
    (entry,), _ = await completions.waiting([(world.tenant, spec.id)])
    assert entry.concurrency_key == "order-1"


async def test_jobs_of_a_schedule_and_those_that_an_edit_made_anew(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Entry] = []
    monkeypatch.setattr(clockwork.memory, "jobs_waiting", heard.extend)
    await clockwork.create(timing=every(60), job=JobTemplate(type="t", concurrency_key="a"))
    await clockwork.go(5)
    assert [entry.concurrency_key for entry in heard] == ["a"]
    await clockwork.edit(job=JobTemplate(type="t", concurrency_key="b"))
    assert [entry.concurrency_key for entry in heard] == ["a", "b"]
    await clockwork.trigger()
    assert heard[-1].concurrency_key == "b"
