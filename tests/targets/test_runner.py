"""`rota exec` as a process of its own, with a real coordinator."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rota_sdk import AttemptOutcome, Client, Job, JobState, Payload, RetryPolicy, Timeouts

from ..harness import CoordinatorProcess, eventually
from .conftest import StartRunner, runs

WAIT_S = 30.0
ONCE = RetryPolicy(max_attempts=1)
AT_ONCE = RetryPolicy(max_attempts=5, initial_backoff=0, max_backoff=0)

RUNNER = ("exec", "--slots", "4")


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """Which does not take a runner that stands still for a moment for a dead one."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="6s", ROTA_DELIVERY_TTL="4s") as process:
        yield process


def create(client: Client, script: str, *, queue: str = "commands", run_s: float = 60.0, **options: object) -> Job:
    payload = Payload(json.dumps({"command": script}).encode(), "application/json")
    return client.create_job("rota.exec", payload, queue=queue, timeouts=Timeouts(run=run_s), **options)  # type: ignore[arg-type]


def pid_in(file: Path) -> int:
    return int(str(eventually(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text())))


def test_commands_end_as_their_exit_code_says(start_runner: StartRunner, client: Client) -> None:
    runner = start_runner("--queue", "commands", "--queue", "nightly", "--name", "runner-1")
    good = create(client, 'echo "$ROTA_JOB ${ROTA_API_KEY-no key} ${GRPC_VERBOSITY-no gRPC}"', queue="nightly")
    bad = create(client, "echo half; echo disk full >&2; exit 3", retry=ONCE)
    wrong = client.create_job("rota.exec", {"comand": "ls"}, queue="commands")

    ended = client.wait_job(good.name, WAIT_S)
    assert (ended.state, ended.result is not None) == (JobState.SUCCEEDED, True)
    assert ended.result is not None
    assert ended.result.content_type == "application/json"
    assert ended.result.json()["output"] == f"{good.name} no key no gRPC\n"
    assert client.list_attempts(good.name)[0].worker == "runner-1"

    ended = client.wait_job(bad.name, WAIT_S)
    failure = client.list_attempts(bad.name)[0].failure
    assert ended.state is JobState.DEAD
    assert failure is not None
    assert (failure.type, failure.message, failure.stack) == ("ExitCode", "exit code 3: disk full", "half\ndisk full\n")

    ended = client.wait_job(wrong.name, WAIT_S)
    assert (ended.state, ended.attempt) == (JobState.DEAD, 1)
    assert ended.last_failure is not None
    assert ended.last_failure.type == "InvalidCommand"
    assert "did you mean command?" in ended.last_failure.message
    assert runner.terminate() == 0


def test_a_failure_is_retried_with_the_next_attempt(start_runner: StartRunner, client: Client) -> None:
    start_runner()
    job = create(client, 'test "$ROTA_ATTEMPT" = 2 || exit 75; echo "$ROTA_EFFECT_KEY"', retry=AT_ONCE)
    ended = client.wait_job(job.name, WAIT_S)
    assert (ended.state, ended.attempt) == (JobState.SUCCEEDED, 2)
    assert ended.result is not None
    assert ended.result.json()["output"] == f"{ended.effect_key}\n"


def test_a_cancelled_job_ends_its_command(start_runner: StartRunner, client: Client, tmp_path: Path) -> None:
    start_runner("--grace", "500ms")
    file = tmp_path / "pid"
    job = create(client, f"trap '' TERM; echo $$ > {file}; while :; do sleep 0.1; done")
    pid = pid_in(file)
    client.cancel_job(job.name)
    assert client.wait_job(job.name, WAIT_S).state is JobState.CANCELLED
    assert not runs(pid)
    assert client.list_attempts(job.name)[0].outcome is AttemptOutcome.CANCELLED


def test_a_command_ends_at_its_run_timeout(start_runner: StartRunner, client: Client, tmp_path: Path) -> None:
    start_runner("--grace", "500ms")
    file = tmp_path / "pid"
    job = create(client, f"echo $$ > {file}; sleep 60", run_s=3.0, retry=ONCE)
    ended = client.wait_job(job.name, WAIT_S)
    assert ended.state is JobState.DEAD
    assert ended.last_failure is not None
    assert ended.last_failure.type == "TimedOut"
    pid = pid_in(file)
    eventually(lambda: not runs(pid))


def test_a_runner_that_leaves_gives_back_what_it_had_to_stop(
    start_runner: StartRunner, client: Client, tmp_path: Path
) -> None:
    leaving = start_runner("--grace", "10s", "--drain-timeout", "200ms", "--name", "leaving")
    file = tmp_path / "pid"
    # Longer than the time that handlers usually get to unwind: it is given back only when it has ended.
    script = f"trap 'sleep 1.5; echo ended >> {file}.log; exit 1' TERM; echo $$ > {file}; "
    script += f'if test -e {file}.log; then echo "attempt $ROTA_ATTEMPT"; exit 0; fi; while :; do sleep 0.1; done'
    job = create(client, script)
    pid_in(file)
    start_runner("--name", "heir")
    eventually(lambda: len(client.list_sessions()) == 2)
    assert leaving.terminate(within_s=60) == 0
    ended = client.wait_job(job.name, WAIT_S)
    assert ended.state is JobState.SUCCEEDED
    attempts = client.list_attempts(job.name)
    assert [(a.outcome, a.worker) for a in attempts] == [
        (AttemptOutcome.RELEASED, "leaving"),
        (AttemptOutcome.SUCCEEDED, "heir"),
    ]
    assert Path(f"{file}.log").read_text() == "ended\n"


def test_a_second_signal_kills_what_runs(start_runner: StartRunner, client: Client, tmp_path: Path) -> None:
    runner = start_runner("--grace", "60s", "--drain-timeout", "60s")
    file = tmp_path / "pid"
    create(client, f"trap '' TERM; echo $$ > {file}; while :; do sleep 0.1; done")
    pid = pid_in(file)
    runner.signal(signal.SIGTERM)
    eventually(lambda: "signal: leaving" in runner.output)
    assert runs(pid)
    assert runner.terminate(within_s=30) == 0
    assert not runs(pid)


def test_a_killed_runner_takes_its_commands_along(start_runner: StartRunner, client: Client, tmp_path: Path) -> None:
    killed = start_runner("--grace", "1s")
    file = tmp_path / "pid"
    script = f'test "$ROTA_ATTEMPT" = 1 || exit 0; trap "" TERM; echo $$ > {file}; while :; do sleep 0.1; done'
    job = create(client, script)
    pid = pid_in(file)
    start_runner()
    killed.kill()
    eventually(lambda: not runs(pid))
    assert client.wait_job(job.name, WAIT_S).state is JobState.SUCCEEDED
    lost, succeeded = (a.outcome for a in client.list_attempts(job.name))
    # It may have died before it was known to have the lease.
    assert lost in (AttemptOutcome.LEASE_LOST, AttemptOutcome.UNDELIVERED)
    assert succeeded is AttemptOutcome.SUCCEEDED


def test_a_key_that_is_refused(start_runner: StartRunner, coordinator: CoordinatorProcess) -> None:
    coordinator.key = "rota_nobody"
    runner = start_runner()
    assert runner.popen.wait(60) == 1
    assert "error: " in runner.output
    assert "hint: " in runner.output
