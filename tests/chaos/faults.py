"""What goes wrong: drawn from a seed, several faults at a time, each on something that no other has its hands on."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg

from tests.faults.answers import Rule
from tests.faults.tcp import BOTH, DOWN, UP, Link

from .plane import Kept, Plane, Store, tell

ACTORS = 3
"""Faults at the same time."""

LOSSES = tuple(
    Rule(method, lost=0.02, unavailable=0.03, repeated=0.03)
    for method in ("BatchCreateJobs", "CancelJob", "OpenSession", "Lease", "Complete", "SendHeartbeat")
)
"""All the time, on the ways of the clients and on one of the workers'."""

GAP_S = (0.2, 2.0)
DOWN_S = (0.0, 4.0)
PAUSE_S = (1.0, 20.0)
TERMINATED = 5
HELD_ROWS = 50


@dataclass(frozen=True, slots=True)
class Happened:
    """One fault, in seconds since 1970. `what` is killed, paused, partitioned or disturbed."""

    what: str
    kind: str
    whom: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Fault:
    what: str
    weight: int
    run: "Callable[[Actor], str | None]"
    """Answers with whom it hit; None when somebody else was at it."""


class Chaos:
    """Breaks a plane for the length of a block, at whose end nothing is broken any more."""

    def __init__(self, plane: Plane, seed: str, *, pause_most_s: float) -> None:
        self.happened: list[Happened] = []
        self.plane = plane
        self.pause_s = (PAUSE_S[0], min(PAUSE_S[1], pause_most_s))
        self.stop = threading.Event()
        self.failed: list[BaseException] = []
        self.answers: Counter[str] = Counter()
        """What became of answers on the way that loses some, known at the end."""

        self._diary = (plane.folder / "faults.jsonl").open("a", buffering=1)
        self._actors = [Actor(self, random.Random(f"{seed}/actor/{number}")) for number in range(ACTORS)]

    def __enter__(self) -> "Chaos":
        self.plane.lose_answers(*LOSSES)
        for actor in self._actors:
            actor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for actor in self._actors:
            actor.join()
        for proxy in self.plane.lossy:
            self.answers += proxy.counts()
        self._diary.close()
        self.plane.heal()

    def count(self) -> Counter[str]:
        """By what happened, and by `what kind`."""
        counts = Counter(each.what for each in self.happened)
        counts.update(f"{each.what} {each.kind}" for each in self.happened)
        for what, count in self.answers.items():
            _, _, fate = what.partition(" ")
            if fate != "forwarded":
                counts["answers"] += count
                counts[f"answers {fate}"] += count
        return counts

    def note(self, happened: Happened) -> None:
        self.happened.append(happened)
        self._diary.write(
            tell(
                what=happened.what,
                kind=happened.kind,
                whom=happened.whom,
                took_s=round(happened.ended - happened.began, 3),
            )
            + "\n"
        )


class Actor(threading.Thread):
    """One hand that breaks things, one after the other."""

    def __init__(self, chaos: Chaos, rng: random.Random) -> None:
        super().__init__(name="actor", daemon=True)
        self.chaos = chaos
        self.plane = chaos.plane
        self.rng = rng

    def run(self) -> None:
        names, faults = list(FAULTS), list(FAULTS.values())
        weights = [fault.weight for fault in faults]
        try:
            while not self.chaos.stop.wait(self.rng.uniform(*GAP_S)):
                (index,) = self.rng.choices(range(len(faults)), weights)
                began = time.time()
                whom = faults[index].run(self)
                if whom is not None:
                    self.chaos.note(Happened(faults[index].what, names[index], whom, began, time.time()))
        except BaseException as error:
            self.chaos.failed.append(error)

    def some_time(self) -> float:
        """How long to be paused or cut off: rather short, at times beyond every TTL."""
        low, high = self.chaos.pause_s
        return low + (high - low) * self.rng.betavariate(1.0, 1.6)

    def wait(self, seconds: float) -> None:
        """Less when it is all over."""
        self.chaos.stop.wait(seconds)

    def a_worker(self) -> Kept:
        return self.rng.choice(self.plane.workers).kept

    def a_coordinator(self) -> Kept:
        return self.rng.choice(self.plane.coordinators).kept


@contextmanager
def mine(guard: threading.Lock) -> Iterator[bool]:
    """Whether nobody else has it, for the length of the block."""
    taken = guard.acquire(blocking=False)
    try:
        yield taken
    finally:
        if taken:
            guard.release()


def end(pick: Callable[[Actor], Kept], number: signal.Signals) -> Callable[[Actor], str | None]:
    """Killed, or asked to leave, and started again a moment later."""

    def run(actor: Actor) -> str | None:
        kept, down_s = pick(actor), actor.rng.uniform(*DOWN_S)
        with mine(kept.guard) as free:
            if not free or not kept.ready.is_set():
                return None
            whom = f"{kept.name}-{kept.started}"
            kept.signal(number, down_s)
            actor.wait(down_s)
            return whom

    return run


def pause(pick: Callable[[Actor], Kept]) -> Callable[[Actor], str | None]:
    def run(actor: Actor) -> str | None:
        kept, span_s = pick(actor), actor.some_time()
        with mine(kept.guard) as free:
            if not free or not kept.ready.is_set():
                return None
            whom = f"{kept.name}-{kept.started}"
            kept.signal(signal.SIGSTOP)
            try:
                actor.wait(span_s)
            finally:
                kept.signal(signal.SIGCONT)
            return whom

    return run


def kill_store(pick: Callable[[Plane], Store]) -> Callable[[Actor], str | None]:
    def run(actor: Actor) -> str | None:
        store, down_s = pick(actor.plane), actor.rng.uniform(*DOWN_S)
        with mine(store.guard) as free:
            if not free:
                return None
            store.kill()
            try:
                actor.wait(down_s)
            finally:
                store.start()
            return store.name

    return run


def pause_store(pick: Callable[[Plane], Store]) -> Callable[[Actor], str | None]:
    def run(actor: Actor) -> str | None:
        store, span_s = pick(actor.plane), actor.some_time()
        with mine(store.guard) as free:
            if not free:
                return None
            store.signal(signal.SIGSTOP)
            try:
                actor.wait(span_s)
            finally:
                store.signal(signal.SIGCONT)
            return store.name

    return run


def cut(pick: Callable[[Actor], Link]) -> Callable[[Actor], str | None]:
    """A way that goes silent in one direction or both, breaks, crawls, or refuses, for a while."""

    def run(actor: Actor) -> str | None:
        rng, link, span_s = actor.rng, pick(actor), actor.some_time()
        how = rng.choice(("both", "both", UP, DOWN, "refuse", "reset", "crawl", "break"))
        if how in (UP, DOWN):
            link.silence(how)
        elif how == "both":
            link.silence(*BOTH)
        elif how == "refuse":
            link.refuse()
        elif how == "reset":
            link.reset()
            span_s = 0.1
        elif how == "crawl":
            link.delay(rng.uniform(0.05, 0.5))
        else:
            link.cut_after(rng.randint(1, 4_000))
        actor.wait(span_s)
        link.heal()
        return f"{how} to {link.upstream}"

    return run


def isolate(actor: Actor) -> str | None:
    """A coordinator that nobody reaches: no worker, no client, no peer, but the database."""
    number, span_s = actor.rng.randrange(len(actor.plane.coordinators)), actor.some_time()
    coordinator = actor.plane.coordinators[number]
    ways = [coordinator.peers, actor.plane.links[number], *(worker.links[number] for worker in actor.plane.workers)]
    for link in ways:
        link.silence()
    actor.wait(span_s)
    for link in ways:
        link.heal()
    return coordinator.name


def terminate_backends(actor: Actor) -> str | None:
    with suppress(psycopg.Error), psycopg.connect(actor.plane.url, connect_timeout=2) as conn:
        found = conn.execute(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity "
            "WHERE application_name LIKE 'rota%%' ORDER BY random() LIMIT %s) a",
            [actor.rng.randint(1, TERMINATED)],
        ).fetchall()
        return f"{len(found)} backends"
    return None


def hold_rows(table: str, order: str) -> Callable[[Actor], str | None]:
    """A stranger's transaction that holds row locks and does nothing."""

    def run(actor: Actor) -> str | None:
        span_s = min(actor.some_time(), 8.0)
        with suppress(psycopg.Error), psycopg.connect(actor.plane.url, connect_timeout=2) as conn:
            rows = conn.execute(
                f"SELECT 1 FROM {table} ORDER BY {order} LIMIT %s FOR UPDATE SKIP LOCKED",
                [actor.rng.randint(1, HELD_ROWS)],
            ).fetchall()
            actor.wait(span_s)
            conn.rollback()
            return f"{len(rows)} rows of {table}"
        return None

    return run


def of_coordinators(way: str) -> Callable[[Actor], Link]:
    def pick(actor: Actor) -> Link:
        link: Link = getattr(actor.rng.choice(actor.plane.coordinators), way)
        return link

    return pick


def of_a_worker(actor: Actor) -> Link:
    return actor.rng.choice(actor.rng.choice(actor.plane.workers).links)


def of_the_clients(actor: Actor) -> Link:
    return actor.rng.choice(actor.plane.links)


def the_store(plane: Plane) -> Store:
    return plane.store


def the_target(plane: Plane) -> Store:
    return plane.target


FAULTS: Mapping[str, Fault] = {
    "worker": Fault("killed", 10, end(Actor.a_worker, signal.SIGKILL)),
    "coordinator": Fault("killed", 8, end(Actor.a_coordinator, signal.SIGKILL)),
    "store": Fault("killed", 4, kill_store(the_store)),
    "target": Fault("killed", 3, kill_store(the_target)),
    "worker leaves": Fault("stopped", 3, end(Actor.a_worker, signal.SIGTERM)),
    "coordinator leaves": Fault("stopped", 3, end(Actor.a_coordinator, signal.SIGTERM)),
    "pause of a worker": Fault("paused", 8, pause(Actor.a_worker)),
    "pause of a coordinator": Fault("paused", 8, pause(Actor.a_coordinator)),
    "pause of the store": Fault("paused", 3, pause_store(the_store)),
    "pause of the target": Fault("paused", 2, pause_store(the_target)),
    "worker and coordinator": Fault("partitioned", 10, cut(of_a_worker)),
    "client and coordinator": Fault("partitioned", 4, cut(of_the_clients)),
    "coordinator and database": Fault("partitioned", 6, cut(of_coordinators("database"))),
    "coordinator and peers": Fault("partitioned", 6, cut(of_coordinators("peers"))),
    "coordinator alone": Fault("partitioned", 4, isolate),
    "backends": Fault("disturbed", 5, terminate_backends),
    "job rows held": Fault("disturbed", 3, hold_rows("jobs", "due_at")),
    "session rows held": Fault("disturbed", 2, hold_rows("sessions", "id")),
}
