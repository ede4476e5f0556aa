"""The catalogue: every span, attribute and metric of a coordinator, with unit and meaning.

Names that the OpenTelemetry conventions for messaging have a word for are copied as they stand there. Spans may name
jobs and tenants; metrics never do, so that the number of series is fixed by this file.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rota.domain.invariants import INVARIANTS
from rota.domain.model import JobState, Outcome

SCOPE: Final = "rota"
"""The instrumentation scope of all that a coordinator exports."""

# Spans, all of one trace per job.
SPAN_CREATE: Final = "rota.job.create"
"""A job was stored. PRODUCER; its parent is the creator's span, if there is one. The job keeps its context."""
SPAN_FIRE: Final = "rota.schedule.fire"
"""An occurrence of a schedule made a job. PRODUCER, the root of the job's trace; linked to the schedule's creation."""
SPAN_LEASE: Final = "rota.job.lease"
"""From due to granted. INTERNAL, child of the create span; a further attempt links to it too."""
SPAN_COMPLETE: Final = "rota.job.complete"
"""An attempt ended. INTERNAL, child of the worker's span, or of the create span where the server ended it."""

# Attributes of spans.
SYSTEM: Final = "messaging.system"
SYSTEM_ROTA: Final = "rota"
OPERATION_TYPE: Final = "messaging.operation.type"
OPERATION_NAME: Final = "messaging.operation.name"
QUEUE: Final = "messaging.destination.name"
JOB_ID: Final = "messaging.message.id"
ERROR_TYPE: Final = "error.type"
"""The failure's type as the worker named it, the reason of a refusal, else the outcome or the state."""
JOB_TYPE: Final = "rota.job.type"
SCHEDULE: Final = "rota.schedule.id"
JOB_STATE: Final = "rota.job.state"
"""The job's state afterwards, or the reason why the outcome was refused; in lower case."""
TENANT: Final = "rota.tenant"
"""The tenant's name."""
ATTEMPT: Final = "rota.attempt"
"""The attempt's number, from 1. On the link of a further attempt too."""
FENCE: Final = "rota.fence"
SESSION: Final = "rota.session"
"""The id of the worker's session."""
OUTCOME: Final = "rota.outcome"
"""How the attempt ended, in lower case."""
DUPLICATE: Final = "rota.duplicate"
"""True: the outcome had been accepted before."""

OTHER: Final = "other"
"""What a label outside its set is counted as."""


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric: its unit (UCUM), what it means, and its only label with all values that this may have.

    `bounds` are the upper ends of a histogram's buckets, each included in its bucket.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""1 s is a bound because the promise on eligible lag is one on it."""

BATCH: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)

_END_STATES: Final = tuple(state.name.lower() for state in JobState if state.terminal)
_OUTCOMES: Final = tuple(outcome.name.lower() for outcome in Outcome)
_CAUSES: Final = (
    *("expired", "reassigned", "cancelled", "released", "completed", "unknown_job"),
    *("outcome_conflict", "not_lease_owner"),
)
_STORE_ERRORS: Final = ("unavailable", "outcome_unknown", "refused")

_FATES: Final = (
    "fired",
    "buffered",
    "coalesced",
    "skipped_missed",
    "skipped_window",
    "skipped_overlap",
    "skipped_buffer_full",
    "suppressed_paused",
    "excluded",
)
_BANDS: Final = ("low", "default", "high")
_EFFECTS: Final = ("begun", "known", "held", "not_applied", "applied", "unknown", "resolved")
_REPAIRS: Final = ("overdue", "unarmed", "tzdata")
_INVARIANTS: Final = tuple(invariant.name for invariant in INVARIANTS)
_REPAIRABLE: Final = tuple(invariant.name for invariant in INVARIANTS if invariant.repair)

METRICS: Final = (
    Spec("rota.jobs.created", Kind.COUNTER, "{job}", "Jobs stored; a repeated request stores none."),
    Spec("rota.schedules.created", Kind.COUNTER, "{schedule}", "Schedules stored."),
    Spec("rota.schedules.failed", Kind.COUNTER, "{schedule}", "Steps of schedules that failed and are tried again."),
    Spec("rota.schedules.repaired", Kind.COUNTER, "{schedule}", "What the sweeper put right.", "what", _REPAIRS),
    Spec("rota.occurrences", Kind.COUNTER, "{occurrence}", "Occurrences that met a fate.", "fate", _FATES),
    Spec("rota.jobs.finished", Kind.COUNTER, "{job}", "Jobs that became terminal.", "state", _END_STATES),
    Spec("rota.deadletters.redriven", Kind.COUNTER, "{job}", "Dead jobs made ready again."),
    Spec("rota.deadletters.discarded", Kind.COUNTER, "{job}", "Dead letters that an operator let go of."),
    Spec("rota.attempts.ended", Kind.COUNTER, "{attempt}", "Attempts that ended.", "outcome", _OUTCOMES),
    Spec("rota.leases.granted", Kind.COUNTER, "{lease}", "Leases committed for a worker."),
    Spec("rota.leases.forwarded", Kind.COUNTER, "{lease}", "Leases of peers' shards handed to workers here."),
    Spec(
        "rota.leases.released_undelivered",
        Kind.COUNTER,
        "{lease}",
        "Leases taken back because no worker proved their receipt.",
    ),
    Spec("rota.claims.missed", Kind.COUNTER, "{job}", "Jobs offered that were no longer there to claim."),
    Spec("rota.fences.refused", Kind.COUNTER, "{outcome}", "Outcomes refused.", "cause", _CAUSES),
    Spec(
        "rota.effects",
        Kind.COUNTER,
        "{call}",
        "What became of calls to the ledger of effects: begun, known to be applied, held for a decision, and so on.",
        "what",
        _EFFECTS,
    ),
    Spec("rota.sessions.opened", Kind.COUNTER, "{session}", "Worker sessions opened."),
    Spec("rota.sessions.expired", Kind.COUNTER, "{session}", "Worker sessions that died without closing."),
    Spec("rota.store.errors", Kind.COUNTER, "{error}", "Statements that failed.", "kind", _STORE_ERRORS),
    Spec(
        "rota.admission.refused",
        Kind.COUNTER,
        "{call}",
        "Creations refused because writing lags, by priority: low, default or high.",
        "priority",
        _BANDS,
    ),
    Spec(
        "rota.admission.level",
        Kind.GAUGE,
        "1",
        "How writing goes. 0: well. 1: workers are asked to poll less. 2: creations are refused, low priorities first.",
    ),
    Spec(
        "rota.invariants.violated",
        Kind.COUNTER,
        "{violation}",
        "What was found that must never be; each time that it is found.",
        "invariant",
        _INVARIANTS,
    ),
    Spec("rota.invariants.repaired", Kind.COUNTER, "{violation}", "Those put right.", "invariant", _REPAIRABLE),
    Spec("rota.loops.stalled", Kind.GAUGE, "{loop}", "Duties of this coordinator that make no progress."),
    Spec("rota.shards.owned", Kind.GAUGE, "{shard}", "Shards this coordinator acts for."),
    Spec("rota.ready.jobs", Kind.GAUGE, "{job}", "Due jobs held in memory, waiting for a worker."),
    Spec("rota.inflight.leases", Kind.GAUGE, "{lease}", "Leases granted here whose attempts have not ended."),
    Spec("rota.polls.parked", Kind.GAUGE, "{call}", "Lease calls that wait for a job."),
    Spec("rota.watches.open", Kind.GAUGE, "{stream}", "WatchJobs streams."),
    Spec("rota.peers", Kind.GAUGE, "{coordinator}", "Other coordinators that live."),
    Spec("rota.clock.skew_seconds", Kind.GAUGE, "s", "How far this clock is ahead of the database's."),
    Spec("rota.lag.fire", Kind.HISTOGRAM, "s", "From an occurrence's due time until its job was made.", bounds=SECONDS),
    Spec("rota.lag.eligible", Kind.HISTOGRAM, "s", "From due until it could be leased.", bounds=SECONDS),
    Spec("rota.lag.dispatch", Kind.HISTOGRAM, "s", "From leasable until leased.", bounds=SECONDS),
    Spec("rota.create.seconds", Kind.HISTOGRAM, "s", "Storing a creation, commit included.", bounds=SECONDS),
    Spec("rota.complete.batch", Kind.HISTOGRAM, "{outcome}", "Outcomes of one commit.", bounds=BATCH),
)
