"""The ledger of effects: what is written down around a call to a target that cannot deduplicate (strength E3).

    (none) ─ begin ─▶ at it ─ commit ─▶ APPLIED │ NOT_APPLIED ─ begin ─▶ at it
                        │  └─ commit ─▶ UNKNOWN
                        └─ its attempt ends without a word: in doubt, as UNKNOWN

What the next attempt that begins an effect in doubt is told is the matter of its policy. ASK holds the job: the
attempt is told not to go on, and whenever it ends the job waits without a due time until an operator decides, or until
its total timeout. The ledger's word is only as good as the fence: each change is made by the attempt that holds the
job's lease at that moment, or by an operator while no attempt is at it.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from rota.domain.errors import Aborted, FailedPrecondition, NotFound, stale_fence
from rota.domain.ids import EffectId, Fence, JobId, TenantId
from rota.domain.model import EffectState

HELD_UNTIL: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""The due time of a job that is held and has no total timeout: no claim and no look-ahead ever reaches it."""

SETTLED: Final = (EffectState.APPLIED, EffectState.NOT_APPLIED)


class InDoubt(IntEnum):
    """What holds for an effect that an earlier attempt began and left in doubt."""

    ASK = 1
    ASSUME_DONE = 2
    REDO = 3


@dataclass(frozen=True, slots=True)
class Effect:
    """An entry of the ledger. `state` UNSPECIFIED: the attempt with `fence` is at it, or ended without a word.
    `earlier`: what was known before that attempt began it. `running`: that attempt holds the job's lease still.
    `holding`: the job waits for this effect's decision."""

    id: EffectId
    tenant_id: TenantId
    key: str
    job_id: JobId
    fence: Fence
    state: EffectState
    earlier: EffectState
    policy: InDoubt
    begun_at: datetime
    reference: str = ""
    resolved_by: str = ""
    reason: str = ""
    running: bool = False
    holding: bool = False

    @property
    def known(self) -> EffectState:
        """What is known of it by whoever asks from outside."""
        return self.state or EffectState.UNKNOWN


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer to an attempt that wants to begin: whether it goes on, and what is known of an earlier try. `effect`
    is the entry after it; `hold`: the job is to be held from the end of the attempt on."""

    effect: Effect
    proceed: bool
    state: EffectState
    hold: bool = False


def begin(effect: Effect, job: JobId, fence: Fence, policy: InDoubt, *, owner_lives: bool) -> Begun:
    """What an attempt, which holds its job's lease under `fence`, may do about an effect that is in the ledger already.
    `owner_lives`: the job that the effect belongs to is not over."""
    if effect.state is EffectState.APPLIED:
        return Begun(effect, False, EffectState.APPLIED)
    if effect.job_id != job and effect.state not in SETTLED and owner_lives:
        raise _elsewhere(effect)
    if effect.job_id == job and effect.fence > fence:
        raise stale_fence(job, fence, effect.fence, "REASSIGNED")
    if effect.state is EffectState.UNSPECIFIED and (effect.job_id, effect.fence) == (job, fence):
        # The answer was lost: it is given again.
        return Begun(effect, True, effect.earlier)
    mine = replace(effect, job_id=job, fence=fence, policy=policy)
    if effect.state is EffectState.NOT_APPLIED or policy is InDoubt.REDO:
        return Begun(replace(mine, state=EffectState.UNSPECIFIED, earlier=effect.known), True, effect.known)
    if policy is InDoubt.ASSUME_DONE:
        return Begun(
            replace(mine, state=EffectState.APPLIED, reason="assumed to be done, by its policy"),
            False,
            EffectState.APPLIED,
        )
    # The fence of the attempt that began it last stays, since this one did not; another job's fence would say nothing.
    last = effect.fence if effect.job_id == job else fence
    asked = replace(mine, fence=last, state=EffectState.UNKNOWN)
    return Begun(asked, False, EffectState.UNKNOWN, hold=True)


def commit(effect: Effect | None, job: JobId, key: str, fence: Fence, state: EffectState, reference: str) -> Effect:
    """The entry after an attempt, which holds its job's lease under `fence`, has said how the effect ended."""
    if effect is None or effect.job_id != job:
        raise FailedPrecondition(
            f"effect_key: jobs/{job} has not begun an effect {key!r}; call BeginEffect first",
            metadata={"effect_key": key},
        )
    if effect.fence > fence:
        raise stale_fence(job, fence, effect.fence, "REASSIGNED")
    if effect.state in SETTLED:
        if effect.state is not state:
            raise Aborted(
                f"effects/{effect.id}: it is {effect.state.name} already; begin it again before another word of it",
                reason="OUTCOME_CONFLICT",
                metadata={"stored": effect.state.name},
            )
        return effect
    return replace(effect, fence=fence, state=state, reference=reference or effect.reference)


def resolve(effect: Effect, state: EffectState, reference: str, reason: str, author: str) -> Effect:
    """The entry after an operator's decision. Repeating it is safe."""
    if effect.state in SETTLED:
        if effect.state is not state:
            raise FailedPrecondition(
                f"effects/{effect.id}: it was decided already, as {effect.state.name}; there is no doubt left",
                metadata={"state": effect.state.name},
            )
        return effect
    if effect.running and effect.state is EffectState.UNSPECIFIED:
        raise FailedPrecondition(
            f"effects/{effect.id}: an attempt of jobs/{effect.job_id} is at it right now, so it is not in doubt; wait "
            "for the attempt to end, or cancel the job with FENCE_OUT first",
            metadata={"state": "RUNNING"},
        )
    return replace(effect, state=state, reference=reference or effect.reference, reason=reason, resolved_by=author)


def effect_not_found(effect: EffectId) -> NotFound:
    """No such effect in the caller's tenant."""
    return NotFound(
        f"effects/{effect}: not found; the name is wrong, or it was decided and forgotten with its job's history"
    )


def _elsewhere(effect: Effect) -> FailedPrecondition:
    return FailedPrecondition(
        f"effect_key: the effect {effect.key!r} belongs to jobs/{effect.job_id}, which is not over; "
        "ask again when it is, or give each job a key of its own",
        metadata={"job": f"jobs/{effect.job_id}", "effect": f"effects/{effect.id}"},
    )
