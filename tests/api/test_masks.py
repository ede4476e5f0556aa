"""Field masks: what a change takes, and which paths are refused with what hint."""

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.api import masks, schedulecodec
from rota.domain.errors import InvalidArgument
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Definition, JobTemplate, OverlapMode, OverlapPolicy, Timing

from .running import span

STORED = pb.Schedule(
    name="schedules/s",
    cron=pb.CronRule(expression="0 3 * * *"),
    time_zone="Europe/Berlin",
    max_count=5,
    jitter=pb.Jitter(span=span(60)),
    exclusions=pb.Exclusions(dates=["2026-12-25"], calendars=["calendars/a"]),
    missed_run_policy=pb.MissedRunPolicy(mode=pb.MISSED_RUN_MODE_CATCH_UP, catch_up_max=7, late_tolerance=span(1)),
    overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_BUFFER_ALL, limit=9),
    job=pb.JobTemplate(
        type="t",
        queue="q",
        priority=0,
        payload=common_pb2.Payload(data=b"old", content_type="text/plain"),
        headers={"h": "1"},
        retry_policy=common_pb2.RetryPolicy(max_attempts=3, multiplier=2.0),
        timeouts=common_pb2.Timeouts(run=span(5), start_by=span(6)),
    ),
    notes="old",
    labels={"a": "1", "b": "2"},
)


def merge(given: pb.Schedule, *paths: str) -> pb.Schedule:
    before = STORED.SerializeToString(deterministic=True)
    found = masks.merged(STORED, given, masks.paths(given, FieldMask(paths=paths)))
    assert STORED.SerializeToString(deterministic=True) == before, "the stored one was touched"
    return found


def expected(**changes: Any) -> pb.Schedule:
    """The stored one with these fields, by path with __ for dots; None clears one."""
    found = pb.Schedule()
    found.CopyFrom(STORED)
    for path, value in changes.items():
        target: Any = found
        *above, name = path.split("__")
        for step in above:
            target = getattr(target, step)
        target.ClearField(name)
        if isinstance(value, dict):
            getattr(target, name).update(value)
        elif isinstance(value, list):
            getattr(target, name).extend(value)
        elif hasattr(value, "DESCRIPTOR"):
            getattr(target, name).CopyFrom(value)
        elif value is not None:
            setattr(target, name, value)
    return found


GIVEN = pb.Schedule(
    interval=pb.IntervalRule(every=span(30)),
    notes="new",
    labels={"c": "3"},
    exclusions=pb.Exclusions(dates=["--01-01"]),
    missed_run_policy=pb.MissedRunPolicy(catch_up_max=8),
    job=pb.JobTemplate(
        type="u",
        payload=common_pb2.Payload(data=b"new"),
        retry_policy=common_pb2.RetryPolicy(max_attempts=4),
    ),
)
INTERVAL = pb.IntervalRule(every=span(30))

TAKEN: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "a text": (["notes"], {"notes": "new"}),
    "a map, whole": (["labels"], {"labels": {"c": "3"}}),
    "a list, whole": (["exclusions.dates"], {"exclusions__dates": ["--01-01"]}),
    "a message, whole": (
        ["missed_run_policy"],
        {"missed_run_policy": pb.MissedRunPolicy(catch_up_max=8)},
    ),
    "a field of a message": (["missed_run_policy.catch_up_max"], {"missed_run_policy__catch_up_max": 8}),
    "a field two deep": (["job.retry_policy.max_attempts"], {"job__retry_policy__max_attempts": 4}),
    "a message two deep": (
        ["job.retry_policy"],
        {"job__retry_policy": common_pb2.RetryPolicy(max_attempts=4)},
    ),
    "a payload": (["job.payload"], {"job__payload": common_pb2.Payload(data=b"new")}),
    "the data of a payload": (["job.payload.data"], {"job__payload__data": b"new"}),
    "another kind of rule": (["interval"], {"interval": INTERVAL}),
    "a field of another kind": (["interval.every"], {"interval": INTERVAL}),
    "every kind of rule, the given one stays": (
        ["once", "interval.anchor_time", "interval.every", "cron.expression", "rrule"],
        {"interval": INTERVAL},
    ),
    "an unset text": (["time_zone"], {"time_zone": None}),
    "an unset number": (["max_count"], {"max_count": None}),
    "an unset message": (["jitter"], {"jitter": None}),
    "an unset map": (["job.headers"], {"job__headers": None}),
    "below an unset message": (
        ["overlap_policy.limit", "job.timeouts.start_by"],
        {"overlap_policy__limit": None, "job__timeouts__start_by": None},
    ),
    "an unset rule": (["cron"], {"cron": None}),
    "name and etag": (["name", "etag", "notes"], {"notes": "new"}),
    "one path twice, and one in the other": (
        ["job.retry_policy", "job.retry_policy.max_attempts", "notes", "notes"],
        {"job__retry_policy": common_pb2.RetryPolicy(max_attempts=4), "notes": "new"},
    ),
}


@pytest.mark.parametrize(("paths", "changes"), TAKEN.values(), ids=TAKEN)
def test_what_a_mask_takes(paths: Sequence[str], changes: dict[str, Any]) -> None:
    assert merge(GIVEN, *paths) == expected(**changes)


def test_an_empty_mask_takes_what_is_set() -> None:
    assert merge(GIVEN) == expected(
        interval=INTERVAL,
        notes="new",
        labels={"c": "3"},
        exclusions__dates=["--01-01"],
        missed_run_policy__catch_up_max=8,
        job__type="u",
        job__payload=common_pb2.Payload(data=b"new"),
        job__retry_policy__max_attempts=4,
    )
    # What is set though empty is taken too.
    assert merge(pb.Schedule(max_count=0, jitter=pb.Jitter())) == expected(max_count=0, jitter=pb.Jitter())
    assert merge(pb.Schedule()) == STORED


def test_what_was_read_may_be_sent_back() -> None:
    """Output-only fields are ignored where nobody named them."""
    read = expected(notes="new")
    read.state = pb.SCHEDULE_STATE_PAUSED
    read.create_time.CopyFrom(Timestamp(seconds=1))
    read.fate_counts.add(fate=pb.OCCURRENCE_FATE_FIRED, count=1)
    read.etag = "e"
    assert merge(read) == expected(notes="new", etag="e")


def test_a_star_takes_everything() -> None:
    assert merge(GIVEN, "*") == GIVEN


REFUSED = {
    "cron.expresion": "did you mean cron.expression?",
    "job.retryPolicy": "did you mean job.retry_policy?",
    "missedRunPolicy.catchUpMax": "did you mean missed_run_policy.catch_up_max?",
    "zzz": "known are name, once, cron,",
    "": "known are",
    "schedule.notes": "found 'schedule.notes'",
    "labels.team": "taken as a whole, found 'labels.team'; name labels",
    "job.headers.x.y": "name job.headers",
    "exclusions.dates.0": "name exclusions.dates",
    "start_time.seconds": "name start_time",
    "notes.x": "name notes",
    "state": "only Rota sets, found 'state'",
    "next_nominal_time.seconds": "only Rota sets",
    "uid": "only Rota sets",
}


@pytest.mark.parametrize(("path", "hint"), REFUSED.items(), ids=REFUSED)
def test_paths_that_are_refused(path: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        masks.paths(GIVEN, FieldMask(paths=["notes", path]))
    (violation,) = caught.value.violations
    assert violation.field == "update_mask"
    assert hint in violation.description


def test_masks_have_a_limit_and_a_star_stands_alone() -> None:
    for paths in (["notes"] * 201, ["*", "notes"]):
        with pytest.raises(InvalidArgument) as caught:
            masks.paths(GIVEN, FieldMask(paths=paths))
        assert [violation.field for violation in caught.value.violations] == ["update_mask"]
    with pytest.raises(InvalidArgument) as caught:
        masks.paths(pb.Calendar(), FieldMask(paths=["date", "uid"]))
    assert "did you mean dates?" in caught.value.message and len(caught.value.violations) == 2


def edit(stored: Definition, given: pb.Schedule, *paths: str) -> Definition:
    return schedulecodec.edited(stored, given, masks.paths(given, FieldMask(paths=paths)), "schedule")


def test_a_definition_is_edited_as_a_whole() -> None:
    stored = Definition(Timing(RuleKind.CRON, "0 3 * * *", time_zone="Europe/Berlin"), JobTemplate("t", "q"))
    given = pb.Schedule(interval=pb.IntervalRule(every=span(30)))
    found = edit(stored, given)
    assert found.timing == Timing(RuleKind.INTERVAL, every_s=30.0, time_zone="Europe/Berlin")
    assert found.job == stored.job
    with pytest.raises(InvalidArgument) as caught:
        edit(stored, given, "*")
    assert [violation.field for violation in caught.value.violations] == ["schedule.job"]
    with pytest.raises(InvalidArgument) as caught:
        edit(stored, given, "cron")
    assert [violation.field for violation in caught.value.violations] == ["schedule.rule"]


def test_the_default_limit_of_a_mode_goes_with_it() -> None:
    timing, job = Timing(RuleKind.CRON, "0 3 * * *"), JobTemplate("t")
    given = pb.Schedule(overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_SKIP))
    default = Definition(timing, job, overlap=OverlapPolicy(OverlapMode.BUFFER_ALL))
    assert edit(default, given).overlap == OverlapPolicy(OverlapMode.SKIP)
    chosen = Definition(timing, job, overlap=OverlapPolicy(OverlapMode.BUFFER_ALL, 3))
    assert edit(chosen, given).overlap == OverlapPolicy(OverlapMode.SKIP, 3)
    assert edit(chosen, given, "overlap_policy").overlap == OverlapPolicy(OverlapMode.SKIP)


def test_an_rrule_keeps_the_instant_that_it_counts_from() -> None:
    anchor = Timestamp(seconds=1_700_000_000).ToDatetime()
    stored = Definition(Timing(RuleKind.RRULE, "FREQ=DAILY", anchor=anchor), JobTemplate("t"))
    changed = edit(stored, pb.Schedule(rrule=pb.RecurrenceRule(text="FREQ=WEEKLY"), notes="n"))
    assert (changed.timing.expression, changed.timing.anchor, changed.notes) == ("FREQ=WEEKLY", anchor, "n")
    other = edit(stored, pb.Schedule(cron=pb.CronRule(expression="@daily")))
    assert other.timing == Timing(RuleKind.CRON, "@daily")
