"""`rota http` as a process of its own, with a real coordinator and a real server to call."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rota_sdk import AttemptOutcome, Client, EffectState, Job, JobState, RetryPolicy, Timeouts

from ..harness import CoordinatorProcess, eventually
from ..otlp import OtlpReceiver
from .conftest import StartRunner

WAIT_S = 30.0
AT_ONCE = RetryPolicy(max_attempts=5, initial_backoff=0, max_backoff=0)

RUNNER = ("http", "--slots", "8")


class Target:
    """A server whose paths say how it behaves."""

    def __init__(self, port: int = 0) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.go = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                count = len([path for path, _ in outer.seen if path == self.path])
                if self.path == "/flaky" and count == 1:
                    self.say(503, "not yet", {"Retry-After": "1"})
                elif self.path == "/reset" and count == 1:
                    self.connection.close()
                elif self.path == "/slow":
                    outer.go.wait(30)
                    self.say(200, "at last")
                elif self.path == "/missing":
                    self.say(404, "no such invoice")
                else:
                    self.say(200, json.dumps({"told": self.headers.get("Authorization")}))

            do_POST = do_GET

            def say(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(text)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def headers(self, path: str, name: str) -> list[str | None]:
        return [headers.get(name) for seen, headers in self.seen if seen == path]

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """Which does not take a runner that stands still for a moment for a dead one."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="6s", ROTA_DELIVERY_TTL="4s") as process:
        yield process


def create(client: Client, url: str, *, run_s: float = 60.0, retry: RetryPolicy = AT_ONCE, **payload: Any) -> Job:
    return client.create_job(
        "rota.http", {"url": url} | payload, queue="http", timeouts=Timeouts(run=run_s), retry=retry
    )


def test_calls_end_as_their_answers_say(
    start_runner: StartRunner, client: Client, target: Target, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text('[billing]\nkind = "bearer"\ntoken = "env:TOKEN"\nhosts = ["127.0.0.1"]\nallow_http = true\n')
    runner = start_runner("--allow", "127.0.0.1", "--credentials", str(file), "--name", "caller", TOKEN="s3cret")
    good = create(client, target.url("/invoices"), auth="billing", body={"id": 7})
    missing = create(client, target.url("/missing"))
    flaky = create(client, target.url("/flaky"), body="pay")
    wrong = create(client, target.url("/"), methid="GET")

    ended = client.wait_job(good.name, WAIT_S)
    assert ended.state is JobState.SUCCEEDED
    assert ended.result is not None
    # The target echoes what it was told, and it is not kept.
    assert ended.result.json()["body"] == '{"told": "Bearer [secret]"}'
    assert target.headers("/invoices", "authorization") == ["Bearer s3cret"]
    assert target.headers("/invoices", "rota-job") == [good.name]
    assert client.list_attempts(good.name)[0].worker == "caller"

    assert client.wait_job(missing.name, WAIT_S).state is JobState.DEAD
    (attempt,) = client.list_attempts(missing.name)
    assert attempt.failure is not None
    assert (attempt.failure.type, attempt.failure.stack) == ("Http404", "no such invoice")
    assert attempt.failure.message == f"404 Not Found of GET {target.url('/missing')}: no such invoice"
    assert attempt.effect_state is EffectState.NOT_APPLIED

    assert client.wait_job(flaky.name, WAIT_S).state is JobState.SUCCEEDED
    first, second = client.list_attempts(flaky.name)
    assert first.end_time is not None
    assert second.lease_time is not None
    assert (second.lease_time - first.end_time).total_seconds() >= 0.9
    assert target.headers("/flaky", "idempotency-key") == [flaky.effect_key] * 2
    assert target.headers("/flaky", "rota-fence") == [str(first.fence), str(second.fence)]

    ended = client.wait_job(wrong.name, WAIT_S)
    assert (ended.state, ended.attempt) == (JobState.DEAD, 1)
    assert ended.last_failure is not None
    assert ended.last_failure.type == "InvalidRequest"
    assert "did you mean method?" in ended.last_failure.message
    assert runner.terminate() == 0
    assert "s3cret" not in runner.output


def test_a_call_is_traced_as_part_of_its_attempt(start_runner: StartRunner, client: Client, target: Target) -> None:
    with OtlpReceiver() as receiver:
        runner = start_runner("--allow", "127.0.0.1", "--otlp-endpoint", receiver.endpoint)
        job = create(client, target.url("/traced?token=s3cret"))
        assert client.wait_job(job.name, WAIT_S).state is JobState.SUCCEEDED
        assert runner.terminate() == 0
        (run,) = [span for span in receiver.spans if span.name == "rota.run rota.http"]
        (call,) = [span for span in receiver.spans if span.name == "GET"]
    assert call.parent_id == run.span_id
    assert call.attributes["url.full"] == target.url("/traced")
    assert call.attributes["http.response.status_code"] == 200
    (sent,) = target.headers("/traced?token=s3cret", "traceparent")
    assert sent is not None
    assert sent.split("-")[1:3] == [run.trace_id, call.span_id]


def test_inside_targets_are_refused_unless_allowed(start_runner: StartRunner, client: Client, target: Target) -> None:
    start_runner("--allow", "10.0.0.0/8")
    job = create(client, target.url("/"))
    ended = client.wait_job(job.name, WAIT_S)
    assert (ended.state, ended.attempt, target.seen) == (JobState.DEAD, 1, [])
    assert ended.last_failure is not None
    assert ended.last_failure.type == "AddressRefused"


def test_a_lost_answer_is_on_record_as_unknown(start_runner: StartRunner, client: Client, target: Target) -> None:
    start_runner("--allow", "127.0.0.1")
    job = create(client, target.url("/reset"), body="pay")
    assert client.wait_job(job.name, WAIT_S).state is JobState.SUCCEEDED
    first, second = client.list_attempts(job.name)
    assert (first.outcome, first.effect_state) == (AttemptOutcome.FAILED, EffectState.UNKNOWN)
    assert second.outcome is AttemptOutcome.SUCCEEDED


def test_a_call_in_doubt_may_wait_for_a_person(start_runner: StartRunner, client: Client, target: Target) -> None:
    start_runner("--allow", "127.0.0.1")
    job = create(client, target.url("/reset"), body="pay", in_doubt="ask")
    eventually(lambda: len(client.list_attempts(job.name)) == 2, within_s=WAIT_S)
    eventually(lambda: client.list_attempts(job.name)[-1].outcome is AttemptOutcome.RELEASED)
    assert client.get_job(job.name).state is JobState.RETRY_WAIT
    assert len(target.seen) == 1
    sure = create(client, target.url("/missing"), body="pay", in_doubt="ask", retry=RetryPolicy(max_attempts=1))
    assert client.wait_job(sure.name, WAIT_S).state is JobState.DEAD
    assert client.list_attempts(sure.name)[0].effect_state is EffectState.NOT_APPLIED


def test_a_cancelled_job_ends_its_call(start_runner: StartRunner, client: Client, target: Target) -> None:
    start_runner("--allow", "127.0.0.1")
    job = create(client, target.url("/slow"))
    eventually(lambda: target.seen)
    client.cancel_job(job.name)
    assert client.wait_job(job.name, WAIT_S).state is JobState.CANCELLED
    assert client.list_attempts(job.name)[0].outcome is AttemptOutcome.CANCELLED


def test_a_call_ends_before_its_run_timeout(start_runner: StartRunner, client: Client, target: Target) -> None:
    start_runner("--allow", "127.0.0.1")
    once = RetryPolicy(max_attempts=1)
    jobs = [create(client, target.url("/slow"), run_s=run_s, retry=once) for run_s in (1.0, 2.0, 3.0)]
    failures = []
    for job in jobs:
        assert client.wait_job(job.name, WAIT_S).state is JobState.DEAD
        (attempt,) = client.list_attempts(job.name)
        assert attempt.failure is not None
        failures.append((attempt.failure.type, attempt.effect_state))
    # Of a runner that stands still at the very end of one nothing is heard in time.
    assert ("NoAnswer", EffectState.UNKNOWN) in failures
    assert {kind for kind, _ in failures} <= {"NoAnswer", "TimedOut"}


def test_a_runner_that_leaves_waits_for_its_calls(start_runner: StartRunner, client: Client, target: Target) -> None:
    runner = start_runner("--allow", "127.0.0.1")
    job = create(client, target.url("/slow"))
    eventually(lambda: target.seen)
    runner.signal(signal.SIGTERM)
    eventually(lambda: "signal: leaving" in runner.output)
    target.go.set()
    assert client.wait_job(job.name, WAIT_S).state is JobState.SUCCEEDED
    assert runner.popen.wait(60) == 0


def test_an_outage_leaves_no_job_dead(start_runner: StartRunner, client: Client) -> None:
    start_runner("--allow", "127.0.0.1")

    def tried(job: Job) -> bool:
        attempts = client.list_attempts(job.name)
        return bool(attempts) and attempts[0].outcome is not AttemptOutcome.UNSPECIFIED

    with socket.socket() as reserved:
        # Nobody listens there, and nobody else will.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        jobs = [create(client, f"http://127.0.0.1:{port}/{number}") for number in range(20)]
        eventually(lambda: all(tried(job) for job in jobs), within_s=WAIT_S)
        back = Target(port)
    try:
        for job in jobs:
            assert client.wait_job(job.name, 2 * WAIT_S).state is JobState.SUCCEEDED
    finally:
        back.close()
    outcomes = [attempt.outcome for job in jobs for attempt in client.list_attempts(job.name)]
    # Those that were on their way when the target was found to be down, and no more.
    assert outcomes.count(AttemptOutcome.FAILED) <= 10
    assert outcomes.count(AttemptOutcome.RELEASED) >= 15
