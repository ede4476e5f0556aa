"""Schedules between the wire and the domain: defaults, round trips, what the wire alone refuses, names and etags."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.api import codec, pages, schedulecodec
from rota.api import schedulenames as names
from rota.domain.dst import Cause, GapPolicy, Reason
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.errors import InvalidArgument
from rota.domain.ids import JobId, ScheduleUid, ShardNo, TenantId
from rota.domain.jitter import JitterMode
from rota.domain.model import Payload, RetryPolicy, Timeouts
from rota.domain.rule import PreviewLine
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import (
    ID,
    Backfill,
    BackfillState,
    Calendar,
    Definition,
    Fate,
    JobTemplate,
    MissedMode,
    MissedPolicy,
    Occurrence,
    Origin,
    OverlapMode,
    OverlapPolicy,
    Schedule,
    ScheduleState,
    Timer,
    Timing,
    etag,
)
from rota.domain.text import Problems

from .running import span

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
UID = "01a22a4e-cd91-70bc-b5eb-70ab53f956d0"
JOB = "01a22a4e-cd91-70bc-b5eb-70ab53f95600"
PLAIN = Definition(Timing(RuleKind.CRON, "0 3 * * *"), JobTemplate("t"))
FULL = Definition(
    timing=Timing(
        RuleKind.INTERVAL,
        every_s=5400.0,
        anchor=datetime(2026, 1, 1, tzinfo=UTC),
        time_zone="Europe/Berlin",
        start=NOW,
        end=NOW + timedelta(days=3),
        max_count=1 << 40,
        jitter_s=90.5,
        jitter_mode=JitterMode.RANDOM,
        dates=("2026-12-25", "--01-01"),
        calendars=("bank", "school.be"),
        gap=GapPolicy.SHIFT,
        overlap=DstOverlap.BOTH,
    ),
    job=JobTemplate(
        type="mail.send",
        queue="mail",
        priority=0,
        payload=Payload(b"\x00\xff", "a/b"),
        headers={"h": "1"},
        labels={"a": "", "b": "2"},
        retry=RetryPolicy(7, 0.5, 60.0, 1.5, ("Fatal",)),
        timeouts=Timeouts(30.0, 60.0, 3600.5),
        concurrency_key="k",
    ),
    missed=MissedPolicy(MissedMode.CATCH_UP, 0.0, 3600.0, 7),
    overlap=OverlapPolicy(OverlapMode.BUFFER_ALL, 3),
    pause_after_failures=5,
    notes="Für Leute",
    labels={"team": "ops"},
)
TIMINGS = [
    Timing(RuleKind.CRON, "H H * * 1-5", time_zone="America/New_York"),
    Timing(RuleKind.RRULE, "DTSTART:20260101T090000\nRRULE:FREQ=DAILY"),
    Timing(RuleKind.ONCE, run_time=NOW),
    Timing(RuleKind.ONCE, local_time="2026-03-08T02:30:00"),
    Timing(RuleKind.INTERVAL, every_s=1.0),
]


def decoded(message: pb.Schedule, at: str = "schedule") -> Definition:
    problems = Problems()
    found = schedulecodec.definition(problems, at, message)
    problems.raise_any()
    return found


def refused(call: Callable[[], Any]) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        call()
    return caught.value


def fields(refusal: InvalidArgument) -> list[str]:
    return [violation.field for violation in refusal.violations]


def stored(definition: Definition = PLAIN, **timer: Any) -> Schedule:
    return Schedule(
        tenant_id=TenantId(1),
        id="nightly",
        uid=ScheduleUid(UID),
        shard=ShardNo(0),
        definition=definition,
        timer=Timer(**{"version": 7, "state": ScheduleState.ACTIVE, "cursor": NOW} | timer),
        created_at=NOW,
        updated_at=NOW + timedelta(seconds=1),
    )


@pytest.mark.parametrize("definition", [PLAIN, FULL, *(replace(FULL, timing=timing) for timing in TIMINGS)])
def test_a_definition_comes_back_as_it_went(definition: Definition) -> None:
    message = schedulecodec.definition_message(definition)
    assert decoded(pb.Schedule.FromString(message.SerializeToString())) == definition


def test_defaults_are_filled_in() -> None:
    message = pb.Schedule(cron=pb.CronRule(expression="0 3 * * *"), job=pb.JobTemplate(type="t"))
    assert decoded(message) == PLAIN
    echoed = schedulecodec.definition_message(PLAIN)
    assert echoed.time_zone == "UTC"
    assert echoed.jitter == pb.Jitter(mode=pb.JITTER_MODE_HASH, span=span(0))
    assert echoed.missed_run_policy == pb.MissedRunPolicy(
        mode=pb.MISSED_RUN_MODE_COALESCE,
        late_tolerance=span(60),
        catch_up_window=span(86_400),
        catch_up_max=100,
    )
    assert echoed.overlap_policy == pb.OverlapPolicy(mode=pb.OVERLAP_MODE_ALLOW)
    assert (echoed.job.queue, echoed.job.priority) == ("default", 4)
    assert echoed.job.retry_policy.max_attempts == 5
    assert echoed.job.timeouts == common_pb2.Timeouts(run=span(3600))
    for unset in ("start_time", "end_time", "max_count", "exclusions"):
        assert not echoed.HasField(unset), unset


def test_the_default_of_a_buffer_is_shown_and_no_change() -> None:
    unset = replace(PLAIN, overlap=OverlapPolicy(OverlapMode.BUFFER_ALL))
    given = replace(PLAIN, overlap=OverlapPolicy(OverlapMode.BUFFER_ALL, 100))
    assert schedulecodec.definition_message(unset).overlap_policy.limit == 100
    assert schedulecodec.changed(unset, given) == ()


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (pb.Schedule(), ["s.job", "s.rule"]),
        (pb.Schedule(job=pb.JobTemplate(), once=pb.OnceRule()), ["s.once"]),
        (pb.Schedule(job=pb.JobTemplate(), interval=pb.IntervalRule()), ["s.interval.every"]),
        (
            pb.Schedule(
                job=pb.JobTemplate(),
                once=pb.OnceRule(run_time=Timestamp(seconds=1 << 40)),
                start_time=Timestamp(nanos=-1),
                end_time=Timestamp(seconds=-(1 << 62)),
            ),
            ["s.once.run_time", "s.start_time", "s.end_time"],
        ),
        (
            pb.Schedule(
                job=pb.JobTemplate(),
                interval=pb.IntervalRule(every=span(1), anchor_time=Timestamp(seconds=1 << 50)),
                exclusions=pb.Exclusions(calendars=["calendars/a", "b", "jobs/c", "-d"]),
            ),
            ["s.interval.anchor_time", "s.exclusions.calendars", "s.exclusions.calendars"],
        ),
        (pb.Schedule(cron=pb.CronRule(), dst_gap=9), ["s.dst_gap"]),  # type: ignore[arg-type]
        (pb.Schedule(cron=pb.CronRule(), dst_overlap=4), ["s.dst_overlap"]),  # type: ignore[arg-type]
        (pb.Schedule(cron=pb.CronRule(), jitter=pb.Jitter(mode=3)), ["s.jitter.mode"]),  # type: ignore[arg-type]
        (
            pb.Schedule(cron=pb.CronRule(), missed_run_policy=pb.MissedRunPolicy(mode=-1)),  # type: ignore[arg-type]
            ["s.missed_run_policy.mode"],
        ),
        (
            pb.Schedule(cron=pb.CronRule(), overlap_policy=pb.OverlapPolicy(mode=7)),  # type: ignore[arg-type]
            ["s.overlap_policy.mode"],
        ),
    ],
)
def test_what_the_wire_alone_refuses(message: pb.Schedule, found: list[str]) -> None:
    refusal = refused(lambda: decoded(message, "s"))
    assert fields(refusal) == found
    assert all(violation.description for violation in refusal.violations)


def test_a_preview_needs_no_job() -> None:
    problems = Problems()
    message = pb.Schedule(interval=pb.IntervalRule(every=span(2.5)))
    assert schedulecodec.timing(problems, "schedule", message) == Timing(RuleKind.INTERVAL, every_s=2.5)
    problems.raise_any()


def test_a_schedule_as_readers_see_it() -> None:
    fates = [0] * len(Fate)
    fates[Fate.FIRED - 1], fates[Fate.EXCLUDED - 1] = 3, 1
    later = NOW + timedelta(hours=1)
    message = schedulecodec.schedule_message(
        stored(
            FULL,
            next_nominal=later,
            next_due=later + timedelta(seconds=5),
            last_nominal=NOW,
            last_fire_at=NOW,
            last_job=JobId(JOB),
            failures=2,
            fates=tuple(fates),
            tzdata="2026f",
            state_reason="as asked",
            state_author="k1",
            state_at=NOW,
        )
    )
    assert message.name == "schedules/nightly"
    assert (message.uid, message.version, message.state) == (UID, 7, pb.SCHEDULE_STATE_ACTIVE)
    assert message.next_nominal_time == codec.timestamp(later)
    assert message.next_due_time == codec.timestamp(later + timedelta(seconds=5))
    assert (message.last_job, message.consecutive_failures) == (f"jobs/{JOB}", 2)
    assert (message.state_reason, message.state_author) == ("as asked", "apiKeys/k1")
    assert message.state_time == message.create_time == message.last_fire_time == codec.timestamp(NOW)
    assert message.update_time == codec.timestamp(NOW + timedelta(seconds=1))
    assert [(count.fate, count.count) for count in message.fate_counts] == [
        (pb.OCCURRENCE_FATE_FIRED, 3),
        (pb.OCCURRENCE_FATE_EXCLUDED, 1),
    ]
    assert message.tzdata_version == "2026f"
    assert message.job.payload.data == b"\x00\xff"


def test_lists_leave_payloads_and_counts_out() -> None:
    schedule = stored(FULL, fates=(1,) * len(Fate))
    whole, listed = schedulecodec.schedule_message(schedule), schedulecodec.schedule_message(schedule, full=False)
    assert not listed.job.HasField("payload") and not listed.fate_counts
    whole.job.ClearField("payload")
    whole.ClearField("fate_counts")
    assert listed == whole


@pytest.mark.parametrize("state", [ScheduleState.PAUSED, ScheduleState.EXHAUSTED, ScheduleState.ERROR])
def test_only_an_active_schedule_has_a_next_time(state: ScheduleState) -> None:
    message = schedulecodec.schedule_message(stored(state=state, next_nominal=NOW, next_due=NOW))
    assert not message.HasField("next_nominal_time") and not message.HasField("next_due_time")
    assert message.state_author == "" and not message.HasField("state_time")


def test_an_occurrence_as_readers_see_it() -> None:
    found = Occurrence(
        nominal=NOW,
        generation=2,
        due=NOW + timedelta(seconds=9),
        local="2026-03-01T13:00:00+01:00",
        origin=Origin.BACKFILL,
        fate=Fate.COALESCED,
        version=4,
        recorded_at=NOW + timedelta(days=1),
        reason="a newer one",
        job_id=JobId(JOB),
        blocking_job=JobId(UID),
        backfill_id=UID,
        forced=True,
    )
    message = schedulecodec.occurrence_message("nightly", found)
    assert message == pb.Occurrence(
        name="schedules/nightly/occurrences/20260301T120000.250000Z-2",
        nominal_time=codec.timestamp(NOW),
        due_time=codec.timestamp(NOW + timedelta(seconds=9)),
        local_time="2026-03-01T13:00:00+01:00",
        generation=2,
        origin=pb.OCCURRENCE_ORIGIN_BACKFILL,
        fate=pb.OCCURRENCE_FATE_COALESCED,
        reason="a newer one",
        job=f"jobs/{JOB}",
        blocking_job=f"jobs/{UID}",
        backfill=f"schedules/nightly/backfills/{UID}",
        schedule_version=4,
        record_time=codec.timestamp(NOW + timedelta(days=1)),
        count=1,
        last_nominal_time=codec.timestamp(NOW),
        forced=True,
    )


def test_a_backfill_comes_back_as_it_went() -> None:
    wish = Backfill(
        UID, NOW, NOW + timedelta(days=1), True, 0.5, OverlapPolicy(OverlapMode.SKIP), 3, "late data", author="k1"
    )
    message = schedulecodec.backfill_message("nightly", replace(wish, created_at=NOW, total=9, done=4, fired=3))
    assert message.name == f"schedules/nightly/backfills/{UID}"
    assert (message.state, message.author) == (pb.BACKFILL_STATE_RUNNING, "apiKeys/k1")
    assert (message.total_count, message.done_count, message.fired_count) == (9, 4, 3)
    assert schedulecodec.backfill(Problems(), "backfill", message) == replace(wish, id="", author="")
    ahead = schedulecodec.backfill_message("nightly", replace(wish, state=BackfillState.RUNNING), stored=False)
    assert (ahead.name, ahead.state) == ("", pb.BACKFILL_STATE_UNSPECIFIED)


def test_a_backfill_has_defaults_and_needs_its_span() -> None:
    message = pb.Backfill(start_time=codec.timestamp(NOW), end_time=codec.timestamp(NOW))
    assert schedulecodec.backfill(Problems(), "backfill", message) == Backfill("", NOW, NOW)
    refusal = refused(lambda: schedulecodec.backfill(Problems(), "backfill", pb.Backfill()))
    assert fields(refusal) == ["backfill.start_time", "backfill.end_time"]


def test_a_calendar_comes_back_as_it_went() -> None:
    wish = Calendar("bank", ("2026-12-25", "--01-01"), "for people", {"a": "1"})
    found = replace(wish, uid=UID, version=3, created_at=NOW, updated_at=NOW)
    message = schedulecodec.calendar_message(found)
    assert message.name == "calendars/bank" and message.etag and message.uid == UID
    assert schedulecodec.calendar("bank", message) == wish
    listed = schedulecodec.calendar_message(found, full=False)
    assert not listed.dates
    message.ClearField("dates")
    assert listed == message


def test_a_preview_tells_its_reasons() -> None:
    lines = [
        PreviewLine(NOW, None, "L", "EDT", removed=True, reasons=(Reason(Cause.EXCLUDED_CALENDAR, "bank"),)),
        PreviewLine(NOW, NOW, "M", "EST"),
    ]
    message = schedulecodec.preview_message(lines, exhausted=True)
    first, second = message.occurrences
    assert message.exhausted and message.tzdata_version.startswith("20")
    assert first.removed and not first.HasField("due_time")
    assert (first.reasons[0].cause, first.reasons[0].text) == (pb.PREVIEW_CAUSE_EXCLUDED_CALENDAR, "bank")
    assert not second.removed and second.HasField("due_time") and not second.reasons


def change(old: Definition, **fields: Any) -> tuple[str, ...]:
    return schedulecodec.changed(old, replace(old, **fields))


def test_changes_are_named_by_their_paths() -> None:
    assert schedulecodec.changed(FULL, FULL) == ()
    assert change(PLAIN, notes="n", labels={"a": "b"}) == ("notes", "labels")
    assert change(PLAIN, timing=Timing(RuleKind.CRON, "1 3 * * *")) == ("cron.expression",)
    assert change(PLAIN, timing=Timing(RuleKind.INTERVAL, every_s=5.0)) == ("interval",)
    assert change(PLAIN, overlap=OverlapPolicy(OverlapMode.ALLOW, 2)) == ("overlap_policy.limit",)
    job = replace(PLAIN.job, payload=Payload(b"x"), retry=RetryPolicy(max_attempts=9), timeouts=Timeouts(total_s=5.0))
    assert change(PLAIN, job=job) == ("job.payload", "job.retry_policy.max_attempts", "job.timeouts.total")
    once = replace(PLAIN, timing=Timing(RuleKind.ONCE, run_time=NOW))
    assert change(once, timing=Timing(RuleKind.ONCE, local_time="2026-03-08T02:30:00")) == ("once.local_time",)
    bounded = replace(PLAIN.timing, max_count=3, dates=("2026-12-25",))
    assert change(PLAIN, timing=bounded) == ("max_count", "exclusions")
    assert schedulecodec.changed(replace(PLAIN, timing=bounded), PLAIN) == ("max_count", "exclusions")


def test_names_are_read_and_refused() -> None:
    assert names.schedule_id("name", "schedules/a.B-c_9") == names.schedule_id("name", "a.B-c_9") == "a.B-c_9"
    assert names.backfill_ids("name", f"schedules/a/backfills/{UID.upper()}") == ("a", UID)
    for wrong in ("", "schedules/", "schedules/a/b", "jobs/a", "schedules/-a", "a\n", "schedules/" + "a" * 129, "é"):
        assert fields(refused(lambda wrong=wrong: names.schedule_id("name", wrong))) == ["name"]  # type: ignore[misc]
    for wrong in ("", UID, f"schedules//backfills/{UID}", "schedules/a/backfills/b", f"schedules/a/backfills/{UID}/c"):
        assert fields(refused(lambda wrong=wrong: names.backfill_ids("name", wrong))) == ["name"]  # type: ignore[misc]


def test_etags_are_of_one_version_of_one_schedule() -> None:
    assert etag(7, UID) == etag(7, UID) != etag(8, UID)
    assert etag(7, UID) != etag(7, UID[:-1] + "1")


def test_page_tokens_hold_texts_and_moments() -> None:
    tenant, query = TenantId(1), pages.query(pb.ListSchedulesRequest(type="t", page_size=3))
    assert query == pages.query(pb.ListSchedulesRequest(type="t", page_token="x"))
    assert query != pages.query(pb.ListSchedulesRequest(queue="t"))
    assert pages.query(pb.ListBackfillsRequest(parent="p")) != pages.query(pb.ListOccurrencesRequest(parent="p"))
    token = pages.seal("a" * 128, tenant, query)
    assert pages.unseal_text(token, tenant, query, ID) == "a" * 128
    assert pages.unseal_text("", tenant, query, ID) == ""
    for at in (NOW, datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        token = pages.seal(pages.moment(at, 3), tenant, query)
        assert pages.unseal_moment(token, tenant, query) == (at, 3)
    assert pages.unseal_moment("", tenant, query) is None
    for position in ("x", "1", "1 x", f"-{10**17} 1", "9" * 18 + " 1"):
        token = pages.seal(position, tenant, query)
        refusal = refused(lambda token=token: pages.unseal_moment(token, tenant, query))  # type: ignore[misc]
        assert refusal.reason == "PAGE_TOKEN_INVALID", position
    for wrong in (pages.seal("-", tenant, query), pages.seal("a", TenantId(2), query), "x", "é"):
        refusal = refused(lambda wrong=wrong: pages.unseal_text(wrong, tenant, query, ID))  # type: ignore[misc]
        assert refusal.reason == "PAGE_TOKEN_INVALID", wrong
