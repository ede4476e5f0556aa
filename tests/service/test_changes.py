"""Changes of schedules govern what was made ahead: edits, pauses, deletions, triggers, and whoever comes at once."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.domain.errors import Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from rota.domain.model import CancelMode, Payload
from rota.domain.schedule import (
    Definition,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    Origin,
    OverlapMode,
    OverlapPolicy,
    ScheduleState,
    etag,
)
from rota.service.drafts import Draft
from rota.store.scheduleport import RequestKey

from .clockwork import NO_REQUEST, START, Clockwork, every, timing


def minute(n: float) -> object:
    return START + timedelta(minutes=n)


async def test_an_edit_of_the_job_changes_what_was_made_ahead(clockwork: Clockwork) -> None:
    await clockwork.create(job=JobTemplate(type="old", payload=Payload(b"1")))
    await clockwork.go(90)
    before = await clockwork.live()
    assert [each[2] for each in before] == [minute(1), minute(2)]
    started = await clockwork.lease()
    changed = await clockwork.edit(job=JobTemplate(type="new", queue="q", payload=Payload(b"2")))
    assert changed.timer.version == 2
    (running, ahead) = await clockwork.live()
    assert (running[0], ahead[2]) == (started.job_id, minute(2))
    assert ahead[0] != before[1][0]
    (job,) = (await clockwork.reader.get(clockwork.tenant, [ahead[0]])).values()
    assert (job.type, job.queue, job.payload.data) == ("new", "q", b"2")
    assert [each.job_id for each in await clockwork.ledger()] == [running[0], ahead[0]]
    await clockwork.go(60)
    await clockwork.check()


async def test_an_edit_of_the_rule_takes_back_what_it_no_longer_names(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.go(30)
    assert [each[2] for each in await clockwork.live()] == [minute(1)]
    changed = await clockwork.edit(timing=timing("*/5 * * * *"))
    assert changed.timer.next_nominal == minute(5)
    assert await clockwork.live() == []
    assert await clockwork.fates() == {"SUPERSEDED": 1}
    # Back again before its time: it is fired after all, once.
    await clockwork.edit(timing=timing())
    await clockwork.go(40)
    assert [each[2] for each in await clockwork.live()] == [minute(1), minute(2)]
    assert await clockwork.fates() == {"FIRED": 2}
    await clockwork.check()


async def test_a_new_rule_is_not_late_for_what_it_names_before_the_edit(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("30 12 * * *"))
    await clockwork.go(5 * 3600, tick=600)
    changed = await clockwork.edit(timing=timing("0 14 * * *"))
    assert changed.timer.next_nominal == START.replace(day=3, hour=14)
    await clockwork.go(600)
    assert await clockwork.fates() == {"FIRED": 1}
    await clockwork.check()


async def test_what_was_due_before_an_edit_is_settled_by_the_old_rule(clockwork: Clockwork) -> None:
    await clockwork.create(overlap=OverlapPolicy(OverlapMode.SKIP))
    await clockwork.sleep(60)
    await clockwork.edit(timing=timing("0 0 1 1 *"))
    assert await clockwork.fates() == {"FIRED": 1}
    await clockwork.check()


async def test_an_edit_settles_what_came_due_of_a_schedule_that_nobody_would_have_looked_at(
    clockwork: Clockwork,
) -> None:
    await clockwork.create(overlap=OverlapPolicy(OverlapMode.SKIP), missed=MissedPolicy(MissedMode.SKIP))
    await clockwork.sql("UPDATE schedule_timers SET arm_at = NULL")
    await clockwork.sleep(150)
    await clockwork.edit(timing=timing("*/5 * * * *"))
    assert await clockwork.fates() == {"SKIPPED_MISSED": 1, "FIRED": 1}
    await clockwork.check()


async def test_an_edit_after_the_last_occurrence_was_made_ahead_leaves_the_schedule_armed(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing(end=START + timedelta(seconds=90)))
    await clockwork.go(10)
    edited = await clockwork.edit(job=JobTemplate(type="other"))
    assert (edited.timer.state, edited.timer.arm_at) == (ScheduleState.ACTIVE, clockwork.clock.now)
    await clockwork.go(120)
    assert (await clockwork.get()).timer.state is ScheduleState.EXHAUSTED
    await clockwork.check()


@pytest.mark.parametrize("change", ["edit", "pause"])
@pytest.mark.parametrize("mode", [OverlapMode.SKIP, OverlapMode.BUFFER_ALL])
async def test_what_is_decided_stays_so_when_the_clock_goes_back(
    clockwork: Clockwork, change: str, mode: OverlapMode
) -> None:
    await clockwork.create(timing=every(10), overlap=OverlapPolicy(mode))
    await clockwork.go(10)
    await clockwork.lease()
    await clockwork.go(50)
    await clockwork.set(clockwork.clock.now - timedelta(seconds=25))
    if change == "edit":
        await clockwork.edit(timing=every(5))
    else:
        await clockwork.pause()
        await clockwork.go(10)
        await clockwork.edit(timing=every(5))
        await clockwork.resume()
    await clockwork.go(60)
    await clockwork.check()
    assert (await clockwork.get()).timer.buffered == (await clockwork.fates()).get("BUFFERED", 0)


@pytest.mark.parametrize("seconds", [30, 90])
async def test_a_pause_withdraws_what_has_not_started(clockwork: Clockwork, seconds: float) -> None:
    await clockwork.create()
    await clockwork.go(seconds)
    paused = await clockwork.pause()
    assert (paused.timer.state, paused.timer.next_nominal) == (ScheduleState.PAUSED, None)
    assert await clockwork.live() == []
    await clockwork.go(5 * 3600, tick=1200)
    fates = await clockwork.fates()
    assert fates.pop("SUPPRESSED_PAUSED") >= 280
    assert fates == {}
    resumed = await clockwork.resume()
    assert resumed.timer.state is ScheduleState.ACTIVE
    await clockwork.settle()
    await clockwork.go(120)
    assert await clockwork.fates() == {"SUPPRESSED_PAUSED": 300 + seconds // 60 * 1, "FIRED": 3}
    await clockwork.check()


@pytest.mark.parametrize("mode", MissedMode)
async def test_a_pause_can_be_caught_up(clockwork: Clockwork, mode: MissedMode) -> None:
    await clockwork.create(timing=timing("0 * * * *"))
    await clockwork.go(1800, tick=600)
    await clockwork.pause()
    await clockwork.go(6 * 3600, tick=600)
    assert await clockwork.fates() == {"SUPPRESSED_PAUSED": 6}
    await clockwork.resume(catch_up=MissedPolicy(mode))
    await clockwork.go(60)
    assert (
        await clockwork.fates()
        == {
            MissedMode.SKIP: {"SKIPPED_MISSED": 6},
            MissedMode.COALESCE: {"COALESCED": 5, "FIRED": 1},
            MissedMode.CATCH_UP: {"FIRED": 6},
        }[mode]
    )
    await clockwork.go(3600, tick=60)
    assert (await clockwork.get()).timer.last_nominal == START + timedelta(hours=7)
    await clockwork.check()


async def test_catching_up_is_for_one_resume_only(clockwork: Clockwork) -> None:
    await clockwork.create(missed=MissedPolicy(MissedMode.SKIP))
    for catch_up, expected in ((MissedPolicy(MissedMode.CATCH_UP), 5), (None, 0)):
        await clockwork.go(30)
        await clockwork.pause()
        before = (await clockwork.fates()).get("FIRED", 0)
        await clockwork.sleep(300)
        await clockwork.resume(catch_up=catch_up)
        await clockwork.settle()
        # And the next one, which is made ahead.
        assert (await clockwork.fates())["FIRED"] - before == expected + 1
    await clockwork.check()


async def test_pausing_and_resuming_twice_changes_nothing(clockwork: Clockwork) -> None:
    await clockwork.create()
    first = await clockwork.pause()
    assert (await clockwork.pause()).timer.version == first.timer.version
    again = await clockwork.resume()
    assert (await clockwork.resume()).timer.version == again.timer.version


async def test_a_schedule_can_begin_paused(clockwork: Clockwork) -> None:
    await clockwork.create(paused=True)
    await clockwork.go(600, tick=60)
    assert await clockwork.live() == []
    await clockwork.resume()
    await clockwork.go(60)
    assert len(await clockwork.live()) == 2
    await clockwork.check()


async def test_waiting_occurrences_end_with_a_pause(clockwork: Clockwork) -> None:
    await clockwork.create(overlap=OverlapPolicy(OverlapMode.BUFFER_ALL))
    await clockwork.go(60)
    await clockwork.lease()
    await clockwork.go(180, tick=30)
    await clockwork.pause()
    assert await clockwork.fates() == {"FIRED": 1, "SUPPRESSED_PAUSED": 3}
    await clockwork.check()


async def test_a_deleted_schedule_leaves_its_history_and_what_has_started(clockwork: Clockwork) -> None:
    schedule = await clockwork.create()
    await clockwork.go(90)
    grant = await clockwork.lease()
    deleted = await clockwork.schedules.delete(clockwork.identity_, "s", etag="", cancel=None, allow_missing=False)
    assert (deleted.withdrawn, deleted.cancelled) == (1, 0)
    with pytest.raises(NotFound):
        await clockwork.get()
    assert [each.fate for each in await clockwork.ledger()] == [Fate.FIRED, Fate.SUPERSEDED]
    await clockwork.complete(grant)
    await clockwork.go(120)
    assert await clockwork.value("SELECT count(*) FROM jobs") == 0
    # The name is free again, for another schedule.
    assert (await clockwork.create()).uid != schedule.uid
    assert await clockwork.ledger() == []


async def test_deleting_can_cancel_what_has_started(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.go(60)
    await clockwork.lease()
    deleted = await clockwork.schedules.delete(
        clockwork.identity_, "s", etag="", cancel=CancelMode.FENCE_OUT, allow_missing=False
    )
    assert (deleted.withdrawn, deleted.cancelled) == (1, 1)
    assert await clockwork.value("SELECT count(*) FROM jobs") == 0


async def test_a_version_that_is_not_current_is_refused(clockwork: Clockwork) -> None:
    first = await clockwork.create()
    now = await clockwork.edit(notes="1")
    current = etag(now.timer.version, now.uid)
    for stale in (etag(1, first.uid), etag(2, clockwork.clock.new_id()), "nonsense"):
        with pytest.raises(Aborted) as refused:
            await clockwork.edit(etag=stale, notes="2")
        assert (refused.value.reason, refused.value.metadata) == ("ETAG_MISMATCH", {"current": current})
    assert (await clockwork.edit(etag=current, notes="2")).timer.version == 3


async def test_edits_at_once_all_count(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.go(30)
    await asyncio.gather(*(clockwork.edit(notes=str(n)) for n in range(10)), clockwork.materializer.step())
    assert (await clockwork.get()).timer.version == 11
    await clockwork.go(60)
    await clockwork.check()


async def test_a_repeated_creation_gets_its_first_answer(clockwork: Clockwork) -> None:
    draft = Draft("s", Definition(timing(), JobTemplate(type="t")))
    request = RequestKey(11, "r", b"digest")
    (first,) = await clockwork.schedules.create(clockwork.identity_, [draft], request)
    (again,) = await clockwork.schedules.create(clockwork.identity_, [draft], request)
    assert again.uid == first.uid
    with pytest.raises(AlreadyExists, match="stands for another request"):
        await clockwork.schedules.create(clockwork.identity_, [draft], RequestKey(11, "r", b"other"))
    with pytest.raises(AlreadyExists, match="schedules/s: exists already"):
        await clockwork.schedules.create(clockwork.identity_, [draft], NO_REQUEST)


async def test_a_batch_is_created_all_or_none(clockwork: Clockwork) -> None:
    await clockwork.create("b")
    drafts = [Draft(id, Definition(timing(), JobTemplate(type="t"))) for id in ("a", "b", "c")]
    with pytest.raises(AlreadyExists, match="schedules/b"):
        await clockwork.schedules.create(clockwork.identity_, drafts, NO_REQUEST)
    with pytest.raises(NotFound):
        await clockwork.get("a")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"timing": timing("0 0 31 2 *")}, "schedule.cron.expression"),
        ({"timing": timing(time_zone="CET+1")}, "schedule.time_zone"),
        ({"timing": timing(end=START - timedelta(days=1))}, "schedule"),
        ({"timing": timing(start=START + timedelta(days=2), end=START + timedelta(days=1))}, "schedule.end_time"),
        ({"timing": timing(calendars=("nope",))}, "schedule.exclusions.calendars"),
        ({"overlap": OverlapPolicy(OverlapMode.SKIP, 3)}, "schedule.overlap_policy.limit"),
        ({"job": JobTemplate(type="")}, "schedule.job.type"),
        ({"missed": MissedPolicy(catch_up_max=0)}, "schedule.missed_run_policy.catch_up_max"),
    ],
)
async def test_what_cannot_be_meant_is_refused_at_creation_and_edit_alike(
    clockwork: Clockwork, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await clockwork.create(**fields)  # type: ignore[arg-type]
    assert refused.value.violations[0].field.startswith(field)
    await clockwork.create("good")
    before = await clockwork.get("good")
    with pytest.raises(InvalidArgument) as again:
        await clockwork.edit("good", **fields)
    assert again.value.violations == refused.value.violations
    assert await clockwork.get("good") == before


async def test_a_trigger_fires_now_in_any_state_and_leaves_the_rule_alone(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("0 12 * * *"))
    await clockwork.pause()
    await clockwork.sleep(1.5)
    done = await clockwork.trigger(payload=Payload(b"mine", "text/plain"), reason="by hand")
    assert done.job is not None
    (job,) = (await clockwork.reader.get(clockwork.tenant, [done.job])).values()
    assert (job.payload.data, job.due_at) == (b"mine", clockwork.clock.now)
    assert job.origin is not None
    assert (job.origin.schedule_id, job.origin.nominal_at, job.origin.generation) == ("s", clockwork.clock.now, 1)
    assert (done.occurrence.origin, done.occurrence.reason) == (Origin.TRIGGER, "by hand")
    found = await clockwork.get()
    assert (found.timer.last_job, found.timer.fired, sum(found.timer.fates)) == (done.job, 0, 0)
    # Once more at the same instant, and the same call again.
    other = await clockwork.trigger()
    assert other.occurrence.generation == 2
    request = RequestKey(15, "r", b"d")
    first = await clockwork.trigger(request=request)
    await clockwork.sleep(5)
    assert (await clockwork.trigger(request=request)).job == first.job


async def test_a_waiting_trigger_keeps_its_payload(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("0 12 * * *"), overlap=OverlapPolicy(OverlapMode.BUFFER_ONE))
    first = await clockwork.trigger()
    assert first.job is not None
    waiting = await clockwork.trigger(payload=Payload(b"mine"))
    assert (waiting.job, waiting.occurrence.fate) == (None, Fate.BUFFERED)
    await clockwork.complete(await clockwork.lease_job(first.job))
    await clockwork.go(2)
    ((job, _, _, _),) = await clockwork.live()
    assert (await clockwork.reader.get(clockwork.tenant, [job]))[job].payload.data == b"mine"


async def test_an_exhausted_schedule_is_neither_paused_nor_resumed(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing(max_count=1))
    await clockwork.go(60)
    for steer in (clockwork.pause, clockwork.resume):
        with pytest.raises(FailedPrecondition, match="is EXHAUSTED"):
            await steer()
    changed = await clockwork.edit(timing=timing(max_count=2))
    assert changed.timer.state is ScheduleState.ACTIVE
    await clockwork.go(120)
    assert (await clockwork.get()).timer.state is ScheduleState.EXHAUSTED
    assert await clockwork.fates() == {"FIRED": 2}
    await clockwork.check()


async def test_a_job_cancelled_ahead_of_its_time_stays_cancelled_through_a_pause(clockwork: Clockwork) -> None:
    await clockwork.create()
    await clockwork.go(30)
    ((job, _, _, _),) = await clockwork.live()
    await clockwork.jobs_service.cancel(clockwork.tenant, job, CancelMode.COOPERATIVE, "")
    await clockwork.pause()
    await clockwork.check()
    await clockwork.resume()
    await clockwork.go(60)
    assert [each[2] for each in await clockwork.live()] == [minute(2)]
    await clockwork.check()


async def test_what_has_its_fate_keeps_it_through_a_pause(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing(dates=("2026-03-03",)))
    await clockwork.set(START.replace(hour=23, minute=58, second=30))
    await clockwork.settle()
    await clockwork.go(40)
    ahead = await clockwork.live()
    await clockwork.jobs_service.cancel(clockwork.tenant, ahead[-1][0], CancelMode.COOPERATIVE, "")
    await clockwork.pause()
    await clockwork.check()
    await clockwork.go(3600, tick=300)
    await clockwork.check()
    await clockwork.resume(catch_up=MissedPolicy(MissedMode.CATCH_UP))
    await clockwork.go(86_400, tick=600)
    await clockwork.check()


async def test_a_new_schedule_is_not_overdue(clockwork: Clockwork) -> None:
    made = await clockwork.create(timing=every(5))
    assert made.timer.arm_at == clockwork.clock.now
    await clockwork.sweeper.step()
    assert clockwork.counted("rota.schedules.repaired", "overdue") == 0


async def test_an_interval_keeps_its_anchor_through_edits(clockwork: Clockwork) -> None:
    await clockwork.set(START + timedelta(seconds=7.5))
    await clockwork.create(timing=every(60))
    await clockwork.go(120)
    found = await clockwork.get()
    assert found.definition.timing.anchor == START + timedelta(seconds=7)
    changed = await clockwork.edit(timing=replace(found.definition.timing, every_s=90.0))
    assert changed.timer.next_nominal == START + timedelta(seconds=187)


async def test_an_edit_right_after_a_resume_loses_nothing_of_the_pause(clockwork: Clockwork) -> None:
    await clockwork.create(timing=timing("*/10 * * * *"))
    await clockwork.pause()
    await clockwork.sleep(3600)
    resumed = await clockwork.resume()
    assert resumed.timer.next_nominal == minute(70)
    await clockwork.edit(timing=timing("*/20 * * * *"))
    assert await clockwork.fates() == {"SUPPRESSED_PAUSED": 6}
    await clockwork.go(3600, tick=60)
    assert await clockwork.fates() == {"SUPPRESSED_PAUSED": 6, "FIRED": 3}
    await clockwork.check()
