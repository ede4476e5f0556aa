"""Handlers: what they get, what they return and raise, and what becomes of it on the wire."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import running
from google.protobuf.timestamp_pb2 import Timestamp
from rota_conformance.script_server import ScriptServer
from rota_sdk import EffectState, EffectUnknown, Failed, Fatal, Lease, NewJob, Payload, Release, Retry, Worker, limits
from rota_sdk.gen.rota.worker.v1 import worker_pb2


def worker_for(server: ScriptServer, slots: int = 4, **options: Any) -> Worker:
    return Worker(["default"], slots, address=server.address, api_key="secret", **options)


def outcome_of(server: ScriptServer, handler: Any, **job: Any) -> worker_pb2.Result:
    """What the coordinator is told of one job that `handler` runs."""
    worker = worker_for(server)
    worker.add("work", handler)
    lease = server.job(**job)
    server.offer(lease)
    with running(worker):
        return server.result_of(lease.job)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_runs_a_job_and_reports_what_it_returned(server: ScriptServer, asynchronous: bool) -> None:
    worker = worker_for(server, labels={"zone": "a"}, build_id="b7", name="me")
    if asynchronous:

        @worker.job("work")
        async def work(lease: Lease) -> str:
            await asyncio.sleep(0)
            return f"hello {lease.json()['name']}"
    else:

        @worker.job("work")
        def work(lease: Lease) -> str:
            return f"hello {lease.json()['name']}"

    job = server.job(payload={"data": b'{"name":"Ada"}'})
    server.offer(job)
    with running(worker):
        result = server.result_of(job.job)
    assert (result.job, result.fence) == (job.job, job.fence)
    assert result.request_id.startswith("s1-")
    assert result.succeeded.result.data == b"hello Ada"
    assert result.succeeded.result.content_type == "text/plain; charset=utf-8"
    opened = server.of("OpenSession")[0]
    assert (list(opened.queues), list(opened.types), opened.slots) == (["default"], ["work"], 4)
    assert (opened.worker, opened.build_id, dict(opened.labels)) == ("me", "b7", {"zone": "a"})
    assert opened.protocol_version == 1 and opened.request_id and opened.sdk.startswith("rota-python/")
    assert all(call.metadata["authorization"] == "Bearer secret" for call in server.calls)


def test_a_lease_shows_all_that_the_grant_says(server: ScriptServer) -> None:
    seen: list[Any] = []

    def look(lease: Lease) -> None:
        seen.append(lease)
        seen.append(lease.remaining())

    nominal = datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
    stamp = Timestamp()
    stamp.FromDatetime(nominal)
    outcome_of(
        server,
        look,
        name="jobs/j7",
        fence=77,
        headers={"a": "b"},
        priority=9,
        max_attempts=5,
        attempts_counted=2,
        nominal_time=stamp,
        deadline=20.0,
        run_timeout=60.0,
        traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    )
    lease, remaining = seen
    assert (lease.job, lease.id, lease.fence, lease.attempt, lease.type) == ("jobs/j7", "j7", 77, 1, "work")
    assert (lease.queue, lease.priority, lease.max_attempts, lease.attempts_counted) == ("default", 9, 5, 2)
    assert lease.headers == {"a": "b"} and lease.nominal_time == nominal and lease.due_time is None
    assert lease.effect_headers() == {"Idempotency-Key": lease.effect_key, "Rota-Fence": "77"}
    assert lease.data == lease.payload.data and lease.payload.content_type == "application/json"
    assert lease.traceparent.endswith("-01") and lease.session == "sessions/s1"
    assert not lease.cancelled and not lease.at_risk and lease.stop_reason is None
    # The deadline is nearer than the run timeout.
    assert 15.0 < remaining <= 20.0


@pytest.mark.parametrize(
    ("value", "data", "media"),
    [
        (None, b"", ""),
        (b"\x00\xff", b"\x00\xff", "application/octet-stream"),
        ("grüße", "grüße".encode(), "text/plain; charset=utf-8"),
        ({"a": [1, "ä"]}, '{"a":[1,"ä"]}'.encode(), "application/json"),
        (Payload(b"<a/>", "text/xml"), b"<a/>", "text/xml"),
        (b"x" * limits.RESULT_BYTES, b"x" * limits.RESULT_BYTES, "application/octet-stream"),
    ],
)
def test_results_travel_as_they_are(server: ScriptServer, value: object, data: bytes, media: str) -> None:
    result = outcome_of(server, lambda lease: value)
    assert result.WhichOneof("outcome") == "succeeded"
    assert (result.succeeded.result.data, result.succeeded.result.content_type) == (data, media)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (b"x" * (limits.RESULT_BYTES + 1), "ResultTooLarge", "65537"),
        (object(), "ResultNotSerializable", "found object"),
        (float("nan"), "ResultNotSerializable", "Out of range"),
        ("\ud800", "ResultNotSerializable", "surrogates"),
        ({"deep": {1, 2}}, "ResultNotSerializable", "set"),
        (Payload(b"", "\ud800"), "ResultNotSerializable", "Payload"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_the_attempt_for_good(
    server: ScriptServer, value: object, kind: str, words: str
) -> None:
    result = outcome_of(server, lambda lease: value)
    assert result.failed.failure.type == kind
    assert words in result.failed.failure.message
    assert result.failed.HasField("retryable") and not result.failed.retryable


class CardDeclined(Exception):
    pass


def raises(error: BaseException, cause: BaseException | None = None) -> Any:
    def handler(lease: Lease) -> None:
        raise error from cause

    return handler


def test_an_exception_fails_the_attempt_with_its_class_words_and_stack(server: ScriptServer) -> None:
    failed = outcome_of(server, raises(CardDeclined("no money"))).failed
    assert (failed.failure.type, failed.failure.message) == ("CardDeclined", "no money")
    assert not failed.HasField("retryable") and not failed.HasField("retry_after")
    lines = failed.failure.stack.splitlines()
    # The handler's own frame comes first: nothing of the SDK stands before it.
    assert lines[0].startswith("Traceback") and "in handler" in lines[1] and "CardDeclined: no money" in lines[-1]


@pytest.mark.parametrize(
    ("error", "kind", "words", "retryable", "after"),
    [
        (Retry("busy", after=30), "Retry", "busy", True, 30.0),
        (Retry(after=timedelta(hours=9), type="Busy"), "Busy", "", True, 3600.0),
        (Retry(), "Retry", "", True, None),
        (Fatal("never"), "Fatal", "never", False, None),
        (Fatal("never", type="Declined"), "Declined", "never", False, None),
        (EffectUnknown("no answer", after=1), "EffectUnknown", "no answer", None, 1.0),
        (SystemExit(3), "SystemExit", "3", None, None),
        (asyncio.CancelledError("by itself"), "CancelledError", "by itself", None, None),
        (StopIteration("odd"), "StopIteration", "odd", None, None),
    ],
)
def test_what_handlers_raise_says_what_follows(
    server: ScriptServer, error: BaseException, kind: str, words: str, retryable: bool | None, after: float | None
) -> None:
    failed = outcome_of(server, raises(error)).failed
    assert (failed.failure.type, failed.failure.message) == (kind, words)
    assert (failed.retryable if failed.HasField("retryable") else None) is retryable
    assert (failed.retry_after.seconds if failed.HasField("retry_after") else None) == after
    unknown = isinstance(error, EffectUnknown)
    assert failed.effect_state == (EffectState.UNKNOWN if unknown else EffectState.UNSPECIFIED)


@pytest.mark.parametrize("retryable", [None, False])
def test_a_failure_in_its_own_terms_has_no_traceback(server: ScriptServer, retryable: bool | None) -> None:
    error = Failed("exit code 3", type="ExitCode", stack="disk full", retryable=retryable)
    failed = outcome_of(server, raises(error)).failed
    assert (failed.failure.type, failed.failure.message, failed.failure.stack) == (
        "ExitCode",
        "exit code 3",
        "disk full",
    )
    assert (failed.retryable if failed.HasField("retryable") else None) is retryable


@pytest.mark.parametrize("effect", [EffectState.NOT_APPLIED, EffectState.UNKNOWN])
def test_a_failure_in_its_own_terms_says_when_and_what_of_the_effect(server: ScriptServer, effect: EffectState) -> None:
    failed = outcome_of(server, raises(Failed("503", type="Http503", after=30, effect=effect))).failed
    assert (failed.retry_after.seconds, failed.effect_state) == (30, effect)
    assert not failed.HasField("retryable")


def test_retry_from_another_error_keeps_its_class(server: ScriptServer) -> None:
    failed = outcome_of(server, raises(Retry(after=2), CardDeclined("later"))).failed
    assert (failed.failure.type, failed.failure.message) == ("CardDeclined", "later")
    assert failed.retryable and failed.retry_after.seconds == 2


def test_release_gives_the_job_back(server: ScriptServer) -> None:
    result = outcome_of(server, raises(Release("not now", delay=7)))
    assert (result.released.reason, result.released.delay.seconds) == ("not now", 7)


class Nasty(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("a\0b\ud800c"), "ab�c"),
        (Nasty(), "(the text of this Nasty cannot be made: RuntimeError)"),
    ],
)
def test_error_texts_are_cleaned(server: ScriptServer, error: Exception, message: str) -> None:
    failed = outcome_of(server, raises(error)).failed
    assert failed.failure.message == message


def test_a_huge_error_text_is_cut_and_holds_up_nobody(server: ScriptServer) -> None:
    worker = worker_for(server, 8)
    worker.add("huge", raises(ValueError("ä" * 10_000_000)))
    worker.add("work", lambda lease: None)
    jobs = [server.job("huge"), *(server.job() for _ in range(7))]
    server.offer(*jobs)
    with running(worker):
        failed = server.result_of(jobs[0].job).failed
        for job in jobs[1:]:
            assert server.result_of(job.job).WhichOneof("outcome") == "succeeded"
    assert len(failed.failure.message.encode()) <= limits.FAILURE_MESSAGE_BYTES
    assert len(failed.failure.stack.encode()) <= limits.FAILURE_STACK_BYTES
    assert failed.failure.message.endswith("… (cut)")


def test_a_type_without_a_handler_is_given_back(server: ScriptServer) -> None:
    result = outcome_of(server, lambda lease: None, type="other")
    assert result.released.delay.seconds == 5 and "no handler" in result.released.reason


def test_spawned_jobs_and_receipts_travel_with_success(server: ScriptServer) -> None:
    def handler(lease: Lease) -> None:
        lease.spawn(NewJob("next", {"a": 1}, queue="q"))
        lease.receipt("payment-1")
        lease.receipt("mail-1", effect_key="mail")
        with pytest.raises(TypeError):
            lease.spawn(NewJob("next", object()))

    result = outcome_of(server, handler)
    assert [(s.job.type, s.job.queue, s.job.payload.data) for s in result.spawned] == [("next", "q", b'{"a":1}')]
    assert [(r.effect_key, r.reference) for r in result.effect_receipts] == [
        ("key-1", "payment-1"),
        ("mail", "mail-1"),
    ]


def test_a_failure_spawns_nothing_but_keeps_receipts(server: ScriptServer) -> None:
    def handler(lease: Lease) -> None:
        lease.spawn(NewJob("next"))
        lease.receipt("payment-1")
        raise CardDeclined

    result = outcome_of(server, handler)
    assert not result.spawned and len(result.effect_receipts) == 1


def test_too_many_spawned_jobs_or_receipts_are_refused_in_the_handler(server: ScriptServer) -> None:
    def handler(lease: Lease) -> None:
        for _ in range(limits.SPAWNED_JOBS):
            lease.spawn(NewJob("next"))
        with pytest.raises(ValueError, match="100"):
            lease.spawn(NewJob("next"))
        for _ in range(limits.RECEIPTS):
            lease.receipt("r")
        with pytest.raises(ValueError, match="16"):
            lease.receipt("r")

    result = outcome_of(server, handler)
    assert (len(result.spawned), len(result.effect_receipts)) == (limits.SPAWNED_JOBS, limits.RECEIPTS)


def test_spawned_jobs_beyond_one_request_fail_the_attempt(server: ScriptServer) -> None:
    def handler(lease: Lease) -> None:
        for _ in range(20):
            lease.spawn(NewJob("next", b"x" * 200_000))

    assert outcome_of(server, handler).failed.failure.type == "ResultTooLarge"


def test_no_more_handlers_run_than_slots_and_all_slots_are_used(server: ScriptServer) -> None:
    """Both kinds of handlers share one counter; a poll asks for exactly what is free."""
    worker = worker_for(server, 4)
    gate, full = threading.Event(), threading.Event()
    lock = threading.Lock()
    running_now, most = 0, 0

    def enter(step: int) -> None:
        nonlocal running_now, most
        with lock:
            running_now += step
            most = max(most, running_now)
            if most == 4:
                full.set()

    @worker.job("work")
    def work(lease: Lease) -> None:
        enter(1)
        gate.wait(10)
        enter(-1)

    @worker.job("async")
    async def work_async(lease: Lease) -> None:
        enter(1)
        await asyncio.to_thread(gate.wait, 10)
        enter(-1)

    jobs = [server.job("work" if i % 2 else "async") for i in range(12)]
    server.offer(*jobs)
    with running(worker):
        assert full.wait(5) and len(server.of("Lease")) == 1
        gate.set()
        for job in jobs:
            server.result_of(job.job)
    assert most == 4
    assert all(1 <= request.capacity <= 4 for request in server.of("Lease"))


def test_async_handlers_that_wait_do_not_wait_for_each_other(server: ScriptServer) -> None:
    worker = worker_for(server, 50)
    arrived = 0
    together = asyncio.Event()

    @worker.job("work")
    async def work(lease: Lease) -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 50:
            together.set()
        # Needs a task of its own from its first step on.
        async with asyncio.timeout(5):
            await together.wait()
        task = asyncio.current_task()
        assert task is not None
        return str(id(task))

    jobs = [server.job() for _ in range(50)]
    server.offer(*jobs)
    with running(worker):
        tasks = {server.result_of(job.job).succeeded.result.data for job in jobs}
    assert len(tasks) == 50 and b"" not in tasks


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_context_variables_do_not_leak_from_job_to_job(server: ScriptServer, asynchronous: bool) -> None:
    worker = worker_for(server, 8)

    def note(lease: Lease) -> str:
        found = variable.get()
        variable.set(lease.id)
        return found

    async def note_async(lease: Lease) -> str:
        return note(lease)

    worker.add("work", note_async if asynchronous else note)
    jobs = [server.job() for _ in range(8)]
    server.offer(*jobs)
    with running(worker):
        found = {server.result_of(job.job).succeeded.result.data for job in jobs}
    assert found == {b"clean"}


def test_an_async_client_works_inside_of_an_async_handler(server: ScriptServer) -> None:
    """gRPC of both kinds in one process: threads for the worker, the event loop for the handler's own calls."""
    from rota_sdk import AsyncClient

    worker = worker_for(server, 2)

    @worker.job("work")
    async def work(lease: Lease) -> str:
        async with AsyncClient(server.address, api_key="k") as client:
            opened = await client.stubs.worker.OpenSession(worker_pb2.OpenSessionRequest(worker="inner", queues=["q"]))
        return opened.session

    job = server.job()
    server.offer(job)
    with running(worker):
        assert server.result_of(job.job).succeeded.result.data == b"sessions/s2"


def test_counts_say_what_was_done(server: ScriptServer) -> None:
    worker = worker_for(server)
    worker.add("work", lambda lease: None)
    worker.add("bad", raises(ValueError("x")))
    jobs = [server.job(), server.job(), server.job("bad"), server.job("other")]
    server.offer(*jobs)
    with running(worker) as run:
        for job in jobs:
            server.result_of(job.job)
        worker.stop()
        run.finish()
    counts = {name: count for name, count in worker.counts().items() if count}
    assert counts == {"leased": 4, "succeeded": 2, "failed": 1, "released": 1, "sessions": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": "default"}, "queues"),
        ({"queues": []}, "queues"),
        ({"slots": 0}, "slots"),
        ({"slots": 10_001}, "slots"),
        ({"drain_timeout": -1}, "drain_timeout"),
        ({"unwind_timeout": -1}, "unwind_timeout"),
        ({"address": "ftp://x"}, "address"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Worker(**options)


def test_handlers_are_registered_once_and_before_the_run(server: ScriptServer) -> None:
    worker = worker_for(server)
    with pytest.raises(ValueError, match="no"), running(worker) as run:
        run.finish()
    worker = worker_for(server)
    worker.add("work", lambda lease: None)
    with pytest.raises(ValueError, match="without a handler"):
        worker.add("work", lambda lease: None)
    with running(worker):
        server.wait(lambda: server.sessions, "a session")
        with pytest.raises(RuntimeError, match="before"):
            worker.add("late", lambda lease: None)


def test_a_failure_is_logged_with_its_lease(server: ScriptServer, caplog: pytest.LogCaptureFixture) -> None:
    def broken(lease: Lease) -> None:
        raise OSError("the disk is full")

    result = outcome_of(server, broken, fence=77)
    (found,) = [record for record in caplog.records if hasattr(record, "fence")]
    assert (found.job, found.attempt, found.fence) == (result.job, 1, 77)  # type: ignore[attr-defined]
    assert "OSError: the disk is full" in found.getMessage()
