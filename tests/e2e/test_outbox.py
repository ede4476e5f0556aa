"""Transactional enqueue with real processes: an application, relays, a coordinator, and kill -9 for each."""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import run

import psycopg
import pytest
from psycopg.types.json import Jsonb
from rota_sdk import AlreadyExists, Dedupe, DedupeConflict, DedupeScope, JobState

from rota import bootstrap
from rota.outbox import install, operate
from rota.outbox.database import Place
from rota.store.embedded import EmbeddedPostgres

from ..harness import CoordinatorProcess, Process, clean_environment, eventually
from ..outbox.world import SCHEMA, App, enqueue
from .test_pgbouncer import FOUND as POOLER
from .test_pgbouncer import PgBouncer

ROTA = [sys.executable, "-m", "rota"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "outbox.py"


@pytest.fixture
def app(empty_database: str) -> App:
    """The application has a database of its own."""
    app = App(empty_database)
    app.run(f"create schema {SCHEMA}")
    install.install(app.place)
    return app


class Relays:
    """Relay processes of one application and one coordinator."""

    def __init__(self, app: App, coordinator: CoordinatorProcess, folder: Path) -> None:
        self._env = clean_environment() | {
            "ROTA_ADDRESS": coordinator.address,
            "ROTA_API_KEY": coordinator.key,
            "ROTA_OUTBOX_URL": app.url,
            "ROTA_OUTBOX_SCHEMA": SCHEMA,
        }
        self._folder = folder
        self.alive: list[Process] = []

    def start(self, **environment: str) -> Process:
        log = self._folder / f"relay-{time.monotonic_ns()}.log"
        relay = Process([*ROTA, "outbox", "relay"], self._env | environment, log)
        self.alive.append(relay)
        return relay

    def kill(self, relay: Process) -> None:
        self.alive.remove(relay)
        relay.kill()


@pytest.fixture
def relays(app: App, coordinator: CoordinatorProcess, tmp_path: Path) -> Iterator[Relays]:
    made = Relays(app, coordinator, tmp_path)
    yield made
    for relay in list(made.alive):
        made.kill(relay)


def payloads(database: str) -> Counter[str]:
    with psycopg.connect(database) as conn:
        return Counter(text for (text,) in conn.execute("select convert_from(payload, 'UTF8') from jobs").fetchall())


def test_a_job_is_all_that_was_asked_for(app: App, coordinator: CoordinatorProcess, relays: Relays) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    due = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    with app.connect() as conn:
        enqueue(conn, "never")
        conn.rollback()
        enqueue(conn, "small")
        enqueue(
            conn,
            "full",
            payload=Jsonb({"ö": [1, None]}),
            queue="mail",
            run_time=due,
            priority=7,
            max_attempts=3,
            run_timeout=timedelta(minutes=2),
            start_by=timedelta(hours=1),
            total_timeout=timedelta(days=1.5),
            headers=Jsonb({"a": "b"}),
            labels=Jsonb({"order": "17"}),
            ordering_key="k",
            concurrency_key="c",
            effect_key="e",
            dedupe_key="d",
            dedupe_window=timedelta(days=1),
            dedupe_scope="tenant",
            on_conflict="fail",
            request_id="r",
            traceparent=trace,
        )
        enqueue(conn, "bytes", payload_bytes=b"\0\xff", content_type="image/x", delay=timedelta(hours=1))
    relay = relays.start()
    eventually(lambda: app.count == 0)
    assert relay.terminate() == 0
    assert "3 jobs created, 0 rows parked" in relay.output
    with coordinator.client() as client:
        jobs = {job.type: client.get_job(job.name) for job in client.iter_jobs()}
        with pytest.raises(AlreadyExists, match="RESOURCE_EXISTS"):
            client.create_job("x", dedupe=Dedupe("d", DedupeScope.TENANT, on_conflict=DedupeConflict.FAIL))
        with pytest.raises(AlreadyExists, match="REQUEST_ID_REUSED"):
            client.create_job("x", request_id="r")
    assert set(jobs) == {"small", "full", "bytes"}
    full, small, data = jobs["full"], jobs["small"], jobs["bytes"]
    assert (full.queue, full.priority, full.due_time, full.retry.max_attempts) == ("mail", 7, due, 3)
    assert (full.timeouts.run, full.timeouts.start_by, full.timeouts.total) == (120, 3_600, 129_600)
    assert (full.headers, full.labels) == ({"a": "b"}, {"order": "17"})
    assert (full.concurrency_key, full.effect_key, full.traceparent) == ("c", "e", trace)
    assert (full.payload.json(), full.payload.content_type) == ({"ö": [1, None]}, "application/json")
    assert (small.queue, small.priority, small.payload.data, small.state) == ("default", 4, b"", JobState.READY)
    assert (data.payload.data, data.payload.content_type, data.state) == (b"\0\xff", "image/x", JobState.SCHEDULED)


def test_what_rota_refuses_is_parked(app: App, coordinator: CoordinatorProcess, relays: Relays) -> None:
    """One of them refused by the server though the function took it: as with an older coordinator."""
    app.many(20)
    app.run("update rota_outbox set type = 'not a type' where seq = 7")
    for _ in range(2):
        app.enqueue("once", dedupe_key="d", on_conflict="fail", payload=Jsonb(99))
    relay = relays.start()
    # What is done goes before what is refused is parked.
    eventually(lambda: app.count == len(operate.parked(app.place, 10)) == 2)
    found = {row.seq: (row.reason, row.error) for row in operate.parked(app.place, 10)}
    assert {seq: reason for seq, (reason, _) in found.items()} in (
        {7: "VALIDATION_FAILED", 21: "RESOURCE_EXISTS"},
        {7: "VALIDATION_FAILED", 22: "RESOURCE_EXISTS"},
    )
    assert "job.type" in found[7][1]
    assert relay.terminate() == 0
    assert payloads(coordinator.database) == Counter(str(n) for n in (*range(1, 7), *range(8, 21), 99))


def test_kill_9_of_relays_and_coordinator_at_any_moment(
    app: App, coordinator: CoordinatorProcess, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every committed row becomes exactly one job, and those of a key in order."""
    chance = random.Random(int(os.environ.get("ROTA_TEST_SEED", "11")))
    count = 0
    for _ in range(2):
        relays.start()
    for turn in range(8):
        plain, keyed = chance.randint(1, 300), chance.randint(1, 8)
        app.run(
            "select rota_enqueue('t', to_jsonb(n)) from generate_series(%(a)s + 1, %(a)s + %(n)s) n", a=count, n=plain
        )
        count += plain
        app.run(
            "select rota_enqueue('k' || mod(n, 3), to_jsonb(n), ordering_key => 'k' || mod(n, 3)) "
            "from generate_series(%(a)s + 1, %(a)s + %(n)s) n",
            a=count,
            n=keyed,
        )
        count += keyed
        time.sleep(chance.uniform(0, 0.3))
        if turn % 4 == 3:
            coordinator.kill()
            coordinator.start()
        else:
            relays.kill(chance.choice(relays.alive))
            relays.start()
        # A dead relay's claims end after half a minute; as if it had passed.
        app.expire_claims()

    def all_published() -> bool:
        app.expire_claims()
        return app.count == 0

    eventually(all_published, within_s=60, every_s=1.0)
    assert payloads(coordinator.database) == Counter(str(n) for n in range(1, count + 1))
    assert operate.parked(app.place, 10) == []
    with psycopg.connect(coordinator.database) as conn:
        for key in range(3):
            in_order = "select convert_from(payload, 'UTF8')::int from jobs where type = %s order by created_at"
            found = [n for (n,) in conn.execute(in_order, [f"k{key}"]).fetchall()]
            assert found == sorted(found)
    for relay in relays.alive:
        assert relay.terminate() == 0


def test_claims_of_a_dead_relay_end_by_themselves(app: App, coordinator: CoordinatorProcess, relays: Relays) -> None:
    app.many(400)
    with psycopg.connect(coordinator.database) as lock:
        # Rota does not answer meanwhile, so that the relay dies with its rows claimed.
        lock.execute("LOCK TABLE jobs IN EXCLUSIVE MODE")
        first = relays.start()
        eventually(lambda: app.run("select count(*) from rota_outbox where claimed_until > now()") != [(0,)])
        relays.kill(first)
    app.run("update rota_outbox set claimed_until = now() + interval '2 s' where claimed_until is not null")
    relays.start()
    eventually(lambda: app.count == 0)
    assert payloads(coordinator.database) == Counter(str(n) for n in range(1, 401))


def test_a_relay_outlives_its_coordinator_and_stops_at_a_signal(
    app: App, coordinator: CoordinatorProcess, relays: Relays
) -> None:
    relay = relays.start()
    app.many(10)
    eventually(lambda: app.count == 0)
    coordinator.kill()
    app.many(10)
    eventually(lambda: "Rota does not answer, rows wait" in relay.output)
    relay.signal(signal.SIGTERM)
    assert relay.popen.wait(20) == 0
    coordinator.start()
    relays.start()
    eventually(lambda: app.count == 0)
    assert payloads(coordinator.database) == Counter({str(n): 2 for n in range(1, 11)})


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"ROTA_OUTBOX_SCHEMA": "nowhere"}, "error: schema nowhere: expected in the database 127.0.0.1:"),
        ({"ROTA_OUTBOX_URL": "postgresql://127.0.0.1:1/x"}, "error: the application's database cannot be reached at"),
        ({"ROTA_API_KEY": "rota_wrong"}, "error: Rota does not take jobs with this key"),
    ],
)
def test_what_a_person_has_to_mend_ends_a_relay_with_one_line(
    app: App, relays: Relays, environment: dict[str, str], words: str
) -> None:
    app.many(1)
    relay = relays.start(**environment)
    assert relay.popen.wait(20) in (1, 3)
    errors = [line for line in relay.output.splitlines() if line.startswith(("error:", "Traceback"))]
    assert len(errors) == 1, relay.output
    assert words in errors[0]
    assert app.count == 1


def test_the_example(app: App, coordinator: CoordinatorProcess, relays: Relays) -> None:
    url = f"{app.url}?options=-csearch_path%3D{SCHEMA}"
    done = run(
        [sys.executable, str(EXAMPLE)],
        env=clean_environment() | {"ROTA_OUTBOX_URL": url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "order 1: lamp, to be shipped",
        "no order, and no job: chair: expected an amount, found 0",
        "order 3: table, to be shipped",
    ]
    relays.start()
    eventually(lambda: app.count == 0)
    with coordinator.client() as client:
        jobs = [client.get_job(job.name) for job in client.iter_jobs(labels={"order": "3"})]
        assert [(job.type, job.queue, job.payload.json()) for job in jobs] == [
            ("ship", "shipping", {"order": 3, "item": "table"})
        ]
        assert len(list(client.iter_jobs())) == 2
    assert len(app.run("select * from orders")) == 2


@pytest.mark.skipif(POOLER is None, reason="no pgbouncer here (Debian: apt-get install pgbouncer)")
def test_through_a_pooler_in_transaction_mode(app: App, coordinator: CoordinatorProcess, relays: Relays) -> None:
    folder = Path(tempfile.mkdtemp())
    pooler = PgBouncer(app.url, folder)
    try:
        pooler.start()
        assert install.install(Place(pooler.url, SCHEMA)).before == 1
        with psycopg.connect(pooler.url) as conn:
            for n in range(50):
                enqueue(conn, payload=Jsonb(n), ordering_key=f"k{n % 5}")
        pair = [relays.start(ROTA_OUTBOX_URL=pooler.url) for _ in range(2)]
        eventually(lambda: app.count == 0)
        assert payloads(coordinator.database) == Counter(str(n) for n in range(50))
        assert all("WARNING" not in relay.output for relay in pair)
    finally:
        pooler.kill()
        shutil.rmtree(folder)


def test_the_outbox_may_lie_in_rotas_own_database(
    database: str, postgres: EmbeddedPostgres, coordinator: CoordinatorProcess, relays: Relays
) -> None:
    place = Place(database, "public")
    install.install(place)
    assert bootstrap.schema_status(database).up_to_date
    with psycopg.connect(database) as conn:
        conn.execute("select rota_enqueue('greet')")
    relays.start(ROTA_OUTBOX_URL=database, ROTA_OUTBOX_SCHEMA="public")
    eventually(lambda: sum(payloads(database).values()) == 1)
