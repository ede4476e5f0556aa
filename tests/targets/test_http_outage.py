"""Targets that do not answer: they rest, their jobs are given back, and no attempt is burnt."""

import asyncio

import pytest
from rota_sdk import EffectState, Failed, Release

from rota.targets.http.breaker import OPENS_AFTER, REST_FIRST_S, REST_MOST_S, Breaker, Permit
from rota.targets.http.hosts import Hosts

from .http_world import Bench, Lease, Peer, Server, answers, closed_port


def fail(breaker: Breaker, now: float, times: int = OPENS_AFTER) -> None:
    for _ in range(times):
        permit = breaker.admit(now)
        assert permit is not None
        breaker.failed(permit, now)


def permit_of(breaker: Breaker, now: float) -> Permit:
    permit = breaker.admit(now)
    assert permit is not None
    return permit


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, OPENS_AFTER - 1)
    breaker.answered(permit_of(breaker, 0.0))
    fail(breaker, 0.0, OPENS_AFTER - 1)
    assert not breaker.open
    fail(breaker, 0.0, 1)
    assert breaker.open
    assert (breaker.admit(0.0), breaker.rest_s(0.0)) == (None, REST_FIRST_S)


def test_after_its_rest_one_call_goes_as_a_probe() -> None:
    breaker = Breaker()
    fail(breaker, 0.0)
    assert breaker.admit(REST_FIRST_S - 0.1) is None
    probe = permit_of(breaker, REST_FIRST_S)
    assert probe.probe
    assert breaker.admit(REST_FIRST_S) is None
    breaker.answered(probe)
    assert not breaker.open
    assert not permit_of(breaker, REST_FIRST_S).probe


def test_a_probe_that_fails_makes_the_rest_longer_up_to_a_bound() -> None:
    breaker, now, rests = Breaker(), 0.0, []
    fail(breaker, now)
    for _ in range(10):
        rests.append(breaker.rest_s(now))
        now += breaker.rest_s(now)
        fail(breaker, now, 1)
    assert rests[:4] == [5.0, 10.0, 20.0, 40.0]
    assert rests[-1] == REST_MOST_S
    breaker.answered(permit_of(breaker, now + REST_MOST_S))
    fail(breaker, now)
    assert breaker.rest_s(now) == REST_FIRST_S


def test_a_probe_that_is_dropped_leaves_the_place_to_another() -> None:
    breaker = Breaker()
    fail(breaker, 0.0)
    breaker.dropped(permit_of(breaker, REST_FIRST_S))
    assert permit_of(breaker, REST_FIRST_S).probe


def test_calls_of_before_are_not_heard() -> None:
    breaker = Breaker()
    permits = [permit_of(breaker, 0.0) for _ in range(10)]
    for permit in permits[:-1]:
        breaker.failed(permit, 0.0)
    breaker.failed(permits[-1], REST_FIRST_S - 1)
    assert breaker.rest_s(0.0) == REST_FIRST_S
    breaker.answered(permits[0])
    assert breaker.open
    probe = permit_of(breaker, REST_FIRST_S)
    breaker.answered(probe)
    breaker.failed(permits[0], REST_FIRST_S)
    breaker.dropped(probe)
    assert not breaker.open


async def test_a_place_that_comes_to_who_is_cancelled_is_not_lost() -> None:
    host = Hosts(1).of("http://x")
    assert await host.enter(0)
    waiting = asyncio.create_task(host.enter(10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    host.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await host.enter(0)
    assert not await host.enter(0)


def test_a_host_that_rests_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.targets.http.hosts.REMEMBERED", 3)
    hosts = Hosts(10)
    resting = hosts.of("http://rests")
    fail(resting.breaker, 0.0)
    for number in range(20):
        hosts.of(f"http://{number}")
    assert hosts.of("http://rests") is resting
    assert len(hosts._known) <= 4


async def test_an_outage_burns_no_attempts() -> None:
    """One job alone, with the five attempts that a job has: twelve hours of nobody there, and then somebody."""
    bench, port, counted, given_back = Bench(), closed_port(), 0, []
    lease = Lease(f"http://127.0.0.1:{port}/")
    for attempt in range(1, 30):
        lease.attempt, lease.attempts_counted = attempt, counted
        with pytest.raises((Failed, Release)) as caught:
            await bench.begin(lease)
        if isinstance(caught.value, Release):
            assert isinstance(caught.value.delay, float)
            given_back.append(caught.value.delay)
            bench.clock.at += caught.value.delay
        else:
            counted += 1
            bench.clock.at += 1.0
        if len(given_back) == 20:
            break
    assert counted == OPENS_AFTER - 1
    # 20 is what the coordinator grants.
    assert sum(given_back) > 10 * 3_600
    assert given_back[0] < 7
    assert max(given_back) <= 3_600
    async with Server() as server:
        bench.names.known["127.0.0.1"] = [["127.0.0.1"]]
        found = await bench.result(f"http://127.0.0.1:{server.port}/")
        assert found["status"] == 200


async def test_jobs_of_a_target_that_rests_are_given_back_without_a_call() -> None:
    bench = Bench()
    async with Server([answers(503)]) as server:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(OPENS_AFTER):
            assert (await bench.failure(Failed, url)).type == "Http503"
        released = await bench.failure(Release, url)
        assert "does not answer and rests" in str(released)
        assert released.delay >= REST_FIRST_S
        assert len(server.seen) == OPENS_AFTER
        # Another target is not concerned.
        async with Server() as other:
            assert (await bench.result(f"http://127.0.0.1:{other.port}/"))["status"] == 200
        server.script = [answers(200)]
        bench.clock.at += REST_FIRST_S
        assert (await bench.result(url))["status"] == 200
        assert (await bench.result(url))["status"] == 200


async def test_only_one_probe_goes_at_a_time() -> None:
    bench, go = Bench(), asyncio.Event()

    async def waits(peer: Peer) -> None:
        await go.wait()
        await peer.answer()

    async with Server([answers(502)] * OPENS_AFTER + [waits]) as server:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(OPENS_AFTER):
            await bench.failure(Failed, url)
        bench.clock.at += REST_FIRST_S
        probe = bench.begin(Lease(url))
        while len(server.seen) == OPENS_AFTER:
            await asyncio.sleep(0.01)
        await bench.failure(Release, url)
        go.set()
        assert (await probe).json()["status"] == 200
        assert len(server.seen) == OPENS_AFTER + 1


async def test_a_probe_that_is_cancelled_does_not_keep_the_target_resting() -> None:
    bench = Bench()

    async def waits(peer: Peer) -> None:
        await peer.reader.read()

    async with Server([answers(502)] * OPENS_AFTER + [waits, answers(200)]) as server:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(OPENS_AFTER):
            await bench.failure(Failed, url)
        bench.clock.at += REST_FIRST_S
        probe = bench.begin(Lease(url))
        while len(server.seen) == OPENS_AFTER:
            await asyncio.sleep(0.01)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert (await bench.result(url))["status"] == 200


async def test_a_call_in_doubt_counts_even_while_the_target_rests() -> None:
    bench = Bench()

    async def reset(peer: Peer) -> None:
        peer.reset()

    async with Server([reset]) as server:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(OPENS_AFTER):
            assert (await bench.failure(Failed, url)).effect is EffectState.UNKNOWN
        await bench.failure(Release, url)
        bench.clock.at += REST_FIRST_S
        assert (await bench.failure(Failed, url)).effect is EffectState.UNKNOWN


async def test_answers_that_say_no_are_no_outage() -> None:
    bench = Bench()
    async with Server([answers(500)]) as server:
        for _ in range(3 * OPENS_AFTER):
            assert (await bench.failure(Failed, f"http://127.0.0.1:{server.port}/")).type == "Http500"


async def test_giving_back_is_paced() -> None:
    bench = Bench()
    async with Server([answers(503)]) as server:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(OPENS_AFTER):
            await bench.failure(Failed, url)
        began = bench.clock.at
        for _ in range(100):
            await bench.failure(Release, url)
    assert bench.clock.at - began == pytest.approx(99 / 50)
