"""`rota dead`, `rota redrive`, `rota job retry` and `reschedule` against a real coordinator: what is sent is taken, and
what comes back is shown."""

import io
import os
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.cli.errors import Exit
from rota.store.embedded import EmbeddedPostgres
from tests.api.running import fresh_database
from tests.harness import CoordinatorProcess, eventually, make_key

MISSING = "01a22a4e-cd91-70bc-b5eb-70ab53f956d0"


@pytest.fixture(scope="module")
def served(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorProcess]:
    """One coordinator for all of these tests."""
    with fresh_database(postgres) as url, CoordinatorProcess(url, tmp_path_factory.mktemp("served")) as process:
        yield process


@pytest.fixture
def real(served: CoordinatorProcess, monkeypatch: pytest.MonkeyPatch) -> CoordinatorProcess:
    """It at ROTA_ADDRESS, with a key for everything of a tenant of the test's own."""
    key = make_key(served.database, tenant=f"t{uuid.uuid4().hex[:12]}")
    monkeypatch.setenv("ROTA_ADDRESS", served.address)
    monkeypatch.setenv("ROTA_API_KEY", key)
    return served


def done(ran: Any) -> Any:
    assert ran.code == Exit.OK, ran.err
    return ran


def lines(ran: Any) -> list[str]:
    return [" ".join(line.split()) for line in done(ran).out.splitlines()]


class Undertaker:
    """Makes jobs and lets each fail for good."""

    def __init__(self, real: CoordinatorProcess, rota: Any) -> None:
        self._real = real
        self._rota = rota

    def bury(self, count: int = 1, *options: str) -> list[str]:
        """Ids of so many dead jobs, oldest death first."""
        made = [
            done(self._rota("job", "create", "mail", "--max-attempts", 1, "--json", *options)).document["name"]
            for _ in range(count)
        ]
        with self._real.client(os.environ["ROTA_API_KEY"]) as client:
            work = client.stubs.worker
            session = work.OpenSession(worker_pb2.OpenSessionRequest(worker="undertaker", queues=["default", "mails"]))
            left = set(made)
            number = 0
            while left:
                number += 1
                request = worker_pb2.LeaseRequest(session=session.session, request_id=str(number), capacity=1)
                request.wait.FromSeconds(5)
                for lease in work.Lease(request).leases:
                    failed = worker_pb2.Failed(failure=common_pb2.Failure(type="Boom", message="it burst\nreally"))
                    result = worker_pb2.Result(job=lease.job, fence=lease.fence, failed=failed)
                    work.Complete(worker_pb2.CompleteRequest(session=session.session, results=[result]))
                    left.discard(lease.job)
            work.CloseSession(worker_pb2.CloseSessionRequest(session=session.session))
        return [name.removeprefix("jobs/") for name in made]


@pytest.fixture
def undertaker(real: CoordinatorProcess, rota: Any) -> Undertaker:
    return Undertaker(real, rota)


@pytest.mark.parametrize(
    "command",
    ["dead list", "dead get", "dead redrive", "dead discard", "redrive list", "redrive get", "redrive cancel"],
)
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota(*command.split(), "--help")
    assert (ran.code, "--json" in ran.out) == (0, True)
    assert ran.out.startswith(f"Usage: rota {command} [OPTIONS]")


def test_list_and_get(rota: Any, undertaker: Undertaker) -> None:
    first, second = undertaker.bury(2, "--label", "team=pay", "--data", "[1]")
    (other,) = undertaker.bury(1, "--queue", "mails")
    heading, *rows = lines(rota("dead", "list"))
    assert heading == "LETTER TYPE QUEUE DEAD TRIES REDRIVES CAUSE FAILURE"
    assert [row.split()[0] for row in rows] == [other, second, first]
    assert rows[0].endswith("1 0 attempts exhausted Boom: it burst")
    assert [each["name"] for each in done(rota("dead", "list", "--limit", 2, "--json")).documents] == [
        f"deadLetters/{other}",
        f"deadLetters/{second}",
    ]
    for options, found in (
        (["--queue", "mails"], [other]),
        (["--type", "mail", "--label", "team=pay"], [second, first]),
        (["--failure", "Boom", "--cause", "attempts-exhausted", "--limit", 1], [other]),
        (["--cause", "not-retryable"], []),
        (["--schedule", "nightly"], []),
        (["--to", "2020-01-01T00:00:00Z"], []),
        (["--from", "2020-01-01T00:00:00Z", "--queue", "mails"], [other]),
    ):
        documents = done(rota("dead", "list", *options, "--json")).documents
        assert [each["name"].removeprefix("deadLetters/") for each in documents] == found, options
    for given in (first, f"jobs/{first}", f"deadLetters/{first}"):
        told = lines(rota("dead", "get", given))
        assert told[:2] == [f"letter deadLetters/{first}", "cause attempts exhausted"]
        assert "payload [1]" in told
    document = done(rota("dead", "get", first, "--json")).document
    assert (document["cause"], document["job"]["payload"]["json"]) == ("ATTEMPTS_EXHAUSTED", [1])


def test_redrive(rota: Any, undertaker: Undertaker) -> None:
    first, second, third = undertaker.bury(3)
    dry = rota("dead", "redrive", "--all", "--limit", 2, "--dry-run")
    assert "progress 2 would be taken" in lines(dry)
    assert [first in dry.out, second in dry.out, third in dry.out] == [True, True, False]
    assert dry.err == "Nothing was redriven.\n"
    document = done(rota("dead", "redrive", first, "--dry-run", "--json")).document
    assert (document["total_count"], len(document["examples"])) == (1, 1)
    watched = done(rota("dead", "redrive", first, second, "--rate", 1000, "--watch", "--reason", "fixed", "--json"))
    last = watched.documents[-1]
    assert (last["state"], last["redriven_count"], last["reason"]) == ("SUCCEEDED", 2, "fixed")
    assert [each["name"] for each in done(rota("dead", "list", "--json")).documents] == [f"deadLetters/{third}"]
    slow = done(
        rota("dead", "redrive", "--queue", "default", "--rate", 0.001, "--request-id", "r-1", "--json")
    ).document
    again = done(
        rota("dead", "redrive", "--queue", "default", "--rate", 0.001, "--request-id", "r-1", "--json")
    ).document
    assert again["name"] == slow["name"]
    heading, *rows = lines(rota("redrive", "list"))
    assert heading == "REDRIVE STATE REDRIVEN REFUSED OF RATE CREATED WHICH"
    assert [row.split()[0] for row in rows] == [each["name"].removeprefix("redrives/") for each in (slow, last)]
    assert rows[0].endswith("queue default")
    told = lines(rota("redrive", "get", last["name"]))
    assert told[1:4] == [
        "state SUCCEEDED",
        f"letters deadLetters/{first}, deadLetters/{second}",
        "progress 2 of 2 redriven",
    ]
    assert done(rota("redrive", "get", last["name"], "--watch", "--json")).documents[-1]["state"] == "SUCCEEDED"


def test_a_redrive_that_is_cancelled(rota: Any, undertaker: Undertaker) -> None:
    undertaker.bury(3)
    name = done(rota("dead", "redrive", "--all", "--rate", 0.001, "--json")).document["name"]
    eventually(lambda: rota("redrive", "get", name, "--json").document["redriven_count"] == 1)
    told = lines(rota("redrive", "cancel", name.removeprefix("redrives/")))
    assert "state CANCELLED" in told
    assert "progress 1 of 3 redriven" in told
    ran = rota("redrive", "get", name, "--watch")
    assert ran.code == Exit.REFUSED
    assert "CANCELLED" in ran.out


def test_discard(rota: Any, undertaker: Undertaker) -> None:
    letters = undertaker.bury(4)
    assert lines(rota("dead", "discard", "--all", "--limit", 2, "--dry-run")) == ["2 or more would be discarded"]
    assert done(rota("dead", "discard", letters[3], "--reason", "obsolete", "--json")).document == {
        "discarded_count": 1,
        "more": False,
        "dry_run": False,
    }
    ran = rota("dead", "discard", "--all", "--limit", 1, "--yes")
    assert (lines(ran), ran.err) == (["1 discarded"], "more are left\n")
    assert rota("job", "get", letters[3], "--json").document["reason"] == "obsolete"
    assert lines(rota("dead", "discard", "--all")) == ["2 discarded"]
    assert done(rota("dead", "list", "--json")).documents == []
    assert len(done(rota("job", "list", "--state", "dead", "--json")).documents) == 4


def test_who_is_asked_and_says_no_discards_nothing(
    rota: Any, undertaker: Undertaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (letter,) = undertaker.bury()
    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    ran = rota("dead", "discard", letter)
    assert ran.code == Exit.REFUSED
    assert "Discard 1 dead letters for good?" in ran.err
    assert ran.err.endswith("Nothing was discarded.\n")
    assert rota("dead", "get", letter).code == Exit.OK


def test_job_retry_and_reschedule(rota: Any, undertaker: Undertaker) -> None:
    (letter,) = undertaker.bury()
    told = done(rota("job", "retry", letter, "--new-generation", "--json")).document
    assert (told["state"], told["generation"]) == ("READY", 1)
    assert rota("dead", "get", letter).code == Exit.NOT_FOUND
    later = done(rota("job", "create", "mail", "--delay", "1h", "--json")).document["name"]
    moved = done(rota("job", "reschedule", later, "--at", "2036-01-01T00:00:00+01:00", "--json")).document
    assert (moved["state"], moved["due_time"]) == ("SCHEDULED", "2035-12-31T23:00:00.000Z")
    assert done(rota("job", "reschedule", later, "--delay", "0s", "--json")).document["state"] == "READY"
    refused = rota("job", "retry", later)
    assert refused.code == Exit.REFUSED
    assert "has not been tried yet" in refused.err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("dead redrive", "LETTER: expected letters, a filter or --all, found none of them"),
        ("dead discard", "LETTER: expected letters, a filter or --all, found none of them"),
        (f"dead redrive {MISSING} --all", "LETTER: expected letters, a filter or --all, found letters and --all"),
        ("dead redrive --queue q --all", "LETTER: expected letters, a filter or --all, found a filter and --all"),
        ("dead redrive --all --dry-run --watch", "--watch: expected --dry-run or --watch, found both"),
        (f"dead discard {MISSING} --limit 3", "--limit: expected with a filter or --all"),
        ("dead get x", "LETTER: expected deadLetters/<uuid>, jobs/<uuid> or a uuid, found 'x'"),
        ("dead list --from soon", "--from: expected an instant such as"),
        ("dead list --label x", "--label: expected key=value"),
        ("redrive get x", "REDRIVE: expected redrives/<uuid> or a uuid, found 'x'"),
        (f"job reschedule {MISSING}", "--at: expected --at or --delay, found neither"),
        (
            f"job reschedule {MISSING} --at 2036-01-01T00:00:00Z --delay 1s",
            "--at: expected --at or --delay, found both",
        ),
        (f"job reschedule {MISSING} --delay 99999999h", "--delay: expected"),
    ],
)
def test_usage(rota: Any, command: str, told: str) -> None:
    ran = rota(*command.split())
    assert ran.code == Exit.USAGE
    assert told in ran.err


def test_refusals_of_the_server_name_the_option(rota: Any, real: CoordinatorProcess) -> None:
    for command, told in (
        ("dead redrive --all --rate 0", "--rate: must be from 0.001 to 1000 jobs a second, found 0"),
        ("dead list --queue " + "q" * 200, "--queue: must be at most"),
    ):
        ran = rota(*command.split())
        assert ran.code == Exit.USAGE, ran.err
        assert told in ran.err
    for command in (
        f"dead get {MISSING}",
        f"redrive get {MISSING}",
        f"redrive cancel {MISSING}",
        f"job retry {MISSING}",
    ):
        assert rota(*command.split()).code == Exit.NOT_FOUND
