"""Forwarding: a worker gets any job wherever it is attached, the better one first, and nobody waits for who is gone."""

import asyncio
from dataclasses import replace

import pytest

from rota.coordinator.dispatcher import FORWARDED_AT_ONCE
from rota.coordinator.news import Claimed, News, Offer
from rota.domain.errors import Unavailable
from rota.domain.fairness import Entry
from rota.domain.ids import JobId, TenantId
from rota.domain.model import Grant, JobState

from .pair import CLAIM_TIMEOUT_S, SOON_S, TENANT, WANTS, a_pair, kind_of, knows, move, told_demand, wish_for
from .virtual import virtual


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
async def test_a_claim_that_fails_in_a_way_nobody_thought_of_leaves_the_poll_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    await told_demand(pair, worker)
    cable = pair.cable(pair.a, pair.b)
    cable.fault = ValueError("a fault of ours")
    poll = worker.poll()
    theirs = await pair.create(pair.b)
    await asyncio.sleep(SOON_S)
    assert cable.claims and not poll.done()
    assert "a fault of ours" in caplog.text
    cable.fault = None
    delivery = await asyncio.wait_for(poll, 1.0)
    assert delivery is not None
    assert [grant.job_id for grant in delivery.grants] == [theirs]


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
    pair.b.ownership._wake.clear()
    cable.end()
    assert not pair.b._offers
    # Where it has gone for good, its shards have new owners by now.
    assert pair.b.ownership._wake.is_set()
    job = await pair.create(pair.b)
    await asyncio.sleep(SOON_S)
    assert not poll.done()
    cable._open()
    delivery = await poll
    assert delivery is not None and delivery.grants[0].job_id == job


@virtual
async def test_offers_end_with_the_link() -> None:
    pair = await a_pair()
    pair.a._demands.hear(pair.b.id, [Offer(kind_of(pair), 9, -1e12)])
    pair.cable(pair.b, pair.a).end()
    assert not pair.a._demands
    worker = await pair.worker(pair.a)
    assert await worker.got(wait_s=SOON_S) == []
    assert not pair.cable(pair.a, pair.b).claims


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
