"""NUL in every text field of every request, found by the contract's own descriptors: refused by its path, or cleaned
where it must not block an outcome, and never an internal fault."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from rota_sdk.gen.rota.admin.v1 import admin_pb2
from rota_sdk.gen.rota.v1 import common_pb2, jobs_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from .running import Refusal, Tenant, creation, refusal, result, span

pytestmark = pytest.mark.asyncio(loop_scope="session")

NUL = "a\0b"

IGNORED = {
    # Sealed by nothing and kept nowhere: a span's context is parsed, and no span is made of nonsense.
    "traceparent",
    # Shown to nobody yet.
    "beat.progress.job",
    "beat.progress.note",
}
CLEANED = {
    "failed.failure.type",
    "failed.failure.message",
    "failed.failure.stack",
    "released.reason",
    "cancelled.reason",
}

MADE_BY_THE_SERVER = {field_behavior_pb2.OUTPUT_ONLY, field_behavior_pb2.IDENTIFIER}


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def texts(message: Message, at: str = "") -> Iterator[tuple[str, Any]]:
    """The path of each input text, and what puts NUL there. What the server makes is not read, so not looked at."""
    for field in message.DESCRIPTOR.fields:
        path = f"{at}{field.name}"
        if MADE_BY_THE_SERVER & set(field.GetOptions().Extensions[field_behavior_pb2.field_behavior]):
            continue
        if is_map(field):
            if field.message_type.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING:
                yield f"{path} (key)", lambda m, f=field: getattr(m, f.name).update({NUL: "v"})
                yield path, lambda m, f=field: getattr(m, f.name).update({"k": NUL})
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                yield path, lambda m, f=field: getattr(m, f.name).append(NUL)
            else:
                yield path, lambda m, f=field: setattr(m, f.name, NUL)
        elif field.message_type is not None and field.message_type.file.package.startswith("rota"):
            inner = field.message_type._concrete_class()
            for deeper, put in texts(inner, f"{path}."):
                yield deeper, lambda m, f=field, p=put: p(getattr(m, f.name).add() if f.is_repeated else _open(m, f))


def _open(message: Message, field: FieldDescriptor) -> Any:
    child = getattr(message, field.name)
    child.SetInParent()
    return child


def requests() -> dict[str, tuple[str, Message]]:
    """A request that each method takes, but for names that only a test can fill in."""
    job = creation(data=b"x", dedupe=common_pb2.Dedupe(key="k"))
    return {
        "CreateJob": ("jobs", job),
        "BatchCreateJobs": ("jobs", jobs_pb2.BatchCreateJobsRequest()),
        "GetJob": ("jobs", jobs_pb2.GetJobRequest()),
        "ListJobs": ("jobs", jobs_pb2.ListJobsRequest()),
        "CancelJob": ("jobs", jobs_pb2.CancelJobRequest()),
        "ListAttempts": ("jobs", jobs_pb2.ListAttemptsRequest()),
        "WaitJob": ("jobs", jobs_pb2.WaitJobRequest(timeout=span(0))),
        "OpenSession": ("work", worker_pb2.OpenSessionRequest(worker="w", queues=["q"])),
        "Lease": ("work", worker_pb2.LeaseRequest(request_id="r", capacity=1, wait=span(0))),
        "SendHeartbeat": ("work", worker_pb2.SendHeartbeatRequest()),
        "CloseSession": ("work", worker_pb2.CloseSessionRequest()),
        "ListSessions": ("admin", admin_pb2.ListSessionsRequest()),
    }


CASES = [
    (method, path, put)
    for method, (_, request) in requests().items()
    for path, put in texts(request)
    if path not in IGNORED
]


@pytest.mark.parametrize(("method", "path", "put"), CASES, ids=[f"{method}.{path}" for method, path, _ in CASES])
async def test_nul_is_refused_by_the_path_of_its_field(tenant: Tenant, method: str, path: str, put: Any) -> None:
    service, request = requests()[method]
    for field in {"name", "parent"} & set(request.DESCRIPTOR.fields_by_name):
        setattr(request, field, (await tenant.create()).name)
    if "session" in request.DESCRIPTOR.fields_by_name:
        request.session = (await tenant.worker()).session  # type: ignore[attr-defined]
    if method == "BatchCreateJobs":
        # One request, whose texts are then those that the path speaks of.
        put(request)
        for item in request.requests:
            item.job.type = item.job.type or "t"
            if item.HasField("dedupe"):
                item.dedupe.key = item.dedupe.key or "k"
        if not request.requests:
            request.requests.add().job.type = "t"
    else:
        put(request)
    found = await refusal(getattr(getattr(tenant, service), method)(request))
    assert found.code.name == "INVALID_ARGUMENT", found
    assert found.reason in ("VALIDATION_FAILED", "PAGE_TOKEN_INVALID")
    (violation,) = found.fields
    expected = path.removesuffix(" (key)").replace("requests.", "requests[0].").replace("beat.inventory", "inventory")
    assert violation.startswith(expected), (violation, expected)


RESULT_TEXTS = [
    (path, put)
    for path, put in texts(worker_pb2.Result())
    if path not in IGNORED and path != "job" and not path.startswith(("spawned.request_id", "spawned.dedupe"))
]


@pytest.mark.parametrize(("path", "put"), RESULT_TEXTS, ids=[path for path, _ in RESULT_TEXTS])
async def test_nul_in_an_outcome(tenant: Tenant, path: str, put: Any) -> None:
    worker = await tenant.worker()
    await tenant.create()
    lease = await worker.one()
    made = result(lease)
    put(made)
    for spawned in made.spawned:
        spawned.job.type = spawned.job.type or "t"
    (status,) = await worker.settle(made)
    if path in CLEANED:
        assert status.status.code == 0, status
        return
    found = Refusal.of(status.status)
    assert found.case == ("INVALID_ARGUMENT", "VALIDATION_FAILED"), found
    (violation,) = found.fields
    assert violation.startswith(path.removesuffix(" (key)").replace("spawned.", "spawned[0].")), violation
    assert await tenant.state(lease) == "LEASED"


async def test_an_error_text_of_any_kind_reaches_its_reader(tenant: Tenant) -> None:
    worker = await tenant.worker()
    job = await tenant.create(retry_policy=common_pb2.RetryPolicy(max_attempts=1))
    lease = await worker.one()
    failure = common_pb2.Failure(type="T\0" + "é" * 200, message="m\0" + "é" * 20_000, stack="\0" + "😀" * 50_000)
    (status,) = await worker.settle(
        worker_pb2.Result(job=lease.job, fence=lease.fence, failed=worker_pb2.Failed(failure=failure))
    )
    assert status.status.code == 0, status
    found = await tenant.get(job)
    assert found.state == jobs_pb2.JOB_STATE_DEAD
    assert found.last_failure.type == "T" + "é" * 127
    assert found.last_failure.message == "m" + "é" * 4095
    assert found.last_failure.stack == "😀" * 8192
    (attempt,) = await tenant.attempts(job)
    assert attempt.failure == found.last_failure


PAYLOADS = {
    "nul": b'{"a\\u0000": ["\\u0000"]}\0',
    "lone surrogate": b'{"a": "\\ud800"}',
    "not text at all": bytes(range(256)),
    "emoji and marks": "😀‏​é".encode(),
    "numbers": b'{"a": 9007199254740993, "b": 1e400, "c": -0.0, "a": 1}',
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "empty": b"",
}


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_payload_travels_as_it_is(tenant: Tenant, name: str) -> None:
    data = PAYLOADS[name]
    payload = common_pb2.Payload(data=data, content_type="application/x-ünï")
    created = await tenant.create(payload=payload)
    assert created.payload == payload
    worker = await tenant.worker()
    lease = await worker.one()
    assert lease.payload == payload
    success = worker_pb2.Succeeded(result=payload)
    await worker.settle(worker_pb2.Result(job=lease.job, fence=lease.fence, succeeded=success))
    found = await tenant.get(created)
    assert (found.payload, found.result) == (payload, payload)


async def test_names_and_texts_of_any_script_are_kept(tenant: Tenant) -> None:
    texts = {"ключ": "значение", "鍵": "値", "e\u0301": "\u202e‮", "k": " \t\r\n"}
    job = await tenant.create(
        headers=texts, labels=texts, effect_key="ефект/😀", concurrency_key="鍵", request_id="запрос"
    )
    found = await tenant.get(job)
    assert (dict(found.headers), dict(found.labels)) == (texts, texts)
    assert (found.effect_key, found.concurrency_key) == ("ефект/😀", "鍵")
    listed = (await tenant.jobs.ListJobs(jobs_pb2.ListJobsRequest(labels={"鍵": "値"}))).jobs
    assert [j.name for j in listed] == [job.name]
    lease = await (await tenant.worker()).one()
    assert (dict(lease.headers), lease.effect_key) == (texts, "ефект/😀")
