"""What must always hold, whatever breaks: the catalogue. Who looks is `service/invariants.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rota.domain.errors import InvalidArgument
from rota.domain.ids import TenantId

GRACE_S: Final = 60.0
"""What a living coordinator does within seconds is undone work after so long."""

STEP_GRACE_S: Final = 300.0
"""The same of steps of schedules, which may come in an hour's burst, and of watermarks."""

JANITOR_GRACE_S: Final = 3_600.0
"""The same of what the janitor forgets, some times an hour."""

IN_DOUBT_MAX_S: Final = 7 * 86_400.0
"""An effect that is in doubt for longer waits for nobody."""


_NO_TENANT: Final = TenantId(0)


class Walk(Enum):
    """A way through rows in bounded slices; each looks after several invariants at a time."""

    SHARDS = "shards"
    DUE = "due"
    JOBS = "jobs"
    DEAD = "dead"
    ATTEMPTS = "attempts"
    REQUESTS = "requests"
    DEDUPE = "dedupe"
    TIMERS = "timers"
    LEDGERS = "ledgers"
    EFFECTS = "effects"


@dataclass(frozen=True, slots=True)
class Invariant:
    """`repair` says how what breaks it is put right; empty: by people, for whom `remedy` is."""

    name: str
    holds: str
    walks: tuple[Walk, ...]
    repair: str = ""
    remedy: str = "please report this with the ids and the coordinators' logs"


@dataclass(frozen=True, slots=True)
class Violation:
    """`name` is the resource, `found` what is wrong with it. The rest addresses it: the `id` of a job or schedule, and
    as `number` a job's fence, or a request's method."""

    invariant: str
    name: str
    found: str
    tenant_id: TenantId = _NO_TENANT
    id: str = ""
    number: int = 0


ONE_OWNER: Final = "one_owner_per_shard"
PROGRESS: Final = "shard_makes_progress"
REACHABLE: Final = "due_job_is_reachable"
LIVE_SESSION: Final = "leased_job_has_live_session"
SESSION_CLOSED: Final = "dead_session_is_closed"
RUN_TIMEOUT: Final = "run_timeout_ends_attempt"
START_BY: Final = "late_job_is_ended"
COUNTED: Final = "limited_lease_is_counted"
ONE_TABLE: Final = "job_in_one_table"
ORPHAN_JOB: Final = "job_has_its_schedule"
ORPHAN_ATTEMPT: Final = "attempt_has_its_job"
REQUEST_JOBS: Final = "request_has_its_jobs"
REQUEST_LIFE: Final = "old_request_is_forgotten"
DEDUPE_HOLD: Final = "dedupe_hold_has_its_job"
ARMED: Final = "active_schedule_is_armed"
STEPPED: Final = "armed_schedule_is_stepped"
FATES: Final = "fates_sum"
IN_DOUBT: Final = "effect_is_settled"

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        ONE_OWNER,
        "Each shard has one owner, and it lives, while any coordinator does.",
        (Walk.SHARDS,),
        remedy="see the logs of those in: rota coordinator list",
    ),
    Invariant(
        PROGRESS,
        "The watermark of a shard follows its oldest live job, or the clock where none is due.",
        (Walk.SHARDS,),
        remedy="its owner does not look at it: see its log, and restart it; the owner is in: rota shard list",
    ),
    Invariant(
        REACHABLE,
        "No live job lies before its shard's watermark, where nobody would look for it.",
        (Walk.DUE,),
        "the watermark is set back",
    ),
    Invariant(
        LIVE_SESSION,
        "A leased job has a live session.",
        (Walk.DUE,),
        "the lease is ended as LEASE_LOST, and the retry policy decides",
    ),
    Invariant(
        SESSION_CLOSED,
        "A session without beats is closed soon after its TTL.",
        (Walk.SHARDS,),
        remedy="no coordinator looks after sessions: see the logs of those in: rota coordinator list",
    ),
    Invariant(
        RUN_TIMEOUT,
        "No attempt outlives its run timeout.",
        (Walk.DUE,),
        "the attempt is ended as TIMED_OUT, and the retry policy decides",
    ),
    Invariant(
        START_BY,
        "No job waits past its start_by or its total timeout.",
        (Walk.DUE,),
        "the job is ended as the timeout says",
    ),
    Invariant(COUNTED, "Each lease of a queue or tenant whose leases are limited is counted.", (Walk.DUE,)),
    Invariant(ONE_TABLE, "A job is live, or dead, or finished: in one place.", (Walk.JOBS, Walk.DEAD)),
    Invariant(
        ORPHAN_JOB,
        "A job that has not started belongs to a schedule that exists, if it came from one.",
        (Walk.JOBS,),
        "the job is cancelled",
    ),
    Invariant(ORPHAN_ATTEMPT, "An attempt of the last six days belongs to a job that is on record.", (Walk.ATTEMPTS,)),
    Invariant(
        REQUEST_JOBS,
        "The jobs that a request_id stands for are on record as long as it is.",
        (Walk.REQUESTS,),
    ),
    Invariant(
        REQUEST_LIFE,
        "A request_id is forgotten after its seven days.",
        (Walk.REQUESTS,),
        "it is forgotten",
    ),
    Invariant(
        DEDUPE_HOLD,
        "A dedupe key that is held while its job lives has a live job, or one that ended within the hour.",
        (Walk.DEDUPE,),
        "the key is let go",
    ),
    Invariant(
        ARMED,
        "An ACTIVE schedule has a next time to wait for.",
        (Walk.TIMERS,),
        "the schedule is armed, and its next step decides",
    ),
    Invariant(
        STEPPED,
        "A schedule whose time has come is stepped within minutes.",
        (Walk.TIMERS,),
        remedy="see why in the log of its shard's owner",
    ),
    Invariant(
        FATES,
        "The sum of a schedule's fates is the number of occurrences of its rule, by counts, rows and rule.",
        (Walk.LEDGERS,),
    ),
    Invariant(
        IN_DOUBT,
        "No effect is in doubt for more than seven days.",
        (Walk.EFFECTS,),
        remedy="decide about each: rota effect resolve",
    ),
)

NAMES: Final = tuple(invariant.name for invariant in INVARIANTS)
BY_NAME: Final = {invariant.name: invariant for invariant in INVARIANTS}


def named(names: Sequence[str]) -> list[Invariant]:
    """The invariants of these names, in the catalogue's order; all where none is named."""
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise InvalidArgument.field(
            "names", f"expected names of invariants ({', '.join(NAMES)}), found {unknown[0][:80]!r}"
        )
    return [invariant for invariant in INVARIANTS if not names or invariant.name in names]
