"""A redrive goes on where it was, whatever is killed: no letter is lost, and none comes back twice."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, NewJob, RetryPolicy
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from ..harness import CoordinatorProcess, eventually

LETTERS = 400


@pytest.fixture
def coordinator(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """The one that buries them does not beat."""
    with CoordinatorProcess(database, tmp_path, ROTA_SESSION_TTL="1m", ROTA_DELIVERY_TTL="30s") as process:
        yield process


def bury(client: Client) -> set[str]:
    """Ids of jobs that each failed for good, all in bulk."""
    wanted = [NewJob("mail", str(number), retry=RetryPolicy(max_attempts=1)) for number in range(LETTERS)]
    made = {job.name for job in client.create_jobs(wanted)}
    work = client.stubs.worker
    session = work.OpenSession(worker_pb2.OpenSessionRequest(worker="undertaker", queues=["default"], slots=LETTERS))
    left, number = set(made), 0
    while left:
        number += 1
        request = worker_pb2.LeaseRequest(session=session.session, request_id=str(number), capacity=LETTERS)
        request.wait.FromSeconds(5)
        failed = worker_pb2.Failed(failure=common_pb2.Failure(type="Boom", message="it burst"))
        leases = work.Lease(request).leases
        results = [worker_pb2.Result(job=lease.job, fence=lease.fence, failed=failed) for lease in leases]
        work.Complete(worker_pb2.CompleteRequest(session=session.session, results=results))
        left -= {lease.job for lease in leases}
    work.CloseSession(worker_pb2.CloseSessionRequest(session=session.session))
    return {name.removeprefix("jobs/") for name in made}


def places(database: str) -> dict[str, tuple[str, int]]:
    """Where each job is, and how often it was redriven; that it is in one place only."""
    with psycopg.connect(database) as conn:
        rows = conn.execute(
            "SELECT id::text, 'jobs', redrives FROM jobs "
            "UNION ALL SELECT id::text, 'dead_jobs', redrives FROM dead_jobs"
        ).fetchall()
    assert len({id for id, _, _ in rows}) == len(rows) == LETTERS
    return {id: (table, redrives or 0) for id, table, redrives in rows}


def redriven(database: str) -> int:
    return sum(table == "jobs" for table, _ in places(database).values())


def test_the_coordinator_is_killed_in_the_middle_of_a_redrive(coordinator: CoordinatorProcess) -> None:
    database = coordinator.database
    with coordinator.client() as client:
        letters = bury(client)
        wanted = pb.Redrive(filter=pb.DeadLetterFilter(type="mail"), rate=40)
        started = client.stubs.admin.RedriveDeadLetters(pb.RedriveDeadLettersRequest(redrive=wanted)).redrive
    assert started.total_count == LETTERS
    for share in (0.1, 0.2, 0.4):
        eventually(lambda share=share: redriven(database) >= LETTERS * share, within_s=40)  # type: ignore[misc]
        coordinator.kill()
        assert redriven(database) < LETTERS
        coordinator.start()
    with coordinator.client() as client:

        def over() -> pb.Redrive | None:
            found = client.stubs.admin.GetRedrive(pb.GetRedriveRequest(name=started.name)).redrive
            return found if found.state != pb.REDRIVE_STATE_RUNNING else None

        ended = eventually(over, within_s=40)
        assert isinstance(ended, pb.Redrive)
        counts = (ended.total_count, ended.redriven_count, ended.refused_count)
        assert (ended.state, counts) == (pb.REDRIVE_STATE_SUCCEEDED, (LETTERS, LETTERS, 0))
        assert places(database) == dict.fromkeys(letters, ("jobs", 1))
        # What they died of before is still on record.
        (attempt,) = client.list_attempts(f"jobs/{min(letters)}")
        assert attempt.failure is not None
        assert attempt.failure.type == "Boom"
