"""Forwarding: a worker gets any job wherever it is attached, and whatever is lost on the way is found again."""

import asyncio
from dataclasses import replace

import pytest

from rota.coordinator.dispatcher import FORWARDED_AT_ONCE
from rota.coordinator.members import Inventory
from rota.coordinator.news import Claimed, ClaimWish, Holding, News, Offer
from rota.coordinator.reaper import TICK_S, UNHEARD_S
from rota.domain import limits
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry, Wants
from rota.domain.ids import JobId, ShardNo, TenantId
from rota.domain.model import CancelMode, DirectiveKind, Grant, JobState, Outcome

from ..sim.fake_store import FakeShards
from .pair import CLAIM_TIMEOUT_S, DELIVERY_TTL_S, IDENTITY, SOON_S, TENANT, Pair, Worker, knows
from .virtual import virtual

WANTS = Wants(TENANT, ("q",), frozenset())
ASKED_S = DELIVERY_TTL_S + UNHEARD_S + TICK_S + SOON_S
"""By then an owner has asked for a lease of whose receipt it has not heard."""


async def a_pair() -> Pair:
    return await Pair().start()


@virtual
async def test_a_poll_gets_the_job_of_a_peer() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    began = pair.clock.monotonic()
    job = await pair.create(pair.b)
    delivery = await poll
    assert delivery is not None
    (grant,) = delivery.grants
    assert (grant.job_id, grant.session_id) == (job, worker.id)
    assert pair.clock.monotonic() - began < 0.02
    # Both know of it: one gave it to the worker, and to the other one the job belongs.
    assert knows(pair.a, job, grant.fence) and knows(pair.b, job, grant.fence)
    assert (await worker.complete(grant)).state is JobState.SUCCEEDED


@virtual
async def test_a_job_that_waits_is_had_by_a_worker_that_comes_to_a_peer() -> None:
    pair = await a_pair()
    jobs = {await pair.create(pair.b, at=pair.a) for _ in range(3)}
    await asyncio.sleep(SOON_S)
    worker = await pair.worker(pair.a)
    grants = await worker.got(capacity=3)
    assert {grant.job_id for grant in grants} == jobs


@virtual
async def test_a_job_created_at_a_peer_reaches_its_owner_at_once() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.b)
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    began = pair.clock.monotonic()
    await pair.create(pair.b, at=pair.a)
    assert await poll is not None
    assert pair.clock.monotonic() - began < 0.01


@virtual
async def test_only_what_the_session_takes_is_claimed_for_it() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a, types=("t",), queues=("q", "r"))
    for fields in ({"type": "u"}, {"queue": "s"}):
        await pair.create(pair.b, **fields)
    wanted = {await pair.create(pair.b, **fields) for fields in ({"queue": "q"}, {"queue": "r"})}
    got: list[Grant] = []
    while len(got) < len(wanted):
        delivery = await worker.poll(capacity=9)
        assert delivery is not None
        got += delivery.grants
        await worker.beat(*got, batch=delivery.batch)
    assert {grant.job_id for grant in got} == wanted
    assert len(pair.b.memory.ready) == 2


@virtual
async def test_no_more_is_claimed_than_there_is_room_for() -> None:
    pair = await a_pair()
    for _ in range(5):
        await pair.create(pair.b)
    worker = await pair.worker(pair.a)
    assert len(await worker.got(capacity=2)) == 2
    assert len(pair.b.memory.in_flight) == 2


@virtual
async def test_the_better_job_is_taken_wherever_it_is() -> None:
    for priority_there, priority_here in ((9, 4), (4, 9)):
        pair = await a_pair()
        worker = await pair.worker(pair.a)
        await told_demand(pair, worker)
        there = await pair.create(pair.b, priority=priority_there)
        here = await pair.create(pair.a, priority=priority_here)
        await asyncio.sleep(SOON_S)
        kind, order = kind_of(pair), pair.b.memory.ready.peek(WANTS)
        assert order is not None
        # As if it had been offered for polls before.
        pair.a._demands.hear(pair.b.id, [Offer(kind, 1, order)])
        (grant,) = await worker.got()
        assert grant.job_id == (there if priority_there > priority_here else here)
        assert len(pair.cable(pair.a, pair.b).claims) == (priority_there > priority_here)


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
    worker = await pair.worker(pair.a)
    job = await pair.create(pair.b)
    await worker.got()
    pair.tables.sessions[worker.id].expires_us = 0
    await pair.a.reaper.step()
    await asyncio.sleep(SOON_S)
    await pair.b.reaper.step()
    assert pair.outcomes(job) == [Outcome.LEASE_LOST]


@virtual
async def test_a_stopped_peer_costs_the_claim_timeout_once() -> None:
    pair = await a_pair()
    worker, second = await pair.worker(pair.a), await pair.worker(pair.a)
    kind = kind_of(pair)
    cable = pair.cable(pair.a, pair.b)
    cable.cut = True
    # It had plenty, and does nothing any more.
    pair.a._demands.hear(pair.b.id, [Offer(kind, 1_000, -1e12)])
    began = pair.clock.monotonic()
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    job = await pair.create(pair.a)
    delivery = await poll
    assert delivery is not None and delivery.grants[0].job_id == job
    assert pair.clock.monotonic() - began < CLAIM_TIMEOUT_S + SOON_S
    # The next one does not even try.
    job = await pair.create(pair.a)
    began = pair.clock.monotonic()
    assert [grant.job_id for grant in await second.got()] == [job]
    assert (pair.clock.monotonic() - began < SOON_S, len(cable.claims)) == (True, 1)


@virtual
async def test_a_local_job_does_not_wait_for_polls_that_are_away() -> None:
    """Claims at a peer that hangs take one poll each, and the others serve what is here."""
    pair = await a_pair()
    workers = [await pair.worker(pair.a) for _ in range(2)]
    kind = kind_of(pair)
    pair.cable(pair.a, pair.b).cut = True
    polls = [worker.poll() for worker in workers]
    await asyncio.sleep(SOON_S)
    pair.a._demands.hear(pair.b.id, [Offer(kind, 1, -1e12)])
    pair.a.dispatcher.pump()
    began = pair.clock.monotonic()
    await pair.create(pair.a)
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert pair.clock.monotonic() - began < SOON_S


@virtual
async def test_not_too_many_claims_are_on_their_way() -> None:
    pair = await a_pair()
    workers = [await pair.worker(pair.a) for _ in range(FORWARDED_AT_ONCE + 10)]
    kind = kind_of(pair)
    cable = pair.cable(pair.a, pair.b)
    cable.cut = True
    polls = [worker.poll(wait_s=CLAIM_TIMEOUT_S / 2) for worker in workers]
    await asyncio.sleep(SOON_S)
    pair.a._demands.hear(pair.b.id, [Offer(kind, 10_000, -1e12)])
    pair.a.dispatcher.pump()
    await asyncio.sleep(SOON_S)
    assert len(cable.claims) == FORWARDED_AT_ONCE
    await asyncio.gather(*polls)


@virtual
async def test_an_empty_answer_is_no_reason_to_ask_again_at_once() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    kind = kind_of(pair)
    cable = pair.cable(pair.a, pair.b)
    # It had something, and what it had was taken just then; it says that there is more.
    offer = Offer(kind, 1_000, -1e12)
    cable.answer = Claimed([], (offer,))
    poll = worker.poll(wait_s=1.0)
    await asyncio.sleep(SOON_S)
    pair.a._demands.hear(pair.b.id, [offer])
    pair.a.dispatcher.pump()
    assert await poll is None
    assert len(cable.claims) == 1


@virtual
async def test_nothing_is_granted_for_whom_it_is_not_or_by_who_leaves() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    await told_demand(pair, worker)
    wish = wish_for(pair, worker)
    await pair.create(pair.b)
    # The demand is another tenant's, or is not known.
    assert await pair.b.peers.claim_for(replace(wish, tenant_id=TenantId(2))) == Claimed([])
    assert await pair.b.peers.claim_for(replace(wish, demand_ids=(99,))) == Claimed([])
    assert len(pair.b.memory.ready) == 1
    await pair.b.dispatcher.drain()
    with pytest.raises(Unavailable):
        await pair.b.peers.claim_for(wish)


@virtual
async def test_an_owner_whose_term_is_in_doubt_grants_nothing() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    pair.b.ownership._trusted_until = 0.0
    job = await pair.create(pair.b)
    with pytest.raises(Unavailable):
        await pair.b.peers.claim_for(wish_for(pair, worker))
    await asyncio.sleep(SOON_S)
    assert not poll.done()
    await pair.b.ownership.step()
    delivery = await poll
    assert delivery is not None and delivery.grants[0].job_id == job


@virtual
async def test_demand_ends_with_the_link_and_comes_again_with_the_next() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    poll = worker.poll()
    await asyncio.sleep(SOON_S)
    assert pair.b._offers
    cable = pair.cable(pair.a, pair.b)
    cable.end()
    assert not pair.b._offers
    job = await pair.create(pair.b)
    await asyncio.sleep(SOON_S)
    assert not poll.done()
    cable._open()
    delivery = await poll
    assert delivery is not None and delivery.grants[0].job_id == job


@virtual
async def test_a_poll_that_has_timed_out_is_demanded_for_no_more() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    assert await worker.poll(wait_s=0.5) is None
    await asyncio.sleep(SOON_S)
    assert not pair.b._offers
    await pair.create(pair.b)
    await asyncio.sleep(SOON_S)
    assert not pair.cable(pair.a, pair.b).claims


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


@virtual
async def test_peers_are_woken_for_schedules_and_settings() -> None:
    pair = await a_pair()
    heard: list[str] = []
    pair.b.memory.on_armed = lambda: heard.append("armed")
    pair.b.memory.on_queues = lambda: heard.append("queues")
    pair.a.memory.schedules_armed()
    pair.a.memory.queues_changed()
    await asyncio.sleep(SOON_S)
    assert sorted(heard) == ["armed", "queues"]


@virtual
async def test_a_job_told_to_an_owner_before_is_passed_on() -> None:
    pair = await a_pair()
    shard = min(pair.a.memory.terms)
    await move(pair, shard, to_b=True)
    entry = Entry(TENANT, JobId(pair.clock.new_id()), shard, "q", "t", 4, 0, 100)
    # Not to the one that has told of it.
    pair.a.peers.hear(pair.b.id, News(waiting=[entry]))
    await asyncio.sleep(SOON_S)
    assert entry.id not in pair.b.memory.ready
    pair.a.memory.jobs_waiting([entry])
    await asyncio.sleep(SOON_S)
    assert entry.id in pair.b.memory.ready


async def move(pair: Pair, shard: ShardNo, *, to_b: bool = False) -> None:
    """Hands one shard over, as ownership does."""
    giver, taker = (pair.a, pair.b) if to_b else (pair.b, pair.a)
    giver.memory.forget_shards(frozenset([shard]))
    await FakeShards(pair.tables).give_up(giver.id, [shard])
    assert await giver.peers.hand_over(taker.id, [shard]) == [shard]


async def told_demand(pair: Pair, worker: Worker) -> None:
    """A poll of the worker has been demanded for, and has ended."""
    assert await worker.poll(wait_s=SOON_S) is None
    await asyncio.sleep(SOON_S)


def kind_of(pair: Pair) -> int:
    """What A calls the demand of a worker that takes all of queue q."""
    (kind,) = pair.a._demands.kinds(WANTS)
    return kind


def wish_for(pair: Pair, worker: Worker) -> ClaimWish:
    return ClaimWish(pair.a.id, TENANT, "tenant", worker.id, 0, 1, (kind_of(pair),), 1, limits.LEASE_ANSWER_BYTES_MAX)
