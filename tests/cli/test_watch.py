"""`rota job watch` without a job: what changes of all jobs, until it is stopped."""

from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.cli.errors import Exit
from tests.cli.script import JOB_ID, Coordinator, in_, job


def changes() -> list[jobs_pb2.Job]:
    return [
        job(1),
        job(2, state=jobs_pb2.JOB_STATE_LEASED, attempt=1, lease_time=in_(1)),
        job(1, state=jobs_pb2.JOB_STATE_SUCCEEDED, finish_time=in_(2)),
    ]


def test_each_change_is_a_line_and_the_end_says_how_to_go_on(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = changes()
    ran = rota("job", "watch", "--queue", "q", "--type", "greet", "--resume-token", "t", "--timeout", "1s")
    assert ran.code == Exit.OK
    assert [line.split() for line in ran.out.splitlines()] == [
        [job(1).name, "2026-11-30T08:15:00.000Z", "READY"],
        [job(2).name, "2026-11-30T08:15:01.000Z", "LEASED", "attempt", "1"],
        [job(1).name, "2026-11-30T08:15:02.000Z", "SUCCEEDED"],
    ]
    assert ran.err == "more: --resume-token t3\n"
    (request,) = coordinator.requests
    assert (request.queue, request.type, request.resume_token) == ("q", "greet", "t")


def test_scripts_get_documents_with_their_tokens(rota: Any, coordinator: Coordinator) -> None:
    coordinator.jobs = changes()
    told = rota("job", "watch", "--json", "--timeout", "1s").documents
    assert [(each["name"], each["state"], each["resume_token"]) for each in told] == [
        (job(1).name, "READY", "t1"),
        (job(2).name, "LEASED", "t2"),
        (job(1).name, "SUCCEEDED", "t3"),
    ]


@pytest.mark.parametrize("option", ["--queue", "--type", "--resume-token"])
def test_filters_are_for_all_jobs(option: str, rota: Any, coordinator: Coordinator) -> None:
    ran = rota("job", "watch", JOB_ID, option, "x")
    assert ran.code == Exit.USAGE
    assert f"{option}: expected without JOB, found with one\nhint: give one of both" in ran.err
    assert not coordinator.requests


def test_a_token_that_is_too_old_is_told(rota: Any, coordinator: Coordinator) -> None:
    coordinator.refuse(grpc.StatusCode.FAILED_PRECONDITION, "INVALID_STATE", "not kept any more")
    ran = rota("job", "watch", "--resume-token", "t")
    assert ran.code == Exit.REFUSED
    assert "not kept any more" in ran.err
