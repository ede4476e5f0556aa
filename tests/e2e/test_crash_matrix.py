"""Who dies, times where in its life each job is at that moment, times one coordinator or two.

Jobs are brought to every step at once, one that succeeds and one whose first attempt fails, then the victim dies, and
all of them must come to the same end. Nothing is reached by waiting a while: handlers wait for files, and a link to the
coordinator that falls silent keeps an answer on its way.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from rota_sdk import AttemptOutcome, Client, Job
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota import bootstrap
from rota.domain.model import JobState
from rota.store.embedded import EmbeddedPostgres

from ..faults.tcp import DOWN, Link, Network
from ..harness import CoordinatorProcess, Process, eventually
from .payments import Payments, finished, order, proven
from .test_schedules import check_ledger, fates

# An answer that is on its way stays there: nobody gives it up before the victim dies.
SETTINGS = {"ROTA_SESSION_TTL": "6s", "ROTA_DELIVERY_TTL": "20s"}
FIRES = 8
LOST, SUCCEEDED = AttemptOutcome.LEASE_LOST, AttemptOutcome.SUCCEEDED


@dataclass
class Scene:
    """A control plane with jobs at every step."""

    plane: list[CoordinatorProcess]
    postgres: EmbeddedPostgres
    payments: Payments
    network: Network
    folder: Path
    stack: ExitStack
    steps: dict[str, list[Job]] = field(default_factory=dict)
    workers: dict[str, Process] = field(default_factory=dict)
    links: dict[str, list[Link]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.database = self.postgres.url
        self.open, self.effect_open = self.folder / "open", self.folder / "effect-open"
        """What handlers wait for before their effect, and after it."""

    def work_on(self, queue: str) -> None:
        """A worker, and its own ways to the coordinators."""
        links = self.links.setdefault(queue, [self.network.link(each.address) for each in self.plane])
        address = "ipv4:" + ",".join(link.address for link in links)
        worker = self.workers[queue] = self.payments.worker(self.plane[0], 20, address, queue)
        self.stack.callback(worker.kill)

    def bring(self, client: Client, step: str, *queues: str, **gates: Path) -> None:
        """One queue for both jobs, or one each."""
        kinds = zip(("pay", "stumble"), queues * 2, strict=False)
        self.steps[step] = [order(client, queue=queue, kind=kind, **gates) for kind, queue in kinds]

    def reached(self, step: str, what: str) -> bool:
        return all(self.payments.count(what, job.id) == 1 for job in self.steps[step])

    def attempted(self, step: str) -> list[int]:
        """In the order of the jobs: how many attempts of each are over that are not its last."""
        with psycopg.connect(self.database) as conn:
            rows = conn.execute("SELECT job_id::text, count(*) FROM attempts GROUP BY 1").fetchall()
        found = dict(rows)
        return [found.get(job.id, 0) for job in self.steps[step]]

    def states(self, step: str) -> list[int]:
        """In the order of the jobs; of one that has ended, 0."""
        with psycopg.connect(self.database) as conn:
            found = dict(conn.execute("SELECT id::text, state FROM jobs").fetchall())
        return [found.get(job.id, 0) for job in self.steps[step]]

    def prepare(self) -> None:
        """Every step is reached when this returns."""
        with self.plane[0].client() as client:
            # One outcome a worker: a second one would wait for the answer to the first.
            completed = ("completed-1", "completed-2")
            for queue in ("default", "claimed", *completed):
                self.work_on(queue)
            eventually(lambda: len(client.list_sessions()) == 4, within_s=40)
            warm = [order(client, queue=queue) for queue in self.workers]
            for job in warm:
                client.wait_job(job.name, timeout=20)

            self.bring(client, "created", "later")
            self.schedule(client)
            self.bring(client, "running", "default", before=self.open)
            self.bring(client, "effect committed", "default", after=self.effect_open)
            self.bring(client, "completed", *completed, after=self.folder / "completed")
            eventually(lambda: self.reached("running", "started") and self.reached("completed", "paid"))
            eventually(lambda: self.reached("effect committed", "paid"))
            eventually(lambda: proven(self.database))

            for link in chain(*(self.links[queue] for queue in completed)):
                link.silence(DOWN)
            (self.folder / "completed").touch()
            eventually(lambda: self.states("completed")[0] == 0 and self.attempted("completed") == [0, 1])
            for link in self.links["claimed"]:
                link.silence(DOWN)
            self.bring(client, "claimed", "claimed")
            eventually(lambda: JobState.LEASED in self.states("claimed"))
            assert self.payments.count("started", self.steps["claimed"][0].id) == 0
            self.bring(client, "delivered", "default", before=self.open)
            eventually(lambda: self.reached("delivered", "started"))

    def schedule(self, client: Client) -> None:
        """Its jobs are made ahead of their time."""
        rule = pb.IntervalRule(every=Duration(seconds=1))
        schedule = pb.Schedule(interval=rule, max_count=FIRES)
        schedule.job.type, schedule.job.queue, schedule.job.payload.data = "pay", "later", b"{}"
        client.stubs.schedules.CreateSchedule(pb.CreateScheduleRequest(schedule=schedule, schedule_id="every"))
        eventually(lambda: len(self.made()) == FIRES)

    def made(self) -> set[str]:
        with psycopg.connect(self.database) as conn:
            rows = conn.execute(
                "SELECT id::text FROM jobs WHERE schedule_id = 'every' UNION ALL "
                "SELECT id::text FROM finished_jobs WHERE schedule_id = 'every'"
            ).fetchall()
        return {job for (job,) in rows}

    def heal(self) -> None:
        for link in chain(*self.links.values()):
            link.heal()
        self.open.touch()
        self.effect_open.touch()
        for queue, worker in list(self.workers.items()):
            if worker.popen.poll() is not None:
                self.work_on(queue)
        self.work_on("later")

    def check(self, living: CoordinatorProcess, lost: set[str]) -> None:
        """`lost`: the steps of jobs whose attempt nobody can have ended but the reaper."""
        jobs = {job.id for step in self.steps.values() for job in step} | self.made()
        eventually(lambda: finished(self.database, jobs) == len(jobs), within_s=60)
        with living.client() as client:
            for step, (plain, stumbling) in self.steps.items():
                outcomes = [attempt.outcome for attempt in client.list_attempts(plain.name)]
                again = client.list_attempts(stumbling.name)
                if step in lost:
                    assert outcomes == [LOST, SUCCEEDED], step
                elif step in ("created", "completed"):
                    assert outcomes == [SUCCEEDED], step
                else:
                    # Whether it was in time is the machine's matter.
                    assert outcomes[-1] is SUCCEEDED, step
                    assert len(outcomes) <= 3, (step, outcomes)
                assert 2 <= len(again) <= 4, step
                assert again[-1].outcome is SUCCEEDED, step
            assert fates(client, "every") == {"FIRED": FIRES}
        assert len(self.made()) == FIRES
        self.payments.check(self.database, jobs)
        check_ledger(self.database)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """One that may be killed."""
    folder = tmp_path_factory.mktemp("postgres")
    with EmbeddedPostgres(folder / "server" / "data", settings={"fsync": "off", "max_connections": "200"}) as server:
        yield server


@pytest.fixture(params=[1, 2], ids=["one coordinator", "two coordinators"])
def scene(
    request: pytest.FixtureRequest, server: EmbeddedPostgres, empty_database: str, tmp_path: Path
) -> Iterator[Scene]:
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    bootstrap.migrate(server.url)
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        plane = []
        for number in range(request.param):
            (folder := tmp_path / f"coordinator-{number}").mkdir()
            plane.append(stack.enter_context(CoordinatorProcess(server.url, folder, **SETTINGS)))
        scene = Scene(plane, server, Payments(empty_database, tmp_path), network, tmp_path, stack)
        scene.prepare()
        yield scene


def kill_the_workers(scene: Scene) -> CoordinatorProcess:
    for worker in scene.workers.values():
        worker.kill()
    return scene.plane[0]


def kill_a_coordinator(scene: Scene) -> CoordinatorProcess:
    """The one that all talk to. With two, it stays away."""
    scene.plane[0].kill()
    if len(scene.plane) == 1:
        scene.plane[0].start()
    return scene.plane[-1]


def kill_postgresql(scene: Scene) -> CoordinatorProcess:
    scene.postgres.kill()
    scene.postgres.start()
    return scene.plane[0]


def cut_the_network(scene: Scene) -> CoordinatorProcess:
    """The proxy between workers and coordinators dies, and with it all connections."""
    for link in chain(*scene.links.values()):
        link.refuse()
    return scene.plane[0]


RUNNING = {"delivered", "running", "effect committed"}


@pytest.mark.parametrize(
    ("strike", "lost"),
    [
        (kill_the_workers, RUNNING),
        (kill_a_coordinator, set()),
        (kill_postgresql, set()),
        (cut_the_network, set()),
    ],
    ids=["worker", "coordinator", "postgresql", "proxy"],
)
def test_every_step_survives(scene: Scene, strike: Callable[[Scene], CoordinatorProcess], lost: set[str]) -> None:
    living = strike(scene)
    scene.heal()
    scene.check(living, lost)
