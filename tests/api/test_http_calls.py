"""HTTP/JSON: every kind of call by its path, with what headers mean, onto the same handlers as gRPC."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from rota_sdk.gen.rota.v1 import jobs_pb2

from .running import Tenant, eventually
from .web import Web, web

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def call(tenant: Tenant) -> AsyncIterator[Web]:
    async with web(tenant) as found:
        yield found


def payload(text: str) -> dict[str, str]:
    return {"data": base64.b64encode(text.encode()).decode()}


async def test_a_job_is_created_found_listed_and_cancelled(tenant: Tenant, call: Web) -> None:
    job = {"type": "greet", "payload": payload("hi"), "labels": {"team": "a b"}, "priority": 7}
    made = await call.post("/v1/jobs", {"job": job, "delay": "60s"})
    assert made.code == 200, made
    name = made.json["name"]
    assert (await tenant.get(name)).payload.data == b"hi"
    got = await call.get(f"/v1/{name}")
    assert (got.code, got.json["priority"], got.json["state"]) == (200, 7, "JOB_STATE_SCHEDULED")
    listed = await call.get("/v1/jobs", params={"labels[team]": "a b", "pageSize": "5", "state": "JOB_STATE_SCHEDULED"})
    assert [each["name"] for each in listed.json["jobs"]] == [name]
    assert (await call.get("/v1/jobs", params={"labels[team]": "b"})).json == {"jobs": [], "nextPageToken": ""}
    ended = await call.post(f"/v1/{name}:cancel", {"reason": "not needed"})
    assert (ended.code, ended.json["state"], ended.json["reason"]) == (200, "JOB_STATE_CANCELLED", "not needed")
    head = await call("HEAD", f"/v1/{name}")
    assert (head.code, head.json, int(head.headers["content-length"]) > 100) == (200, b"", True)


async def test_integers_of_64_bits_are_texts_and_both_are_taken(tenant: Tenant, call: Web) -> None:
    worker = await tenant.worker()
    for as_text in (True, False):
        await tenant.create()
        lease = await worker.one()
        fence: Any = str(lease.fence) if as_text else lease.fence
        path = f"/internal/{lease.job}/complete"
        done = await call.post(path, {"session": worker.session, "fence": fence, "succeeded": {}})
        assert (done.code, done.json) == (200, {"duplicate": False, "state": "JOB_STATE_SUCCEEDED"}), done
    attempts = (await call.get(f"/v1/{lease.job}/attempts")).json["attempts"]
    assert [each["fence"] for each in attempts] == [str(lease.fence)]


async def test_an_idempotency_key_is_the_request_id(tenant: Tenant, call: Web) -> None:
    body = {"job": {"type": "t"}}
    first = await call.post("/v1/jobs", body, headers={"Idempotency-Key": "one"})
    again = await call.post("/v1/jobs", body | {"requestId": "one"}, headers={"Idempotency-Key": '"one"'})
    by_grpc = await tenant.jobs.CreateJob(jobs_pb2.CreateJobRequest(job=jobs_pb2.Job(type="t"), request_id="one"))
    assert first.json["name"] == again.json["name"] == by_grpc.job.name
    other = await call.post("/v1/jobs", {"job": {"type": "u"}}, headers={"Idempotency-Key": "one"})
    assert other.case == (409, "ALREADY_EXISTS", "REQUEST_ID_REUSED")
    both = await call.post("/v1/jobs", body | {"requestId": "two"}, headers={"Idempotency-Key": "one"})
    assert (both.case, both.fields) == ((400, "INVALID_ARGUMENT", "VALIDATION_FAILED"), ["request_id"])
    nowhere = await call.post("/v1/jobs/x:retry", {}, headers={"Idempotency-Key": "one"})
    assert (nowhere.code, nowhere.fields) == (400, ["Idempotency-Key"])


async def test_a_trace_goes_on_through_a_job_that_is_made_by_http(tenant: Tenant, call: Web) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = await call.post("/v1/jobs", {"job": {"type": "t"}}, headers={"traceparent": parent})
    assert made.json["traceparent"] == parent
    worker = await tenant.worker()
    assert (await worker.one()).traceparent.split("-")[1] == parent.split("-")[1]


SCHEDULE = {"cron": {"expression": "0 3 * * *"}, "job": {"type": "t", "priority": 2}, "notes": "old"}


async def test_a_patch_takes_what_its_body_names_and_nothing_else(call: Web) -> None:
    made = await call.post("/v1/schedules", {"schedule": SCHEDULE, "scheduleId": "nightly"})
    assert (made.code, made.json["name"]) == (200, "schedules/nightly"), made
    assert made.headers["etag"] == f'"{made.json["etag"]}"'
    path = "/v1/schedules/nightly"
    changed = await call.patch(path, {"job": {"priority": 5}, "notes": None})
    assert (changed.code, changed.json["job"]["priority"], changed.json["job"]["type"]) == (200, 5, "t"), changed
    assert changed.json["notes"] == ""
    other = await call.patch(path, {"interval": {"every": "60s"}})
    assert other.json["interval"]["every"] == "60s"
    assert "cron" not in other.json
    assert other.json["job"]["priority"] == 5
    # With a mask, only that, whatever the body has; and both spellings.
    given = {"notes": "new", "job": {"priority": 9}, "missedRunPolicy": {"catchUpMax": 7}}
    for mask in ("missedRunPolicy.catchUpMax", "missed_run_policy.catch_up_max"):
        given["missedRunPolicy"] = {"catchUpMax": len(mask)}
        masked = await call.patch(path, given, params={"updateMask": mask})
        assert (masked.json["notes"], masked.json["job"]["priority"]) == ("", 5), masked
        assert masked.json["missedRunPolicy"]["catchUpMax"] == len(mask)
    assert (await call.patch(path, given, params={"updateMask": "nots"})).fields == ["update_mask"]
    # An answer may come back changed.
    whole = masked.json | {"notes": "whole"}
    assert (await call.patch(path, whole)).json["notes"] == "whole"


async def test_if_match_is_the_etag(call: Web) -> None:
    made = await call.post("/v1/schedules", {"schedule": SCHEDULE})
    path = f"/v1/{made.json['name']}"
    old = made.headers["etag"]
    changed = await call.patch(path, {"notes": "1"}, headers={"If-Match": old})
    assert (changed.code, changed.headers["etag"] != old) == (200, True)
    late = await call.patch(path, {"notes": "2"}, headers={"If-Match": old})
    assert late.case == (412, "ABORTED", "ETAG_MISMATCH")
    assert late.detail("ErrorInfo")["metadata"]["current"] == changed.json["etag"]
    in_body = await call.patch(path, {"notes": "2", "etag": made.json["etag"]})
    assert in_body.case == (409, "ABORTED", "ETAG_MISMATCH")
    differ = await call.patch(path, {"notes": "2", "etag": "v9"}, headers={"If-Match": old})
    assert (differ.code, differ.fields) == (400, ["schedule.etag"])
    assert (await call.patch(path, {"notes": "3"}, headers={"If-Match": "*"})).code == 200
    for wrong in ('W/"v1"', '"a", "b"', ""):
        assert (await call.patch(path, {"notes": "3"}, headers={"If-Match": wrong})).fields == ["If-Match"]
    assert (await call.get(path, headers={"If-Match": old})).fields == ["If-Match"]
    assert (await call("DELETE", path, headers={"If-Match": old})).code == 412
    assert (await call("DELETE", path)).code == 200
    assert (await call.get(path)).case == (404, "NOT_FOUND", "RESOURCE_NOT_FOUND")


async def test_a_lease_waits_for_a_job_and_brings_it(tenant: Tenant, call: Web) -> None:
    opened = await call.post("/internal/sessions", {"worker": "w", "queues": ["default"], "slots": 1})
    assert (opened.code, opened.json["beatInterval"]) == (200, "5s"), opened
    session = opened.json["session"]
    ask = {"requestId": "1", "capacity": 1, "wait": "10s"}
    poll = asyncio.create_task(call.post(f"/internal/{session}:lease", ask))
    await eventually(lambda: tenant.coordinator.node.dispatcher.parked)
    job = await tenant.create(data=b"x", headers={"h": "1"})
    (lease,) = (await poll).json["leases"]
    assert (lease["job"], lease["attempt"], lease["payload"]["data"]) == (job.name, 1, "eA==")
    beat = {
        "seq": "1",
        "inventory": {"leases": [{"job": lease["job"], "fence": lease["fence"]}], "batches": {"0": "1"}},
    }
    ack = await call.post(f"/internal/{session}:heartbeat", {"beat": beat})
    assert (ack.code, ack.json["ack"]["lost"]) == (200, []), ack
    done = {"session": session, "results": [{"job": lease["job"], "fence": lease["fence"], "succeeded": {}}]}
    assert (await call.post("/internal/jobs:complete", done)).json["statuses"][0]["state"] == "JOB_STATE_SUCCEEDED"
    assert (await call.post(f"/internal/{session}:close", {"mode": "CLOSE_MODE_NOW"})).code == 200


async def test_changes_of_jobs_are_watched_as_events(tenant: Tenant, call: Web) -> None:
    headers = call.headers
    async with call.client.stream("GET", "/v1/jobs:watch?queue=default", headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        # Its token says where the stream begins.
        while not (await anext(lines)).startswith("id: "):
            pass
        job = await tenant.create()
        async with asyncio.timeout(15):
            async for line in lines:
                if line.startswith("data: ") and job.name in line:
                    break
    change = json.loads(line.removeprefix("data: "))
    assert (change["job"]["state"], bool(change["resumeToken"])) == ("JOB_STATE_READY", True)


async def test_only_who_serves_loads_the_door() -> None:
    code = "import sys, rota.cli.main, rota.bootstrap; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "rota.api.server" in loaded
    assert not {"starlette", "uvicorn", "h11", "rota.api.http"} & set(loaded)
