"""The ledger of effects: only the holder of the lease writes, whoever commits first wins, nothing waits in a circle."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.domain.effect import HELD_UNTIL, Begun, Effect, InDoubt
from rota.domain.errors import Aborted, FailedPrecondition
from rota.domain.ids import EffectId, Fence, TenantId
from rota.domain.model import EffectState, JobState, Outcome, SessionState, Timeouts, effect_key
from rota.domain.transition import Ending, Finish, end_attempt
from rota.store import effects, engine
from rota.store.effectport import Decision, EffectCall, Resolved
from rota.store.engine import Run
from rota.store.port import Decided

from .world import Held, World, fresh_id

APPLIED, NOT_APPLIED, UNKNOWN = EffectState.APPLIED, EffectState.NOT_APPLIED, EffectState.UNKNOWN
TENANT = "acme"
RELEASED, LOST = Ending(Outcome.RELEASED), Ending(Outcome.LEASE_LOST)


def call(held: Held, key: str = "", **changes: Any) -> EffectCall:
    return replace(EffectCall(held.spec.tenant_id, TENANT, held.id, held.fence, key), **changes)


async def begin(world: World, held: Held, policy: InDoubt = InDoubt.ASK, key: str = "") -> Begun:
    begun = await world.effects.begin(call(held, key), policy, EffectId(fresh_id()))
    assert begun is not None
    return begun


async def resolve(world: World, effect: EffectId, state: EffectState) -> Resolved:
    resolved = await world.effects.resolve(world.tenant, TENANT, effect, Decision(state, "r-9", "looked", "key-1"))
    assert resolved is not None
    return resolved


async def doubtful(world: World, *, holding: bool = False, **changes: Any) -> list[Effect]:
    arguments: dict[str, Any] = {"after": None, "limit": 9, "job": None} | changes
    return await world.effects.page(world.tenant, holding=holding, **arguments)


async def end(world: World, held: Held, ending: Ending = LOST) -> None:
    """Ends an attempt as the coordinator does."""
    live = await world.live(held.id)
    decision = end_attempt(live, ending, await world.now(), world.rng)
    assert await world.apply(Decided(live, decision, ending.outcome))


async def again(world: World, held: Held) -> Held:
    """The next attempt of a job that is due."""
    return await world.lease(held.spec)


async def in_doubt(world: World, **changes: Any) -> tuple[Held, EffectId]:
    """A job in its second attempt, whose first began the effect and was lost."""
    first = await world.lease(**changes)
    begun = await begin(world, first)
    await end(world, first)
    return await again(world, first), begun.effect.id


async def held(world: World, **changes: Any) -> tuple[Held, EffectId]:
    """A job that waits for an operator."""
    second, effect = await in_doubt(world, **changes)
    assert (await begin(world, second)).hold
    await end(world, second, RELEASED)
    return second, effect


async def test_begin_commit_and_ask_again(world: World) -> None:
    first = await world.lease()
    begun = await begin(world, first)
    assert (begun.proceed, begun.state, begun.effect.key) == (True, EffectState.UNSPECIFIED, f"{TENANT}/{first.id}/0")
    assert (await begin(world, first)).proceed
    after = await world.effects.commit(call(first), APPLIED, "pay-7")
    assert after is not None and (after.state, after.reference) == (APPLIED, "pay-7")
    assert await world.effects.commit(call(first), APPLIED, "pay-7") == after
    await end(world, first)
    known = await begin(world, await again(world, first))
    assert (known.proceed, known.state, known.effect.reference) == (False, APPLIED, "pay-7")
    assert await doubtful(world) == []


async def test_keys_are_the_jobs_own_the_given_ones_and_apart_by_tenant(world: World) -> None:
    named = await world.lease(effect_key="invoice-7")
    assert (await begin(world, named)).effect.key == "invoice-7"
    assert (await begin(world, named, key="mail")).effect.key == "mail"
    stranger = await world.lease(tenant_id=TenantId(world.tenant + 500_000), effect_key="invoice-7")
    assert (await begin(world, stranger)).proceed
    assert stranger.id not in {e.job_id for e in await doubtful(world)}
    scheduled = await world.lease()
    await world.sql(
        "UPDATE jobs SET schedule_uid = %(u)s::uuid, schedule_id = 's', nominal_at = now(), occurrence_generation = 0 "
        "WHERE id = %(j)s::uuid",
        u=fresh_id(),
        j=scheduled.id,
    )
    job = await world.job(scheduled.id)
    assert (await begin(world, scheduled)).effect.key == effect_key(TENANT, job.id, 0, job.origin)


@pytest.mark.parametrize(
    "wrong", [{"fence": 1}, {"fence": -1}, {"job_id": fresh_id()}, {"tenant_id": TenantId(1)}, {"fence": 2**40}]
)
async def test_begin_and_commit_need_the_lease(world: World, wrong: dict[str, Any]) -> None:
    found = await world.lease()
    await begin(world, found)
    if "fence" in wrong:
        wrong = {"fence": Fence(found.fence + wrong["fence"])}
    assert await world.effects.begin(call(found, "other", **wrong), InDoubt.REDO, EffectId(fresh_id())) is None
    assert await world.effects.commit(call(found, **wrong), APPLIED, "") is None
    assert await world.count("effects") == 1
    assert await world.value("SELECT state FROM effects WHERE tenant_id = %(t)s", t=world.tenant) == 0


@pytest.mark.parametrize("ended", ["succeeded", "cancelled", "requeued", "granted again"])
async def test_the_lease_of_an_attempt_that_ended_is_none(world: World, ended: str) -> None:
    found = await world.lease()
    await begin(world, found)
    if ended == "succeeded":
        assert await world.succeed(found)
    elif ended == "cancelled":
        await world.cancel(found.spec)
    else:
        await end(world, found)
        if ended == "granted again":
            await again(world, found)
    assert await world.effects.begin(call(found, "other"), InDoubt.REDO, EffectId(fresh_id())) is None
    assert await world.effects.commit(call(found), APPLIED, "") is None


async def test_a_dead_session_begins_nothing_but_its_word_counts_while_the_lease_is_there(world: World) -> None:
    found = await world.lease()
    await begin(world, found)
    await world.sessions.set_state(world.tenant, found.grant.session_id, SessionState.CLOSED)
    assert await world.effects.begin(call(found, "other"), InDoubt.REDO, EffectId(fresh_id())) is None
    assert await world.effects.commit(call(found), APPLIED, "") is not None


async def test_a_job_that_is_asked_about_waits_where_no_claim_reaches_it(world: World) -> None:
    second, effect = await in_doubt(world)
    begun = await begin(world, second)
    assert (begun.proceed, begun.state, begun.hold, begun.effect.id) == (False, UNKNOWN, True, effect)
    # Nothing is held as long as the attempt runs; the same question gets the same answer.
    assert (await begin(world, second)).hold
    assert (await world.job(second.id)).held_for is None
    await end(world, second, RELEASED)
    job = await world.job(second.id)
    assert (job.state, job.due_at, job.held_for) == (JobState.RETRY_WAIT, HELD_UNTIL, effect)
    assert (job.attempt, job.attempts_counted) == (2, 1)
    assert await world.where(second.id) == ["jobs"]
    assert await world.claim(second.spec, await world.new_session()) is None
    assert [(e.id, e.holding, e.known) for e in await doubtful(world, holding=True)] == [(effect, True, UNKNOWN)]


@pytest.mark.parametrize("ending", [LOST, RELEASED, Ending(Outcome.FAILED), Ending(Outcome.TIMED_OUT)])
async def test_however_the_attempt_ends_the_job_is_held_even_after_its_last(world: World, ending: Ending) -> None:
    second, effect = await in_doubt(world)
    await begin(world, second)
    await world.sql("UPDATE jobs SET max_attempts = 2 WHERE id = %(j)s::uuid", j=second.id)
    await end(world, second, ending)
    assert (await world.job(second.id)).held_for == effect


@pytest.mark.parametrize("ending", [Ending(Outcome.FAILED, retryable=False), Ending(Outcome.CANCELLED)])
async def test_a_job_that_failed_for_good_or_was_cancelled_is_not_held(world: World, ending: Ending) -> None:
    second, effect = await in_doubt(world)
    await begin(world, second)
    if ending.outcome is Outcome.CANCELLED:
        await world.cancelling(second)
    await end(world, second, ending)
    assert not await world.is_live(second.id)
    (left,) = await doubtful(world)
    assert (left.id, left.holding) == (effect, False)


async def test_the_total_timeout_ends_the_wait(world: World) -> None:
    second, effect = await held(world, timeouts=Timeouts(total_s=60.0))
    live = await world.live(second.id)
    assert live.due_at == live.deadline_at
    assert (await world.job(second.id)).held_for == effect
    await world.pass_time(second.id, 61)
    # Due, and past its deadline: nobody is granted it, and whoever looks at due jobs ends it.
    assert await world.claim(second.spec, await world.new_session()) is None


async def test_applied_by_decision_the_job_succeeds_without_an_attempt(world: World) -> None:
    second, effect = await held(world)
    resolved = await resolve(world, effect, APPLIED)
    assert (resolved.finished, resolved.waiting) == (True, None)
    after = resolved.effect
    assert (after.state, after.reference, after.resolved_by, after.reason) == (APPLIED, "r-9", "key-1", "looked")
    job = await world.job(second.id)
    assert (job.state, job.attempt, job.attempts_counted) == (JobState.SUCCEEDED, 2, 1)
    assert job.reason == f"effects/{effect} was decided to be applied"
    assert await world.where(second.id) == ["finished_jobs"]
    assert [a.outcome for a in await world.reader.attempts(world.tenant, second.id, 0, 9)] == [
        Outcome.LEASE_LOST,
        Outcome.RELEASED,
    ]
    assert (await resolve(world, effect, APPLIED)).effect == replace(after, running=False)


async def test_not_applied_by_decision_it_is_tried_again_at_once(world: World) -> None:
    first = await world.lease(timeouts=Timeouts(start_by_s=60.0))
    effect = (await begin(world, first)).effect.id
    await end(world, first, RELEASED)
    second = await again(world, first)
    await begin(world, second)
    await end(world, second, RELEASED)
    # No attempt has counted, but it was started, which is all that start_by asks for.
    assert await world.value("SELECT start_by FROM jobs WHERE id = %(j)s::uuid", j=second.id) is None
    resolved = await resolve(world, effect, NOT_APPLIED)
    assert resolved.waiting is not None
    assert (resolved.waiting.id, resolved.waiting.start_by) == (second.id, None)
    third = await again(world, second)
    begun = await begin(world, third)
    assert (begun.proceed, begun.state) == (True, NOT_APPLIED)
    await end(world, third)
    assert (await world.job(second.id)).held_for is None


async def test_of_several_effects_one_decision_is_not_the_whole_job(world: World) -> None:
    first = await world.lease()
    effect = (await begin(world, first, key="mail")).effect.id
    await end(world, first)
    second = await again(world, first)
    assert (await begin(world, second, key="mail")).hold
    await end(world, second, RELEASED)
    resolved = await resolve(world, effect, APPLIED)
    assert (resolved.finished, resolved.waiting and resolved.waiting.id) == (False, second.id)
    third = await again(world, second)
    assert (await begin(world, third, key="mail")).state is APPLIED
    assert await world.succeed(third)


async def test_a_decision_about_a_job_that_waits_for_a_retry_leaves_its_time(world: World) -> None:
    first = await world.lease()
    effect = (await begin(world, first)).effect.id
    await world.fail(first, wait_s=50)
    due = (await world.live(first.id)).due_at
    assert (await resolve(world, effect, NOT_APPLIED)).waiting is None
    assert (await world.live(first.id)).due_at == due
    other = await world.lease()
    effect = (await begin(world, other)).effect.id
    await world.fail(other, wait_s=50)
    assert (await resolve(world, effect, APPLIED)).finished


async def test_a_decision_where_the_job_is_gone_or_runs_is_about_the_effect_alone(world: World) -> None:
    gone, effect = await in_doubt(world)
    await world.cancel(gone.spec)
    assert await resolve(world, effect, APPLIED) is not None
    running, effect = await in_doubt(world)
    await begin(world, running)
    assert (await resolve(world, effect, NOT_APPLIED)).waiting is None
    await end(world, running, RELEASED)
    job = await world.job(running.id)
    assert (job.held_for, job.state) == (None, JobState.READY)


async def test_an_effect_that_an_attempt_is_at_is_neither_listed_nor_decided(world: World) -> None:
    first = await world.lease()
    effect = (await begin(world, first)).effect.id
    assert await doubtful(world) == []
    with pytest.raises(FailedPrecondition, match="is at it right now"):
        await resolve(world, effect, APPLIED)
    await end(world, first)
    assert [e.id for e in await doubtful(world)] == [effect]
    assert (
        await world.effects.resolve(TenantId(world.tenant + 1), TENANT, effect, Decision(APPLIED, "", "", "k")) is None
    )


async def test_a_probe_settles_what_was_asked_and_the_job_is_free(world: World) -> None:
    second, _ = await in_doubt(world)
    assert (await begin(world, second)).hold
    assert await world.effects.commit(call(second), NOT_APPLIED, "") is not None
    assert (await begin(world, second)).proceed
    await end(world, second)
    assert (await world.job(second.id)).held_for is None


async def test_a_job_that_is_held_can_be_cancelled_and_moved(world: World) -> None:
    second, effect = await held(world)
    await world.sql("UPDATE jobs SET due_at = now() WHERE id = %(j)s::uuid", j=second.id)
    assert (await world.job(second.id)).held_for is None
    third = await again(world, second)
    assert (await begin(world, third)).hold
    await end(world, third, RELEASED)
    assert (await world.job(second.id)).held_for == effect
    await world.cancel(second.spec)
    assert await world.where(second.id) == ["finished_jobs"]
    assert [e.holding for e in await doubtful(world)] == [False]


async def test_lists_are_oldest_first_in_pages_and_by_job(world: World) -> None:
    found: list[tuple[Held, EffectId]] = []
    for _ in range(3):
        first = await world.lease()
        found.append((first, (await begin(world, first)).effect.id))
        await end(world, first)
    ids = [effect for _, effect in found]
    assert [e.id for e in await doubtful(world)] == ids
    assert [e.id for e in await doubtful(world, limit=2)] == ids[:2]
    assert [e.id for e in await doubtful(world, after=ids[0])] == ids[1:]
    assert [e.id for e in await doubtful(world, job=found[1][0].id)] == [ids[1]]
    assert await doubtful(world, holding=True) == []


async def test_settled_effects_are_forgotten_when_nobody_can_ask_any_more(world: World) -> None:
    jobs = {}
    for fate in ("live", "dead", "over", "in doubt", "young"):
        first = jobs[fate] = await world.lease()
        await begin(world, first)
        if fate != "in doubt":
            assert await world.effects.commit(call(first), APPLIED, "") is not None
        if fate == "dead":
            await world.bury(first)
        elif fate != "live":
            assert await world.succeed(first)
    await world.sql(
        "UPDATE effects SET needed_at = now() - interval '9 days' WHERE job_id <> %(young)s::uuid",
        young=jobs["young"].id,
    )

    async def left() -> set[str]:
        rows = await world.sql("SELECT job_id::text FROM effects WHERE tenant_id = %(t)s", t=world.tenant)
        return {fate for fate, job in jobs.items() if (job.id,) in rows}

    while await world.effects.forget(8 * 86_400.0, 1):
        pass
    assert await left() == {"live", "dead", "in doubt", "young"}
    # What is needed still was put off, not looked at for ever.
    assert await world.effects.forget(8 * 86_400.0, 9) == 0


async def test_begin_finds_an_entry_that_is_forgotten_at_that_moment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.lease(effect_key="k")
    await begin(world, first)
    await world.effects.commit(call(first), APPLIED, "")
    assert await world.succeed(first)
    second = await world.lease(effect_key="k")
    plain = world.db.writes.transact

    async def forgetful(work: Any) -> Any:
        async def inside(run: Run) -> Any:
            async def run_and_forget(sql: str, params: Any) -> Any:
                rows = await run(sql, params)
                if sql == effects._INSERT and not rows:
                    await world.db.claims.run(
                        "DELETE FROM effects WHERE tenant_id = %(t)s RETURNING 1", {"t": world.tenant}
                    )
                return rows

            return await work(run_and_forget)

        return await plain(inside)

    monkeypatch.setattr(world.db.writes, "transact", forgetful)
    assert (await begin(world, second)).proceed


@pytest.mark.parametrize("what", ["begin", "commit", "resolve"])
async def test_who_waits_for_a_jobs_row_holds_no_effect(world: World, what: str) -> None:
    """One order of locks, so nobody waits in a circle."""
    second, effect = await in_doubt(world)
    key = f"{TENANT}/{second.id}/0"
    works: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "begin": lambda: begin(world, second, key=key),
        "commit": lambda: world.effects.commit(call(second, key), APPLIED, ""),
        "resolve": lambda: resolve(world, effect, APPLIED),
    }

    async def holding(run: Run) -> asyncio.Task[object]:
        await run("SELECT 1 FROM jobs WHERE id = %(j)s::uuid FOR UPDATE", {"j": second.id})
        waiting = asyncio.ensure_future(works[what]())
        await world.until_blocked()
        assert await run("SELECT 1 FROM effects WHERE id = %(e)s::uuid FOR UPDATE NOWAIT", {"e": effect})
        return waiting

    assert await (await world.db.claims.transact(holding)) is not None


# Two transactions at once, in both orders: one holds its locks until the other waits for them.


async def first_then(world: World, first: Any, second: Any) -> tuple[Any, Any]:
    """Runs `first` and, before it has committed, `second`, which is to wait for it."""
    gate = asyncio.Event()
    lane = world.db.writes
    plain = lane.transact

    async def slow(work: Any) -> Any:
        async def held_open(run: Run) -> Any:
            found = await work(run)
            await gate.wait()
            return found

        return await plain(held_open)

    object.__setattr__(lane, "transact", slow)
    one = asyncio.create_task(first)
    await asyncio.sleep(0.05)
    object.__setattr__(lane, "transact", plain)
    two = asyncio.create_task(second)
    await world.until_blocked()
    gate.set()
    return tuple(await asyncio.gather(one, two, return_exceptions=True))  # type: ignore[return-value]


async def test_two_begins_at_once(world: World) -> None:
    found = await world.lease()
    one, two = await first_then(world, begin(world, found), begin(world, found))
    assert one == two
    assert await world.count("effects") == 1


async def test_two_jobs_begin_one_effect_at_once(world: World) -> None:
    one, two = await world.lease(effect_key="k"), await world.lease(effect_key="k")
    won, lost = await first_then(world, begin(world, one), begin(world, two))
    assert won.proceed
    assert isinstance(lost, FailedPrecondition)


@pytest.mark.parametrize("what", ["complete", "expire", "cancel"])
async def test_a_begin_and_the_end_of_its_lease_at_once(world: World, what: str) -> None:
    found = await world.lease()

    async def finish() -> Any:
        if what == "complete":
            return await world.succeed(found)
        live = await world.live(found.id)
        if what == "cancel":
            return await world.outcomes.finish([Decided(live, Finish(JobState.CANCELLED, counted=True), None)])
        return await end(world, found)

    begun, _ = await first_then(world, begin(world, found), finish())
    assert begun.proceed
    assert not await world.is_live(found.id) or (await world.live(found.id)).state is JobState.RETRY_WAIT
    assert [e.job_id for e in await doubtful(world)] == [found.id]


async def test_an_end_that_comes_first_leaves_nothing_to_begin(world: World) -> None:
    found = await world.lease()

    async def gone(run: Run) -> asyncio.Task[Begun | None]:
        await run("UPDATE jobs SET state = 4, session_id = NULL WHERE id = %(j)s::uuid", {"j": found.id})
        asking = asyncio.create_task(world.effects.begin(call(found), InDoubt.REDO, EffectId(fresh_id())))
        await world.until_blocked()
        return asking

    assert await (await world.db.claims.transact(gone)) is None
    assert await world.count("effects") == 0


@pytest.mark.parametrize("decided", [APPLIED, NOT_APPLIED])
@pytest.mark.parametrize("operator_first", [True, False])
async def test_a_decision_and_a_commit_at_once(world: World, decided: EffectState, operator_first: bool) -> None:
    second, effect = await in_doubt(world)
    await begin(world, second)
    decide, say = resolve(world, effect, decided), world.effects.commit(call(second), APPLIED, "r-1")
    one, two = await first_then(world, decide, say) if operator_first else await first_then(world, say, decide)
    stored = await world.sql("SELECT state, reference FROM effects WHERE tenant_id = %(t)s", t=world.tenant)
    if decided is APPLIED:
        assert not isinstance(one, Exception) and not isinstance(two, Exception)
        assert stored == [(int(APPLIED), "r-9" if operator_first else "r-1")]
    else:
        assert isinstance(two, Aborted if operator_first else FailedPrecondition)
        assert stored[0][0] == int(NOT_APPLIED if operator_first else APPLIED)
    assert (await world.live(second.id)).held_for is None


async def test_a_decision_and_a_claim_at_once(world: World) -> None:
    second, effect = await held(world)
    await world.sql("UPDATE jobs SET due_at = now() WHERE id = %(j)s::uuid", j=second.id)
    session = await world.new_session()
    resolved, grant = await first_then(world, resolve(world, effect, APPLIED), world.claim(second.spec, session))
    assert resolved.finished and grant is None
    assert await world.where(second.id) == ["finished_jobs"]


async def test_many_of_all_kinds_at_once_wait_in_no_circle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five jobs share two keys, and everybody does everything: no statement gives up on a deadlock."""
    monkeypatch.setattr(engine, "_TRY_AGAIN", ())
    jobs = [await world.lease() for _ in range(5)]
    seen: list[BaseException] = []

    async def one(number: int) -> None:
        found, key = jobs[number % 5], f"k{number % 2}"
        works: list[Any] = [
            world.effects.begin(call(found, key), InDoubt.REDO, EffectId(fresh_id())),
            world.effects.commit(call(found, key), UNKNOWN, ""),
            world.jobs.set_cancelling(world.tenant, found.id, found.fence, ""),
        ]
        rows = await world.sql("SELECT id::text FROM effects WHERE tenant_id = %(t)s", t=world.tenant)
        works += [resolve(world, EffectId(id), NOT_APPLIED) for (id,) in rows]
        if number > 60:
            works.append(world.succeed(found))
        for work in works:
            try:
                await work
            except (Aborted, FailedPrecondition):
                continue
            except BaseException as error:
                seen.append(error)

    await asyncio.gather(*(one(number) for number in range(80)))
    assert seen == []


def test_held_until_is_what_the_statements_say() -> None:
    assert f"{HELD_UNTIL:%Y-%m-%d %H:%M:%S}Z" in effects._HELD
    assert datetime.max.replace(tzinfo=HELD_UNTIL.tzinfo) - HELD_UNTIL > timedelta(days=365)
