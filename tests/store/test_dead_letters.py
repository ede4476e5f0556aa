"""Dead letters: kept whole with all their attempts, found in the order of death, brought back and let go in one
statement each, so that a job is always in exactly one place."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.domain import limits
from rota.domain.deadletter import FIRST, LAST, DeadFilter, Place
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Attempt, DeadCause, Failure, JobSpec, JobState, Outcome, Payload, RetryPolicy, Timeouts
from rota.domain.transition import Finish, Requeue
from rota.store import deadletters
from rota.store.deadport import Found, Walk
from rota.store.port import Decided, JobFilter

from .world import Held, World

ANY = DeadFilter()


async def numbers(world: World, job: JobId) -> list[tuple[int, Outcome | None]]:
    return [(a.number, a.outcome) for a in await world.reader.attempts(world.tenant, job, 0, 100)]


async def leased(world: World, spec: JobSpec) -> Held:
    """A job, created where it is new, and leased."""
    if not await world.where(spec.id):
        await world.create(spec)
    return await world.lease(spec)


async def forget_history(world: World, job: JobId) -> None:
    """As when the partition of the day is dropped."""
    statement = "DELETE FROM attempts WHERE tenant_id = %(tenant)s AND job_id = %(job)s::uuid"
    await world.sql(statement, tenant=world.tenant, job=job)


async def walked(world: World, where: DeadFilter = ANY, *, newest_first: bool = True, page: int = 3) -> list[str]:
    """All that a walk finds, page by page."""
    found: list[str] = []
    after: Place | None = LAST if newest_first else FIRST
    while after is not None:
        part: Found = await world.dead.find(Walk(world.tenant, where, after, newest_first), page)
        found += [place.id for place in part.places]
        after = part.next
    return found


async def test_a_letter_is_the_job_as_it_was(world: World) -> None:
    spec = world.spec(
        payload=Payload(b"\x00\xff", "x/y"), headers={"h": "1"}, labels={"l": "2"}, priority=7, concurrency_key="c",
        effect_key="chosen", traceparent="0", tracestate="v=1", retry=RetryPolicy(3), timeouts=Timeouts(9.0, 8.0, 70.0),
    )  # fmt: skip
    held = await leased(world, spec)
    await world.bury(held, Failure("Boom", "why", "stack"), DeadCause.NOT_RETRYABLE)
    letter = (await world.dead.letters(world.tenant, [spec.id], full=True))[spec.id]
    job = letter.job
    assert (letter.cause, letter.redrives, letter.redriven_by) == (DeadCause.NOT_RETRYABLE, 0, "")
    assert (job.state, job.payload, job.headers, job.labels) == (JobState.DEAD, spec.payload, spec.headers, spec.labels)
    assert (job.retry, job.timeouts, job.effect_key) == (spec.retry, spec.timeouts, "chosen")
    assert job.last_failure == Failure("Boom", "why", "stack")
    assert job.finished_at is not None
    listed = (await world.dead.letters(world.tenant, [spec.id], full=False))[spec.id]
    assert listed == replace(letter, job=replace(job, payload=Payload(b"", "x/y")))
    assert await world.dead.letters(TenantId(world.tenant + 1), [spec.id], full=False) == {}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("the failure is not retryable", DeadCause.NOT_RETRYABLE),
        ("the next attempt would start after the total timeout", DeadCause.TOTAL_TIMEOUT),
        ("all 5 attempts are used up", DeadCause.ATTEMPTS_EXHAUSTED),
    ],
)
async def test_a_letter_of_a_version_that_knew_no_causes_has_one(world: World, reason: str, cause: DeadCause) -> None:
    job = await world.letter()
    await world.sql("UPDATE dead_jobs SET cause = NULL, reason = %(r)s WHERE id = %(job)s::uuid", r=reason, job=job)
    assert (await world.dead.letters(world.tenant, [job], full=False))[job].cause is cause
    assert await walked(world, DeadFilter(cause=cause)) == [job]
    assert await walked(world, DeadFilter(cause=DeadCause(cause % 3 + 1))) == []


async def test_a_walk_goes_by_death_both_ways_and_page_by_page(world: World) -> None:
    held = [await world.lease() for _ in range(7)]
    for each in reversed(held[:5]):
        await world.bury(each)
    # Those of one statement died in the same instant.
    await world.outcomes.bury([await _dead(world, each) for each in held[5:]])
    ids = [each.id for each in held]
    order = [*reversed(ids[:5]), *sorted(ids[5:])]
    assert await walked(world, newest_first=False) == order
    assert await walked(world, newest_first=True) == order[::-1]
    assert await walked(world, page=1) == order[::-1]


async def _dead(world: World, held: Held) -> Decided:
    return await world.decide(held.id, Finish(JobState.DEAD, True, "r", DeadCause.TOTAL_TIMEOUT), Outcome.FAILED)


async def test_filters(world: World) -> None:
    plain = await world.letter()
    other_queue = await world.letter(queue="mail")
    other_type = await world.letter(type="bill")
    not_retryable = await world.letter(failure=Failure("Gone"), cause=DeadCause.NOT_RETRYABLE)
    labelled = await world.letter(labels={"team": "pay", "env": "eu"})
    everything = [plain, other_queue, other_type, not_retryable, labelled]
    letters = await world.dead.letters(world.tenant, everything, full=False)
    died = {id: letter.job.finished_at for id, letter in letters.items()}
    await world.sql("UPDATE dead_jobs SET schedule_id = 'nightly' WHERE id = %(job)s::uuid", job=plain)
    cases: Sequence[tuple[DeadFilter, list[JobId]]] = [
        (DeadFilter(), everything),
        (DeadFilter(queue="mail"), [other_queue]),
        (DeadFilter(type="bill"), [other_type]),
        (DeadFilter(schedule="nightly"), [plain]),
        (DeadFilter(failure_type="Gone"), [not_retryable]),
        (DeadFilter(cause=DeadCause.NOT_RETRYABLE), [not_retryable]),
        (DeadFilter(labels={"team": "pay"}), [labelled]),
        (DeadFilter(labels={"team": "pay", "env": "us"}), []),
        (DeadFilter(start=died[other_type]), everything[2:]),
        (DeadFilter(end=died[other_type]), everything[:2]),
        (DeadFilter(start=died[other_queue], end=died[labelled], queue="default"), [other_type, not_retryable]),
    ]
    for where, found in cases:
        assert await walked(world, where, newest_first=False) == found, where
        assert await walked(world, where) == found[::-1], where
        assert await world.dead.count(Walk(world.tenant, where, FIRST), None) == len(found), where
    assert await world.dead.count(Walk(world.tenant, DeadFilter(), FIRST), 3) == 3
    assert await walked(world, DeadFilter(), page=100) == everything[::-1]


async def test_a_walk_looks_at_a_bounded_number_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [await world.letter(queue="mail" if n in (0, 7) else "default") for n in range(8)]
    for name in ("_FIND_NEWEST", "_FIND_OLDEST", "_LAST_SEEN_NEWEST", "_LAST_SEEN_OLDEST", "_COUNT_OLDEST"):
        text = getattr(deadletters, name)
        monkeypatch.setattr(
            deadletters, name, text.replace("LIMIT 10000", "LIMIT 3").replace("OFFSET 9999", "OFFSET 2")
        )
    monkeypatch.setattr(deadletters, "WALK_ROWS", 3)
    where = DeadFilter(queue="mail")
    first = await world.dead.find(Walk(world.tenant, where, FIRST), 5)
    assert [place.id for place in first.places] == [ids[0]]
    assert first.next is not None
    assert first.next.id == ids[2]
    assert await walked(world, where, page=5) == [ids[7], ids[0]]
    assert await walked(world, where, newest_first=False, page=5) == [ids[0], ids[7]]
    assert await world.dead.count(Walk(world.tenant, where, FIRST), None) == 2


async def test_reviving_gives_a_new_life_with_the_same_work(world: World) -> None:
    timeouts = Timeouts(start_by_s=1.0, run_s=5.0, total_s=60.0)
    spec = world.spec(
        effect_key="chosen", timeouts=timeouts, retry=RetryPolicy(2), headers={"h": "1"}, tracestate="v=1"
    )
    first = await leased(world, spec)
    await world.fail(first)
    second = await leased(world, spec)
    await world.bury(second)
    before = await world.job(spec.id)
    (entry,) = await world.revive(spec.id)
    assert await world.where(spec.id) == ["jobs"]
    now, job = await world.now(), await world.job(spec.id)
    assert (entry.id, entry.shard, entry.queue, entry.type, entry.priority) == (
        spec.id, spec.shard, spec.queue, spec.type, spec.priority,
    )  # fmt: skip
    assert (job.state, job.attempt, job.attempts_counted, job.generation) == (JobState.READY, 2, 0, 0)
    assert (job.payload, job.headers, job.effect_key) == (before.payload, before.headers, "chosen")
    assert now - timedelta(seconds=5) < job.due_at <= now
    live = await world.live(spec.id)
    assert (live.fence, live.attempts_before, live.start_by) == (second.fence, 2, None)
    assert live.deadline_at is not None
    assert timedelta(seconds=50) < live.deadline_at - now <= timedelta(seconds=60)
    assert await world.value("SELECT tracestate FROM jobs WHERE id = %(job)s::uuid", job=spec.id) == "v=1"
    third = await leased(world, spec)
    assert third.grant.attempt == 3
    assert third.fence > second.fence


@pytest.mark.parametrize(
    ("key", "first", "second"),
    [
        ("", None, None),
        ("chosen", "chosen/1", "chosen/1/2"),
        ("k" * 512, 64, 66),
    ],
)
async def test_a_new_generation_has_another_effect_key(
    world: World, key: str, first: str | int | None, second: str | int | None
) -> None:
    spec = world.spec(effect_key=key)
    for generation, expected in ((1, first), (2, second)):
        await world.bury(await leased(world, spec))
        await world.revive(spec.id, new_generation=True)
        found, number = (
            await world.sql("SELECT effect_key, generation FROM jobs WHERE id = %(job)s::uuid", job=spec.id)
        )[0]
        assert number == generation
        if isinstance(expected, int):
            assert len(found) == expected + 2
            assert found.endswith(f"/{generation}")
        else:
            assert found == expected


async def test_only_so_many_redrives_unless_asked_for_one_by_one(world: World) -> None:
    job = await world.letter()
    most = limits.REDRIVES_PER_LETTER_MAX
    await world.sql("UPDATE dead_jobs SET redrives = %(n)s WHERE id = %(job)s::uuid", n=most, job=job)
    assert await world.revive(job, redrives_max=most) == []
    assert await world.where(job) == ["dead_jobs"]
    assert await walked(world) == [job]
    redrivable = Walk(world.tenant, DeadFilter(), FIRST, redrivable=True)
    assert (await world.dead.find(redrivable, 5)).places == ()
    assert len(await world.revive(job)) == 1
    await world.bury(await world.lease(world.spec(id=job)))
    letter = (await world.dead.letters(world.tenant, [job], full=False))[job]
    assert (letter.redrives, letter.redriven_by) == (most + 1, "key-1")


async def test_reviving_and_discarding_take_only_what_is_there(world: World) -> None:
    job, live = await world.letter(), await world.lease()
    stranger = JobId(job[:-2] + ("00" if job[-2:] != "00" else "11"))
    entries = await world.revive(live.id, job, stranger)
    assert [entry.id for entry in entries] == [job]
    assert await world.revive(job) == []
    assert await world.dead.discard(world.tenant, [job, live.id, stranger], "") == []
    other = await world.letter()
    assert await world.dead.discard(TenantId(world.tenant + 1), [other], "") == []
    assert await world.where(other) == ["dead_jobs"]


async def test_a_letter_goes_one_way_only(world: World) -> None:
    """Redrives and discards of the same letters at once: each letter goes to one of them, and is nowhere twice."""
    jobs = [await world.letter() for _ in range(20)]
    revived, more, discarded = await asyncio.gather(
        world.revive(*jobs), world.revive(*reversed(jobs)), world.dead.discard(world.tenant, jobs, "")
    )
    ids = [entry.id for entry in (*revived, *more)] + discarded
    assert sorted(ids) == sorted(jobs)
    places = [await world.where(job) for job in jobs]
    assert all(len(found) == 1 for found in places)


async def test_a_discarded_letter_stays_in_history_as_dead(world: World) -> None:
    spec = world.spec(labels={"l": "1"})
    await world.bury(await leased(world, spec))
    before = await world.job(spec.id)
    assert await world.dead.discard(world.tenant, [spec.id], "not needed") == [spec.id]
    assert await world.where(spec.id) == ["finished_jobs"]
    after = await world.job(spec.id)
    assert after == replace(before, reason="not needed", finished_at=after.finished_at)
    for state, found in ((JobState.DEAD, [spec.id]), (JobState.SUCCEEDED, [])):
        assert [j.id for j in await world.reader.page(world.tenant, JobFilter(state=state), None, 5)] == found
    await forget_history(world, spec.id)
    assert await numbers(world, spec.id) == [(1, Outcome.FAILED)]


@pytest.mark.parametrize("reason", ["", "why"])
async def test_without_a_reason_a_discarded_letter_keeps_its_own(world: World, reason: str) -> None:
    job = await world.letter()
    await world.dead.discard(world.tenant, [job], reason)
    assert (await world.job(job)).reason == (reason or "all used up")


async def test_attempts_are_listed_for_as_long_as_the_job(world: World) -> None:
    """History is gone after each death, and still every attempt of every life is there."""
    spec = world.spec()
    held = await leased(world, spec)
    await world.fail(held, failure=Failure("A", "first", "stack"))
    held = await leased(world, spec)
    await world.bury(held, Failure("B", "second"))
    await forget_history(world, spec.id)
    kept = await world.reader.attempts(world.tenant, spec.id, 0, 10)
    assert [(a.number, a.outcome, a.failure) for a in kept] == [
        (1, Outcome.FAILED, Failure("A", "first", "stack")),
        (2, Outcome.FAILED, Failure("B", "second")),
    ]
    assert kept[1].fence == held.fence
    assert kept[1].session_id == held.grant.session_id
    await world.revive(spec.id)
    assert await world.reader.attempts(world.tenant, spec.id, 0, 10) == kept
    held = await leased(world, spec)
    assert await numbers(world, spec.id) == [(1, Outcome.FAILED), (2, Outcome.FAILED), (3, None)]
    await world.bury(held, Failure("C"))
    await forget_history(world, spec.id)
    assert await numbers(world, spec.id) == [(n, Outcome.FAILED) for n in (1, 2, 3)]
    await world.revive(spec.id)
    held = await leased(world, spec)
    await world.succeed(held)
    await forget_history(world, spec.id)
    assert await numbers(world, spec.id) == [*((n, Outcome.FAILED) for n in (1, 2, 3)), (4, Outcome.SUCCEEDED)]
    assert [a.number for a in await world.reader.attempts(world.tenant, spec.id, 1, 2)] == [2, 3]


async def test_an_attempt_in_history_and_with_its_letter_is_listed_once_and_whole(world: World) -> None:
    spec = world.spec()
    for _ in range(3):
        await world.bury(await leased(world, spec), Failure("E", "m" * 600, "s"))
        await world.revive(spec.id)
    for page in (1, 2, 10):
        found: list[Attempt] = []
        while part := await world.reader.attempts(world.tenant, spec.id, found[-1].number if found else 0, page):
            found += part
        assert [a.number for a in found] == [1, 2, 3], page
        assert {a.failure for a in found} == {Failure("E", "m" * 600, "s")}


async def test_the_worker_of_a_kept_attempt_is_known_when_its_session_is_forgotten(world: World) -> None:
    job = await world.letter()
    await world.sql("DELETE FROM sessions WHERE tenant_id = %(tenant)s", tenant=world.tenant)
    (attempt,) = await world.reader.attempts(world.tenant, job, 0, 10)
    assert attempt.worker == "worker-1"


async def test_what_is_kept_of_attempts_is_bounded(world: World) -> None:
    spec = world.spec()
    held = await leased(world, spec)
    await world.sql(
        """INSERT INTO attempts (tenant_id, job_id, fence, ended_at, number, leased_at, outcome, failure)
           SELECT %(tenant)s, %(job)s::uuid, n, now(), n, now(), 2, %(failure)s::jsonb
           FROM generate_series(1, %(count)s) n""",
        tenant=world.tenant,
        job=spec.id,
        count=limits.PAST_ATTEMPTS_MAX + 50,
        failure=json.dumps({"type": "E", "message": "m" * 8_000, "stack": "s" * 32_000}),
    )
    await world.sql("UPDATE jobs SET attempt = 2000 WHERE id = %(job)s::uuid", job=spec.id)
    await world.bury(held, Failure("Last", "m" * 8_000, "s" * 32_000))
    await forget_history(world, spec.id)
    found = await world.reader.attempts(world.tenant, spec.id, 0, 10_000)
    assert len(found) == limits.PAST_ATTEMPTS_MAX
    assert (found[0].number, found[-1].number) == (52, 2000)
    whole = [a.number for a in found if a.failure and a.failure.stack]
    assert whole == [*range(1042, 1051), 2000]
    assert found[0].failure == Failure("E", "m" * limits.PAST_MESSAGE_CHARS_MAX)
    size = await world.value("SELECT octet_length(past::text) FROM dead_jobs WHERE id = %(job)s::uuid", job=spec.id)
    assert size < 2_000_000


async def test_a_letter_that_kept_nothing_keeps_what_history_has_at_its_next_death(world: World) -> None:
    """As buried by a version that kept no attempts with the letter."""
    spec = world.spec()
    await world.bury(await leased(world, spec))
    await world.sql("UPDATE dead_jobs SET past = NULL WHERE id = %(job)s::uuid", job=spec.id)
    await world.revive(spec.id)
    await world.bury(await leased(world, spec))
    await forget_history(world, spec.id)
    assert await numbers(world, spec.id) == [(1, Outcome.FAILED), (2, Outcome.FAILED)]


async def test_retry_now_and_reschedule_move_only_what_waits(world: World) -> None:
    soon = (await world.now()) + timedelta(hours=1)
    waiting = world.spec(delay_s=600.0, timeouts=Timeouts(10.0, 5.0, 100.0))
    await world.create(waiting)
    retrying = await world.lease()
    await world.fail(retrying, wait_s=600.0)
    leased, dead = await world.lease(), await world.letter()
    for job in (waiting.id, leased.id, dead):
        assert await world.jobs.retry_now(world.tenant, job) is None
    for job in (retrying.id, leased.id, dead):
        assert await world.jobs.reschedule(world.tenant, job, soon) is None
    stranger = TenantId(world.tenant + 1)
    assert await world.jobs.retry_now(stranger, retrying.id) is None
    assert await world.jobs.reschedule(stranger, waiting.id, soon) is None

    moved = await world.jobs.retry_now(world.tenant, retrying.id)
    assert moved is not None
    assert (await world.job(retrying.id)).state is JobState.READY
    assert await world.jobs.retry_now(world.tenant, retrying.id) is None

    moved = await world.jobs.reschedule(world.tenant, waiting.id, soon)
    assert moved is not None
    assert moved.due_us == round(soon.timestamp() * 1e6)
    live = await world.live(waiting.id)
    assert (live.due_at, live.deadline_at) == (soon, soon + timedelta(seconds=100))
    assert live.start_by == pytest.approx(soon.timestamp() + 10)
    # An instant in the past is now.
    assert await world.jobs.reschedule(world.tenant, waiting.id, soon - timedelta(days=3)) is not None
    assert (await world.job(waiting.id)).state is JobState.READY
    assert abs((await world.live(waiting.id)).due_at - await world.now()) < timedelta(seconds=5)


async def test_a_job_that_was_given_back_has_all_its_start_by_after_it_was_moved(world: World) -> None:
    held = await world.lease(timeouts=Timeouts(start_by_s=60.0))
    due = await world.now() + timedelta(seconds=30)
    requeue = Requeue(JobState.SCHEDULED, due, counted=False)
    assert await world.apply(await world.decide(held.id, requeue, Outcome.RELEASED))
    later = due + timedelta(hours=1)
    entry = await world.jobs.reschedule(world.tenant, held.id, later)
    assert entry is not None
    assert entry.start_by == pytest.approx(later.timestamp() + 60)
