"""What goes wrong in a world, and how often: drawn from the seed, so that worlds differ in kind and not only in order.

`Plan` is the draw. `Faults` answers each party that asks it for trouble, and has none left once the world is calm.
"""

import random
from dataclasses import dataclass, replace
from enum import Enum

CHAOS_S = 24.0
"""Virtual seconds under faults; then they end, and everything must finish."""

LIVENESS_S = 60.0
"""By this long after the last fault. Twice a session's TTL, some retries and a run timeout are far less."""

WATCHED_S = 20.0
"""For so long after the last fault schedules go on, and are to be on time soon; then they end."""


DECIDED = {
    **dict.fromkeys(("claim", "succeed", "requeue", "expire", "acquire", "effect", "outcome"), 8.0),
    **dict.fromkeys(("fire", "fire_held"), 20.0),
    **dict.fromkeys(("finish", "bury", "set_cancelling", "give_up", "take_over", "transact"), 40.0),
}
"""Acts that follow a decision, and how much more often there is trouble just before them: the world moves on in
between. Those that are rare get more of it."""


class Kind(Enum):
    """What a world is for. The fewer kinds of fault it has, the stricter it is checked."""

    CALM = "no faults: coordinators are redeployed, workers move and leave in order"
    LOSSY = "messages are lost, late and doubled; everybody lives"
    OUTAGE = "the database, or every coordinator, is away for a while; nobody dies of it"
    RACE = "cancels, reports and timeouts of the same jobs meet, through two coordinators, over a store that stalls"
    STORM = "everything at once"


class Fate(Enum):
    """What becomes of one statement."""

    DONE = 1
    REFUSED = 2
    """Before it began."""
    ANSWER_LOST = 3
    """Committed, and the caller cannot know."""
    LATE = 4
    """The caller lost the connection, the server goes on and commits after that."""
    NEVER = 5
    """The caller lost the connection, and the statement with it."""


@dataclass(frozen=True, slots=True)
class Plan:
    kind: Kind
    coordinators: int
    workers: int
    stubborn: float
    """Share of workers that never stop by themselves, whatever TTL and directives say."""
    jobs: int
    store_slow: float
    store_stall: float
    store_refused: float
    store_unknown: float
    message_lost: float
    message_slow: float
    message_doubled: float
    link_breaks: float
    """Chance of each message between coordinators that their link breaks, and takes what is on its way along."""
    impatient: float
    """Chance that a poll is cancelled by its caller before its time."""
    pause: float
    """Chance of a pause at each place between a check and its act."""
    pause_max_s: float
    crashes: int
    worker_crashes: int
    drains: int
    worker_leaves: int
    moves: int
    """Times that some worker changes to another coordinator, as a load balancer or an old connection makes it."""
    outages: int
    outage_max_s: float
    clock_steps: int
    clock_step_max_s: float
    gathered: bool
    """In the end every worker talks to the same coordinator, and gets the jobs of all."""

    schedules: int = 0
    poisoned: int = 0
    """Schedules whose steps the database refuses."""
    slips: int = 0
    """Times that a hand in the database leaves a schedule for the sweeper to put right."""
    target_slow: float = 0.0
    """Chance that the target takes longer than its caller waits, and acts after all."""
    failovers: int = 0
    """The database is gone for a moment and comes back with another clock."""
    swizzles: int = 0
    """Some of all processes stop one after the other, and come back in another order."""
    chases: int = 0
    """One leaves in order, and the one that takes its shards dies meanwhile."""
    partitions: int = 0
    """One coordinator reaches the database and nobody else, or everybody but the database."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Plan":
        kind = rng.choices(list(Kind), (10, 15, 10, 20, 45))[0]
        storm, race = kind is Kind.STORM, kind is Kind.RACE

        def some(most: float, share: float = 0.7) -> float:
            """A rate; none at all in some storms, so that each fault is also seen alone."""
            return rng.uniform(0.0, most) if rng.random() < share else 0.0

        lossy = storm or race or kind is Kind.LOSSY
        plan = cls(
            kind=kind,
            coordinators=2 if race else rng.choice((1, 2, 2, 3)),
            workers=rng.randint(2, 4),
            stubborn={Kind.OUTAGE: 1.0, Kind.RACE: 0.5}.get(kind, some(0.6)),
            jobs=rng.randint(14, 30),
            store_slow=some(0.15) if storm else 0.0,
            store_stall=rng.uniform(0.005, 0.03) if race else (some(0.01) if storm else 0.0),
            store_refused=some(0.04) if storm else 0.0,
            store_unknown=some(0.04) if storm or race else 0.0,
            message_lost=some(0.15, 0.9) if lossy else 0.0,
            message_slow=some(0.3) if lossy else 0.0,
            message_doubled=some(0.1) if lossy else 0.0,
            link_breaks=some(0.04) if lossy else 0.0,
            impatient=some(0.12) if lossy else 0.0,
            pause=some(0.004) if storm else 0.0,
            pause_max_s=rng.choice((3.0, 8.0, 15.0)),
            crashes=rng.choice((0, 1, 1, 2, 3)) if storm else 0,
            worker_crashes=rng.choice((0, 1, 2, 3)) if storm else 0,
            drains=rng.choice((0, 1, 2)) if kind in (Kind.CALM, Kind.STORM) else 0,
            worker_leaves=rng.choice((0, 1, 2)) if kind in (Kind.CALM, Kind.STORM) else 0,
            # A receipt that is proven to another coordinator than gave the lease is told to the owner, and not to the
            # one that waits for it: so a move may waste an attempt, which is too much for a calm world.
            moves=rng.choice((0, 4, 12)) if kind not in (Kind.CALM, Kind.OUTAGE) else 0,
            outages=1 if kind is Kind.OUTAGE else (rng.choice((0, 0, 1)) if storm else 0),
            outage_max_s=14.0 if kind is Kind.OUTAGE else 5.0,
            clock_steps=rng.choice((0, 0, 2, 6)) if storm else (rng.choice((0, 8)) if race else 0),
            clock_step_max_s=rng.choice((0.3, 3.0, 6.0, 6.0)),
            gathered=rng.random() < 0.5,
        )
        return plan._with_more(rng, storm)

    def _with_more(self, rng: random.Random, storm: bool) -> "Plan":
        schedules = rng.choice((0, 1, 2, 3))
        return replace(
            self,
            schedules=schedules,
            poisoned=int(schedules > 1 and rng.random() < 0.25),
            slips=rng.choice((0, 1, 2, 6)) if schedules else 0,
            target_slow=rng.choice((0.0, 0.1, 0.3)) if storm or self.kind is Kind.LOSSY else 0.0,
            failovers=rng.choice((0, 0, 1, 2)) if storm else 0,
            swizzles=rng.choice((0, 0, 1)) if storm else 0,
            chases=rng.choice((0, 0, 1)) if storm else 0,
            partitions=rng.choice((0, 0, 1, 2)) if storm else 0,
        )


class Faults:
    """Trouble for whoever asks. Each party has a stream of chance of its own."""

    def __init__(self, plan: Plan, seed: str) -> None:
        self._plan = plan
        self._store = random.Random(f"store/{seed}")
        self._wire = random.Random(f"wire/{seed}")
        self._links = random.Random(f"links/{seed}")
        self._pauses = random.Random(f"pauses/{seed}")
        self._target = random.Random(f"target/{seed}")
        self.on = True
        self.database_down = False
        self.without_database: set[str] = set()
        """Processes that do not reach it."""
        self.unreachable: set[str] = set()
        """Coordinators by name, whom nobody reaches and who reach nobody but the database."""

    def calm(self) -> None:
        """The end of all faults."""
        self.on = False
        self.database_down = False
        self.without_database.clear()
        self.unreachable.clear()

    def fate(self, statement: str, write: bool) -> Fate:
        rng, plan = self._store, self._plan
        if not self.on:
            return Fate.DONE
        drawn = rng.random()
        if drawn < plan.store_refused:
            return Fate.REFUSED
        if drawn < plan.store_refused + plan.store_unknown * min(DECIDED.get(statement, 1.0), 3.0):
            return rng.choice((Fate.ANSWER_LOST, Fate.ANSWER_LOST, Fate.LATE, Fate.NEVER)) if write else Fate.NEVER
        return Fate.DONE

    def patience_s(self, most_s: float) -> float | None:
        """How long a caller waits for an answer to its poll; None: as long as it said."""
        if self.on and self._wire.random() < self._plan.impatient:
            return self._wire.uniform(0.0, most_s)
        return None

    def store_latency_s(self, statement: str = "") -> float:
        """One way, and what the statement waits for: a lock, a slow disk."""
        rng = self._store
        if self.on and rng.random() < self._plan.store_stall * DECIDED.get(statement, 1.0):
            return rng.uniform(0.1, rng.choice((1.0, 5.0)))
        if self.on and rng.random() < self._plan.store_slow:
            return rng.uniform(0.02, 0.3)
        return rng.uniform(0.0005, 0.004)

    def late_s(self) -> float:
        """How long after its caller gave up a statement commits."""
        return self._store.uniform(0.01, 3.0)

    def deliveries(self) -> list[float]:
        """When the copies of a message arrive: none, one or two, in seconds from now."""
        rng, plan = self._wire, self._plan
        if not self.on:
            return [rng.uniform(0.001, 0.004)]
        if rng.random() < plan.message_lost:
            return []
        copies = 2 if rng.random() < plan.message_doubled else 1
        return [self._delay_s() for _ in range(copies)]

    def answer_delay_s(self) -> float | None:
        """When an answer arrives; None: never."""
        if self.on and self._wire.random() < self._plan.message_lost:
            return None
        return self._delay_s()

    def link_delay_s(self, *ends: str) -> float | None:
        """When a message between these coordinators arrives; None: the link breaks."""
        rng, plan = self._links, self._plan
        if not self.unreachable.isdisjoint(ends):
            return None
        if self.on and rng.random() < plan.link_breaks:
            return None
        if self.on and rng.random() < plan.message_slow:
            return rng.uniform(0.05, 0.8)
        return rng.uniform(0.0003, 0.003)

    def pause_s(self, before: str) -> float:
        """How long a process stops at this very place; mostly 0."""
        chance = self._plan.pause * min(DECIDED.get(before, 1.0), 8.0)
        if not self.on or chance == 0.0 or self._pauses.random() >= chance:
            return 0.0
        return self._pauses.uniform(0.5, self._plan.pause_max_s)

    def target_takes_s(self) -> float:
        if self.on and self._target.random() < self._plan.target_slow:
            return self._target.uniform(0.3, 2.5)
        return 0.0

    def _delay_s(self) -> float:
        rng = self._wire
        if self.on and rng.random() < self._plan.message_slow:
            return rng.uniform(0.05, 1.5)
        return rng.uniform(0.001, 0.02)
