"""Schedules of a run: made by batches, with rules of several kinds, or with one time for all."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk import Client
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from bench.work import JOB

BATCH = 1_000
CALL_S = 60.0
PROGRESS_EVERY_S = 5.0

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "America/Sao_Paulo")
_CRON_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_RRULE_DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_DAYS_AHEAD = (2, 3, 4, 5)
"""Rules of these weekdays fire within the week, and in no zone while a run lasts."""

Make = Callable[[int], pb.CreateScheduleRequest]


def create(client: Client, make: Make, first: int, count: int, tell: "Progress | None" = None) -> list[float]:
    """Creates `make(first)` and its followers, one batch after the other; how long each call took, in seconds."""
    spans: list[float] = []
    for start in range(first, first + count, BATCH):
        numbers = range(start, min(start + BATCH, first + count))
        request = pb.BatchCreateSchedulesRequest(requests=map(make, numbers), names_only=True)
        began = time.monotonic()
        client.stubs.schedules.BatchCreateSchedules(request, timeout=CALL_S)
        spans.append(time.monotonic() - began)
        if tell is not None:
            tell.made(len(numbers))
    return spans


class Progress:
    """Says on standard error how far the making is: now and then, and at its end."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._made = 0
        self._began = time.monotonic()
        self._said_at = self._began

    def made(self, count: int) -> None:
        self._made += count
        now = time.monotonic()
        if now - self._said_at < PROGRESS_EVERY_S and self._made < self._total:
            return
        self._said_at = now
        rate = self._made / max(now - self._began, 0.001)
        print(f"bench/run: {self._made:,} of {self._total:,} schedules, {rate:,.0f} a second", file=sys.stderr)


def quiet(now: datetime) -> Make:
    """Schedules of six kinds in six zones, none of which fires on this day or the next."""
    days = [(now + timedelta(days=ahead)).isoweekday() % 7 for ahead in _DAYS_AHEAD]
    anchor = Timestamp(seconds=int((now + timedelta(days=3)).timestamp()))

    def make(number: int) -> pb.CreateScheduleRequest:
        day = days[number // 7 % len(days)]
        minute, hour = number % 60, number // 60 % 24
        schedule = pb.Schedule(time_zone=_ZONES[number // 6 % len(_ZONES)], job=pb.JobTemplate(type=JOB))
        kind = number % 6
        if kind == 0:
            schedule.rrule.text = f"FREQ=WEEKLY;BYDAY={_RRULE_DAYS[day]};BYHOUR={hour};BYMINUTE={minute};BYSECOND=0"
        elif kind == 1:
            schedule.interval.CopyFrom(pb.IntervalRule(every=Duration(seconds=7 * 86_400), anchor_time=anchor))
        elif kind == 2:
            schedule.once.local_time = f"{now + timedelta(days=3 + number % 20):%Y-%m-%d}T{hour:02}:{minute:02}:00"
        else:
            schedule.cron.expression = f"{minute} {hour} * * {_CRON_DAYS[day]}"
        return pb.CreateScheduleRequest(schedule=schedule, schedule_id=name(number))

    return make


def at_once(due: datetime, prefix: str) -> Make:
    """Daily schedules whose next time is this instant, of whole seconds."""
    due = due.astimezone(UTC)
    expression = f"{due.second} {due.minute} {due.hour} * * *"

    def make(number: int) -> pb.CreateScheduleRequest:
        schedule = pb.Schedule(cron=pb.CronRule(expression=expression), job=pb.JobTemplate(type=JOB))
        return pb.CreateScheduleRequest(schedule=schedule, schedule_id=f"{prefix}-{number}")

    return make


def name(number: int) -> str:
    """The id of a quiet schedule; ids are in no order of their numbers, as those of many users are not."""
    return f"{number * 2_654_435_761 % 2**32:08x}-{number}"


def spread(count: int, total: int) -> Iterator[int]:
    """`count` numbers over the whole of `total`."""
    return (index * total // count for index in range(count))
