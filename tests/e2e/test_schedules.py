"""Schedules of whole processes: downtime, `kill -9` in the middle of firing, two owners, a worker that dies."""

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from rota_sdk import Client
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota import bootstrap

from ..harness import CoordinatorProcess, eventually
from .conftest import HANDLERS, Starts
from .test_two_coordinators import owned


@pytest.fixture
def second(database: str, tmp_path: Path) -> Iterator[CoordinatorProcess]:
    folder = tmp_path / "second"
    folder.mkdir()
    with CoordinatorProcess(database, folder) as process:
        yield process


def create(client: Client, id: str, **fields: object) -> pb.Schedule:
    schedule = pb.Schedule(**({"interval": pb.IntervalRule(every=Duration(seconds=1))} | fields))  # type: ignore[arg-type]
    if not schedule.HasField("job"):
        schedule.job.type = "quick"
    request = pb.CreateScheduleRequest(schedule=schedule, schedule_id=id)
    return client.stubs.schedules.CreateSchedule(request).schedule


def occurrences(client: Client, id: str) -> list[pb.Occurrence]:
    """Oldest first."""
    found: list[pb.Occurrence] = []
    token = ""
    while True:
        page = client.stubs.schedules.ListOccurrences(
            pb.ListOccurrencesRequest(parent=f"schedules/{id}", page_size=1_000, page_token=token)
        )
        found += page.occurrences
        token = page.next_page_token
        if not token:
            return found[::-1]


def fates(client: Client, id: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in occurrences(client, id):
        counts[pb.OccurrenceFate.Name(each.fate).removeprefix("OCCURRENCE_FATE_")] += each.count
    return counts


def check_ledger(database: str) -> None:
    """`rota doctor` finds that every fate adds up, and no job was made twice."""
    found = {finding.name: finding for finding in bootstrap.diagnose(database)}
    assert found["fates"].level == "ok", found["fates"].text
    with psycopg.connect(database) as conn:
        doubled = conn.execute(
            "SELECT schedule_uid, nominal_at, occurrence_generation, count(*) FROM ("
            "SELECT schedule_uid, nominal_at, occurrence_generation FROM jobs UNION ALL "
            "SELECT schedule_uid, nominal_at, occurrence_generation FROM finished_jobs UNION ALL "
            "SELECT schedule_uid, nominal_at, occurrence_generation FROM dead_jobs) j "
            "WHERE schedule_uid IS NOT NULL GROUP BY 1, 2, 3 HAVING count(*) > 1"
        ).fetchall()
    assert doubled == []


def wait(database: str, seconds: float) -> None:
    """By the database's clock."""
    with psycopg.connect(database) as conn:
        conn.execute("SELECT pg_sleep(%s)", [seconds])


def without_gap(found: list[pb.Occurrence]) -> bool:
    """Every second from the first to the last has its row, or lies in one."""
    at: datetime | None = None
    for each in found:
        nominal = each.nominal_time.ToDatetime(UTC)
        if at is not None and nominal != at + timedelta(seconds=1):
            return False
        at = each.last_nominal_time.ToDatetime(UTC) if each.count > 1 else nominal
    return True


def on_time(found: list[pb.Occurrence], after: datetime) -> bool:
    """Whether three have fired that came due after an instant, and the last two of them soon."""
    fires = [each for each in found if each.fate == pb.OCCURRENCE_FATE_FIRED]
    late = [
        each.record_time.ToDatetime(UTC) - each.due_time.ToDatetime(UTC)
        for each in fires
        if each.due_time.ToDatetime(UTC) > after
    ]
    return len(late) >= 3 and max(late[-2:]) < timedelta(seconds=1.5)


@pytest.mark.parametrize("mode", ["SKIP", "COALESCE", "CATCH_UP"])
def test_a_control_plane_that_was_down(coordinator: CoordinatorProcess, mode: str) -> None:
    """With a short period, for real: made ahead are 60 s, so the schedule is one that is not made ahead."""
    policy = pb.MissedRunPolicy(
        mode=pb.MissedRunMode.Value(f"MISSED_RUN_MODE_{mode}"),
        late_tolerance=Duration(seconds=3),
        catch_up_max=5,
    )
    overlap = pb.OverlapPolicy(mode=pb.OVERLAP_MODE_ALLOW, limit=1_000)
    with coordinator.client() as client:
        create(client, "s", missed_run_policy=policy, overlap_policy=overlap)
        eventually(lambda: fates(client, "s")["FIRED"] >= 2)
    coordinator.kill()
    wait(coordinator.database, 9)
    coordinator.start()
    started_at = datetime.now(UTC)
    with coordinator.client() as client:
        # From the restart on, each is on time.
        eventually(lambda: on_time(occurrences(client, "s"), started_at))
        found = occurrences(client, "s")
        assert without_gap(found)
        counts = fates(client, "s")
        if mode == "SKIP":
            assert counts["SKIPPED_MISSED"] >= 6
        elif mode == "COALESCE":
            assert counts["COALESCED"] >= 5
        else:
            assert counts["SKIPPED_WINDOW"] >= 1
            caught = [each for each in found if each.origin == pb.OCCURRENCE_ORIGIN_CATCH_UP]
            assert len(caught) == 5
    check_ledger(coordinator.database)


def test_kill_9_in_the_middle_of_firing(coordinator: CoordinatorProcess, starts: Starts) -> None:
    with coordinator.client() as client:
        for number in range(60):
            create(
                client, f"s{number}", overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_SKIP) if number % 2 else None
            )
    worker = coordinator.worker(HANDLERS, str(starts.file), "50")
    try:
        for round in range(4):
            eventually(lambda round=round: len(starts.lines()) >= 60 * (round + 1), within_s=30)  # type: ignore[misc]
            coordinator.kill()
            coordinator.start()
        with coordinator.client() as client:
            eventually(lambda: len(starts.lines()) >= 500, within_s=30)
            for number in (0, 1, 30, 59):
                assert without_gap(occurrences(client, f"s{number}"))
    finally:
        worker.kill()
    check_ledger(coordinator.database)


def test_an_owner_that_slept_through_its_term_fires_nothing_twice(
    database: str, tmp_path: Path, second: CoordinatorProcess
) -> None:
    """It falls asleep with a transaction open, whose rows the other one needs."""
    asleep = tmp_path / "asleep"
    # Of so many both have some.
    ids = [f"s{number}" for number in range(10)]
    with (
        CoordinatorProcess(database, tmp_path, main="tests.e2e.sleeper_main", SLEEPER=str(asleep)) as sleeper,
        second.client() as client,
    ):
        process = sleeper.process
        assert process is not None

        def go_on(count: int) -> None:
            before = {id: fates(client, id).total() for id in ids}
            eventually(lambda: all(fates(client, id).total() >= before[id] + count for id in ids), within_s=45)

        for id in ids:
            create(client, id, overlap_policy=pb.OverlapPolicy(mode=pb.OVERLAP_MODE_ALLOW, limit=1_000))
        create(client, "ahead")
        eventually(lambda: len(owned(database)) == 2)
        go_on(2)
        try:
            asleep.touch()
            eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
            go_on(8)
        finally:
            asleep.unlink()
            process.signal(signal.SIGCONT)
        go_on(4)
        for id in (*ids, "ahead"):
            assert without_gap(occurrences(client, id))
    check_ledger(database)


def live(client: Client) -> list[str]:
    return [job.name for job in client.iter_jobs() if job.state.name not in ("SUCCEEDED", "DEAD", "CANCELLED")]


@pytest.mark.parametrize("mode", ["SKIP", "BUFFER_ONE", "BUFFER_ALL"])
def test_never_two_live_although_the_worker_dies(
    coordinator: CoordinatorProcess, starts: Starts, tmp_path: Path, mode: str
) -> None:
    gate = tmp_path / "gate"
    with coordinator.client() as client:
        template = pb.JobTemplate(type="hold")
        template.payload.data = str(gate).encode()
        policy = pb.OverlapPolicy(mode=pb.OverlapMode.Value(f"OVERLAP_MODE_{mode}"))
        create(client, "s", job=template, overlap_policy=policy)
        worker = coordinator.worker(HANDLERS, str(starts.file), "10")
        eventually(starts.lines)
        worker.kill()
        before = len(starts.lines())
        assert len(live(client)) == 1
        worker = coordinator.worker(HANDLERS, str(starts.file), "10")
        try:
            eventually(lambda: len(starts.lines()) > before, within_s=30)
            assert {job for job, *_ in starts.lines()} == {starts.lines()[0][0]}
            assert len(live(client)) == 1
            gate.touch()
            eventually(lambda: len({job for job, *_ in starts.lines()}) >= 3, within_s=30)
        finally:
            worker.kill()
        found = fates(client, "s")
        assert found["SKIPPED_OVERLAP" if mode == "SKIP" else "FIRED"] >= 2
    check_ledger(coordinator.database)
