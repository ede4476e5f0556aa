"""Access tokens by the client credentials of OAuth 2.0 and OpenID Connect, kept until shortly before they expire."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlencode

from rota.clock import Clock
from rota.targets.http.credentials import Credential, Oidc, basic
from rota.targets.http.request import Call
from rota.targets.http.wire import Answer, NoAnswer, NotSent

TIMEOUT_S: Final = 10.0
LIFE_DEFAULT_S: Final = 300.0
"""Of a token whose answer does not tell."""

EARLY_S: Final = 30.0
"""A token so close to its end is not used any more; a short-lived one in the last tenth of its life."""

_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")

Send = Callable[[Call], Awaitable[Answer]]


class TokenFailed(Exception):
    """No token. The words hold nothing of the answer but OAuth's own name of the error."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    until: float
    """By the monotonic clock."""


class Tokens:
    """One token of each credential; whoever needs it while it is being fetched waits for the same."""

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._known: dict[str, Token] = {}
        self._coming: dict[str, asyncio.Task[Token]] = {}

    async def get(self, credential: Credential) -> str:
        """Raises TokenFailed, and SecretMissing."""
        name = credential.name
        known = self._known.get(name)
        if known is not None and self._clock.monotonic() < known.until:
            return known.text
        coming = self._coming.get(name)
        if coming is None:
            assert isinstance(credential.scheme, Oidc)
            coming = self._coming[name] = asyncio.create_task(self._fetch(name, credential.scheme))
            coming.add_done_callback(lambda task: self._arrived(name, task))
        # Who is cancelled does not take the others' token along.
        return (await asyncio.shield(coming)).text

    def forget(self, credential: Credential, text: str) -> None:
        """The target refused this one."""
        known = self._known.get(credential.name)
        if known is not None and known.text == text:
            del self._known[credential.name]

    async def close(self) -> None:
        for task in list(self._coming.values()):
            task.cancel()

    def _arrived(self, name: str, task: "asyncio.Task[Token]") -> None:
        self._coming.pop(name, None)
        if not task.cancelled() and task.exception() is None:
            self._known[name] = task.result()

    async def _fetch(self, name: str, scheme: Oidc) -> Token:
        secret = scheme.client_secret.read()
        form = {"grant_type": "client_credentials", "scope": scheme.scope, "audience": scheme.audience}
        headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
        if scheme.post:
            form |= {"client_id": scheme.client_id, "client_secret": secret}
        else:
            # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
            headers.append(("authorization", basic(quote_plus(scheme.client_id), quote_plus(secret))))
        body = urlencode({key: value for key, value in form.items() if value}).encode()
        asked_at = self._clock.monotonic()
        try:
            answer = await self._send(Call("POST", scheme.token_url, tuple(headers), body))
        except (NotSent, NoAnswer) as error:
            raise TokenFailed(f"no token for {name!r}: {error}") from None
        token, life_s = _read(name, answer)
        return Token(token, asked_at + life_s - min(EARLY_S, life_s / 10))


def _read(name: str, answer: Answer) -> tuple[str, float]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    found = found if isinstance(found, dict) else {}
    if answer.status != 200:
        error = found.get("error")
        told = f" ({error})" if isinstance(error, str) and _ERROR.fullmatch(error) else ""
        raise TokenFailed(f"no token for {name!r}: the token endpoint answered {answer.status}{told}")
    token, life = found.get("access_token"), found.get("expires_in", LIFE_DEFAULT_S)
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise TokenFailed(f"no token for {name!r}: the token endpoint answered 200 without an access_token")
    try:
        life_s = float(life)
    except (TypeError, ValueError):
        life_s = LIFE_DEFAULT_S
    return token, max(life_s, 0.0) if life_s < float("inf") else LIFE_DEFAULT_S
