"""Calls that are written down at the coordinator: what the ledger is told, with one that a test looks into."""

import asyncio
from types import TracebackType
from typing import Any

import pytest
from rota_sdk import EffectState, Failed, effects
from rota_sdk.effects import InDoubt

from .http_world import Bench, Lease, Names, Peer, Server, answers, closed_port


class Ledger:
    """As the SDK's, without a coordinator: `ended` is what would be committed."""

    def __init__(self, *, proceed: bool = True) -> None:
        self.proceed = proceed
        self.reference = "pay-7"
        self.policy: InDoubt | None = None
        self.ended = ""
        self._refused: tuple[type[BaseException], ...] = ()
        self._not_applied = False

    def begin(self, _: object, *, in_doubt: InDoubt, refused: tuple[type[BaseException], ...]) -> "Ledger":
        self.policy, self._refused = in_doubt, refused
        return self

    def not_applied(self) -> None:
        self._not_applied = True

    async def __aenter__(self) -> "Ledger":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._not_applied or isinstance(error, self._refused):
            self.ended = "NOT_APPLIED"
        else:
            self.ended = "APPLIED" if error is None else "UNKNOWN"


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    made = Ledger()
    monkeypatch.setattr(effects, "ledger", made.begin)
    return made


@pytest.mark.parametrize(
    ("status", "ended"),
    [(200, "APPLIED"), (404, "NOT_APPLIED"), (429, "NOT_APPLIED"), (409, "UNKNOWN"), (500, "UNKNOWN")],
)
async def test_the_answer_decides(ledger: Ledger, status: int, ended: str) -> None:
    async with Server([answers(status)]) as server:
        call = Bench().begin(Lease(f"http://127.0.0.1:{server.port}/", in_doubt="ask"))
        await asyncio.wait((call,))
        call.exception()
    assert (ledger.ended, ledger.policy) == (ended, InDoubt.ASK)


async def test_without_a_policy_nothing_is_written_down(ledger: Ledger) -> None:
    async with Server() as server:
        await Bench().result(f"http://127.0.0.1:{server.port}/")
    assert (ledger.policy, ledger.ended) == (None, "")


async def test_a_call_that_was_not_made_leaves_no_doubt(ledger: Ledger) -> None:
    failure = await Bench().failure(Failed, f"http://127.0.0.1:{closed_port()}/", in_doubt="assume-done")
    assert (failure.effect, ledger.ended) == (EffectState.NOT_APPLIED, "NOT_APPLIED")


async def test_what_an_earlier_attempt_has_done_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(proceed=False)
    monkeypatch.setattr(effects, "ledger", ledger.begin)
    async with Server() as server:
        found = await Bench().result(f"http://127.0.0.1:{server.port}/", in_doubt="ask")
    assert (found["status"], found["reference"], server.connections) == (None, "pay-7", 0)


async def test_a_call_cancelled_before_it_was_sent_leaves_no_doubt(ledger: Ledger) -> None:
    asked = asyncio.Event()

    class Slow(Names):
        async def __call__(self, host: str, port: int) -> Any:
            asked.set()
            await asyncio.sleep(30)

    call = Bench(names=Slow()).begin(Lease("http://x.example/", in_doubt="ask"))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ledger.ended == "NOT_APPLIED"


async def test_a_call_cancelled_after_it_was_sent_is_in_doubt(ledger: Ledger) -> None:
    async def waits(peer: Peer) -> None:
        await peer.reader.read()

    async with Server([waits]) as server:
        call = Bench().begin(Lease(f"http://127.0.0.1:{server.port}/", in_doubt="ask"))
        while not server.seen:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert ledger.ended == "UNKNOWN"
