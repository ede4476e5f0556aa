"""Limits of queues hold over all coordinators together, and what waits at one of them does not starve."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from rota_sdk import Client, NewJob
from rota_sdk.gen.rota.admin.v1 import admin_pb2

from ..harness import eventually
from .conftest import Starts
from .test_crashes import finished
from .test_many_coordinators import Plane

Run = tuple[float, float, str]
"""From lease to end, seconds since 1970, and the concurrency key."""


@pytest.fixture
def plane(database: str, tmp_path: Path) -> Iterator[Plane]:
    with ExitStack() as stack:
        plane = Plane(database, tmp_path, stack)
        plane.add()
        plane.add()
        eventually(lambda: plane.balanced(2))
        yield plane


def limit(client: Client, **settings: float) -> None:
    queue = admin_pb2.Queue(name="queues/default", **settings)  # type: ignore[arg-type]
    client.stubs.admin.UpdateQueue(admin_pb2.UpdateQueueRequest(queue=queue), timeout=10)


def runs(database: str) -> list[Run]:
    with psycopg.connect(database) as conn:
        return conn.execute(
            "SELECT extract(epoch FROM leased_at)::float8, extract(epoch FROM finished_at)::float8, "
            "coalesce(concurrency_key, '') FROM finished_jobs ORDER BY leased_at"
        ).fetchall()


def most_at_once(found: Sequence[Run]) -> int:
    steps = sorted([(start, 1) for start, _, _ in found] + [(end, -1) for _, end, _ in found])
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


def drained(plane: Plane, starts: Starts, jobs: Sequence[NewJob], **settings: float) -> list[Run]:
    """Runs jobs under limits by workers at both coordinators."""
    first = plane.all[0]
    with first.client() as client:
        limit(client, **settings)
        client.create_jobs(jobs)
        for coordinator in plane.all:
            plane.worker(coordinator.address, starts, slots=20)
        eventually(lambda: finished(first.database) == len(jobs), within_s=60)
    return runs(first.database)


def test_a_queue_runs_no_more_than_its_limit(plane: Plane, starts: Starts) -> None:
    found = drained(plane, starts, [NewJob("sleep", "0.1") for _ in range(80)], max_in_flight=3)
    assert most_at_once(found) == 3
    check_nobody_starved(plane)


def test_a_key_runs_one_at_a_time_while_others_run(plane: Plane, starts: Starts) -> None:
    jobs = [NewJob("sleep", "0.05", concurrency_key=f"k{number % 4}") for number in range(80)]
    found = drained(plane, starts, jobs, max_in_flight_per_key=1)
    assert most_at_once(found) > 1
    for key in {key for _, _, key in found}:
        assert most_at_once([run for run in found if run[2] == key]) == 1


def test_a_rate_is_the_rate_of_all_together(plane: Plane, starts: Starts) -> None:
    found = drained(plane, starts, [NewJob("quick", "x") for _ in range(100)], rate=25.0, rate_burst=5)
    starts_at = [start for start, _, _ in found]
    # By the token bucket, between any two leases. What was counted first may be written late, however late: nobody else
    # is counted meanwhile, and no more than another burst is there after it.
    for first in range(len(starts_at)):
        for last in range(first + 1, len(starts_at)):
            assert last - first + 1 <= 2 * 5 + 25.0 * (starts_at[last] - starts_at[first]) + 1
    # Nor is it less than that, wherever the machine was quick enough.
    assert min(starts_at[first + 40] - starts_at[first] for first in range(60)) < 40 / 25.0 * 1.5


def check_nobody_starved(plane: Plane) -> None:
    """A limit's places go round: no coordinator's jobs wait until the other has none left."""
    eventually(lambda: plane.balanced(2))
    with psycopg.connect(plane.all[0].database) as conn:
        rows = conn.execute(
            "SELECT s.owner::text FROM finished_jobs f JOIN shards s ON s.shard = "
            "(('x' || right(f.id::text, 6))::bit(24)::int + f.tenant_id * 40503) % 256 ORDER BY f.leased_at"
        ).fetchall()
    owners = [owner for (owner,) in rows]
    (other,) = set(owners) - {owners[0]}
    assert owners[0] in owners[owners.index(other) :]
