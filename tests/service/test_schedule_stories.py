"""What other schedulers got wrong when schedules change, pause or lose runs, and no other file here tells."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from rota.domain.ids import JobId
from rota.domain.model import CancelMode, JobState, Payload, RetryPolicy
from rota.domain.schedule import JobTemplate, MissedMode, MissedPolicy, OverlapMode, OverlapPolicy

from .clockwork import START, Clockwork, every

AT_ITS_TIME = OverlapPolicy(OverlapMode.ALLOW, 1_000)
RETRIED = JobTemplate(type="t", retry=RetryPolicy(max_attempts=3, initial_backoff_s=720.0, max_backoff_s=720.0))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def nominals(clockwork: Clockwork, id: str = "s") -> list[float]:
    """Of what fired, in seconds from the start."""
    return [(each.nominal - START).total_seconds() for each in await clockwork.ledger(id) if each.fate.name == "FIRED"]


async def test_each_way_to_drop_a_run_is_counted_and_written_down(clockwork: Clockwork) -> None:
    """temporalio/temporal#10503: dropped actions could not be told apart, or seen at all."""
    newest = MissedPolicy(MissedMode.CATCH_UP, catch_up_window_s=120.0)
    await clockwork.create("window", missed=newest)
    await clockwork.create("overlap", overlap=OverlapPolicy(OverlapMode.SKIP))
    await clockwork.create("full", overlap=OverlapPolicy(OverlapMode.BUFFER_ALL, 1))
    await clockwork.create("missed", missed=MissedPolicy(MissedMode.SKIP))
    await clockwork.go(60)
    await clockwork.sleep(600)
    await clockwork.settle()
    await clockwork.go(240, tick=30)
    lost = {"window": "SKIPPED_WINDOW", "overlap": "SKIPPED_OVERLAP", "full": "SKIPPED_BUFFER_FULL"}
    for id, fate in {**lost, "missed": "SKIPPED_MISSED"}.items():
        found = [each for each in await clockwork.ledger(id) if each.fate.name.startswith("SKIPPED")]
        assert {each.fate.name for each in found} == {fate}
        counted = sum(each.count for each in found)
        assert counted >= 3
        assert clockwork.counted("rota.occurrences", fate.lower()) == counted
    await clockwork.check("window", "overlap", "full", "missed")


async def test_a_pause_leaves_what_has_started_and_withdraws_the_rest(clockwork: Clockwork) -> None:
    """agronholm/apscheduler#856: one run in progress, one that waits for its retry, one that waits for a worker."""
    await clockwork.create(overlap=AT_ITS_TIME, job=RETRIED)
    await clockwork.go(60)
    failed = await clockwork.lease()
    await clockwork.fail(failed)
    await clockwork.go(60)
    running = await clockwork.lease()
    await clockwork.go(60)
    assert len(await clockwork.live()) == 3
    await clockwork.pause()
    left = {job: state for job, state, _, _ in await clockwork.live()}
    assert left == {failed.job_id: JobState.RETRY_WAIT, running.job_id: JobState.LEASED}
    # They go on while it is paused, and nothing new comes.
    await clockwork.complete(running)
    await clockwork.go(900, tick=60)
    ((job, _, _, _),) = await clockwork.live()
    await clockwork.complete(await clockwork.lease_job(JobId(job)))
    assert await clockwork.live() == []
    assert (await clockwork.fates())["FIRED"] == 2
    await clockwork.resume()
    await clockwork.go(60)
    # What was withdrawn is among those of the pause.
    assert await clockwork.fates() == {"FIRED": 3, "SUPPRESSED_PAUSED": 16}
    await clockwork.check()


@pytest.mark.parametrize("seconds", [0.0, 0.4, 29.0, 59.9, 60.0, 60.1])
async def test_a_resume_at_any_moment_fires_no_slot_twice(clockwork: Clockwork, seconds: float) -> None:
    """quartz-scheduler/quartz#939: a misfire and a normal one."""
    await clockwork.create(overlap=AT_ITS_TIME)
    await clockwork.go(30)
    await clockwork.pause()
    await clockwork.go(600 + seconds, tick=60)
    await clockwork.resume(catch_up=MissedPolicy(MissedMode.COALESCE))
    await clockwork.settle()
    await clockwork.go(180, tick=20)
    fired = await nominals(clockwork)
    assert len(fired) == len(set(fired))
    # The newest of the pause, and each one after it.
    assert fired == [fired[0] + 60.0 * n for n in range(len(fired))]
    assert fired[-1] == (clockwork.clock.now - START).total_seconds() // 60 * 60
    await clockwork.check()


async def test_an_edit_of_an_interval_acts_at_once(clockwork: Clockwork) -> None:
    """taskforcesh/bullmq#3539: the old period ran to its end first."""
    await clockwork.create(timing=every(10), overlap=AT_ITS_TIME)
    await clockwork.go(15)
    changed = await clockwork.edit(timing=every(2, anchor=START))
    assert changed.timer.next_nominal == at(16)
    await clockwork.go(5)
    assert await nominals(clockwork) == [10.0, 16.0, 18.0, 20.0]
    changed = await clockwork.edit(timing=every(3_600, anchor=START))
    assert changed.timer.next_nominal == at(3_600)
    await clockwork.go(3_590, tick=60)
    assert (await nominals(clockwork))[4:] == [3_600.0]
    await clockwork.check()


@pytest.mark.parametrize("overlap", [OverlapMode.ALLOW, OverlapMode.SKIP])
async def test_the_last_of_several_edits_is_what_runs_next(clockwork: Clockwork, overlap: OverlapMode) -> None:
    """taskforcesh/bullmq#3095: from the second edit on, runs used old data. Of ALLOW the job is made already."""
    await clockwork.create(job=JobTemplate(type="t", payload=Payload(b"v1")), overlap=OverlapPolicy(overlap))
    for version in (2, 3, 4):
        await clockwork.go(15)
        await clockwork.edit(job=JobTemplate(type="t", payload=Payload(b"v%d" % version)))
    await clockwork.go(15)
    grant = await clockwork.lease()
    assert grant.payload == b"v4"
    (first, *_) = await clockwork.ledger()
    assert (first.job_id, first.version) == (grant.job_id, 4)
    await clockwork.check()


async def test_a_name_may_be_used_again_at_once_and_again(clockwork: Clockwork) -> None:
    """taskforcesh/bullmq#3063: the new one never fired, for a job of the old one had its id."""
    uids = []
    for _ in range(4):
        uids.append((await clockwork.create(overlap=AT_ITS_TIME)).uid)
        await clockwork.sleep(0.2)
        await clockwork.schedules.delete(clockwork.identity_, "s", etag="", cancel=None, allow_missing=False)
    uids.append((await clockwork.create(overlap=AT_ITS_TIME)).uid)
    await clockwork.go(60)
    ((job, _, nominal, _),) = await clockwork.live()
    assert (len(set(uids)), nominal) == (5, at(60))
    await clockwork.complete(await clockwork.lease_job(JobId(job)))
    await clockwork.check()


async def test_the_same_name_fires_the_slot_that_its_predecessor_has_fired(clockwork: Clockwork) -> None:
    """The same: a slot is of the schedule that it was made for."""
    await clockwork.create()
    await clockwork.go(30)
    ((first, _, nominal, _),) = await clockwork.live()
    await clockwork.jobs_service.cancel(clockwork.tenant, JobId(first), CancelMode.COOPERATIVE, "")
    await clockwork.schedules.delete(clockwork.identity_, "s", etag="", cancel=None, allow_missing=False)
    await clockwork.create()
    await clockwork.go(1)
    ((second, _, again, _),) = await clockwork.live()
    assert (second != first, again) == (True, nominal)


async def test_phases_outlive_a_restart(clockwork: Clockwork) -> None:
    """apache/hertzbeat#4328: a thousand schedules fired in the same second ever after."""
    for number in range(40):
        await clockwork.set(at(number * 0.25))
        await clockwork.create(f"s{number}", every(10))
    await clockwork.go(60, tick=5)
    await clockwork.sleep(3_600)
    clockwork.restart()
    await clockwork.go(60, tick=5)
    phases: Counter[float] = Counter()
    for number in range(40):
        fired = await nominals(clockwork, f"s{number}")
        assert {seconds % 10 for seconds in fired} == {number // 4 % 10}
        phases[fired[-1] % 10] += 1
    assert set(phases.values()) == {4}


async def test_schedules_of_equal_times_are_two(clockwork: Clockwork) -> None:
    """jwmach1/parameterized-scheduler#7: only one of the equal lines ran."""
    for id in ("a", "b"):
        await clockwork.create(id, job=JobTemplate(type="t", payload=Payload(id.encode())))
    await clockwork.go(60)
    payloads = sorted([(await clockwork.lease(id)).payload for id in ("a", "b")])
    assert payloads == [b"a", b"b"]
    await clockwork.check("a", "b")
