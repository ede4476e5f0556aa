"""Whoever watches hears of each job that a schedule made, and of each that its edit took back before it began."""

from rota.clock import SystemClock
from rota.domain.schedule import JobTemplate
from rota.service.changes import Changes, Place
from rota.store.changes import PgChanges

from .clockwork import Clockwork, timing


async def test_withdrawn_jobs_are_told(clockwork: Clockwork) -> None:
    changes = Changes(PgChanges(clockwork.db), SystemClock())
    place = await changes.begin(clockwork.tenant)

    async def told() -> list[tuple[str, str]]:
        nonlocal place
        page = await changes.after(clockwork.tenant, place)
        place = Place(place.coverage, page.after)
        return [(change.job.id, change.job.state.name) for change in page.changes]

    await clockwork.create(job=JobTemplate(type="old"))
    await clockwork.go(30)
    (made,) = await clockwork.live()
    assert await told() == [(made[0], "SCHEDULED")]

    # Made anew under another id.
    await clockwork.edit(job=JobTemplate(type="new"))
    (again,) = await clockwork.live()
    assert sorted(await told()) == sorted([(made[0], "CANCELLED"), (again[0], "SCHEDULED")])

    # Taken back.
    await clockwork.edit(timing=timing("*/5 * * * *"))
    assert await clockwork.live() == []
    assert await told() == [(again[0], "CANCELLED")]

    # One that is leased is not told to be gone.
    await clockwork.edit(timing=timing())
    await clockwork.go(40)
    grant = await clockwork.lease()
    await told()
    await clockwork.edit(job=JobTemplate(type="newer"))
    assert grant.job_id not in [job for job, _ in await told()]
