"""Leases whose worker talks to a peer: each end of one is heard of, and one that never arrived is found."""

import asyncio
from dataclasses import replace

import pytest

from rota.coordinator.members import Inventory
from rota.coordinator.news import Holding, News
from rota.coordinator.reaper import TICK_S, UNHEARD_S
from rota.domain.model import CancelMode, DirectiveKind, JobState, Outcome

from .pair import (
    CLAIM_TIMEOUT_S,
    DELIVERY_TTL_S,
    IDENTITY,
    SOON_S,
    TENANT,
    a_pair,
    knows,
    move,
    told_demand,
    wish_for,
)
from .virtual import virtual

ASKED_S = DELIVERY_TTL_S + UNHEARD_S + TICK_S + SOON_S
"""By then an owner has asked for a lease of whose receipt it has not heard."""


@virtual
async def test_a_claim_whose_answer_is_lost_is_found_by_the_inventory_that_its_owner_asks_for() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    cable = pair.cable(pair.a, pair.b)
    cable.loses_answers = True
    poll = worker.poll(wait_s=CLAIM_TIMEOUT_S + SOON_S)
    await asyncio.sleep(SOON_S)
    job = await pair.create(pair.b)
    assert await poll is None
    lost = pair.row(job).fence
    cable.loses_answers = False
    # Before the delivery TTL nobody is asked: a slow answer may arrive.
    await pair.go(DELIVERY_TTL_S - CLAIM_TIMEOUT_S)
    assert await worker.asked() == []
    await pair.go(ASKED_S - DELIVERY_TTL_S + CLAIM_TIMEOUT_S)
    assert await worker.asked() == [DirectiveKind.RESYNC]
    await worker.beat()
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.UNDELIVERED]
    assert pair.row(job).attempts_counted == 0
    (grant,) = await worker.got()
    assert grant.job_id == job
    assert grant.fence > lost


@virtual
async def test_who_is_not_heard_is_asked_again() -> None:
    """The question is lost, then the answer to it."""
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    pair.cable(pair.a, pair.b).loses_answers = True
    poll = worker.poll(wait_s=CLAIM_TIMEOUT_S + SOON_S)
    await asyncio.sleep(SOON_S)
    job = await pair.create(pair.b)
    assert await poll is None
    pair.cable(pair.b, pair.a).cut = True
    await pair.go(ASKED_S)
    assert await worker.asked() == []
    pair.cable(pair.b, pair.a).cut = False
    await pair.go(ASKED_S)
    pair.cable(pair.a, pair.b).cut = True
    assert await worker.asked() == [DirectiveKind.RESYNC]
    await worker.beat()
    await pair.go(1.0)
    assert (pair.outcomes(job), await worker.asked()) == ([], [])
    pair.cable(pair.a, pair.b).cut = False
    await pair.go(ASKED_S)
    assert await worker.asked() == [DirectiveKind.RESYNC]
    await worker.beat()
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.UNDELIVERED]


@virtual
@pytest.mark.parametrize("proof", ["poll", "inventory", "asked"])
async def test_a_lease_that_arrived_is_left_alone(proof: str) -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    job = await pair.create(pair.b)
    delivery = await worker.poll()
    assert delivery is not None
    (grant,) = delivery.grants
    if proof == "asked":
        # What is told of the receipt is lost.
        pair.cable(pair.a, pair.b).cut = True
    if proof == "poll":
        await worker.poll(ack=delivery.batch, wait_s=0.0)
    else:
        await worker.beat(grant, batch=delivery.batch)
    await asyncio.sleep(SOON_S)
    pair.cable(pair.a, pair.b).cut = False
    flight = pair.b.memory.in_flight.get(job)
    assert flight is not None
    assert flight.proven is (proof != "asked")
    await pair.go(ASKED_S)
    assert await worker.asked() == ([DirectiveKind.RESYNC] if proof == "asked" else [])
    await worker.beat(grant, batch=delivery.batch)
    await asyncio.sleep(SOON_S)
    assert flight.proven
    await pair.go(3 * ASKED_S)
    assert (pair.outcomes(job), pair.row(job).state) == ([], JobState.LEASED)
    assert (await worker.complete(grant)).state is JobState.SUCCEEDED


@virtual
async def test_an_answer_that_does_not_reach_the_worker_is_given_back_by_who_gave_it() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    job = await pair.create(pair.b)
    assert len(await worker.got()) == 1
    # Its next call names no batch; then it gets the job again.
    again = worker.poll()
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.UNDELIVERED]
    delivery = await again
    assert delivery is not None
    assert [grant.job_id for grant in delivery.grants] == [job]
    assert knows(pair.b, job, delivery.grants[0].fence)


@virtual
async def test_a_worker_that_went_while_the_claim_was_on_its_way_leaves_nothing_behind() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    job = await pair.create(pair.b)
    while not pair.cable(pair.a, pair.b).claims:
        await asyncio.sleep(0.0001)
    poll.cancel()
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.UNDELIVERED]
    assert not knows(pair.a, job) and not knows(pair.b, job)
    other = await pair.worker(pair.b)
    assert [grant.job_id for grant in await other.got()] == [job]


@virtual
async def test_a_claim_that_nobody_waits_for_is_given_back_by_its_owner() -> None:
    """The deadline of the call between them has passed, or its connection is gone: at whatever moment."""
    ends: set[tuple[Outcome, ...]] = set()
    for gone_after_ms in range(10):
        pair = await a_pair()
        pair.claim_takes_s = 0.006
        worker = await pair.worker(pair.a)
        await told_demand(pair, worker)
        job = await pair.create(pair.b)
        claim = asyncio.create_task(pair.b.peers.claim_for(wish_for(pair, worker)))
        await asyncio.sleep(gone_after_ms / 1000)
        if claim.done():
            break
        claim.cancel()
        await asyncio.wait([claim])
        await pair.go(0.5)
        assert (pair.row(job).state, knows(pair.b, job)) == (JobState.SCHEDULED, False)
        ends.add(tuple(pair.outcomes(job)))
    # Before it was sent, and after.
    assert ends == {(), (Outcome.UNDELIVERED,)}


@virtual
async def test_a_claim_whose_caller_goes_when_it_is_answered_is_given_back_by_its_owner() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    await told_demand(pair, worker)
    job = await pair.create(pair.b)
    claim = asyncio.create_task(pair.b.peers.claim_for(wish_for(pair, worker)))
    while not knows(pair.b, job):
        await asyncio.sleep(0)
    claim.cancel()
    await asyncio.wait([claim])
    assert claim.cancelled()
    await pair.go(0.5)
    assert (pair.outcomes(job), knows(pair.b, job)) == ([Outcome.UNDELIVERED], False)


@virtual
async def test_the_end_of_a_lease_is_told_to_its_owner() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    done, failed = await pair.create(pair.b), await pair.create(pair.b)
    grants = {grant.job_id: grant for grant in await worker.got(capacity=2)}
    finished = pair.b.memory.finish_waiter(done)
    await worker.complete(grants[done])
    await worker.complete(grants[failed], Outcome.RELEASED)
    await asyncio.sleep(SOON_S)
    assert (knows(pair.b, done), knows(pair.b, failed)) == (False, False)
    assert finished.is_set()
    # And that it waits again.
    assert [grant.job_id for grant in await worker.got()] == [failed]


@virtual
@pytest.mark.parametrize("at", ["owner", "peer"])
async def test_a_cancellation_reaches_the_worker_wherever_it_is_asked_for(at: str) -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    job = await pair.create(pair.b)
    (grant,) = await worker.got()
    node = pair.b if at == "owner" else pair.a
    await node.jobs.cancel(TENANT, job, CancelMode.COOPERATIVE, "not wanted")
    await asyncio.sleep(SOON_S)
    (order,) = (await worker.beat(grant)).directives
    assert (order.kind, order.job, order.fence) == (DirectiveKind.CANCEL, job, grant.fence)


@virtual
async def test_an_order_follows_a_worker_that_has_moved() -> None:
    """The owner knows the session too, from before, and has not missed it yet."""
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    await worker.beat()
    job = await pair.create(pair.b)
    (grant,) = await worker.got()
    worker.node = pair.a
    await worker.beat(grant)
    await pair.b.jobs.cancel(TENANT, job, CancelMode.COOPERATIVE, "not wanted")
    await asyncio.sleep(SOON_S)
    assert await worker.asked() == [DirectiveKind.CANCEL]


@virtual
async def test_the_leases_of_a_session_that_is_closed_are_free_at_every_owner() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    job = await pair.create(pair.b)
    await worker.got()
    # It closes at another one than it got the lease from, which does not know of that.
    member = await pair.a.attendance.member(IDENTITY, worker.id)
    await pair.a.attendance.close(member)
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.LEASE_LOST]
    assert not knows(pair.b, job)


@virtual
async def test_sessions_that_run_out_are_told_to_all_owners() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    job = await pair.create(pair.b)
    await worker.got()
    pair.tables.sessions[worker.id].expires_us = 0
    # One closes it, and that alone owns nothing of it.
    await pair.a.reaper.step()
    await asyncio.sleep(SOON_S)
    await pair.b.reaper.step()
    assert pair.outcomes(job) == [Outcome.LEASE_LOST]


@virtual
async def test_a_lease_found_by_a_new_owner_may_be_on_its_way_to_the_worker() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    job = await pair.create(pair.b)
    delivery = await worker.poll()
    assert delivery is not None
    (grant,) = delivery.grants
    await move(pair, grant.shard)
    await pair.a.poller.step()
    await asyncio.sleep(SOON_S)
    assert knows(pair.a, job, grant.fence)
    # The owner asks at once. What it is told was taken before the answer arrived.
    assert await worker.asked() == [DirectiveKind.RESYNC]
    await worker.beat()
    await pair.go(1.0)
    assert pair.outcomes(job) == []
    await worker.beat(grant, batch=delivery.batch)
    await pair.go(2 * ASKED_S)
    assert (pair.outcomes(job), pair.row(job).state) == ([], JobState.LEASED)


@virtual
async def test_a_lease_found_by_a_new_owner_that_never_arrived_is_given_to_another() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    job = await pair.create(pair.b)
    (grant,) = await worker.got()
    await move(pair, grant.shard)
    # The one before is gone, with all that it knew.
    pair.b.memory.forget_absent(worker.id)
    await pair.a.poller.step()
    for _ in range(3):
        await worker.beat()
        await pair.go(ASKED_S)
    assert pair.outcomes(job) == [Outcome.UNDELIVERED]


@virtual
async def test_an_inventory_that_comes_late_by_way_of_a_peer_says_nothing() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    job = await pair.create(pair.b)
    delivery = await worker.poll()
    assert delivery is not None
    (grant,) = delivery.grants
    await worker.beat(grant, batch=delivery.batch)
    await move(pair, grant.shard)
    await pair.a.poller.step()
    await pair.go(ASKED_S)
    held = Inventory(frozenset([(job, grant.fence)]), {}, 7)
    empty = Inventory(frozenset(), {}, 6)
    for inventory in (held, empty):
        pair.a.peers.hear(pair.b.id, News(holdings=[Holding(worker.id, TENANT, inventory)]))
    await pair.go(1.0)
    assert pair.outcomes(job) == []
    pair.a.peers.hear(pair.b.id, News(holdings=[Holding(worker.id, TENANT, replace(empty, seq=8))]))
    await pair.go(1.0)
    assert pair.outcomes(job) == [Outcome.LEASE_LOST]
