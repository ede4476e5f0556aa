"""What is broken on purpose: coordinators, workers, two PostgreSQL servers, and the network between them.

Each process is kept: whatever ends it, it is started again. What it listens at stays the same, so that it can be found.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil
import psycopg

from rota import bootstrap
from rota.domain.model import Role
from rota.store.embedded import EmbeddedPostgres
from tests.faults.answers import AnswerProxy, Rule
from tests.faults.tcp import Link, Network
from tests.harness import clean_environment

from .worker import TABLES

ROOT = Path(__file__).parents[2]

COORDINATORS = 3
WORKERS = 6
SLOTS = 8
QUEUES = ("default", "limited")

SETTINGS = {"ROTA_SESSION_TTL": "6s", "ROTA_DELIVERY_TTL": "2s", "ROTA_SHARD_TERM": "4s"}
"""Short, so that pauses and partitions of seconds go beyond them."""

START_S = 60.0
LEASH_GRACE_S = 5.0
AGAIN_S = 0.5
UNREACHABLE = 3
"""The exit code of a coordinator that could not reach the database when it was started."""

PORTS = range(12_000, 30_000)
"""Below those that the system gives to outgoing connections, which might take one while its owner is dead."""


def port(rng: random.Random) -> int:
    """One that nobody listens at."""
    while True:
        number = rng.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", number))
            return number


@dataclass(frozen=True, slots=True)
class Life:
    """One process, from its start to its end; in seconds since 1970. `asked` by us, or by itself."""

    name: str
    began: float
    ended: float
    code: int
    asked: bool


class Kept:
    """A program that is started again whenever it has ended. Each life has a name of its own, such as w3-2."""

    def __init__(
        self,
        name: str,
        command: Callable[[str], Sequence[str]],
        env: Mapping[str, str],
        folder: Path,
        ready: str,
    ) -> None:
        self.name = name
        self.guard = threading.Lock()
        """Taken by whoever does something to it."""

        self.lives: list[Life] = []
        self.started = 0
        self.ready = threading.Event()
        self._command = command
        self._env = {**clean_environment(), "PYTHONPATH": _python_path(), **env}
        self._folder = folder
        self._ready_word = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False
        self._not_before = 0.0
        self._leaving = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"keeper of {name}", daemon=True)
        self._keeper.start()

    def signal(self, number: signal.Signals, down_s: float = 0.0) -> None:
        """`down_s`: so long it stays away, if that ends it."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self._not_before = time.monotonic() + down_s
        self._asked = self._asked or number in (signal.SIGKILL, signal.SIGTERM)
        process.send_signal(number)

    def leave(self, within_s: float) -> None:
        """Ends it for good."""
        self._leaving.set()
        with suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self._keeper.join(within_s)
        if self._keeper.is_alive():
            self.signal(signal.SIGKILL)
            self._keeper.join()

    def _keep(self) -> None:
        while not self._leaving.is_set():
            self.started += 1
            life = f"{self.name}-{self.started}"
            self._asked = False
            began = time.time()
            with (self._folder / f"{life}.log").open("ab") as log:
                process = self._process = subprocess.Popen(
                    [sys.executable, "-m", "rota.cli.leash", str(LEASH_GRACE_S), *self._command(life)],
                    cwd=ROOT,
                    env=self._env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            assert process.stdout is not None and process.stdin is not None
            for line in process.stdout:
                if self._ready_word in line.decode():
                    self.ready.set()
            code = process.wait()
            process.stdout.close()
            process.stdin.close()
            self.ready.clear()
            self.lives.append(Life(life, began, time.time(), code, self._asked))
            self._leaving.wait(max(self._not_before - time.monotonic(), AGAIN_S))


class Coordinator:
    """`database` and `peers` are the ways to its database, and of the others to it."""

    def __init__(self, number: int, url: str, network: Network, folder: Path, rng: random.Random) -> None:
        self.name = f"c{number}"
        self.address = f"127.0.0.1:{port(rng)}"
        peer_listen = f"127.0.0.1:{port(rng)}"
        _, _, place = url.rpartition("@")
        address, _, _ = place.partition("/")
        self.database = network.link(address)
        self.peers = network.link(peer_listen)
        home = folder / self.name
        home.mkdir()
        env = {
            **SETTINGS,
            "ROTA_DATABASE_URL": url.replace(address, self.database.address),
            "ROTA_LISTEN": self.address,
            "ROTA_PEER_LISTEN": peer_listen,
            "ROTA_PEER_ADVERTISE": self.peers.address,
            "ROTA_HOME": str(home),
        }
        self.kept = Kept(self.name, lambda life: ["rota", "serve", "--json"], env, folder, "address")


class WorkerProgram:
    """A worker, and its ways to each coordinator; the first one is `lossy` for some."""

    def __init__(
        self,
        number: int,
        coordinators: Sequence[Coordinator],
        key: str,
        target: str,
        network: Network,
        folder: Path,
        lossy: str,
    ) -> None:
        self.name = f"w{number}"
        self.links = [network.link(each.address) for each in coordinators]
        addresses = [link.address for link in self.links]
        if number % len(self.links) == 0:
            addresses[0] = lossy

        def command(life: str) -> Sequence[str]:
            return ["tests.chaos.worker", life, ",".join(QUEUES), str(SLOTS), target, str(folder / f"starts-{life}")]

        env = {"ROTA_ADDRESS": target_of(addresses, number), "ROTA_API_KEY": key}
        self.kept = Kept(self.name, command, env, folder, "worker")


class Store:
    """A PostgreSQL server that can be killed, paused and started again, at one address."""

    def __init__(self, name: str, folder: Path, rng: random.Random) -> None:
        self.name = name
        self.guard = threading.Lock()
        self._server = EmbeddedPostgres(
            folder / name / "data", port=port(rng), settings={"max_connections": "250", "shared_buffers": "64MB"}
        )
        self.url = self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes."""
        pid = self._server.pid
        if pid is None:
            return
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(pid)
            for each in (server, *server.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    each.send_signal(number)


class Plane:
    """All of it, for the length of a block. `url`: the database, directly; `links`: the ways of the clients, through
    the proxies `lossy`."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self._rng = rng
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.network = stack.enter_context(Network())
            self.store = Store("store", self.folder, self._rng)
            stack.callback(self.store.stop)
            self.target = Store("target", self.folder, self._rng)
            stack.callback(self.target.stop)
            self.url = self.store.url
            bootstrap.migrate(self.url)
            with psycopg.connect(self.target.url) as conn:
                conn.execute(TABLES)
            self.key = bootstrap.create_key(
                self.url, tenant="default", label="chaos", roles=frozenset(Role), ttl_s=None
            )[0]
            self.coordinators: list[Coordinator] = []
            self.workers: list[WorkerProgram] = []
            stack.callback(self._leave)
            for number in range(COORDINATORS):
                self.coordinators.append(Coordinator(number, self.url, self.network, self.folder, self._rng))
            self.links = [self.network.link(each.address) for each in self.coordinators]
            log = self.folder / "answers.log"
            self.lossy = [stack.enter_context(AnswerProxy(link.address, log=log)) for link in self.links]
            for number in range(WORKERS):
                made = WorkerProgram(
                    number,
                    self.coordinators,
                    self.key,
                    self.target.url,
                    self.network,
                    self.folder,
                    self.lossy[0].address,
                )
                self.workers.append(made)
            for kept in self.kept:
                if not kept.ready.wait(START_S):
                    raise RuntimeError(f"{kept.name} was not ready within {START_S:g} s; see {self.folder}")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def kept(self) -> list[Kept]:
        return [*(each.kept for each in self.coordinators), *(each.kept for each in self.workers)]

    def all_links(self) -> list[Link]:
        links = [link for each in self.coordinators for link in (each.database, each.peers)]
        return [*links, *self.links, *(link for worker in self.workers for link in worker.links)]

    def heal(self) -> None:
        """Nothing is broken any more, once this returns and all are ready."""
        self.lose_answers()
        for link in self.all_links():
            link.heal()
        for store in (self.store, self.target):
            store.start()
        for kept in self.kept:
            kept.ready.wait(START_S)

    def lose_answers(self, *rules: Rule) -> None:
        """From now on, by these rules and no others."""
        for proxy in self.lossy:
            proxy.set(*rules)

    def client_target(self, first: int = 0) -> str:
        """All coordinators as one address, the `first` one first."""
        return target_of([proxy.address for proxy in self.lossy], first)

    def unwanted(self) -> list[Life]:
        """Those that ended by themselves and should not have."""
        return [
            life
            for kept in self.kept
            for life in kept.lives
            if not life.asked and not (life.name.startswith("c") and life.code == UNREACHABLE)
        ]

    def _leave(self) -> None:
        leaving = [threading.Thread(target=kept.leave, args=(20.0,)) for kept in self.kept]
        for each in leaving:
            each.start()
        for each in leaving:
            each.join()


def target_of(addresses: Sequence[str], first: int) -> str:
    """All of them as one address, the `first` one first."""
    turn = first % len(addresses)
    return "ipv4:" + ",".join([*addresses[turn:], *addresses[:turn]])


def _python_path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def tell(**what: object) -> str:
    """A line of the run's diary."""
    return json.dumps({"at": round(time.time(), 3), **what})
