"""Values for the domain's tests: a sound one of each kind, from which a test changes what it is about."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.domain.fairness import Entry
from rota.domain.ids import Fence, JobId, SessionId, ShardNo, TenantId, mint_fence, uuid7
from rota.domain.model import JobSpec, JobState, LiveJob, Payload, RetryPolicy

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
TENANT = TenantId(7)
SESSION = SessionId("0195a000-0000-7000-8000-00000000000a")


class Highest(random.Random):
    """Chance that always draws the upper end, so that a delay is its bound."""

    def uniform(self, a: float, b: float) -> float:
        return b


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job_id(number: int) -> JobId:
    """Ids in the order of their numbers."""
    return JobId(uuid7(1_774_000_000_000 + number, number))


def live_job(**changes: Any) -> LiveJob:
    """A leased job in its first attempt, with five attempts and a first delay of one second."""
    leased = LiveJob(
        tenant_id=TENANT,
        id=job_id(1),
        shard=ShardNo(1),
        state=JobState.LEASED,
        type="mail.send",
        queue="default",
        priority=4,
        fence=Fence(mint_fence(3, 9)),
        session_id=SESSION,
        session_alive=True,
        attempt=1,
        attempts_counted=0,
        retry=RetryPolicy(),
        due_at=later(-10),
        leased_at=later(-5),
        deadline_at=None,
        size=0,
        traceparent="",
        start_by=None,
    )
    return replace(leased, **changes)


def job_spec(**changes: Any) -> JobSpec:
    spec = JobSpec(TENANT, job_id(1), ShardNo(1), "mail.send", "default", 4, Payload(b"{}", "application/json"))
    return replace(spec, **changes)


def entry(number: int, **changes: Any) -> Entry:
    """A due job of one byte in lane (7, q, t)."""
    plain = Entry(TENANT, job_id(number), ShardNo(number % 4), "q", "t", 4, 1_000_000, 1)
    return replace(plain, **changes)
