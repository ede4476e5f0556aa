"""`rota queue`: what is sent, what is shown, and how it exits."""

import io
import sys
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.rpc import error_details_pb2
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.cli.errors import Exit
from tests.cli.operated import Operated, queue

NAME = "queues/mails"


def lines(ran: Any) -> list[str]:
    assert ran.code == Exit.OK, ran.err
    return [" ".join(line.split()) for line in ran.out.splitlines()]


@pytest.mark.parametrize("command", ["list", "get", "update", "pause", "resume", "purge"])
def test_each_command_explains_itself(command: str, rota: Any) -> None:
    ran = rota("queue", command, "--help")
    assert (ran.code, "--json" in ran.out) == (0, True)
    assert ran.out.startswith(f"Usage: rota queue {command} [OPTIONS]")


def test_list(rota: Any, operated: Operated) -> None:
    assert lines(rota("queue", "list")) == [
        "QUEUE STATE READY LEASED SCHEDULED RETRY DEAD WORKERS OLDEST LIMITS",
        "mails PAUSED 6 5 7 4 3 2 90 s 2.5/s, 10 at once; 20 in flight; 1 per key",
        "other ACTIVE 0 0 0 0 0 0",
    ]
    assert operated.sent == pb.ListQueuesRequest(page_size=50)
    found = rota("queue", "list", "--json").documents
    assert [each["name"] for each in found] == [NAME, "queues/other"]
    ran = rota("queue", "list", "--limit", 1)
    assert ran.err == "more: --page-token 1\n"
    assert lines(rota("queue", "list", "--page-token", 1))[1].startswith("other")


@pytest.mark.parametrize("given", ["mails", NAME])
def test_get(given: str, rota: Any, operated: Operated) -> None:
    assert lines(rota("queue", "get", given)) == [
        "queue queues/mails",
        "state PAUSED",
        "paused 2026-11-30T08:15:00.000Z",
        "paused by apiKeys/k1",
        "reason maintenance",
        "weight 100",
        "limits 2.5/s, 10 at once; 20 in flight; 1 per key",
        "ready 6, the oldest for 90 s",
        "leased 5",
        "scheduled 7",
        "waiting to retry 4",
        "dead 3",
        "workers 2",
        "etag v1",
    ]
    assert operated.sent == pb.GetQueueRequest(name=NAME)
    told = rota("queue", "get", given, "--json").document
    assert (told["rate"], told["max_in_flight"], told["paused"], told["oldest_ready_age"]) == (2.5, 20, True, "90s")
    assert rota("queue", "get", "other", "--json").document["ready_count"] == 0
    missing = rota("queue", "get", "none")
    assert (missing.code, missing.err.splitlines()[0]) == (Exit.NOT_FOUND, "error: queues/none: not found")


@pytest.mark.parametrize(
    ("options", "changed", "paths"),
    [
        (["--weight", "7"], {"weight": 7}, ["weight"]),
        (["--rate", "0.5", "--burst", "3"], {"rate": 0.5, "rate_burst": 3}, ["rate", "rate_burst"]),
        (["--max-in-flight", "4", "--etag", "v1"], {"max_in_flight": 4, "etag": "v1"}, ["max_in_flight"]),
        (["--max-in-flight-per-key", "1"], {"max_in_flight_per_key": 1}, ["max_in_flight_per_key"]),
        (["--unset", "max-in-flight"], {}, ["max_in_flight"]),
        (["--weight", "7", "--unset", "--rate", "--unset", "rate"], {"weight": 7}, ["weight", "rate"]),
    ],
)
def test_update_sends_what_is_given(
    options: list[str], changed: Any, paths: list[str], rota: Any, operated: Operated
) -> None:
    assert rota("queue", "update", "mails", *options, "--json").document["name"] == NAME
    assert operated.sent == pb.UpdateQueueRequest(
        queue=pb.Queue(name=NAME, **changed), update_mask=FieldMask(paths=paths)
    )


def test_pause_and_resume(rota: Any, operated: Operated) -> None:
    assert "state PAUSED" in lines(rota("queue", "pause", "mails", "--reason", "maintenance"))
    assert operated.sent == pb.PauseQueueRequest(name=NAME, reason="maintenance")
    operated.requests.clear()
    operated.queues = [queue()]
    assert "state ACTIVE" in lines(rota("queue", "resume", "mails"))
    assert operated.sent == pb.ResumeQueueRequest(name=NAME)


def test_a_purge_goes_on_until_nothing_is_left(rota: Any, operated: Operated) -> None:
    answer = pb.PurgeQueueResponse
    operated.purges = [answer(purged_count=10_000, more=True), answer(purged_count=17)]
    ran = rota("queue", "purge", NAME, "--state", "ready", "--state", "retry-wait", "--type", "t", "--reason", "why")
    assert (ran.code, ran.out, ran.err) == (Exit.OK, "10017 cancelled in queues/mails\n", "")
    states = [jobs_pb2.JOB_STATE_READY, jobs_pb2.JOB_STATE_RETRY_WAIT]
    wanted = pb.PurgeQueueRequest(name=NAME, states=states, type="t", max_count=10_000, reason="why")
    assert operated.requests == [wanted, wanted]


def test_a_purge_of_so_many_asks_for_no_more(rota: Any, operated: Operated) -> None:
    answer = pb.PurgeQueueResponse
    operated.purges = [answer(purged_count=10_000, more=True), answer(purged_count=2_000, more=True)]
    ran = rota("queue", "purge", "mails", "--limit", 12_000)
    assert (ran.out, ran.err) == ("12000 cancelled in queues/mails\n", "more are left\n")
    assert [request.max_count for request in operated.requests] == [10_000, 2_000]


def test_a_dry_run_counts_once(rota: Any, operated: Operated) -> None:
    operated.purges = [pb.PurgeQueueResponse(purged_count=10_000, more=True)]
    ran = rota("queue", "purge", "mails", "--dry-run")
    assert (ran.out, ran.err) == ("10000 or more would be cancelled in queues/mails\n", "")
    assert operated.sent.validate_only
    operated.purges = [pb.PurgeQueueResponse(purged_count=3)]
    assert rota("queue", "purge", "mails", "--dry-run", "--json").document == {
        "name": NAME,
        "purged_count": 3,
        "more": False,
        "dry_run": True,
    }


@pytest.mark.parametrize(("answer", "code", "calls"), [("n\n", Exit.REFUSED, 0), ("y\n", Exit.OK, 1)])
def test_a_purge_on_a_terminal_is_asked_about(
    answer: str, code: Exit, calls: int, rota: Any, operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.purges = [pb.PurgeQueueResponse(purged_count=3)]
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    ran = rota("queue", "purge", "mails")
    assert (ran.code, len(operated.requests)) == (code, calls)
    assert "Cancel what waits in queues/mails?" in ran.err
    assert calls or "Nothing was cancelled." in ran.err


def test_refused_fields_are_options(rota: Any, operated: Operated) -> None:
    operated.refuse(
        grpc.StatusCode.INVALID_ARGUMENT, "VALIDATION_FAILED", "queue.rate_burst: must be from 1 to 100000, found 0"
    )
    assert operated.refusal is not None
    operated.refusal.details.add().Pack(
        error_details_pb2.BadRequest(field_violations=[{"field": "queue.rate_burst", "description": "must be"}])
    )
    ran = rota("queue", "update", "mails", "--burst", 0)
    assert (ran.code, ran.err) == (Exit.USAGE, "error: --burst: must be from 1 to 100000, found 0\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "a b"], "QUEUE: expected 1 to 64 letters, digits or ._-, the first a letter or digit, found 'a b'"),
        (["get", "jobs/x"], "QUEUE: expected 1 to 64 letters"),
        (["update", "x"], "QUEUE: expected an option that changes it, found none"),
        (["update", "x", "--unset", "wieght"], "--unset: expected an option of this command, found 'wieght'"),
        (["update", "x", "--rate", "1", "--unset", "rate"], "--unset: expected --rate set or unset, found both"),
        (["pause", "x", "--reason", "\udcff"], "--reason: expected UTF-8 text"),
        (["purge", "x", "--state", "leased"], "Invalid value for '--state'"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_sent(
    arguments: list[str], message: str, rota: Any, operated: Operated
) -> None:
    ran = rota("queue", *arguments)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert operated.requests == []


def test_a_misspelt_option_is_told_the_nearest(rota: Any) -> None:
    assert "hint: did you mean weight?" in rota("queue", "update", "x", "--unset", "wieght").err
    assert "known are weight, rate, burst" in rota("queue", "update", "x", "--unset", "zzz").err
