"""Creating jobs: all of a call or nothing, once for each request_id, whoever else asks at the same time."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.domain import limits
from rota.domain.ids import JobId, TenantId
from rota.domain.model import JobSpec, JobState, Payload, RetryPolicy, Timeouts
from rota.store.port import EarlierRequest

from .world import METHOD, World, ids

SLOW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def test_a_job_is_stored_as_it_was_given(world: World) -> None:
    spec = world.spec(
        type="a.b:c/d",
        queue="q.1",
        priority=9,
        payload=Payload(bytes(range(256)), "application/x-ü"),
        delay_s=60.0,
        headers={"k": "v\n\u2028'\"{}\\", "": "x"},
        labels={"ü": "😀"},
        retry=RetryPolicy(7, 0.25, 90.5, 1.5, ("A", "B,{}")),
        timeouts=Timeouts(30.5, 60.25, 3_600.125),
        effect_key="order/1",
        concurrency_key="c",
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        tracestate="x=y",
    )
    await world.create(spec)
    job = await world.job(spec.id)
    for field in ("type", "queue", "priority", "payload", "headers", "labels", "retry", "timeouts", "effect_key"):
        assert getattr(job, field) == getattr(spec, field), field
    assert (job.concurrency_key, job.traceparent) == (spec.concurrency_key, spec.traceparent)
    assert (job.state, job.attempt, job.attempts_counted, job.generation) == (JobState.SCHEDULED, 0, 0, 0)
    assert job.due_at - job.created_at == timedelta(seconds=60)
    assert (job.leased_at, job.finished_at, job.session_id, job.result, job.last_failure) == (None,) * 5
    assert (await world.live(spec.id)).deadline_at == job.due_at + timedelta(seconds=3_600.125)
    assert (await world.live(spec.id)).start_by == pytest.approx(job.due_at.timestamp() + 30.5, abs=1e-5)


async def test_the_defaults_are_the_defaults_again(world: World) -> None:
    spec = world.spec(payload=Payload())
    await world.create(spec)
    job = await world.job(spec.id)
    assert (job.retry, job.timeouts, job.payload) == (RetryPolicy(), Timeouts(), Payload())
    assert (job.headers, job.labels, job.effect_key, job.concurrency_key) == ({}, {}, "", "")
    assert job.state is JobState.READY


@pytest.mark.parametrize("run_s", [1.001, 1.1, 2.3, 4.1, 1_001.007, 604_799.999])
async def test_a_run_timeout_keeps_its_milliseconds(world: World, run_s: float) -> None:
    spec = world.spec(timeouts=Timeouts(run_s=run_s))
    await world.create(spec)
    assert (await world.job(spec.id)).timeouts.run_s == run_s


@pytest.mark.parametrize(
    ("run_time", "delay_s", "due_s"),
    [
        (None, 0.0, 0.0),
        (None, 1.5, 1.5),
        (None, limits.HORIZON_S, limits.HORIZON_S),
        # What is long past is due now.
        (datetime(1, 1, 1, tzinfo=UTC), 0.0, 0.0),
        (datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 0.0, 0.0),
        (None, -5.0, 0.0),
    ],
)
async def test_when_a_job_is_due(world: World, run_time: datetime | None, delay_s: float, due_s: float) -> None:
    spec = world.spec(run_time=run_time, delay_s=delay_s)
    created = (await world.jobs.create([world.call(spec)]))[spec.id]
    job = await world.job(spec.id)
    assert job.due_at - job.created_at == timedelta(seconds=due_s)
    assert created.created_at == job.created_at
    assert datetime.fromtimestamp(0, UTC) + timedelta(microseconds=created.due_us) == job.due_at


@SLOW
@given(st.datetimes(datetime(2031, 1, 1), datetime(2255, 1, 1)))
async def test_an_instant_is_exact_to_the_microsecond(world: World, local: datetime) -> None:
    run_time = local.replace(tzinfo=UTC)
    spec = world.spec(run_time=run_time)
    created = (await world.jobs.create([world.call(spec)]))[spec.id]
    assert (await world.job(spec.id)).due_at == run_time
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=created.due_us) == run_time


async def test_many_calls_in_one_statement(world: World) -> None:
    calls = [world.call(*(world.spec(priority=n % 10) for _ in range(n)), request_id=f"r{n}") for n in range(1, 8)]
    calls += [world.call(world.spec()), world.call(world.spec(tenant_id=TenantId(world.tenant + 500_000)))]
    created = await world.jobs.create(calls)
    assert set(created) == ids([spec for call in calls for spec in call.specs])
    assert await world.count("jobs") == 29
    assert await world.count("requests") == 7


async def test_a_thousand_jobs_in_one_call(world: World) -> None:
    specs = [world.spec() for _ in range(limits.CREATE_BATCH_MAX)]
    await world.create(*specs)
    assert await world.count("jobs") == limits.CREATE_BATCH_MAX


async def test_a_call_is_all_or_nothing(world: World) -> None:
    """An id that exists makes the statement fail, and leaves neither jobs nor the request behind."""
    taken = world.spec()
    await world.create(taken)
    with pytest.raises(Exception, match="jobs_pkey"):
        await world.jobs.create([world.call(world.spec(), world.spec(id=taken.id), request_id="r")])
    assert await world.count("jobs") == 1
    assert await world.count("requests") == 0


async def test_a_request_id_creates_once(world: World) -> None:
    first = world.call(world.spec(), world.spec(), request_id="r", digest=b"one")
    assert set(await world.jobs.create([first])) == ids(first.specs)
    for digest in (b"one", b"two"):
        again = world.call(world.spec(), request_id="r", digest=digest)
        assert await world.jobs.create([again]) == {}
    assert await world.count("jobs") == 2
    found = await world.jobs.earlier([again])
    assert found == {(world.tenant, METHOD, "r"): EarlierRequest(b"one", tuple(s.id for s in first.specs))}


async def test_request_ids_are_of_a_tenant_and_a_method(world: World) -> None:
    other = TenantId(world.tenant + 500_000)
    calls = [
        world.call(world.spec(), request_id="same"),
        world.call(world.spec(), request_id="same", method=METHOD + 1),
        world.call(world.spec(tenant_id=other), request_id="same"),
    ]
    assert len(await world.jobs.create(calls)) == 3
    found = await world.jobs.earlier(calls)
    assert {key: answer.jobs for key, answer in found.items()} == {
        (call.tenant_id, call.method, "same"): (call.specs[0].id,) for call in calls
    }


async def test_a_taken_request_id_does_not_hold_the_others_up(world: World) -> None:
    await world.jobs.create([world.call(world.spec(), request_id="r")])
    lost = world.call(world.spec(), world.spec(), request_id="r")
    others = [world.call(world.spec()), world.call(world.spec(), world.spec(), request_id="s")]
    created = await world.jobs.create([others[0], lost, others[1]])
    assert set(created) == ids([spec for call in others for spec in call.specs])


@pytest.mark.parametrize("request_id", ["ü😀", "a'b\"c\\d{e},f", "  ", "NULL", "x" * 128])
async def test_any_text_is_a_request_id(world: World, request_id: str) -> None:
    call = world.call(world.spec(), request_id=request_id, digest=b"\0\xff")
    await world.jobs.create([call])
    found = await world.jobs.earlier([call, world.call(world.spec(), request_id="never used")])
    assert found == {(world.tenant, METHOD, request_id): EarlierRequest(b"\0\xff", (call.specs[0].id,))}


async def test_many_callers_with_one_request_id_at_once(world: World) -> None:
    calls = [world.call(world.spec(), world.spec(), request_id="r", digest=b"d") for _ in range(12)]
    answers = await asyncio.gather(*(world.jobs.create([call]) for call in calls))
    won = [answer for answer in answers if answer]
    assert len(won) == 1
    assert await world.count("jobs") == 2
    assert (await world.jobs.earlier(calls[:1]))[world.tenant, METHOD, "r"].jobs == tuple(sorted(won[0]))


async def test_batches_that_share_request_ids_in_other_orders(world: World) -> None:
    """They may deadlock inside the database, which is nobody's concern outside."""
    names = [f"r{n}" for n in range(40)]

    async def create(order: list[str]) -> set[JobId]:
        return set(await world.jobs.create([world.call(world.spec(), request_id=name) for name in order]))

    created = await asyncio.gather(*(create(names if n % 2 else names[::-1]) for n in range(6)))
    assert sum(map(len, created)) == len(names)
    assert await world.count("jobs") == len(names)


@SLOW
@given(
    st.binary(max_size=300),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        max_size=4,
    ),
)
async def test_bytes_and_texts_come_back_as_sent(world: World, data: bytes, texts: dict[str, str]) -> None:
    spec: JobSpec = world.spec(payload=Payload(data), headers=texts, labels=texts)
    await world.create(spec)
    job = await world.job(spec.id)
    assert (job.payload.data, job.headers, job.labels) == (data, texts, texts)
