"""Dead letters through the API: how jobs die, what operators see, and redrives that bring them back at a rate."""

import asyncio
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2

from rota.domain import limits
from rota.domain.model import Role
from rota.service import deadletters

from .running import Running, Tenant, Worker, eventually, refusal, result, span, state_name
from .test_validation import check_invalid

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOME_ID = "01a22a4e-cd91-70bc-b5eb-70ab53f956d0"
ONCE = common_pb2.RetryPolicy(max_attempts=1)


async def dead(tenant: Tenant, worker: Worker, count: int = 1, *, retryable: bool = True, **fields: Any) -> list[str]:
    """Ids of jobs that died of their first attempt."""
    names = [(await tenant.create(retry_policy=ONCE, **fields)).name for _ in range(count)]
    leases = await worker.some(count)
    for status in await worker.settle(*(result(lease, failed="Boom", retryable=retryable) for lease in leases)):
        assert status.state == jobs_pb2.JOB_STATE_DEAD
    return [name.removeprefix("jobs/") for name in names]


async def letters(tenant: Tenant, page_size: int = 0, token: str = "", **where: Any) -> pb.ListDeadLettersResponse:
    request = pb.ListDeadLettersRequest(page_size=page_size, page_token=token)
    if where:
        request.filter.CopyFrom(pb.DeadLetterFilter(**where))
    return await tenant.admin.ListDeadLetters(request)


async def ids(tenant: Tenant, **where: Any) -> list[str]:
    found = (await letters(tenant, **where)).dead_letters
    return [letter.name.removeprefix("deadLetters/") for letter in found]


async def letter(tenant: Tenant, id: str) -> pb.DeadLetter:
    return (await tenant.admin.GetDeadLetter(pb.GetDeadLetterRequest(name=f"deadLetters/{id}"))).dead_letter


def redrive_request(*named: str, request_id: str = "", dry_run: bool = False, **fields: Any) -> Any:
    redrive = pb.Redrive(dead_letters=[f"deadLetters/{id}" for id in named], **fields)
    if not named and "filter" not in fields:
        redrive.filter.SetInParent()
    return pb.RedriveDeadLettersRequest(redrive=redrive, request_id=request_id, validate_only=dry_run)


async def redrive(tenant: Tenant, *named: str, **fields: Any) -> pb.Redrive:
    return (await tenant.admin.RedriveDeadLetters(redrive_request(*named, **fields))).redrive


async def over(tenant: Tenant, name: str) -> pb.Redrive:
    """A redrive once it is terminal."""

    async def look() -> pb.Redrive | None:
        found = (await tenant.admin.GetRedrive(pb.GetRedriveRequest(name=name))).redrive
        return None if found.state == pb.REDRIVE_STATE_RUNNING else found

    found: pb.Redrive = await eventually(look)
    return found


def counts(found: pb.Redrive) -> tuple[int, int, int]:
    return found.total_count, found.redriven_count, found.refused_count


async def discard(tenant: Tenant, *named: str, **fields: Any) -> pb.DiscardDeadLettersResponse:
    request = pb.DiscardDeadLettersRequest(dead_letters=[f"deadLetters/{id}" for id in named], **fields)
    if not named and "filter" not in fields:
        request.filter.SetInParent()
    return await tenant.admin.DiscardDeadLetters(request)


async def test_a_letter_says_what_died_and_why(tenant: Tenant) -> None:
    worker = await tenant.worker()
    (used_up,) = await dead(tenant, worker, data=b"body", labels={"a": "b"})
    (fatal,) = await dead(tenant, worker, retryable=False)
    job = await tenant.create(timeouts=common_pb2.Timeouts(total=span(30)))
    await worker.done(await worker.one(), failed="Late", retry_after=60)
    found = {each: await letter(tenant, each) for each in (used_up, fatal, job.name.removeprefix("jobs/"))}
    assert [each.cause for each in found.values()] == [
        pb.DEAD_CAUSE_ATTEMPTS_EXHAUSTED, pb.DEAD_CAUSE_NOT_RETRYABLE, pb.DEAD_CAUSE_TOTAL_TIMEOUT,
    ]  # fmt: skip
    whole = found[used_up]
    assert whole.job == await tenant.get(f"jobs/{used_up}")
    assert (whole.job.payload.data, whole.job.last_failure.type, whole.redrive_count) == (b"body", "Boom", 0)
    assert whole.dead_time == whole.job.finish_time
    listed = (await letters(tenant)).dead_letters
    assert [each.name.removeprefix("deadLetters/") for each in listed] == list(found)[::-1]
    assert listed[2].job.payload.data == b""
    assert await ids(tenant, cause="DEAD_CAUSE_NOT_RETRYABLE") == [fatal]
    assert await ids(tenant, failure_type="Late") == [job.name.removeprefix("jobs/")]
    assert await ids(tenant, labels={"a": "b"}) == [used_up]
    assert await ids(tenant, start_time=found[fatal].dead_time, end_time=listed[0].dead_time) == [fatal]
    assert await ids(tenant, queue="default", type="t", schedule="schedules/s") == []


async def test_pages(tenant: Tenant) -> None:
    made = await dead(tenant, await tenant.worker(), 5)
    found: list[str] = []
    token = ""
    while True:
        page = await letters(tenant, 2, token, type="t")
        found += [each.name.removeprefix("deadLetters/") for each in page.dead_letters]
        token = page.next_page_token
        if not token:
            break
    assert sorted(found) == sorted(made)
    first = await letters(tenant, 2, type="t")
    other = await refusal(letters(tenant, 2, first.next_page_token, type="u"))
    assert other.case == ("INVALID_ARGUMENT", "PAGE_TOKEN_INVALID")


async def test_only_operators_and_only_their_own_tenant(rota: Running, tenant: Tenant) -> None:
    (mine,) = await dead(tenant, await tenant.worker())
    client = await tenant.caller(Role.CLIENT, Role.WORKER)
    stranger = await rota.tenant()
    calls = {
        "ListDeadLetters": pb.ListDeadLettersRequest(),
        "GetDeadLetter": pb.GetDeadLetterRequest(name=mine),
        "RedriveDeadLetters": redrive_request(mine),
        "DiscardDeadLetters": pb.DiscardDeadLettersRequest(dead_letters=[mine]),
        "ListRedrives": pb.ListRedrivesRequest(),
        "GetRedrive": pb.GetRedriveRequest(name=mine),
        "CancelRedrive": pb.CancelRedriveRequest(name=mine),
    }
    for name, request in calls.items():
        assert (await refusal(getattr(client.admin, name)(request))).case == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert await ids(stranger) == []
    for name in ("GetDeadLetter", "GetRedrive", "CancelRedrive"):
        found = await refusal(getattr(stranger.admin, name)(calls[name]))
        assert found.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")
    assert (await discard(stranger, mine)).discarded_count == 0
    assert counts(await over(stranger, (await redrive(stranger, mine)).name)) == (1, 0, 1)
    assert await ids(tenant) == [mine]


async def test_a_redrive_makes_all_that_meet_its_filter_ready(tenant: Tenant) -> None:
    worker = await tenant.worker()
    meant = await dead(tenant, worker, 3, data=b"body", labels={"team": "pay"})
    (other,) = await dead(tenant, worker)
    started = await redrive(tenant, filter=pb.DeadLetterFilter(labels={"team": "pay"}), rate=1000, reason="fixed")
    assert (started.state, started.total_count, started.reason) == (pb.REDRIVE_STATE_RUNNING, 3, "fixed")
    leases = await worker.some(3)
    assert sorted(lease.job for lease in leases) == sorted(f"jobs/{id}" for id in meant)
    for lease in leases:
        assert (lease.payload.data, lease.attempt, lease.attempts_counted) == (b"body", 2, 0)
        assert lease.effect_key == f"{tenant.name}/{lease.job.removeprefix('jobs/')}/0"
        await worker.done(lease)
    ended = await over(tenant, started.name)
    assert (ended.state, counts(ended)) == (pb.REDRIVE_STATE_SUCCEEDED, (3, 3, 0))
    assert ended.finish_time.ToDatetime() >= ended.create_time.ToDatetime()
    assert ended.author.startswith("apiKeys/")
    assert ended.filter.labels == {"team": "pay"}
    assert await ids(tenant) == [other]
    assert await tenant.outcomes(f"jobs/{meant[0]}") == ["FAILED", "SUCCEEDED"]


async def test_a_job_that_dies_again_and_again_is_redriven_twenty_times(tenant: Tenant) -> None:
    """Same payload, same effect key, a fresh budget each time; how often and by whom is on record; then refused."""
    worker = await tenant.worker()
    retry = common_pb2.RetryPolicy(max_attempts=2, initial_backoff=span(0.0))
    job = await tenant.create(data=b"poison", retry_policy=retry)
    id = job.name.removeprefix("jobs/")
    keys = set()

    async def die() -> None:
        for _ in range(2):
            lease = await worker.one()
            keys.add((lease.effect_key, lease.payload.data))
            await worker.done(lease, failed="Boom")

    await die()
    for count in range(1, limits.REDRIVES_PER_LETTER_MAX + 1):
        assert counts(await over(tenant, (await redrive(tenant, id)).name)) == (1, 1, 0)
        await die()
        found = await letter(tenant, id)
        assert (found.redrive_count, found.last_redriven_by.startswith("apiKeys/")) == (count, True)
    assert keys == {(job.effect_key, b"poison")}
    dry = await tenant.admin.RedriveDeadLetters(redrive_request(dry_run=True))
    assert (dry.redrive.total_count, list(dry.examples)) == (1, [])
    for named in ((id,), ()):
        assert counts(await over(tenant, (await redrive(tenant, *named)).name)) == (1, 0, 1)
    assert await tenant.state(job) == "DEAD"
    outcomes = await tenant.outcomes(job)
    assert outcomes == ["FAILED"] * 2 * (limits.REDRIVES_PER_LETTER_MAX + 1)
    retried = (await tenant.jobs.RetryJob(jobs_pb2.RetryJobRequest(name=job.name))).job
    assert (state_name(retried.state), retried.attempts_counted) == ("READY", 0)
    await die()
    assert (await letter(tenant, id)).redrive_count == limits.REDRIVES_PER_LETTER_MAX + 1


async def test_the_oldest_deaths_first_and_no_more_than_wanted(tenant: Tenant) -> None:
    worker = await tenant.worker()
    made = [(await dead(tenant, worker))[0] for _ in range(4)]
    started = await redrive(tenant, max_count=2, rate=1000)
    assert counts(await over(tenant, started.name)) == (2, 2, 0)
    assert await ids(tenant) == [made[3], made[2]]
    await redrive(tenant, made[3], made[2], max_count=1)
    await eventually(lambda: _are(tenant, [made[3]]))


async def _are(tenant: Tenant, expected: list[str]) -> bool:
    return await ids(tenant) == expected


async def test_what_is_gone_is_refused_and_what_is_named_twice_is_taken_once(tenant: Tenant) -> None:
    first, second = await dead(tenant, await tenant.worker(), 2)
    await discard(tenant, first)
    started = await redrive(tenant, first, second, second)
    assert counts(await over(tenant, started.name)) == (2, 1, 1)


async def test_a_dry_run_shows_what_would_be_taken(tenant: Tenant) -> None:
    worker = await tenant.worker()
    made = [(await dead(tenant, worker, data=b"body"))[0] for _ in range(12)]
    answer = await tenant.admin.RedriveDeadLetters(redrive_request(dry_run=True, max_count=11, rate=3))
    found = answer.redrive
    assert (found.name, found.state, found.total_count, found.rate) == ("", pb.REDRIVE_STATE_UNSPECIFIED, 11, 3)
    assert [each.name.removeprefix("deadLetters/") for each in answer.examples] == made[:10]
    assert all(each.job.payload.data == b"" for each in answer.examples)
    named = await tenant.admin.RedriveDeadLetters(redrive_request(*made[:2][::-1], dry_run=True))
    assert (named.redrive.total_count, len(named.examples)) == (2, 2)
    assert len(await ids(tenant)) == 12
    assert not (await tenant.admin.ListRedrives(pb.ListRedrivesRequest())).redrives


async def test_a_redrive_keeps_to_its_rate_and_can_be_stopped(tenant: Tenant) -> None:
    await dead(tenant, await tenant.worker(), 4)
    started = await redrive(tenant, rate=0.01)
    await eventually(lambda: _progress(tenant, started.name, 1))
    await asyncio.sleep(0.3)
    ended = (await tenant.admin.CancelRedrive(pb.CancelRedriveRequest(name=started.name))).redrive
    assert (ended.state, counts(ended)) == (pb.REDRIVE_STATE_CANCELLED, (4, 1, 0))
    again = (await tenant.admin.CancelRedrive(pb.CancelRedriveRequest(name=started.name))).redrive
    assert again == ended == await over(tenant, started.name)
    assert len(await ids(tenant)) == 3


async def _progress(tenant: Tenant, name: str, count: int) -> bool:
    found = (await tenant.admin.GetRedrive(pb.GetRedriveRequest(name=name))).redrive
    return bool(found.redriven_count == count)


async def test_what_dies_meanwhile_is_not_taken(tenant: Tenant) -> None:
    worker, other = await tenant.worker(), await tenant.worker(["other"])
    await dead(tenant, worker, 2)
    started = await redrive(tenant, rate=3)
    await worker.done(await worker.one(), failed="Boom")
    # Of a queue of its own: the second that is redriven may be ready by now.
    (late,) = await dead(tenant, other, queue="other")
    ended = await over(tenant, started.name)
    assert counts(ended) == (2, 2, 0)
    assert late in await ids(tenant)


async def test_four_at_a_time_however_many_ask_at_once(tenant: Tenant) -> None:
    await dead(tenant, await tenant.worker(), 8)
    asked = [tenant.admin.RedriveDeadLetters(redrive_request(rate=0.001)) for _ in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    started = [answer.redrive for answer in answers if isinstance(answer, pb.RedriveDeadLettersResponse)]
    assert len(started) == limits.REDRIVES_RUNNING_MAX
    assert (await refusal(redrive(tenant))).case == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
    listed = (await tenant.admin.ListRedrives(pb.ListRedrivesRequest())).redrives
    assert sorted(each.name for each in listed) == sorted(each.name for each in started)
    page = await tenant.admin.ListRedrives(pb.ListRedrivesRequest(page_size=3))
    assert [each.name for each in page.redrives] == [each.name for each in listed][:3]
    request = pb.ListRedrivesRequest(page_size=3, page_token=page.next_page_token)
    assert [each.name for each in (await tenant.admin.ListRedrives(request)).redrives] == [listed[3].name]
    for each in started:
        await tenant.admin.CancelRedrive(pb.CancelRedriveRequest(name=each.name))
    await redrive(tenant, rate=0.001)


async def test_a_repeated_call_starts_nothing_twice(tenant: Tenant) -> None:
    worker = await tenant.worker()
    (id,) = await dead(tenant, worker)
    first = await redrive(tenant, id, request_id="r-1")
    await over(tenant, first.name)
    await worker.done(await worker.one(), failed="Boom")
    again = await redrive(tenant, id, request_id="r-1")
    assert (again.name, counts(again)) == (first.name, (1, 1, 0))
    assert await ids(tenant) == [id]
    other = await refusal(redrive(tenant, id, request_id="r-1", rate=5))
    assert other.case == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")


async def test_a_redrive_of_nothing_is_over_at_once(tenant: Tenant) -> None:
    found = await redrive(tenant)
    assert (found.state, counts(found)) == (pb.REDRIVE_STATE_SUCCEEDED, (0, 0, 0))


async def test_a_new_generation_has_a_new_effect_key(tenant: Tenant) -> None:
    worker = await tenant.worker()
    (id,) = await dead(tenant, worker)
    await redrive(tenant, id, new_generation=True)
    lease = await worker.one()
    assert lease.effect_key == f"{tenant.name}/{id}/1"
    assert (await tenant.get(lease)).generation == 1


async def test_discarding(tenant: Tenant) -> None:
    worker = await tenant.worker()
    made = [(await dead(tenant, worker))[0] for _ in range(4)]
    dry = await discard(tenant, max_count=3, validate_only=True)
    assert (dry.discarded_count, dry.more) == (3, True)
    assert (await discard(tenant, made[3], validate_only=True)).discarded_count == 1
    assert len(await ids(tenant)) == 4
    done = await discard(tenant, max_count=2, reason="obsolete")
    assert (done.discarded_count, done.more) == (2, True)
    assert await ids(tenant) == [made[3], made[2]]
    gone = await tenant.get(f"jobs/{made[0]}")
    assert (state_name(gone.state), gone.reason) == ("DEAD", "obsolete")
    assert await tenant.outcomes(f"jobs/{made[0]}") == ["FAILED"]
    assert (await discard(tenant, *made)).discarded_count == 2
    assert (await discard(tenant)).discarded_count == 0
    refused = await refusal(tenant.jobs.RetryJob(jobs_pb2.RetryJobRequest(name=f"jobs/{made[0]}")))
    assert refused.case == ("FAILED_PRECONDITION", "INVALID_STATE")
    assert "discarded" in refused.message
    missing = await refusal(letter(tenant, made[0]))
    assert missing.case == ("NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_a_redrive_that_fails_holds_up_no_other(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await tenant.worker()
    bad, good = await dead(tenant, worker, 2)
    original = deadletters.DeadLetters._bite

    async def bite(self: Any, tx: Any, found: Any, now: Any) -> Any:
        if bad in found.letters:
            raise ValueError("a fault")
        return await original(self, tx, found, now)

    monkeypatch.setattr(deadletters.DeadLetters, "_bite", bite)
    failing = await redrive(tenant, bad)
    assert counts(await over(tenant, (await redrive(tenant, good)).name)) == (1, 1, 0)
    found = (await tenant.admin.GetRedrive(pb.GetRedriveRequest(name=failing.name))).redrive
    assert found.state == pb.REDRIVE_STATE_RUNNING


@pytest.mark.parametrize(
    ("fields", "invalid"),
    [
        ({}, "redrive.dead_letters"),
        ({"dead_letters": [SOME_ID], "filter": pb.DeadLetterFilter()}, "redrive.dead_letters"),
        ({"dead_letters": ["x"]}, "redrive.dead_letters[0]"),
        ({"dead_letters": [SOME_ID] * 1001}, "redrive.dead_letters"),
        ({"filter": pb.DeadLetterFilter(), "rate": 0.0}, "redrive.rate"),
        ({"filter": pb.DeadLetterFilter(), "rate": float("nan")}, "redrive.rate"),
        ({"filter": pb.DeadLetterFilter(), "rate": 1000.1}, "redrive.rate"),
        ({"filter": pb.DeadLetterFilter(), "max_count": 0}, "redrive.max_count"),
        ({"filter": pb.DeadLetterFilter(), "reason": "x" * 1025}, "redrive.reason"),
        ({"filter": pb.DeadLetterFilter(queue="\0")}, "redrive.filter.queue"),
        ({"filter": pb.DeadLetterFilter(schedule="a b")}, "redrive.filter.schedule"),
        ({"filter": pb.DeadLetterFilter(labels={"": "x"})}, "redrive.filter.labels"),
        ({"filter": pb.DeadLetterFilter(cause=77)}, "redrive.filter.cause"),  # type: ignore[arg-type]
        (
            {"filter": pb.DeadLetterFilter(start_time=Timestamp(seconds=9), end_time=Timestamp(seconds=9))},
            "redrive.filter.end_time",
        ),
        ({"filter": pb.DeadLetterFilter(start_time=Timestamp(seconds=1 << 60))}, "redrive.filter.start_time"),
    ],
)
async def test_malformed_redrives(tenant: Tenant, fields: dict[str, Any], invalid: str) -> None:
    request = pb.RedriveDeadLettersRequest(redrive=pb.Redrive(**fields))
    check_invalid(await refusal(tenant.admin.RedriveDeadLetters(request)), invalid)


async def test_malformed_discards(tenant: Tenant) -> None:
    anything = pb.DeadLetterFilter()
    for fields, invalid in (
        ({}, "dead_letters"),
        ({"dead_letters": [SOME_ID], "filter": anything}, "dead_letters"),
        ({"dead_letters": [SOME_ID], "max_count": 3}, "max_count"),
        ({"filter": anything, "max_count": 1001}, "max_count"),
        ({"filter": anything, "max_count": -1}, "max_count"),
        ({"filter": anything, "reason": "x" * 1025}, "reason"),
    ):
        request = pb.DiscardDeadLettersRequest(**fields)
        check_invalid(await refusal(tenant.admin.DiscardDeadLetters(request)), invalid)
