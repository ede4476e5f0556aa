"""WatchJobs: what it tells and to whom, tokens, where it goes on, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from rota_sdk.gen.rota.v1 import jobs_pb2

from rota.coordinator import feeds
from rota.domain import limits
from rota.service import changes

from .running import Refusal, Running, Tenant, eventually, refusal_of, result, state_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

Start = Callable[..., Awaitable[Running]]
Seen = tuple[str, str]


class Watch:
    """One WatchJobs stream, read a message at a time."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.token = ""

    async def read(self, within_s: float = 10.0) -> jobs_pb2.WatchJobsResponse:
        answer = await asyncio.wait_for(self._call.read(), within_s)
        if answer is grpc.aio.EOF:
            raise AssertionError(f"the stream ended: {await self._call.code()}")
        self.token = answer.resume_token
        assert isinstance(answer, jobs_pb2.WatchJobsResponse)
        return answer

    async def change(self, within_s: float = 10.0) -> jobs_pb2.Job:
        """The next message with a job."""
        while True:
            answer = await self.read(within_s)
            if answer.HasField("job"):
                return answer.job

    async def some(self, count: int) -> list[Seen]:
        found = [await self.change() for _ in range(count)]
        return [(job.name, state_name(job.state)) for job in found]

    async def end(self) -> Refusal:
        """How it was ended."""
        with suppress(grpc.aio.AioRpcError):
            while await asyncio.wait_for(self._call.read(), 10.0) is not grpc.aio.EOF:
                pass
        code = await self._call.code()
        details, trailers = await self._call.details(), await self._call.trailing_metadata()
        return refusal_of(grpc.aio.AioRpcError(code, await self._call.initial_metadata(), trailers, details))


@asynccontextmanager
async def watching(tenant: Tenant, token: str = "", **filters: str) -> AsyncIterator[Watch]:
    """A stream that has begun."""
    call = tenant.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(resume_token=token, **filters), timeout=110.0)
    watch = Watch(call)
    try:
        first = await watch.read(20.0)
        assert not first.HasField("job") and first.resume_token
        yield watch
    finally:
        call.cancel()


async def refused(tenant: Tenant, token: str = "", **filters: str) -> Refusal:
    return await Watch(tenant.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(resume_token=token, **filters))).end()


async def test_each_change_of_a_job_is_told(tenant: Tenant) -> None:
    worker = await tenant.worker()
    async with watching(tenant) as watch:
        job = await tenant.create(data=b"secret", labels={"a": "b"})
        lease = await worker.one()
        await worker.done(lease, data=b"result")
        found = [await watch.change() for _ in range(3)]
        assert [(j.name, state_name(j.state)) for j in found] == [
            (job.name, "READY"),
            (job.name, "LEASED"),
            (job.name, "SUCCEEDED"),
        ]
        stored = await tenant.get(job)
        assert stored.payload.data == b"secret" and stored.result.data == b"result"
        stored.ClearField("payload")
        stored.ClearField("result")
        assert found[-1] == stored
        assert found[0].labels == {"a": "b"} and not found[0].HasField("payload")


async def test_only_what_the_filter_asks_for(tenant: Tenant) -> None:
    async with (
        watching(tenant, queue="q") as of_queue,
        watching(tenant, type="u") as of_type,
        watching(tenant, queue="q", type="u") as of_both,
    ):
        one = await tenant.create("t", queue="q")
        two = await tenant.create("u", queue="other")
        three = await tenant.create("u", queue="q")
        assert [name for name, _ in await of_queue.some(2)] == [one.name, three.name]
        assert [name for name, _ in await of_type.some(2)] == [two.name, three.name]
        assert [name for name, _ in await of_both.some(1)] == [three.name]


async def test_nobody_hears_of_another_tenants_jobs(rota: Running, tenant: Tenant) -> None:
    other = await rota.tenant()
    async with watching(tenant) as watch, watching(other) as theirs:
        await other.create_many(5)
        mine = await tenant.create()
        assert await watch.some(1) == [(mine.name, "READY")]
        assert mine.name not in [name for name, _ in await theirs.some(5)]


async def test_many_watchers_share_their_reads(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LOOK_AGAIN_S", 0.3)
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant) as one:
        tokens = [one.token] * 8
        watches = [Watch(tenant.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(resume_token=t))) for t in tokens]
        for watch in watches:
            await watch.read()
        assert coordinator.node.feeds is not None and len(coordinator.node.feeds) == 9
        reads: list[int] = []
        store = coordinator.node.feeds._changes._store
        page = store.page

        async def counted(*arguments: Any) -> Any:
            found = await page(*arguments)
            # How often it looks in vain is a matter of time.
            reads.extend([len(found.changes)] if found.changes else [])
            return found

        monkeypatch.setattr(type(store), "page", lambda self, *arguments: counted(*arguments))
        jobs = [await tenant.create() for _ in range(3)]
        for watch in (one, *watches):
            assert [name for name, _ in await watch.some(3)] == [job.name for job in jobs]
        assert len(reads) <= 8, len(reads)
        for watch in watches:
            watch._call.cancel()
        await eventually(lambda: len(coordinator.node.feeds or ()) == 1)


async def test_silence_is_told_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher of a quiet type keeps a token that is young enough to go on from."""
    monkeypatch.setattr(feeds, "STILL_S", 0.4)
    monkeypatch.setattr("rota.api.jobs.STILL_S", 0.4)
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant, type="quiet") as watch:
        begun = watch.token
        noise = await tenant.create_many(3, "loud")
        while True:
            answer = await watch.read()
            assert not answer.HasField("job")
            if answer.resume_token != begun:
                break
    assert len(noise) == 3
    job = await tenant.create("quiet")
    async with watching(tenant, watch.token, type="quiet") as again:
        assert await again.some(1) == [(job.name, "READY")]


async def test_a_watcher_goes_on_at_every_token(tenant: Tenant) -> None:
    """Nothing is missed, wherever it breaks off; nothing comes twice that was confirmed by its token."""
    async with watching(tenant) as watch:
        names = await tenant.create_many(20)
        tokens = [watch.token]
        for _ in names:
            await watch.change()
            tokens.append(watch.token)
    last = await tenant.create()
    for index, token in enumerate(tokens):
        async with watching(tenant, token) as again:
            assert [name for name, _ in await again.some(21 - index)] == [*names[index:], last.name]


async def test_it_goes_on_at_another_coordinator(start: Start) -> None:
    one = await start()
    two = await start(one.url)
    here = await one.tenant()
    there = two.the_same(here)
    async with watching(here) as watch:
        first = await there.create()
        assert await watch.some(1) == [(first.name, "READY")]
    between = await here.create()
    async with watching(there, watch.token) as watch:
        after = await here.create()
        assert await watch.some(2) == [(between.name, "READY"), (after.name, "READY")]


async def test_a_slow_watcher_misses_nothing_and_nothing_piles_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PAGE", 50)
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant) as slow, watching(tenant) as quick:
        reads: list[int] = []
        assert coordinator.node.feeds is not None
        store = coordinator.node.feeds._changes._store
        page = type(store).page

        async def counted(self: Any, *arguments: Any) -> Any:
            found = await page(self, *arguments)
            reads.append(len(found.changes))
            return found

        monkeypatch.setattr(type(store), "page", counted)
        names = []
        for _ in range(10):
            # Labels as long as may be, so that what fits between both ends is far less than all.
            names += await tenant.create_many(300, labels={"k": "x" * 4000})
        assert [name for name, _ in await quick.some(3000)] == names
        # One of them takes nothing, and so the coordinator comes to read no more, before it has read all for it.
        read = -1
        async with asyncio.timeout(60):
            while sum(reads) != read:
                read = sum(reads)
                await asyncio.sleep(1.5)
        assert read < 2 * 3000
        assert [name for name, _ in await slow.some(3000)] == names


async def test_a_token_is_good_for_its_tenant_and_filter_only(rota: Running, tenant: Tenant) -> None:
    async with watching(tenant, queue="q") as watch:
        token = watch.token
    other = await rota.tenant()
    for found in (
        await refused(other, token, queue="q"),
        await refused(tenant, token),
        await refused(tenant, token, queue="q", type="t"),
        await refused(tenant, ("A" if token[0] != "A" else "B") + token[1:], queue="q"),
        await refused(tenant, "nonsense", queue="q"),
        await refused(tenant, "A" * 20_000, queue="q"),
    ):
        assert found.case == ("INVALID_ARGUMENT", "PAGE_TOKEN_INVALID"), found
        assert found.fields == ("resume_token",)
    found = await refused(tenant, "", queue="x" * 200, type="a b")
    assert found.case == ("INVALID_ARGUMENT", "VALIDATION_FAILED") and "queue" in found.fields


async def test_a_token_that_is_too_old_is_told(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant) as watch:
        token = watch.token
    store = coordinator.node.feeds._changes._store  # type: ignore[union-attr]
    await store.db.writes.run("UPDATE watched_tenants SET watched_until = now()", {})  # type: ignore[attr-defined]
    await store.lapse()
    found = await refused(tenant, token)
    assert found.case == ("FAILED_PRECONDITION", "INVALID_STATE"), found
    assert found.metadata == {"cause": "RESUME_TOKEN_TOO_OLD"}
    assert "watch without a token, then list" in found.message


async def test_an_open_stream_ends_where_changes_are_missing(start: Start) -> None:
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant) as watch:
        store = coordinator.node.feeds._changes._store  # type: ignore[union-attr]
        await store.db.writes.run("DELETE FROM watched_tenants", {})  # type: ignore[attr-defined]
        assert (await watch.end()).case == ("FAILED_PRECONDITION", "INVALID_STATE")


async def test_streams_of_a_tenant_are_bounded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCHES_MAX", 16)
    coordinator = await start()
    tenant = await coordinator.tenant()
    async with watching(tenant) as watch:
        more = [Watch(tenant.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(resume_token=watch.token))) for _ in range(15)]
        for each in more:
            await each.read()
        found = await refused(tenant)
        assert found.case == ("RESOURCE_EXHAUSTED", "RATE_LIMITED"), found
        assert found.retry_after_s is not None
        # Others find room.
        async with watching(await coordinator.tenant()):
            pass
        more[0]._call.cancel()
        await eventually(lambda: len(coordinator.node.feeds or ()) == 15)
        async with watching(tenant):
            pass
        for each in more:
            each._call.cancel()


async def test_a_coordinator_that_leaves_ends_its_streams(start: Start) -> None:
    one = await start()
    two = await start(one.url)
    tenant = await one.tenant()
    async with watching(tenant) as watch:
        await one.node.drain()
        found = await watch.end()
        assert found.case == ("UNAVAILABLE", "DRAINING"), found
        assert found.retry_after_s is not None
    assert (await refused(tenant)).case == ("UNAVAILABLE", "DRAINING")
    job = await two.the_same(tenant).create()
    async with watching(two.the_same(tenant), watch.token) as again:
        assert await again.some(1) == [(job.name, "READY")]


async def test_a_load_of_jobs_is_told_whole(start: Start) -> None:
    """Each of 5,000 jobs from its creation to its success, with workers and changes in each other's way."""
    coordinator = await start(session_ttl_s=60.0, delivery_ttl_s=60.0)
    tenant = await coordinator.tenant()
    count = 5_000
    states: dict[str, list[str]] = {}

    async def work() -> None:
        worker = await tenant.worker()
        left = count
        while left:
            leases = await worker.lease(min(left, 500), 5.0)
            if leases:
                await worker.settle(*[result(lease) for lease in leases])
            left -= len(leases)

    async def watch_all(watch: Watch) -> None:
        ended = 0
        while ended < count:
            job = await watch.change()
            states.setdefault(job.name, []).append(state_name(job.state))
            ended += state_name(job.state) == "SUCCEEDED"

    async with watching(tenant) as watch:
        seeing = asyncio.ensure_future(watch_all(watch))
        working = asyncio.ensure_future(work())
        names = []
        for _ in range(count // 500):
            names += await tenant.create_many(500)
        await asyncio.wait_for(working, 60)
        await asyncio.wait_for(seeing, 60)
    assert set(states) == set(names)
    assert {tuple(found) for found in states.values()} == {("READY", "LEASED", "SUCCEEDED")}
