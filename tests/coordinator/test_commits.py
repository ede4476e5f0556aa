"""Batcher: many callers, one transaction; a poisoned item fails alone; callers may go away."""

import asyncio
from collections.abc import Sequence

import pytest

from rota.coordinator import commits
from rota.coordinator.commits import Batcher
from rota.domain.errors import Aborted, Internal, OutcomeUnknown, ResourceExhausted, RotaError

from .fakes import FakeClock, turns

Item = str


class Writer:
    """Writes when it is let; answers items in capitals, refuses `no…`, and cannot write a batch with a `bad…`."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[Item]] = []
        self.tried: list[list[Item]] = []
        self.now = self.most = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        if not held:
            self.gate.set()

    async def __call__(self, items: Sequence[Item]) -> list[str | RotaError]:
        self.tried.append(list(items))
        self.now += 1
        self.most = max(self.most, self.now)
        await self.gate.wait()
        self.now -= 1
        if self.error is not None:
            raise self.error
        if any(item.startswith("bad") for item in items):
            raise ValueError("cannot be written")
        self.batches.append(list(items))
        return [Aborted(item) if item.startswith("no") else item.upper() for item in items]


def batcher(writer: Writer, *, batch_max: int = 10, concurrency: int = 1) -> Batcher[Item, str]:
    return Batcher("things", writer, FakeClock(), batch_max=batch_max, concurrency=concurrency)


async def test_an_idle_writer_takes_an_item_at_once() -> None:
    writer = Writer()
    assert await batcher(writer).submit("a") == "A"
    assert writer.batches == [["a"]]


async def test_what_comes_in_one_turn_goes_together_in_order() -> None:
    writer = Writer()
    both = batcher(writer)
    futures = [both.enqueue(item) for item in "abc"]
    assert await asyncio.gather(*futures) == ["A", "B", "C"]
    assert writer.batches == [["a", "b", "c"]]


async def test_while_all_connections_are_busy_items_gather() -> None:
    writer = Writer(held=True)
    busy = batcher(writer, concurrency=2)
    futures = []
    for item in "abcde":
        futures.append(busy.enqueue(item))
        await turns()
    assert writer.tried == [["a"], ["b"]]
    writer.gate.set()
    assert await asyncio.gather(*futures) == list("ABCDE")
    assert writer.batches == [["a"], ["b"], ["c", "d", "e"]]
    assert writer.most == 2


async def test_a_batch_has_a_size() -> None:
    writer = Writer()
    small = batcher(writer, batch_max=3)
    await asyncio.gather(*(small.enqueue(item) for item in "abcdefgh"))
    assert writer.batches == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]


async def test_items_have_weights_and_one_is_taken_however_heavy() -> None:
    writer = Writer()
    weighed: Batcher[Item, str] = Batcher("things", writer, FakeClock(), batch_max=5, concurrency=1, weight=len)
    await asyncio.gather(*(weighed.enqueue(item) for item in ("aaa", "bb", "c", "ddddddddd", "e")))
    assert writer.batches == [["aaa", "bb"], ["c"], ["ddddddddd"], ["e"]]


async def test_equal_keys_never_share_a_batch_and_nothing_overtakes_them() -> None:
    writer = Writer()
    keyed: Batcher[Item, str] = Batcher(
        "things", writer, FakeClock(), batch_max=9, concurrency=1, key=lambda item: item[0]
    )
    answers = await asyncio.gather(*(keyed.enqueue(item) for item in ("a1", "b1", "a2", "c1", "a3", "b2")))
    assert answers == ["A1", "B1", "A2", "C1", "A3", "B2"]
    assert writer.batches == [["a1", "b1"], ["a2", "c1"], ["a3", "b2"]]


async def test_no_key_is_no_key() -> None:
    writer = Writer()
    keyed: Batcher[Item, str] = Batcher(
        "things", writer, FakeClock(), batch_max=9, concurrency=1, key=lambda item: None
    )
    await asyncio.gather(*(keyed.enqueue("a") for _ in range(3)))
    assert writer.batches == [["a", "a", "a"]]


async def test_each_gets_its_own_refusal() -> None:
    writer = Writer()
    answers = await asyncio.gather(*(batcher(writer).enqueue(i) for i in ("a", "no", "b")), return_exceptions=True)
    assert [answers[0], answers[2]] == ["A", "B"]
    assert isinstance(answers[1], Aborted)


@pytest.mark.parametrize("position", range(7))
async def test_a_poisoned_item_fails_alone(position: int) -> None:
    writer = Writer()
    items = [f"bad{i}" if i == position else f"i{i}" for i in range(7)]
    mixed = batcher(writer)
    answers = await asyncio.gather(*(mixed.enqueue(item) for item in items), return_exceptions=True)
    for index, answer in enumerate(answers):
        if index == position:
            assert isinstance(answer, Internal)
            assert "cannot be written" not in str(answer), "a text of the database's, which may hold anything"
        else:
            assert answer == f"I{index}"
    # Halves, not one by one.
    assert len(writer.tried) <= 1 + 2 * 3


async def test_an_outage_fails_the_batch_as_it_is() -> None:
    writer = Writer()
    writer.error = OutcomeUnknown("gone")
    down = batcher(writer)
    answers = await asyncio.gather(*(down.enqueue(i) for i in "abc"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 3
    # Whether it was written is unknown, so nothing is tried twice.
    assert writer.tried == [["a", "b", "c"]]


async def test_a_caller_that_goes_leaves_its_write_behind() -> None:
    writer = Writer(held=True)
    waiting = batcher(writer)
    tasks = [asyncio.ensure_future(waiting.submit(item)) for item in ("a", "b", "no", "bad")]
    await turns()
    for task in tasks:
        task.cancel()
    await turns()
    kept = asyncio.ensure_future(waiting.submit("c"))
    writer.gate.set()
    assert await kept == "C"
    await waiting.drain()
    assert sorted(item for batch in writer.batches for item in batch) == ["a", "b", "c", "no"]
    assert all(task.cancelled() for task in tasks)


async def test_a_full_queue_refuses_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "WAITING_MAX", 3)
    writer = Writer(held=True)
    full = batcher(writer)
    first = full.enqueue("a")
    await turns()
    futures = [full.enqueue(item) for item in "bcd"]
    with pytest.raises(ResourceExhausted) as refused:
        full.enqueue("e")
    assert refused.value.reason == "RATE_LIMITED"
    assert refused.value.retry_after_s
    writer.gate.set()
    assert await asyncio.gather(first, *futures) == list("ABCD")
    assert await full.submit("e") == "E"


async def test_items_put_back_for_their_key_still_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "WAITING_MAX", 4)
    writer = Writer(held=True)
    keyed: Batcher[Item, str] = Batcher(
        "things", writer, FakeClock(), batch_max=9, concurrency=1, key=lambda item: item[0]
    )
    futures = [keyed.enqueue(item) for item in ("a1", "a2", "a3")]
    await turns()
    assert writer.tried == [["a1"]]
    futures += [keyed.enqueue(item) for item in ("b1", "b2")]
    with pytest.raises(ResourceExhausted):
        keyed.enqueue("b3")
    writer.gate.set()
    assert await asyncio.gather(*futures) == ["A1", "A2", "A3", "B1", "B2"]


async def test_drain_waits_for_everything() -> None:
    writer = Writer(held=True)
    busy = batcher(writer, batch_max=2)
    futures = [busy.enqueue(item) for item in "abcde"]
    draining = asyncio.ensure_future(busy.drain())
    await turns()
    assert not draining.done()
    writer.gate.set()
    await draining
    assert all(future.done() for future in futures)
    await busy.drain()


async def test_batches_apart_gather_what_comes_meanwhile() -> None:
    clock = FakeClock()
    batches: list[list[int]] = []

    async def flush(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    batcher = Batcher("items", flush, clock, batch_max=100, concurrency=1, apart_s=0.02)
    assert await batcher.submit(1) == 1
    waiting = [batcher.enqueue(number) for number in (2, 3)]
    await turns()
    assert batches == [[1]]
    clock.now += 0.02
    assert await asyncio.wait_for(asyncio.gather(*waiting), 5) == [2, 3]
    assert batches == [[1], [2, 3]]
    # After a rest the first one goes at once, and nothing waits for a drain.
    clock.now += 1.0
    assert await batcher.submit(4) == 4
    batcher.enqueue(5)
    await batcher.drain()
    assert batches == [[1], [2, 3], [4], [5]]
