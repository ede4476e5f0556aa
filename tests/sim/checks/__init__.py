"""What must hold in every world, read from its history alone: never from the code under test, nor from its memory.

Each function is one rule and yields what broke it. `check` runs those that a world's kind of trouble allows: the fewer
faults, the more must be perfect. Rules were added because a mutant lived; `mutants` shows what each is worth.
"""

from collections.abc import Callable

from ..faults import Kind
from ..world import Outcome as Seed
from . import coordinators, deliveries, jobs, schedules
from .base import Found, Violation

__all__ = ["Violation", "check"]


def check(seed: Seed) -> list[Violation]:
    """Everything that is wrong with a run."""
    rules = list(ALWAYS)
    kind = seed.plan.kind
    if kind in (Kind.CALM, Kind.OUTAGE):
        rules += UNDISTURBED
    if kind in (Kind.CALM, Kind.LOSSY):
        rules += PROMPT
    if kind is Kind.CALM:
        rules += PERFECT
    return [Violation(rule.__name__, text, event) for rule in rules for text, event in rule(seed)]


def no_bugs(seed: Seed) -> Found:
    """No unexpected exception, no deadlock, no standing loop."""
    for event in seed.history.of("bug"):
        yield f"{event['method']}: {event['error']}", event


ALWAYS: tuple[Callable[[Seed], Found], ...] = (
    no_bugs,
    jobs.fences_grow,
    jobs.one_lease_one_outcome,
    jobs.nothing_early,
    jobs.expired_in_time,
    jobs.within_total,
    jobs.attempts_bounded,
    coordinators.one_owner,
    deliveries.dead_sessions_stay_dead,
    deliveries.holders_keep_their_leases,
    deliveries.grants_are_committed,
    deliveries.batches_grow,
    jobs.answers_are_true,
    jobs.creations_are_kept,
    jobs.one_job_for_a_key,
    jobs.spawned_with_success,
    jobs.cancellations_are_true,
    jobs.effects_once,
    jobs.in_one_place,
    jobs.everything_ends,
    schedules.one_job_for_an_occurrence,
    schedules.timers_move_as_decided,
    schedules.decided_stays_decided,
    schedules.active_is_armed,
    schedules.overlap_as_asked,
    schedules.nothing_before_its_time,
    schedules.counts_are_the_ledgers,
    schedules.every_occurrence_has_its_fate,
    schedules.nobody_is_held_up,
    schedules.triggers_once,
    schedules.grants_are_current,
)
UNDISTURBED: tuple[Callable[[Seed], Found], ...] = (deliveries.living_sessions_live,)
PROMPT: tuple[Callable[[Seed], Found], ...] = (
    deliveries.lost_answers_are_found,
    deliveries.repeated_calls_get_the_same,
    deliveries.claims_are_for_somebody,
    jobs.run_timeouts_hold,
    deliveries.no_idle_beside_work,
    coordinators.shares_settle,
    schedules.displaced_in_time,
    schedules.failing_ones_pause,
)
PERFECT: tuple[Callable[[Seed], Found], ...] = (
    jobs.no_attempt_is_wasted,
    jobs.no_outcome_is_refused,
    coordinators.drains_hand_over,
    coordinators.shards_are_handed_over,
)
