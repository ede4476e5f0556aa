"""Lease calls that come again: the last one gets its answer again, and a copy of an earlier one harms nobody."""

import asyncio

from rota.domain.model import JobState

from .pair import SOON_S, a_pair
from .virtual import virtual


@virtual
async def test_the_last_call_gets_its_answer_again() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    job = await pair.create(pair.a)
    first = await worker.call("r1")
    assert first is not None and [grant.job_id for grant in first.grants] == [job]
    assert await worker.call("r1") is first
    assert pair.outcomes(job) == []


@virtual
async def test_a_copy_of_an_earlier_call_takes_nothing_back() -> None:
    """It names the batch before the last: that one would seem not to have arrived."""
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    assert await worker.call("r1", wait_s=0.0) is None
    job = await pair.create(pair.a)
    assert await worker.call("r2") is not None
    assert await worker.call("r1") is None
    await pair.go(1.0)
    assert (pair.outcomes(job), pair.row(job).state) == ([], JobState.LEASED)


@virtual
async def test_a_copy_of_an_earlier_call_does_not_end_the_one_that_waits() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    assert await worker.call("r1", wait_s=0.0) is None
    waiting = asyncio.create_task(worker.call("r2"))
    await asyncio.sleep(SOON_S)
    assert await worker.call("r1") is None
    await asyncio.sleep(SOON_S)
    assert not waiting.done()
    job = await pair.create(pair.a)
    delivery = await waiting
    assert delivery is not None and [grant.job_id for grant in delivery.grants] == [job]


@virtual
async def test_the_last_call_that_comes_again_takes_the_place_of_the_first() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    waiting = asyncio.create_task(worker.call("r1"))
    await asyncio.sleep(SOON_S)
    again = asyncio.create_task(worker.call("r1"))
    assert await waiting is None
    await pair.create(pair.a)
    assert await again is not None
