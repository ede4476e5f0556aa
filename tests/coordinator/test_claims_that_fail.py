"""A store that cannot answer claims: they are tried again at a pace, told of once, and in the end left to others."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from rota.coordinator import claims as module
from rota.domain.errors import Unavailable
from rota.domain.model import Grant, JobState

from .pair import Pair, a_pair
from .virtual import virtual


class Failing:
    """Claims fail until this is over."""

    def __init__(self, pair: Pair) -> None:
        self.claims = 0
        self.over = False
        for node in pair.nodes.values():
            leases = node.claims._leases
            leases.claim = partial(self._claim, leases.claim)  # type: ignore[method-assign]

    async def _claim(self, claim: Callable[..., Awaitable[list[Grant]]], *args: Any) -> list[Grant]:
        if self.over:
            return await claim(*args)
        self.claims += 1
        raise Unavailable("no connection to be had")


@virtual
async def test_they_are_tried_again_at_a_pace_and_told_of_once() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    failing = Failing(pair)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    module.log.addHandler(handler)
    try:
        call = worker.poll(wait_s=60.0)
        job = await pair.create(pair.a)
        for _ in range(12):
            await worker.beat()
            await pair.go(2.0)
        assert 10 <= failing.claims <= 40
        assert pair.row(job).state is JobState.SCHEDULED
        assert pair.a.claims.undone() == ["claims"]
        failing.over = True
        await pair.go(module.REST_MAX_S)
        delivery = await call
        assert delivery is not None and [grant.job_id for grant in delivery.grants] == [job]
    finally:
        module.log.removeHandler(handler)
    assert pair.a.claims.undone() == []
    assert pair.outcomes(job) == []
    assert [record.levelno for record in records if record.levelno >= logging.WARNING] == [logging.WARNING]
    # And the next one waits for nothing.
    await worker.complete(delivery.grants[0])
    again = worker.poll(ack=delivery.batch)
    await pair.create(pair.a)
    await pair.go(0.25)
    assert again.done()


@virtual
async def test_one_that_failed_long_ago_says_nothing_of_now() -> None:
    pair = await a_pair()
    worker = await pair.worker(pair.a)
    failing = Failing(pair)
    call = worker.poll(wait_s=2.0)
    await pair.create(pair.a)
    await pair.go(60.0)
    assert await call is None
    assert failing.claims >= 1
    assert pair.a.claims.undone() == []
