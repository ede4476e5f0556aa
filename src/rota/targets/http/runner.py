"""The HTTP runner: a worker whose handler makes one HTTP call.

What becomes of a call:

    an answer that `success` names        SUCCEEDED, with {"status", "headers", "body", "truncated", "duration_s"}
    any other answer                      failed as Http404 and the like; retried if `retry` names it, not before its
                                          Retry-After
    no connection                         failed as NameUnresolved, ConnectFailed, ConnectTimeout, TlsFailed: the target
                                          got nothing
    no whole answer after sending         failed as NoAnswer or BadAnswer, its effect UNKNOWN; retried
    it cannot be made                     failed for good: InvalidRequest, AddressRefused, CredentialUnknown,
                                          CredentialRefused, RedirectRefused
    no token, or no secret                failed as TokenFailed, CredentialMissing; retried

A target that fails three times in a row rests (`breaker.py`). Meanwhile its jobs are given back, which counts as no
attempt, and so are those whose call certainly did not reach it. They come again after 5 s, then 10 s, up to an hour:
the coordinator gives twenty such returns in one life of a job, which is half a day.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NoReturn

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from rota_sdk import EffectState, Failed, Lease, Payload, Release, Stop, Worker, effects

from rota.clock import Clock
from rota.domain.errors import InvalidArgument
from rota.domain.limits import RELEASE_DELAY_MAX_S
from rota.targets import leaving
from rota.targets.attempt import instant
from rota.targets.http import verdict
from rota.targets.http.address import AllowList
from rota.targets.http.breaker import Permit
from rota.targets.http.credentials import Credential, Credentials, Oidc, SecretMissing
from rota.targets.http.hosts import CALLS_DEFAULT, Host, Hosts
from rota.targets.http.proof import Proof, proof_of
from rota.targets.http.request import CONTENT_TYPE, JOB_TYPE, Call, Request, contains, parse_request, render
from rota.targets.http.tokens import TIMEOUT_S, TokenFailed, Tokens
from rota.targets.http.url import Url, join_url
from rota.targets.http.verdict import Secrets
from rota.targets.http.wire import Answer, NoAnswer, NotSent, Resolver, Sending, Wire

log = logging.getLogger("rota.http")

SLOTS_DEFAULT: Final = 50
DRAIN_TIMEOUT_S: Final = 35.0
"""A little more than a call usually takes at most."""

TURN_WAIT_S: Final = 5.0
"""How long a call waits for its turn at a host that is busy; then its job is given back."""

MARGIN_S: Final = 0.25
GIVE_BACK_FIRST_S: Final = 5.0
GIVE_BACKS_PER_S: Final = 50
GIVE_BACK_WAIT_S: Final = 1.0
"""Jobs of targets that rest are leased to be given back. To do so faster, or to keep slots for it, helps nobody."""

_SAFE_HEADERS: Final = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_POLICIES: Final = {
    "redo": effects.InDoubt.REDO,
    "ask": effects.InDoubt.ASK,
    "assume-done": effects.InDoubt.ASSUME_DONE,
}
_W3C: Final = TraceContextTextMapPropagator()


class GivenBack(Release):
    """Nothing was sent; the job comes again."""


class Refused(Failed):
    """A failure by which the target certainly did nothing."""


class Calls:
    """Makes the calls of leases."""

    def __init__(
        self,
        wire: Wire,
        credentials: Credentials,
        clock: Clock,
        *,
        calls_per_host: int = CALLS_DEFAULT,
        user_agent: str = "rota",
    ) -> None:
        self._wire = wire
        self._credentials = credentials
        self._clock = clock
        self._hosts = Hosts(calls_per_host)
        self._user_agent = user_agent
        self._tokens = Tokens(self._fetch_token, clock)
        self._give_back_at = 0.0

    async def close(self) -> None:
        await self._tokens.close()

    async def handle(self, lease: Lease) -> Payload:
        """The worker's handler. Raises Failed or Release."""
        sending = Sending()
        try:
            request, call = prepare(lease)
            host = self._hosts.of(call.url.origin)
            async with self._admitted(host, lease, call.url) as permit:
                return await self._attend(lease, request, call, host, permit, sending)
        except Failed as failure:
            log.info("%s attempt %d: %s: %s", lease.job, lease.attempt, failure.type, failure)
            raise
        except asyncio.CancelledError:
            if lease.stop_reason is Stop.LEAVING and sending.begun:
                words = "the runner left before the target had answered"
                raise Failed(words, type="NoAnswer", effect=EffectState.UNKNOWN) from None
            raise

    @asynccontextmanager
    async def _admitted(self, host: Host, lease: Lease, url: Url) -> AsyncIterator[Permit]:
        """Takes a place at the host, and the right to call it. Raises GivenBack when it rests or is busy."""
        if rest_s := host.breaker.rest_s(self._clock.monotonic()):
            await self._give_back(lease, f"{url.authority} does not answer and rests", rest_s)
        # The run timeout goes on: a call that waits keeps most of it.
        if not await host.enter(min(TURN_WAIT_S, lease.remaining() / 4)):
            await self._give_back(lease, f"{url.authority} is busy with {host.calls} calls of this runner", 0.0)
        permit: Permit | None = None
        try:
            now = self._clock.monotonic()
            permit = host.breaker.admit(now)
            if permit is None:
                await self._give_back(lease, f"{url.authority} does not answer and rests", host.breaker.rest_s(now))
            assert permit is not None
            yield permit
        finally:
            if permit is not None:
                host.breaker.dropped(permit)
            host.leave()

    async def _give_back(self, lease: Lease, reason: str, rest_s: float) -> None:
        """Raises GivenBack, at most so often a second."""
        now = self._clock.monotonic()
        self._give_back_at = min(max(self._give_back_at + 1 / GIVE_BACKS_PER_S, now), now + GIVE_BACK_WAIT_S)
        if self._give_back_at > now:
            await self._clock.sleep(self._give_back_at - now)
        raise self._given_back(lease, reason, rest_s)

    def _given_back(self, lease: Lease, reason: str, rest_s: float) -> GivenBack:
        # Longer with each return, so that the few that do not count last through an outage.
        returns = max(lease.attempt - lease.attempts_counted - 1, 0)
        delay_s = max(rest_s, GIVE_BACK_FIRST_S * 2.0 ** min(returns, 20))
        # Not all at the same moment.
        delay_s *= 1.0 + 0.2 * self._clock.rng.random()
        return GivenBack(reason, delay=min(delay_s, RELEASE_DELAY_MAX_S))

    async def _attend(
        self, lease: Lease, request: Request, call: Call, host: Host, permit: Permit, sending: Sending
    ) -> Payload:
        credential = self._credential(request.auth, call.url)
        if not request.in_doubt:
            return await self._make(lease, request, call, credential, host, permit, sending)
        ledger = effects.ledger(lease, in_doubt=_POLICIES[request.in_doubt], refused=(Refused, GivenBack))
        async with ledger as effect:
            if not effect.proceed:
                return _payload({"status": None, "applied": "by an earlier attempt", "reference": effect.reference})
            try:
                return await self._make(lease, request, call, credential, host, permit, sending)
            except asyncio.CancelledError:
                if not sending.begun:
                    effect.not_applied()
                raise

    async def _make(
        self,
        lease: Lease,
        request: Request,
        call: Call,
        credential: Credential | None,
        host: Host,
        permit: Permit,
        sending: Sending,
    ) -> Payload:
        began = self._clock.monotonic()
        proof = Proof()
        try:
            with _traced(call) as span:
                own = _own_headers(lease, request, span)
                answer, url, proof = await self._follow(lease, request, call, credential, own, sending)
                span.set_attribute("http.response.status_code", answer.status)
                if answer.status >= 400:
                    span.set_status(Status(StatusCode.ERROR, str(answer.status)))
        except NotSent as error:
            self._not_sent(lease, error, host, permit, sending)
        except NoAnswer as error:
            host.breaker.failed(permit, self._clock.monotonic())
            raise Failed(str(error), type=error.kind, effect=EffectState.UNKNOWN) from None
        duration_s = self._clock.monotonic() - began
        if verdict.is_down(answer):
            host.breaker.failed(permit, self._clock.monotonic())
        else:
            host.breaker.answered(permit)
        return self._conclude(lease, request, url, answer, credential, proof, duration_s)

    def _not_sent(self, lease: Lease, error: NotSent, host: Host, permit: Permit, sending: Sending) -> NoReturn:
        retryable = False if error.final else None
        if sending.begun:
            # A redirect led to where no call may go or nobody answers. What was sent before it has been answered.
            raise Failed(str(error), type=error.kind, retryable=retryable, effect=EffectState.UNKNOWN) from None
        if error.rest_s:
            raise self._given_back(lease, str(error), error.rest_s) from None
        if error.outage:
            now = self._clock.monotonic()
            host.breaker.failed(permit, now)
            if host.breaker.open:
                raise self._given_back(lease, str(error), host.breaker.rest_s(now)) from None
        raise Refused(str(error), type=error.kind, retryable=retryable, effect=EffectState.NOT_APPLIED) from None

    def _conclude(
        self,
        lease: Lease,
        request: Request,
        url: Url,
        answer: Answer,
        credential: Credential | None,
        proof: Proof,
        duration_s: float,
    ) -> Payload:
        secrets = Secrets(proof.secrets)
        if contains(request.success, answer.status):
            log.info("%s attempt %d: %d of %s", lease.job, lease.attempt, answer.status, url.shown)
            return _payload(verdict.result(answer, secrets, duration_s))
        failure = verdict.failure(request, url, answer, secrets, self._clock.utc())
        if answer.status == 401 and proof.token and credential is not None:
            # Revoked before its time, perhaps: the next attempt gets another.
            self._tokens.forget(credential, proof.token)
            failure.retryable = None
        if failure.effect is EffectState.NOT_APPLIED:
            raise Refused(
                str(failure),
                type=failure.type,
                stack=failure.stack,
                retryable=failure.retryable,
                after=failure.after,
                effect=failure.effect,
            )
        raise failure

    async def _follow(
        self,
        lease: Lease,
        request: Request,
        call: Call,
        credential: Credential | None,
        own: tuple[tuple[str, str], ...],
        sending: Sending,
    ) -> tuple[Answer, Url, Proof]:
        """Sends the call, and after it the redirects that the request allows. Raises NotSent or NoAnswer."""
        loop = asyncio.get_running_loop()
        left_s = lease.remaining()
        # A little before the run timeout, so that the failure says how far it came.
        until = loop.time() + min(request.timeout_s, left_s - min(MARGIN_S, left_s / 5))
        for redirects in range(request.redirects + 1):
            proof = await self._prove(credential, call)
            proving = {name for name, _ in proof.headers}
            given = (header for header in call.headers if header[0] not in proving)
            answer = await self._wire.exchange(
                replace(call, headers=(*given, *own, *self._usual(call), *proof.headers)),
                connect_s=request.connect_timeout_s,
                whole_s=max(until - loop.time(), 0.0),
                sending=sending,
            )
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location or redirects == request.redirects:
                break
            if contains(request.success, answer.status):
                break
            call = _redirected(call, answer.status, location, credential)
        return answer, call.url, proof

    def _usual(self, call: Call) -> Iterable[tuple[str, str]]:
        given = {name for name, _ in call.headers}
        usual = {"user-agent": self._user_agent, "accept": "*/*", "accept-encoding": "identity"}
        return [(name, value) for name, value in usual.items() if name not in given]

    def _credential(self, name: str, url: Url) -> Credential | None:
        if not name:
            return None
        found = self._credentials.get(name)
        if found is None:
            known = ", ".join(sorted(self._credentials)) or "none"
            raise _final("CredentialUnknown", f"auth: expected a credential of this runner, which has {known}; add it")
        if why := found.why_not(url):
            raise _final("CredentialRefused", f"auth: {why}")
        return found

    async def _prove(self, credential: Credential | None, call: Call) -> Proof:
        """Raises NotSent."""
        if credential is None:
            return Proof()
        scheme = credential.scheme
        try:
            if not isinstance(scheme, Oidc):
                return proof_of(scheme, call, self._clock.utc())
            token = await self._tokens.get(credential)
            return Proof((("authorization", f"Bearer {token}"),), (token,), token)
        except SecretMissing as error:
            raise NotSent("CredentialMissing", str(error), outage=False) from None
        except TokenFailed as error:
            assert isinstance(scheme, Oidc)
            rest_s = self._hosts.of(scheme.token_url.origin).breaker.rest_s(self._clock.monotonic())
            raise NotSent("TokenFailed", str(error), outage=False, rest_s=rest_s) from None

    async def _fetch_token(self, call: Call) -> Answer:
        """From an endpoint that rests like any target."""
        breaker = self._hosts.of(call.url.origin).breaker
        permit = breaker.admit(self._clock.monotonic())
        if permit is None:
            raise NotSent("Resting", f"{call.url.authority} does not answer and rests")
        call = replace(call, headers=(*call.headers, *self._usual(call)))
        try:
            # The operator has named the endpoint, inside or not.
            answer = await self._wire.exchange(call, connect_s=TIMEOUT_S, whole_s=TIMEOUT_S, trusted=True)
        except (NotSent, NoAnswer):
            breaker.failed(permit, self._clock.monotonic())
            raise
        finally:
            breaker.dropped(permit)
        if verdict.is_down(answer):
            breaker.failed(permit, self._clock.monotonic())
        else:
            breaker.answered(permit)
        return answer


async def serve(
    queues: Sequence[str],
    slots: int,
    clock: Clock,
    *,
    address: str | None = None,
    api_key: str | None = None,
    name: str = "",
    allowed: AllowList,
    credentials: Credentials,
    calls_per_host: int = CALLS_DEFAULT,
    drain_timeout_s: float = DRAIN_TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
    user_agent: str = "rota",
) -> None:
    """Takes jobs of type rota.http from the queues until a signal or the coordinator says otherwise.

    In the main thread SIGTERM and SIGINT drain: calls on their way get `drain_timeout_s`, then they are cut off. A
    second signal cuts them off at once. Raises InvalidArgument, and the SDK's errors as `Worker.run`.
    """
    try:
        worker = Worker(queues, slots, address=address, api_key=api_key, name=name, drain_timeout=drain_timeout_s)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    resolver = Resolver()
    wire = Wire(resolver, allowed, tls or ssl.create_default_context())
    calls = Calls(wire, credentials, clock, calls_per_host=calls_per_host, user_agent=user_agent)
    worker.add(JOB_TYPE, calls.handle)
    try:
        await leaving.serve(
            worker,
            log,
            first="leaving when the calls on their way are answered; a second one cuts them off",
            second="cutting off the calls on their way",
        )
    finally:
        await calls.close()
        resolver.close()


def prepare(lease: Lease) -> tuple[Request, Call]:
    """What to call for a lease. Raises Failed, not to be retried."""
    try:
        request = parse_request(lease.data)
        return request, render(request, attempt_values(lease))
    except InvalidArgument as error:
        raise _final("InvalidRequest", error.message) from None


def attempt_values(lease: Lease) -> dict[str, str]:
    """What fills the holes; without a value what the attempt has none for."""
    return {
        "job.id": lease.id,
        "job.attempt": str(lease.attempt),
        "job.fence": str(lease.fence),
        "job.queue": lease.queue,
        "job.effect_key": lease.effect_key,
        "job.due_time": instant(lease.due_time),
        "schedule.id": lease.schedule.removeprefix("schedules/"),
        "occurrence.time": instant(lease.nominal_time),
    }


def _own_headers(lease: Lease, request: Request, span: Span) -> tuple[tuple[str, str], ...]:
    found = lease.effect_headers(window=request.window_s)
    found |= {"Rota-Job": lease.job, "Rota-Attempt": str(lease.attempt)}
    if span.get_span_context().is_valid:
        _W3C.inject(found, trace.set_span_in_context(span))
    elif lease.traceparent:
        found["traceparent"] = lease.traceparent
    return tuple((name.lower(), value) for name, value in found.items())


def _redirected(call: Call, status: int, location: str, credential: Credential | None) -> Call:
    """The call that follows a redirect. Raises Failed where none should follow."""
    try:
        url = join_url(call.url, location)
    except InvalidArgument as error:
        raise _redirect_refused(f"{call.url.shown} redirects to what is no URL: {error.message}") from None
    if url.scheme != "https" and call.url.scheme == "https":
        raise _redirect_refused(f"{call.url.shown} redirects from https to {url.shown}")
    headers = call.headers
    if url.origin != call.url.origin:
        if credential is not None:
            raise _redirect_refused(f"{call.url.shown} redirects to {url.shown}, where the credential must not go")
        # What else stands there may be secret too: cookies, keys of an API.
        headers = tuple((name, value) for name, value in headers if name in _SAFE_HEADERS)
    if call.method in ("GET", "HEAD") or status in (307, 308):
        return replace(call, url=url, headers=headers)
    headers = tuple((name, value) for name, value in headers if not name.startswith("content-"))
    return Call("GET", url, headers, b"")


def _redirect_refused(words: str) -> Failed:
    # What answers by a redirect may have done what it was asked for.
    return Failed(words, type="RedirectRefused", retryable=False, effect=EffectState.UNKNOWN)


def _final(kind: str, words: str) -> Refused:
    return Refused(words, type=kind, retryable=False, effect=EffectState.NOT_APPLIED)


def _payload(document: Mapping[str, Any]) -> Payload:
    return Payload(json.dumps(document, ensure_ascii=False).encode(), CONTENT_TYPE)


def _traced(call: Call) -> Any:
    """A span of the call, child of the attempt's."""
    return trace.get_tracer("rota.http").start_as_current_span(
        call.method,
        kind=SpanKind.CLIENT,
        attributes={
            "http.request.method": call.method,
            "url.full": call.url.shown,
            "server.address": call.url.host,
            "server.port": call.url.port,
        },
    )
