"""The store as services and loops know it. Each operation is one transaction, with three outcomes: done, refused
(an error of the domain's tree), or unknown (`OutcomeUnknown`). The clock of all of them is the database's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rota.domain.fairness import Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId, ShardNo, TenantId
from rota.domain.limiting import LimitedGrants
from rota.domain.model import (
    ApiKey,
    Attempt,
    EffectReceipt,
    EffectState,
    Failure,
    Grant,
    Identity,
    Job,
    JobSpec,
    JobState,
    LiveJob,
    Outcome,
    Result,
    Role,
    Session,
    SessionState,
    ShardTerm,
    Tenant,
)
from rota.domain.transition import Decision


@dataclass(frozen=True, slots=True)
class CreateCall:
    """The jobs of one call, all or none. `request_id` empty: not repeatable."""

    specs: Sequence[JobSpec]
    tenant_id: TenantId
    method: int
    request_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Created:
    id: JobId
    due_us: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """What a request_id stands for already."""

    digest: bytes
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A wish to grant a due job to a session under a freshly minted fence."""

    entry: Entry
    fence: Fence
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class DueRow:
    """A live row of the due range. `leased_for_s` and `session_alive` say something of leased ones only."""

    entry: Entry
    state: JobState
    fence: Fence
    session_id: SessionId | None
    leased_for_s: float | None
    run_timeout_s: float
    session_alive: bool


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision about a live job, with what its ended attempt leaves behind. `outcome` None: it had none."""

    job: LiveJob
    decision: Decision
    outcome: Outcome | None
    failure: Failure | None = None
    request_id: str = ""
    effect_state: EffectState = EffectState.UNSPECIFIED
    effect_receipts: tuple[EffectReceipt, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """All that is known of one (job, fence), to say why an outcome was not taken."""

    live_fence: Fence | None
    live_state: JobState | None
    attempt_outcome: Outcome | None
    finished_fence: Fence | None
    finished_state: JobState | None
    finished_outcome: Outcome | None
    dead_fence: Fence | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Empty: any. `state` READY and SCHEDULED are told apart by the database's now."""

    queue: str = ""
    type: str = ""
    state: JobState | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Colleague:
    """A coordinator whose term has not run out. `peer_address` empty: it takes no calls of others."""

    id: CoordinatorId
    peer_address: str
    expires_in_s: float
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """Who lives, and which shard has which epoch and owner, the living and the dead."""

    living: tuple[Colleague, ...]
    shards: Mapping[ShardNo, tuple[int, CoordinatorId | None]]
    incarnation: str = ""
    """Which database answered: another one after a standby was promoted or a backup restored. Empty: not known."""


@dataclass(frozen=True, slots=True)
class BeatUpdate:
    session_id: SessionId
    free_slots: int


class JobStore(Protocol):
    async def create(self, calls: Sequence[CreateCall]) -> dict[JobId, Created]:
        """Creates the jobs of many calls at once. A call whose request_id is taken creates nothing and is missing
        from the answer; `earlier` says why. No two calls of one batch share a request_id; none has a dedupe key."""

    async def create_deduped(self, call: CreateCall) -> tuple[dict[JobId, Created], dict[int, JobId]] | None:
        """The same for one call with dedupe keys; also the holders of keys that are taken, by index of the spec.
        None: its request_id is taken. Raises AlreadyExists where a key asks for FAIL."""

    async def earlier(self, calls: Sequence[CreateCall]) -> dict[tuple[TenantId, int, str], EarlierRequest]:
        """What the request_ids of these calls stand for."""

    async def set_cancelling(self, tenant: TenantId, job: JobId, fence: Fence, reason: str) -> bool:
        """Marks a leased job as being cancelled, if it is leased under this fence still."""

    async def retry_now(self, tenant: TenantId, job: JobId) -> Entry | None:
        """Makes a job due that waits for its retry; None: it does not."""

    async def reschedule(self, tenant: TenantId, job: JobId, due: datetime) -> Entry | None:
        """Moves the due time of a job that waits for its start, and what is counted from it; not into the past. None:
        it does not."""


class JobReader(Protocol):
    async def get(self, tenant: TenantId, jobs: Sequence[JobId]) -> dict[JobId, Job]:
        """Jobs of one tenant, wherever they are; those that do not exist are missing."""

    async def page(self, tenant: TenantId, where: JobFilter, before: JobId | None, limit: int) -> list[Job]:
        """Newest first, older than `before`, without payloads and results."""

    async def attempts(self, tenant: TenantId, job: JobId, after: int, limit: int) -> list[Attempt]:
        """Oldest first, numbers above `after`, the running or final one included."""


class LeaseStore(Protocol):
    async def read_due(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        """For each shard up to `page` live rows after a position and due by `until_us`, in due order, optionally of
        one lane only."""

    async def claim(self, claims: Sequence[Claim], owner: CoordinatorId) -> list[Grant]:
        """Grants what can be granted: waiting, due, past neither start_by nor deadline, and in a shard that `owner`
        holds under the fence's epoch. Others are missing from the answer. Each fence is larger than any before of its
        job. Nothing is granted of a queue or tenant that has limits, whatever the caller knows of them:
        `claim_limited` does."""

    async def claim_limited(self, claims: Sequence[Claim], owner: CoordinatorId) -> LimitedGrants:
        """The same within the limits that are stored, exactly, whoever else claims. The first of `claims` get the
        places. What no gate refused and is not granted was not to be had, as in `claim`."""


class OutcomeStore(Protocol):
    async def succeed(self, results: Sequence[Result]) -> dict[tuple[JobId, Fence], JobState]:
        """Finishes leased jobs whose fence and session match; others are missing from the answer."""

    async def succeed_and_spawn(
        self, result: Result, call: CreateCall
    ) -> tuple[dict[tuple[JobId, Fence], JobState], list[Created]]:
        """`succeed` for one result, and its spawned jobs, in one transaction: both or neither."""

    async def live(self, jobs: Sequence[tuple[TenantId, JobId]]) -> tuple[dict[JobId, LiveJob], datetime | None]:
        """Live jobs to decide about, and the database's now."""

    async def requeue(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        """Puts leased jobs back and writes down their attempts, where fence and state are as decided upon."""

    async def finish(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        """Moves jobs to history, where fence and state are as decided upon."""

    async def bury(self, items: Sequence[Decided]) -> set[tuple[JobId, Fence]]:
        """Moves leased jobs to the dead letters, where fence and state are as decided upon."""

    async def ended(self, leases: Sequence[tuple[TenantId, JobId, Fence]]) -> dict[tuple[JobId, Fence], Ended]:
        """What is known of leases that are over."""


class SessionStore(Protocol):
    async def open(self, session: Session, ttl_s: float) -> Session:
        """Registers a session; the same id again gives the stored one."""

    async def get(self, session: SessionId) -> Session | None: ...

    async def page(self, tenant: TenantId, before: SessionId | None, limit: int) -> list[Session]:
        """Living sessions, newest first."""

    async def beat(self, beats: Sequence[BeatUpdate], coordinator: CoordinatorId) -> dict[SessionId, SessionState]:
        """Renews living sessions by their TTL; dead ones are missing from the answer."""

    async def set_state(self, tenant: TenantId, session: SessionId, state: SessionState) -> Session | None:
        """Drains or closes a living session."""

    async def expire(self, latest: datetime | None = None) -> list[SessionId]:
        """Closes the sessions whose time is over, for good."""

    async def grant_amnesty(self, silent_s: float) -> int:
        """Renews the sessions that ran out during the last `silent_s` seconds, in which nobody could hear them."""


class ShardStore(Protocol):
    async def register(
        self, coordinator: CoordinatorId, address: str, version: str, term_s: float, peer_address: str = ""
    ) -> bool:
        """Registers a coordinator, retiring earlier ones of the same address. True: no other one is alive."""

    async def renew(self, coordinator: CoordinatorId, term_s: float) -> tuple[bool, datetime]:
        """Extends the coordinator's term: whether it still had one, and the database's now."""

    async def shorten(self, term_s: float) -> None:
        """Lets no coordinator's term end later than so long from now."""

    async def roster(self) -> Roster: ...

    async def acquire(
        self, coordinator: CoordinatorId, limit: int, only: Sequence[ShardNo] | None = None
    ) -> list[ShardTerm]:
        """Takes up to `limit` free shards and those of dead coordinators, each under a new epoch; of `only` these. No
        incarnation of the database gives an epoch that another one gave before."""

    async def give_up(self, coordinator: CoordinatorId, shards: Sequence[ShardNo]) -> list[ShardNo]:
        """Gives some shards back, each under a new epoch; those that were its own."""

    async def drain(self, coordinator: CoordinatorId) -> None:
        """Notes that it is leaving: others count it no more when they share the shards."""

    async def release(self, coordinator: CoordinatorId) -> None:
        """Gives all shards back and ends the coordinator's term."""

    async def set_watermarks(self, marks: Mapping[ShardNo, int], coordinator: CoordinatorId) -> None:
        """Notes per shard an instant (µs) before which no live job is due. A hint."""

    async def watermarks(self, shards: Sequence[ShardNo]) -> dict[ShardNo, int]: ...


class IdentityStore(Protocol):
    async def authenticate(self, key_id: str, secret_sha256: bytes) -> Identity | None:
        """Who a living key stands for."""

    async def create_key(
        self,
        tenant: str,
        key_id: str,
        secret_sha256: bytes,
        label: str,
        roles: frozenset[Role],
        ttl_s: float | None,
    ) -> ApiKey:
        """Creates a key, and its tenant where it is new."""

    async def list_keys(self, tenant: str | None) -> list[ApiKey]: ...

    async def revoke_key(self, key_id: str) -> bool: ...

    async def tenants(self) -> list[Tenant]: ...

    async def peer_secret(self) -> bytes:
        """What all coordinators of this database know, and nobody else."""


class HistoryStore(Protocol):
    async def make_partitions(self, days_ahead: int, history_s: float | None = None) -> list[str]:
        """Creates the day partitions that are missing, with parts for tenants whose own span is shorter than
        `history_s`; their names."""

    async def drop_partitions(self, older_than_s: float) -> list[str]:
        """Drops the day partitions that ended longer ago; their names. What a tenant keeps for longer is copied out of
        them before, and what it keeps for less is dropped earlier."""

    async def forget_schedules(self, older_than_s: float, limit: int) -> int:
        """Forgets, in bounded bites, old occurrences without a partition of their own, ended backfills, ended
        redrives and the names of deleted schedules; how many."""

    async def delete_requests(self, older_than_s: float, limit: int) -> int:
        """Forgets request_ids, ended dedupe windows and closed sessions in bounded bites; how many."""
