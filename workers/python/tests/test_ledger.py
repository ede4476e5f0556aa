"""The ledger as handlers use it: what is asked, what is said of the end, and what becomes of the attempt."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from conftest import running
from rota_conformance.script_server import STALE_FENCE, UNAVAILABLE, Refusal, ScriptServer
from rota_sdk import EffectState, Lease, Worker, effects
from rota_sdk.effects import Applied, InDoubt, NotApplied
from rota_sdk.gen.rota.v1 import common_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

UNSAID, NOT_APPLIED, APPLIED, UNKNOWN = EffectState
ASK, ASSUME_DONE, REDO = InDoubt
MODES = ["sync", "async"]


def told(proceed: bool, state: EffectState = UNSAID, reference: str = "") -> Callable[[Any, Any], Any]:
    """An answer of the coordinator's."""
    answer = worker_pb2.BeginEffectResponse(proceed=proceed, state=int(state))  # type: ignore[arg-type]
    if reference:
        answer.receipt.CopyFrom(common_pb2.EffectReceipt(effect_key="key", reference=reference))
    return lambda request, context: answer


IN_DOUBT = told(True, UNKNOWN)


class Pay:
    """A handler in both kinds, with the ledger around a call that is counted."""

    def __init__(self, mode: str, *, fails: BaseException | None = None, after: bool = False, **options: Any) -> None:
        self.calls = 0
        self.mode = mode
        self.fails = fails
        self.after = after
        self.options = options
        self.seen: effects.Ledger | None = None

    @property
    def handler(self) -> Any:
        return self._async if self.mode == "async" else self._sync

    def _call(self, effect: effects.Ledger) -> None:
        self.seen = effect
        if effect.proceed:
            self.calls += 1
            if self.fails is not None and not self.after:
                raise self.fails
            effect.reference = "pay-1"

    def _sync(self, lease: Lease) -> str:
        with effects.ledger(lease, **self.options) as effect:
            self._call(effect)
        if self.fails is not None:
            raise self.fails
        return "paid"

    async def _async(self, lease: Lease) -> str:
        async with effects.ledger(lease, **self.options) as effect:
            await asyncio.sleep(0)
            self._call(effect)
        if self.fails is not None:
            raise self.fails
        return "paid"


def ran(server: ScriptServer, pay: Any, **job: Any) -> worker_pb2.Result:
    worker = Worker(["default"], 4, address=server.address, api_key="secret")
    worker.add("work", pay.handler)
    lease = server.job(**job)
    server.offer(lease)
    with running(worker):
        return server.result_of(lease.job)


def said(server: ScriptServer) -> list[tuple[EffectState, str]]:
    return [(EffectState(c.state), c.receipt.reference) for c in server.of("CommitEffect")]


@pytest.mark.parametrize("mode", MODES)
def test_the_first_attempt_begins_calls_and_commits(server: ScriptServer, mode: str) -> None:
    pay = Pay(mode)
    result = ran(server, pay, name="jobs/7", fence=77)
    (begun,) = server.of("BeginEffect")
    assert (begun.job, begun.fence, begun.effect_key, begun.in_doubt) == ("jobs/7", 77, "key-1", ASK)
    (committed,) = server.of("CommitEffect")
    assert (committed.job, committed.fence, committed.effect_key) == ("jobs/7", 77, "key-1")
    assert said(server) == [(APPLIED, "pay-1")]
    assert (pay.calls, result.WhichOneof("outcome")) == (1, "succeeded")
    assert [(r.effect_key, r.reference) for r in result.effect_receipts] == [("key-1", "pay-1")]


@pytest.mark.parametrize("mode", MODES)
def test_what_was_applied_before_is_not_done_again(server: ScriptServer, mode: str) -> None:
    server.script("BeginEffect", told(False, APPLIED, "pay-0"))
    pay = Pay(mode)
    result = ran(server, pay)
    assert pay.seen is not None
    assert (pay.seen.proceed, pay.seen.state, pay.seen.reference) == (False, APPLIED, "pay-0")
    assert (pay.calls, said(server), result.WhichOneof("outcome")) == (0, [], "succeeded")
    assert [r.reference for r in result.effect_receipts] == ["pay-0"]


@pytest.mark.parametrize("mode", MODES)
def test_in_doubt_and_asked_the_job_is_given_back_and_nothing_called(server: ScriptServer, mode: str) -> None:
    server.script("BeginEffect", told(False, UNKNOWN))
    pay = Pay(mode)
    result = ran(server, pay)
    assert (pay.calls, said(server), result.WhichOneof("outcome")) == (0, [], "released")
    assert "is in doubt; the job is held until somebody decides" in result.released.reason


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("fails", "options", "state"),
    [
        (TimeoutError("no answer"), {}, UNKNOWN),
        (ValueError("a bug, before or after the call"), {}, UNKNOWN),
        (ConnectionRefusedError("nobody there"), {"refused": (ConnectionRefusedError,)}, NOT_APPLIED),
    ],
)
def test_what_an_exception_says_of_the_effect(
    server: ScriptServer, mode: str, fails: Exception, options: dict[str, Any], state: EffectState
) -> None:
    result = ran(server, Pay(mode, fails=fails, **options))
    assert said(server) == [(state, "")]
    assert (result.failed.failure.type, result.failed.effect_state) == (type(fails).__name__, state)
    assert not result.effect_receipts


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_after_the_block_says_that_the_effect_was_applied(server: ScriptServer, mode: str) -> None:
    result = ran(server, Pay(mode, fails=ValueError("later"), after=True))
    assert said(server) == [(APPLIED, "pay-1")]
    assert result.failed.effect_state == APPLIED
    assert [r.reference for r in result.effect_receipts] == ["pay-1"]


def test_a_block_may_say_that_nothing_was_done(server: ScriptServer) -> None:
    class Declined(Pay):
        def _call(self, effect: effects.Ledger) -> None:
            effect.not_applied()

    result = ran(server, Declined("sync"))
    assert (said(server), result.WhichOneof("outcome")) == ([(NOT_APPLIED, "")], "succeeded")


@pytest.mark.parametrize(("mode", "probe_is_async"), [("sync", False), ("async", False), ("async", True)])
@pytest.mark.parametrize(
    ("verdict", "calls", "commits"),
    [
        (Applied("found-1"), 0, [(APPLIED, "found-1")]),
        (NotApplied(), 1, [(APPLIED, "pay-1")]),
    ],
)
def test_a_probe_decides_before_the_policy(
    server: ScriptServer, mode: str, probe_is_async: bool, verdict: Any, calls: int, commits: list[Any]
) -> None:
    asked: list[str] = []

    def probe(key: str) -> Any:
        asked.append(key)
        return verdict

    async def waiting(key: str) -> Any:
        await asyncio.sleep(0)
        return probe(key)

    server.script("BeginEffect", IN_DOUBT)
    pay = Pay(mode, probe=waiting if probe_is_async else probe)
    result = ran(server, pay)
    assert server.of("BeginEffect")[0].in_doubt == REDO
    assert (asked, pay.calls, said(server)) == (["key-1"], calls, commits)
    assert result.WhichOneof("outcome") == "succeeded"
    assert [r.reference for r in result.effect_receipts] == [commits[0][1]]


@pytest.mark.parametrize("mode", MODES)
def test_a_probe_is_not_asked_without_doubt(server: ScriptServer, mode: str) -> None:
    def probe(key: str) -> Any:
        raise AssertionError("there is nothing to ask")

    assert ran(server, Pay(mode, probe=probe)).WhichOneof("outcome") == "succeeded"
    server.script("BeginEffect", told(False, APPLIED))
    assert ran(server, Pay(mode, probe=probe)).WhichOneof("outcome") == "succeeded"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("policy", "second", "calls", "outcome", "commits"),
    [
        (ASK, told(False, UNKNOWN), 0, "released", [UNKNOWN]),
        (ASSUME_DONE, told(False, APPLIED), 0, "succeeded", [UNKNOWN]),
        (REDO, None, 1, "succeeded", [APPLIED]),
    ],
)
def test_where_the_probe_cannot_tell_the_policy_decides(
    server: ScriptServer, mode: str, policy: InDoubt, second: Any, calls: int, outcome: str, commits: list[Any]
) -> None:
    server.script("BeginEffect", IN_DOUBT, *([second] if second else []))
    pay = Pay(mode, probe=lambda key: None, in_doubt=policy)
    result = ran(server, pay)
    assert [r.in_doubt for r in server.of("BeginEffect")] == ([REDO, policy] if second else [REDO])
    assert [state for state, _ in said(server)] == commits
    assert (pay.calls, result.WhichOneof("outcome")) == (calls, outcome)


@pytest.mark.parametrize("mode", MODES)
def test_a_probe_that_fails_leaves_the_doubt_and_the_attempt_is_retried(server: ScriptServer, mode: str) -> None:
    def probe(key: str) -> Any:
        raise ConnectionError("the bank is down too")

    server.script("BeginEffect", IN_DOUBT)
    pay = Pay(mode, probe=probe)
    result = ran(server, pay)
    assert (pay.calls, said(server)) == (0, [(UNKNOWN, "")])
    assert (result.failed.failure.type, result.failed.effect_state) == ("ConnectionError", UNKNOWN)


def test_a_probe_says_nothing_else(server: ScriptServer) -> None:
    server.script("BeginEffect", IN_DOUBT)
    pay = Pay("sync", probe=lambda key: True)
    assert ran(server, pay).failed.failure.type == "TypeError"
    assert (pay.calls, said(server)) == (0, [(UNKNOWN, "")])


@pytest.mark.parametrize("mode", MODES)
def test_calls_without_an_answer_are_repeated(server: ScriptServer, mode: str) -> None:
    slow = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry_after=0.01)
    lost = Refusal(grpc.StatusCode.DEADLINE_EXCEEDED)
    server.script("BeginEffect", slow, lost, UNAVAILABLE)
    server.script("CommitEffect", lost, slow)
    pay = Pay(mode)
    assert ran(server, pay).WhichOneof("outcome") == "succeeded"
    assert pay.calls == 1
    assert len({r.SerializeToString() for r in server.of("BeginEffect")}) == 1
    assert said(server) == [(APPLIED, "pay-1")] * 3


@pytest.mark.parametrize("mode", MODES)
def test_a_stale_fence_never_goes_ahead(server: ScriptServer, mode: str) -> None:
    server.script("BeginEffect", STALE_FENCE)
    pay = Pay(mode)
    result = ran(server, pay)
    assert (pay.calls, said(server)) == (0, [])
    assert result.failed.failure.type == "StaleFence"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("refusal", "failure"),
    [(STALE_FENCE, "StaleFence"), (Refusal(grpc.StatusCode.ABORTED, "OUTCOME_CONFLICT"), "OutcomeConflict")],
)
def test_what_cannot_be_told_of_a_success_is_no_success(
    server: ScriptServer, mode: str, refusal: Refusal, failure: str
) -> None:
    server.script("CommitEffect", refusal)
    result = ran(server, Pay(mode))
    assert (result.failed.failure.type, result.failed.effect_state) == (failure, APPLIED)


def test_what_an_operator_decided_meanwhile_stands(server: ScriptServer) -> None:
    decided = Refusal(grpc.StatusCode.ABORTED, "OUTCOME_CONFLICT", "decided", {"stored": "APPLIED"})
    server.script("CommitEffect", decided)
    result = ran(server, Pay("sync", fails=TimeoutError("no answer")))
    assert result.failed.failure.type == "TimeoutError"


@pytest.mark.parametrize("mode", MODES)
def test_one_block_for_an_effect(server: ScriptServer, mode: str) -> None:
    class Twice(Pay):
        def _sync(self, lease: Lease) -> str:
            with effects.ledger(lease, "a"), effects.ledger(lease, "b"), effects.ledger(lease, "a"):
                raise AssertionError("not reached")

        async def _async(self, lease: Lease) -> str:
            async with effects.ledger(lease, "a"), effects.ledger(lease, "b"), effects.ledger(lease, "a"):
                raise AssertionError("not reached")

    result = ran(server, Twice(mode))
    assert "is open already" in result.failed.failure.message
    # One after the other is no harm: a target that has certainly done nothing may be called again.
    assert sorted(r.effect_key for r in server.of("BeginEffect")) == ["a", "b"]


def test_with_on_an_event_loop_is_refused(server: ScriptServer) -> None:
    class Blocking(Pay):
        async def _async(self, lease: Lease) -> str:
            with effects.ledger(lease):
                return ""

    assert "async with" in ran(server, Blocking("async")).failed.failure.message
    assert server.of("BeginEffect") == []


CANCEL = worker_pb2.DirectiveKind.DIRECTIVE_KIND_CANCEL


def cancelled(server: ScriptServer, handler: Any, when: Callable[[], object]) -> worker_pb2.Result:
    worker = Worker(["default"], 4, address=server.address, api_key="secret")
    worker.add("work", handler)
    lease = server.job()
    server.offer(lease)
    with running(worker):
        server.wait(when)
        server.direct(CANCEL, lease.job, lease.fence)
        return server.result_of(lease.job)


@pytest.mark.parametrize("mode", MODES)
def test_a_handler_that_is_cancelled_in_the_block_leaves_a_doubt(quick: ScriptServer, mode: str) -> None:
    def sync(lease: Lease) -> None:
        with effects.ledger(lease):
            lease.progress("in the block")
            lease.wait_cancelled(8)
            lease.raise_if_cancelled()

    async def waiting(lease: Lease) -> None:
        async with effects.ledger(lease):
            lease.progress("in the block")
            await asyncio.sleep(8)

    handler = sync if mode == "sync" else waiting
    result = cancelled(quick, handler, lambda: any(beat.progress for beat in quick.beats))
    assert result.WhichOneof("outcome") == "cancelled"
    assert said(quick) == [(UNKNOWN, "")]


def test_a_handler_that_is_cancelled_before_the_block_leaves_none(quick: ScriptServer) -> None:
    """Its begin is on its way, and is taken back when it arrives."""
    gate = threading.Event()

    def slow(request: Any, context: Any) -> Any:
        gate.wait(8)
        return worker_pb2.BeginEffectResponse(proceed=True)

    quick.script("BeginEffect", slow)
    pay = Pay("async")
    worker = Worker(["default"], 4, address=quick.address, api_key="secret")
    worker.add("work", pay.handler)
    lease = quick.job()
    quick.offer(lease)
    with running(worker):
        quick.wait(lambda: quick.of("BeginEffect"))
        quick.direct(CANCEL, lease.job, lease.fence)
        assert quick.result_of(lease.job).WhichOneof("outcome") == "cancelled"
        gate.set()
        quick.wait(lambda: quick.of("CommitEffect"))
    assert (pay.calls, said(quick)) == (0, [(NOT_APPLIED, "")])


def test_a_commit_goes_on_until_the_lease_is_lost(quick: ScriptServer, caplog: pytest.LogCaptureFixture) -> None:
    quick.script("CommitEffect", *[Refusal(grpc.StatusCode.DEADLINE_EXCEEDED)] * 1_000)
    worker = Worker(["default"], 4, address=quick.address, api_key="secret")
    ended = threading.Event()

    @worker.job("work")
    def work(lease: Lease) -> None:
        try:
            with effects.ledger(lease):
                raise TimeoutError("no answer")
        finally:
            ended.set()

    lease = quick.job()
    quick.offer(lease)
    with running(worker), caplog.at_level(logging.WARNING, "rota_sdk.effects"):
        quick.wait(lambda: len(quick.of("CommitEffect")) > 3)
        assert not ended.is_set()
        quick.direct(worker_pb2.DirectiveKind.DIRECTIVE_KIND_LOST, lease.job, lease.fence)
        assert ended.wait(8)
    assert "could not be told" in caplog.text


@pytest.mark.parametrize(
    ("window", "total", "redrive", "short"),
    [(86_400, 3_600, 0, 0), (86_400, 86_400, 1, 1), (60, 30, 31, 1), (60, None, 0, float("inf"))],
)
def test_how_much_too_early_a_target_forgets_keys(
    window: float, total: float | None, redrive: float, short: float
) -> None:
    assert effects.window_shortfall(window, total=total, redrive=redrive) == short


def test_a_target_that_forgets_too_early_is_warned_of_once(
    server: ScriptServer, caplog: pytest.LogCaptureFixture
) -> None:
    effects._warned.clear()
    headers: list[dict[str, str]] = []

    class Post(Pay):
        def _sync(self, lease: Lease) -> str:
            headers.append(lease.effect_headers(window=3_600, redrive=0))
            return ""

    with caplog.at_level(logging.WARNING, "rota_sdk.effects"):
        ran(server, Post("sync"), deadline=1_800.0)
        assert caplog.text == ""
        ran(server, Post("sync"), deadline=7_200.0)
        assert "forgets idempotency keys after 3600 s, 36" in caplog.text
        caplog.clear()
        ran(server, Post("sync"), deadline=7_200.0)
        assert caplog.text == ""
        effects._warned.clear()
        ran(server, Post("sync"))
        assert "has no total timeout" in caplog.text
    assert set(headers[0]) == {"Idempotency-Key", "Rota-Fence"}
