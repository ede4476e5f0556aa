"""What a credential adds to a call."""

from dataclasses import dataclass, field
from datetime import datetime

from rota.targets.http import signing
from rota.targets.http.credentials import Basic, Bearer, Header, Hmac, basic
from rota.targets.http.request import Call


@dataclass(frozen=True, slots=True)
class Proof:
    """Headers, and the texts in them that nobody is to see; `token` is one that may have been refused."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    token: str = field(default="", repr=False)


def proof_of(scheme: Bearer | Basic | Header | Hmac, call: Call, now: datetime) -> Proof:
    """Of all that needs nobody else. Raises SecretMissing."""
    if isinstance(scheme, Bearer):
        token = scheme.token.read()
        return Proof((("authorization", f"Bearer {token}"),), (token,))
    if isinstance(scheme, Basic):
        password = scheme.password.read()
        value = basic(scheme.username, password)
        return Proof((("authorization", value),), (password, value.removeprefix("Basic ")))
    if isinstance(scheme, Header):
        value = scheme.value.read()
        return Proof(((scheme.name, value),), (value,))
    secret = scheme.secret.read()
    at_s = int(now.timestamp())
    value = signing.signature(scheme.key_id, secret, at_s, call.method, call.url.target, call.body)
    return Proof(((signing.HEADER, value),), (secret, value.rpartition("v1=")[2]))
