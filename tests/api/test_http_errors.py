"""HTTP/JSON: each refusal under its code, with the same details as by gRPC, and nothing malformed passed over."""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from rota.api.http import body as http_body
from rota.domain import errors
from rota.domain.errors import RotaError
from rota.domain.model import Role

from .doors import door, refusing
from .running import Running, Tenant
from .web import Answer, Web, web

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOBODY = "jobs/00000000-0000-7000-8000-000000000000"
JOB = {"job": {"type": "t"}}


@pytest_asyncio.fixture(loop_scope="session")
async def call(tenant: Tenant) -> AsyncIterator[Web]:
    async with web(tenant) as found:
        yield found


async def never_fires(tenant: Tenant, call: Web) -> Answer:
    return await call.post("/v1/schedules", {"schedule": {"cron": {"expression": "0 0 30 2 *"}, "job": {"type": "t"}}})


async def payload_too_large(tenant: Tenant, call: Web) -> Answer:
    data = base64.b64encode(bytes(300 * 1024)).decode()
    return await call.post("/v1/jobs", {"job": {"type": "t", "payload": {"data": data}}})


async def id_exists(tenant: Tenant, call: Web) -> Answer:
    body = {"schedule": {"cron": {"expression": "@daily"}, "job": {"type": "t"}}, "scheduleId": "twice"}
    assert (await call.post("/v1/schedules", body)).code == 200
    return await call.post("/v1/schedules", body)


async def report(tenant: Tenant, call: Web, *outcomes: str, fence: int = 0, other: bool = False) -> Answer:
    """A job leased and reported, once for each outcome."""
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    session = (await tenant.worker()).session if other else worker.session
    answers = []
    for outcome in outcomes:
        body = {"session": session, "fence": fence or lease.fence, outcome: {}}
        answers.append(await call.post(f"/internal/{lease.job}/complete", body))
    return answers[-1]


async def outcome_conflict(tenant: Tenant, call: Web) -> Answer:
    return await report(tenant, call, "succeeded", "failed")


async def stale_fence(tenant: Tenant, call: Web) -> Answer:
    return await report(tenant, call, "succeeded", fence=7)


async def not_lease_owner(tenant: Tenant, call: Web) -> Answer:
    return await report(tenant, call, "succeeded", other=True)


async def wrong_state(tenant: Tenant, call: Web) -> Answer:
    job = await tenant.create()
    await tenant.cancel(job)
    return await call.post(f"/v1/{job.name}:reschedule", {"runTime": "2027-01-01T00:00:00Z"})


async def session_gone(tenant: Tenant, call: Web) -> Answer:
    path = "/internal/sessions/00000000-0000-7000-8000-000000000000:lease"
    return await call.post(path, {"requestId": "1", "capacity": 1})


async def forbidden(tenant: Tenant, call: Web) -> Answer:
    # Malformed as well, and of something that is not there: neither is said.
    worker = await tenant.caller(Role.WORKER)
    async with web(tenant, worker.key) as found:
        return await found.post(f"/v1/{NOBODY}:cancel", b'{"nonsense')


async def no_credential(tenant: Tenant, call: Web) -> Answer:
    return await call.post("/v1/jobs", JOB, headers={"Authorization": "Bearer rota_x_y"})


ROWS: dict[Any, tuple[int, str, str]] = {
    never_fires: (400, "INVALID_ARGUMENT", "NEVER_FIRES"),
    payload_too_large: (413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE"),
    id_exists: (409, "ALREADY_EXISTS", "RESOURCE_EXISTS"),
    stale_fence: (409, "ABORTED", "STALE_FENCE"),
    outcome_conflict: (409, "ABORTED", "OUTCOME_CONFLICT"),
    not_lease_owner: (409, "ABORTED", "NOT_LEASE_OWNER"),
    forbidden: (403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    no_credential: (401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    session_gone: (404, "NOT_FOUND", "SESSION_GONE"),
    wrong_state: (400, "FAILED_PRECONDITION", "INVALID_STATE"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
async def test_each_row_of_the_table_of_failures(
    tenant: Tenant, call: Web, row: Callable[..., Awaitable[Answer]]
) -> None:
    found = await row(tenant, call)
    assert found.case == ROWS[row], found
    assert found.detail("ErrorInfo")["domain"] == "rota"
    if found.code == 400 and found.reason == "INVALID_STATE":
        assert found.detail("PreconditionFailure")["violations"][0]["type"] == "INVALID_STATE"
    assert found.headers.get("www-authenticate") == ("Bearer" if found.code == 401 else None)


async def test_what_is_repeated_is_answered_as_before(tenant: Tenant, call: Web) -> None:
    found = await report(tenant, call, "succeeded", "succeeded")
    assert (found.code, found.json["duplicate"]) == (200, True)


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        (errors.ResourceExhausted("no", reason="QUOTA_EXCEEDED"), 429, None),
        (errors.ResourceExhausted("no", retry_after_s=1.2), 429, "2"),
        (errors.Unavailable("no", reason="DRAINING", retry_after_s=0.5), 503, "1"),
        (errors.Unavailable("no", retry_after_s=3.0), 503, "3"),
        (errors.OutcomeUnknown("no", retry_after_s=1.0), 503, "1"),
        (errors.Unavailable("no", reason="SHARD_MOVED", retry_after_s=0.1), 503, "1"),
        (errors.InvalidArgument("no", reason="PAGE_TOKEN_INVALID"), 400, None),
        (errors.Aborted("no", reason="ETAG_MISMATCH"), 409, None),
        (errors.Unimplemented("no"), 501, None),
        (errors.Internal("no"), 500, None),
    ],
)
async def test_what_no_test_brings_about_by_a_call(error: RotaError, code: int, retry_after: str | None) -> None:
    async with door({"rota.v1.JobService/GetJob": refusing(error)}) as (_, call):
        found = await call.get(f"/v1/{NOBODY}")
    assert (found.code, found.reason, found.headers.get("retry-after")) == (code, error.reason, retry_after)
    assert bool(found.detail("RetryInfo")) == (retry_after is not None)


async def test_a_fault_is_told_without_its_text() -> None:
    async def fail(request: Any, context: Any) -> Any:
        raise KeyError("secret")

    async with door({"rota.v1.JobService/GetJob": fail}) as (_, call):
        found = await call.get(f"/v1/{NOBODY}")
    assert found.case == (500, "INTERNAL", "INTERNAL")
    assert "secret" not in str(found.json)


# Bodies.

BODIES: list[tuple[bytes, str]] = [
    (b"[]", "expected a JSON object, found a list"),
    (b"7", "expected a JSON object, found a number"),
    (b"null", "expected a JSON object, found null"),
    (b'{"job": {"type": "t"}', "expected JSON"),
    (b'{"job": {"type": "t"}} x', "expected JSON"),
    (b'{"job": {"type": "\xff"}}', "expected UTF-8"),
    (b"\xef\xbb\xbf{}", "expected JSON"),
    (b'{"delay": NaN}', "NaN is no JSON"),
    (b'{"requestId": "a", "requestId": "b"}', "the key 'requestId' is there twice"),
    (
        b'{"requestId": "a", "request_id": "b"}',
        "request_id: must be given once, found it as requestId and as request_id",
    ),
    (b'{"jobb": {}}', "jobb: is no field of CreateJobRequest; did you mean job?"),
    (b'{"job": {"type": "t", "prioritee": 1}}', "job.prioritee: is no field of Job; did you mean priority?"),
    (b'{"job": []}', "job: must be an object, found a list"),
    (b'{"job": {"type": 7}}', "job.type: must be a text, found a number"),
    (b'{"job": {"type": "\\ud800"}}', "job.type: must be Unicode text without lone surrogates"),
    (b'{"job": {"type": "t\\u0000"}}', "job.type: must be"),
    (b'{"job": {"priority": 1.5}}', "job.priority: must be an integer, found a number"),
    (b'{"job": {"priority": true}}', "job.priority: must be an integer, found true or false"),
    (b'{"job": {"priority": "7x"}}', "job.priority: must be an integer, found '7x'"),
    (b'{"job": {"priority": 4294967296}}', "job.priority: must be from -2147483648 to 2147483647, found 4294967296"),
    (b'{"job": {"priority": 1e999}}', "job.priority: must be an integer"),
    (b'{"job": {"retryPolicy": {"multiplier": 1e999}}}', "job.retry_policy.multiplier: must be a number that a double"),
    (b'{"job": {"payload": {"data": "%%%"}}}', "job.payload.data: must be base64"),
    (b'{"job": {"payload": {"data": "A"}}}', "job.payload.data: must be base64"),
    (b'{"job": {"labels": {"a": 1}}}', "job.labels['a']: must be a text, found a number"),
    (b'{"job": {"labels": {"a": null}}}', "job.labels['a']: must be a text, found null"),
    (b'{"job": {"runTime": "tomorrow"}}', "job.run_time: must be an RFC 3339 instant"),
    (b'{"job": {"runTime": "2027-01-01T00:00:00"}}', "job.run_time: must be an RFC 3339 instant"),
    (b'{"delay": "5"}', "delay: must be a span in seconds"),
    (b'{"delay": 5}', "delay: must be a span in seconds such as 90s or 0.5s, found a number"),
    (b'{"dedupe": {"onConflict": "DROP"}}', "dedupe.on_conflict: must be one of DEDUPE_CONFLICT_UNSPECIFIED"),
    (b'{"dedupe": {"onConflict": 99}}', "dedupe.on_conflict: "),
    (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested too deeply"),
    (b"[" * 200_000, "nested too deeply"),
    (b'{"job": {"priority": ' + b"9" * 5_000 + b"}}", "expected JSON"),
]


@pytest.mark.parametrize(("body", "message"), BODIES, ids=[message[:40] for _, message in BODIES])
async def test_a_body_is_read_strictly(call: Web, body: bytes, message: str) -> None:
    found = await call.post("/v1/jobs", body)
    assert found.case == (400, "INVALID_ARGUMENT", "VALIDATION_FAILED"), found
    assert message in found.message


async def test_a_body_of_nothing_but_repetitions_takes_no_time(call: Web) -> None:
    body = b'{"a":1,' + b'"b":1,' * 500_000 + b'"c":1}'
    began = asyncio.get_running_loop().time()
    assert (await call.post("/v1/jobs", body)).code == 400
    assert asyncio.get_running_loop().time() - began < 15


async def test_all_that_is_wrong_is_told_at_once_up_to_a_bound(call: Web) -> None:
    found = await call.post("/v1/jobs", {"job": {"type": 1, "priority": "x"}, "wrong": 1})
    assert found.fields == ["job.type", "job.priority", "wrong"]
    many = await call.post("/v1/jobs", {f"wrong{number}": 1 for number in range(1_000)})
    assert len(many.fields) == 20


async def test_a_oneof_takes_one(call: Web) -> None:
    body = {"session": "sessions/x", "fence": 1, "succeeded": {}, "released": {}}
    found = await call.post(f"/internal/{NOBODY}/complete", body)
    assert found.code == 400
    assert "oneof" in found.message


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=latin-1"}, 415),
        ({"Content-Type": 'Application/JSON; charset="UTF-8"'}, 200),
        ({"Content-Encoding": "br"}, 415),
        ({"Content-Encoding": "gzip"}, 400),
    ],
)
async def test_only_json_is_a_body(call: Web, headers: dict[str, str], code: int) -> None:
    assert (await call.post("/v1/jobs", JOB, headers=headers)).code == code


async def test_gzip_is_taken_within_the_same_bound_and_given_where_asked_for(tenant: Tenant, call: Web) -> None:
    packed = {"Content-Encoding": "gzip"}
    assert (await call.post("/v1/jobs", gzip.compress(json.dumps(JOB).encode()), headers=packed)).code == 200
    bomb = gzip.compress(bytes(http_body.BODY_BYTES_MAX + 1))
    assert len(bomb) < 10_000
    assert (await call.post("/v1/jobs", bomb, headers=packed)).case == (413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE")
    half = gzip.compress(json.dumps(JOB).encode())[:-4]
    assert (await call.post("/v1/jobs", half, headers=packed)).code == 400
    await tenant.create_many(50)
    for accepted, encoding in (("gzip", "gzip"), ("identity", None)):
        listed = await call.get("/v1/jobs", headers={"Accept-Encoding": accepted})
        assert (len(listed.json["jobs"]), listed.headers.get("content-encoding")) == (50, encoding)


async def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(call: Web) -> None:
    big = bytes(http_body.BODY_BYTES_MAX + 1)
    assert (await call.post("/v1/jobs", big)).case == (413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE")

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(big), 65_536):
            yield big[start : start + 65_536]

    headers = call.headers | {"Content-Type": "application/json"}
    found = await call.client.post("/v1/jobs", content=parts(), headers=headers)
    assert (found.status_code, found.json()["error"]["code"]) == (413, 413)


@pytest.mark.parametrize(
    ("method", "path", "code", "text"),
    [
        ("GET", "/", 404, "there is no such path"),
        ("GET", "/v1", 404, "there is no such path"),
        ("GET", "/v1/jobs/", 404, "there is no such path"),
        ("GET", "/v1//jobs", 404, "there is no such path"),
        ("GET", "/v2/jobs", 404, "there is no such path"),
        ("POST", "/v1/jobs/x:explode", 404, "there is no such path"),
        ("GET", "/v1/jobs/%zz", 400, "two hexadecimal digits"),
        ("GET", "/v1/jobs/%ff", 400, "expected UTF-8"),
        ("GET", "/v1/jobs/a%2Fb", 400, "name: "),
        ("GET", "/v1/jobs/a%00b", 400, "name: "),
        ("GET", "/v1/jobs/x%3Acancel", 400, "name: "),
        ("GET", "/v1/jobs?pagesize=1", 400, "pagesize: is no parameter of this call; known are pageSize"),
        ("GET", "/v1/jobs?pageSize=x", 400, "page_size: must be an integer"),
        ("GET", "/v1/jobs?pageSize=1&page_size=2", 400, "page_size: must be given once"),
        ("GET", "/v1/jobs?state=NOPE", 400, "state: must be one of JOB_STATE_UNSPECIFIED"),
        ("GET", "/v1/jobs?labels=a", 400, "labels: must be given as labels[key]=value"),
        ("GET", "/v1/jobs?queue[a]=b", 400, "queue[a]: must be given as queue=value"),
        ("GET", "/v1/jobs?queue=%ff", 400, "query: expected UTF-8"),
        ("GET", "/v1/jobs?queue=a%00", 400, "queue: "),
        ("GET", f"/v1/{NOBODY}?name=jobs/x", 400, "name: is no parameter: the path says it"),
        ("POST", "/v1/jobs?requestId=x", 400, "requestId: is no parameter: all fields of this call go into the body"),
        ("GET", "/v1/jobs?" + "&".join(["state=1"] * 201), 400, "at most 200 parameters"),
        ("GET", "/v1/jobs/" + "x" * 9_000, 414, "a path of at most"),
    ],
)
async def test_a_path_or_query_is_read_strictly(call: Web, method: str, path: str, code: int, text: str) -> None:
    found = await call(method, path, {} if method == "POST" else None)
    assert found.code == code, found
    assert text in found.message


async def test_a_body_says_the_same_as_the_path_or_nothing(tenant: Tenant, call: Web) -> None:
    job = await tenant.create()
    other = await call.post(f"/v1/{job.name}:cancel", {"name": NOBODY})
    assert (other.code, other.fields) == (400, ["name"])
    assert (await call.post(f"/v1/{job.name}:cancel", {"name": job.name})).code == 200
    assert (await call.post(f"/v1/{job.name}:cancel")).code == 200, "a body that is not there has no fields"


async def test_other_methods_are_told_which_there_are(call: Web) -> None:
    found = await call("PUT", "/v1/jobs", JOB)
    assert (found.code, found.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
    asked = await call("OPTIONS", f"/v1/{NOBODY}")
    assert (asked.code, asked.headers["allow"], asked.json) == (204, "GET, HEAD, OPTIONS", b"")
    assert "access-control-allow-origin" not in asked.headers
    assert (await call.get("/v1/jobs:batchCreate")).headers["allow"] == "OPTIONS, POST"
    assert (await call("HEAD", "/v1/jobs:watch")).headers["allow"] == "GET, OPTIONS"
    assert (await call("GET", f"/v1/{NOBODY}", {})).case == (400, "INVALID_ARGUMENT", "VALIDATION_FAILED")


async def test_a_header_that_decides_is_there_once(call: Web) -> None:
    twice = [("Authorization", call.headers["Authorization"]), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    found = await call.client.post("/v1/jobs", json=JOB, headers=twice)
    assert (found.status_code, "idempotency-key once" in found.json()["error"]["message"]) == (400, True)


async def test_a_call_ends_when_its_client_said(tenant: Tenant, call: Web) -> None:
    job = await tenant.create(delay=60)
    began = asyncio.get_running_loop().time()
    late = await call.get(f"/v1/{job.name}:wait", headers={"Request-Timeout": "300ms"})
    assert (late.code, late.json["error"]["status"]) == (504, "DEADLINE_EXCEEDED")
    assert 0.25 < asyncio.get_running_loop().time() - began < 8
    waited = await call.get(f"/v1/{job.name}:wait", params={"timeout": "0.1s"}, headers={"Request-Timeout": "5"})
    assert (waited.code, waited.json["state"]) == (200, "JOB_STATE_SCHEDULED")
    for wrong in ("soon", "0", "-1s"):
        assert (await call.get(f"/v1/{job.name}", headers={"Request-Timeout": wrong})).code == 400


async def test_a_caller_that_is_gone_leaves_nothing_leased(
    tenant: Tenant, start: Callable[..., Awaitable[Running]]
) -> None:
    coordinator = await start()
    other = await coordinator.tenant()
    worker = await other.worker()
    dispatcher = coordinator.node.dispatcher

    async def until(parked: int) -> None:
        async with asyncio.timeout(10):
            while dispatcher.parked != parked:
                await asyncio.sleep(0.01)

    async with web(other) as call:
        poll = asyncio.create_task(
            call.post(f"/internal/{worker.session}:lease", {"requestId": "1", "capacity": 1, "wait": "30s"})
        )
        await until(1)
        poll.cancel()
        await until(0)
    await other.create()
    assert (await worker.one()).attempt == 1
