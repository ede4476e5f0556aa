"""E3, the target cannot deduplicate: what is about to be tried, and how it ended, is written down at the coordinator.

    with effects.ledger(lease, probe=find_payment) as effect:
        if effect.proceed:
            payment = bank.pay(...)
            effect.reference = payment.id

An attempt that dies between the two leaves the effect in doubt: it may have been applied. The next attempt asks the
probe, if there is one, and else follows the policy. Nothing is guessed: whatever ends the block by an exception leaves
the effect in doubt too, unless the exception is one that says otherwise.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rota_sdk import limits, text
from rota_sdk.backoff import Backoff
from rota_sdk.errors import OutcomeConflict, RotaError, transient
from rota_sdk.gen.rota.worker.v1 import worker_pb2
from rota_sdk.model import EffectState
from rota_sdk.outcome import Cancelled, Release

if TYPE_CHECKING:
    from rota_sdk.lease import Lease

log = logging.getLogger("rota_sdk.effects")


class InDoubt(IntEnum):
    """What to do about an effect of which nobody knows whether an earlier attempt applied it."""

    ASK = 1  # hold the job until an operator decides: rota effect resolve
    ASSUME_DONE = 2  # take it as applied
    REDO = 3  # try it again


@dataclass(frozen=True, slots=True)
class Applied:
    """A probe's word: the target has it, under this name of its own."""

    reference: str = ""


@dataclass(frozen=True, slots=True)
class NotApplied:
    """A probe's word: the target certainly does not have it, and no call of it is on its way any more."""


Verdict = Applied | NotApplied | None
"""None: the probe cannot tell, now or ever, and the policy decides. To ask again later it raises."""

Probe = Callable[[str], "Verdict | Awaitable[Verdict]"]
"""Asks the target about an effect key."""


class EffectInDoubt(Release):
    """The effect may have been applied before, and its policy is ASK: the job is given back, and held for an operator.

    Let it pass: it ends the attempt without counting it.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"effect {key!r} is in doubt; the job is held until somebody decides: rota effect list")
        self.key = key


class Ledger:
    """One effect, between its begin and its commit. Use it with `with` or, in async handlers, `async with`.

    `proceed`: call the target. `state`: what is known of earlier tries. `reference`: the target's own name for the
    effect; set it in the block, and find it again where an earlier attempt has set it.
    """

    def __init__(
        self,
        lease: "Lease",
        key: str,
        in_doubt: InDoubt,
        probe: Probe | None,
        refused: tuple[type[BaseException], ...],
    ) -> None:
        self._lease = lease
        self._in_doubt = in_doubt
        self._probe = probe
        self._refused = refused
        self._not_applied = False
        self._lock = threading.Lock()
        self._abandoned = False
        self.key = key
        self.proceed = False
        self.state = EffectState.UNSPECIFIED
        self.reference = ""

    def not_applied(self) -> None:
        """Says in the block that the target has certainly done nothing, so that no doubt stays."""
        self._not_applied = True

    def __enter__(self) -> Self:
        if _on_loop():
            raise RuntimeError("effects.ledger: expected `async with` on an event loop, found `with`, which blocks it")
        self._lease._open_effect(self.key)
        try:
            self._begin(self._first_policy)
            if self._must_probe:
                try:
                    verdict = self._probe(self.key) if self._probe is not None else None
                except BaseException:
                    self._commit(EffectState.UNKNOWN)
                    raise
                self._judge(verdict)
        except BaseException:
            self._lease._close_effect(self.key)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        self._lease._open_effect(self.key)
        try:
            await _in_thread(lambda: self._begin(self._first_policy))
            if self._must_probe:
                try:
                    verdict = self._probe(self.key) if self._probe is not None else None
                    if inspect.isawaitable(verdict):
                        verdict = await verdict
                except BaseException:
                    await _in_thread(lambda: self._commit(EffectState.UNKNOWN))
                    raise
                await _in_thread(lambda: self._judge(verdict))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                await self._abandon()
            self._lease._close_effect(self.key)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await _in_thread(lambda: self._end(error))

    @property
    def _first_policy(self) -> InDoubt:
        # A probe decides before the policy does, and to ask it an attempt must be let through.
        return InDoubt.REDO if self._probe is not None else self._in_doubt

    @property
    def _must_probe(self) -> bool:
        return self._probe is not None and self.proceed and self.state is EffectState.UNKNOWN

    def _begin(self, policy: InDoubt) -> None:
        lease = self._lease
        request = worker_pb2.BeginEffectRequest(
            job=lease.job,
            fence=lease.fence,
            effect_key=self.key,
            in_doubt=int(policy),  # type: ignore[arg-type]
        )
        answer = self._call("BeginEffect", request, lambda: lease.cancelled or self._abandoned)
        with self._lock:
            self.proceed = answer.proceed
            self.state = EffectState(answer.state)
            self.reference = answer.receipt.reference
            abandoned = self._abandoned
        if abandoned:
            self._take_back()
        elif not self.proceed:
            if self.state is not EffectState.APPLIED:
                raise EffectInDoubt(self.key)
            lease._note_effect(self.key, EffectState.APPLIED)
            self._keep()

    async def _abandon(self) -> None:
        """The handler was cancelled before the target was called: no doubt is to stay."""
        with self._lock:
            self._abandoned = True
            begun = self.proceed
        # Else the thread that begins, if there is one still, finds out by itself.
        if begun:
            await _in_thread(self._take_back)

    def _take_back(self) -> None:
        if self.proceed:
            doubt = self.state is EffectState.UNKNOWN
            self._commit(EffectState.UNKNOWN if doubt else EffectState.NOT_APPLIED)

    def _judge(self, verdict: object) -> None:
        """What the probe's word makes of an effect in doubt that this attempt has begun again."""
        if isinstance(verdict, Applied):
            self.reference = verdict.reference or self.reference
            self._commit(EffectState.APPLIED)
            self.proceed, self.state = False, EffectState.APPLIED
            self._keep()
        elif isinstance(verdict, NotApplied):
            self.state = EffectState.NOT_APPLIED
        elif verdict is not None:
            self._commit(EffectState.UNKNOWN)
            raise TypeError(f"probe: expected Applied, NotApplied or None, found {verdict!r}")
        elif self._in_doubt is not InDoubt.REDO:
            self._commit(EffectState.UNKNOWN)
            self._begin(self._in_doubt)

    def _end(self, error: BaseException | None) -> None:
        try:
            if not self.proceed:
                return
            if self._not_applied or (error is not None and isinstance(error, self._refused)):
                state = EffectState.NOT_APPLIED
            else:
                state = EffectState.APPLIED if error is None else EffectState.UNKNOWN
            if state is EffectState.APPLIED:
                self._keep()
            try:
                self._commit(state)
            except (RotaError, Cancelled) as failure:
                if error is None:
                    raise
                log.warning(
                    "%r: effect %r is %s, which could not be told: %s", self._lease, self.key, state.name, failure
                )
        finally:
            self._lease._close_effect(self.key)

    def _commit(self, state: EffectState) -> None:
        lease = self._lease
        # Known here from now on, whether the coordinator can be told or not: the outcome says it too.
        lease._note_effect(self.key, state)
        request = worker_pb2.CommitEffectRequest(
            job=lease.job,
            fence=lease.fence,
            effect_key=self.key,
            state=int(state),  # type: ignore[arg-type]
        )
        if self.reference:
            request.receipt.effect_key = self.key
            request.receipt.reference = text.clean(self.reference, limits.RECEIPT_BYTES)
        try:
            # A handler that is asked to stop has something to say still, as long as its lease is worth something.
            self._call("CommitEffect", request, lambda: lease._worthless)
        except OutcomeConflict:
            if state is not EffectState.UNKNOWN:
                raise
            log.info("%r: effect %r: somebody has decided it meanwhile", lease, self.key)

    def _call(self, method: str, request: Any, hopeless: Callable[[], bool]) -> Any:
        """Repeats a call until it is answered, which is safe for both: by the fence they are known as repeated."""
        backoff = Backoff(limits.BACKOFF_FIRST_S, limits.BACKOFF_MOST_S)
        while True:
            if hopeless():
                reason = self._lease.stop_reason
                raise Cancelled(reason.name.lower() if reason is not None else "cancelled")
            try:
                return self._lease._session.call(method, request, limits.EFFECT_CALL_TIMEOUT_S)
            except RotaError as error:
                if not transient(error) or hopeless():
                    raise
                log.debug("%r: %s: %s; trying again", self._lease, method, error)
                time.sleep(backoff.next(error.retry_after))

    def _keep(self) -> None:
        """With the attempt, for people."""
        if self.reference and len(self._lease._receipts or ()) < limits.RECEIPTS:
            self._lease.receipt(self.reference, self.key)


async def _in_thread(work: Callable[[], None]) -> None:
    # A cancellation ends the wait and not the work, whose outcome is worth telling.
    await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(work)))


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
