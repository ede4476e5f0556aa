"""Who calls: API keys.

A key is `rota_<id>_<secret>`: a public id and 256 random bits. It is shown once; the database has its SHA-256.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict

from rota.clock import Clock
from rota.domain.errors import InvalidArgument, PermissionDenied, ResourceExhausted, Unauthenticated
from rota.domain.model import ApiKey, Identity, Role, Tenant
from rota.domain.text import QUEUE, Problems
from rota.store.port import IdentityStore

PREFIX = "rota"
CACHE_LIFE_S = 10.0
"""A revoked or expired key is refused everywhere within this time."""
CACHE_MAX = 10_000
LOOK_UPS_MAX = 200
"""Keys that are looked up at a time: they come from strangers too, and must not queue up without a limit."""
LABEL_BYTES_MAX = 200

INSTALLATION_TENANT = "default"
"""The tenant with which every installation begins. Its operators may do what concerns all tenants."""

_REMEDY = "send the metadata `authorization: Bearer <key>` with a key from: rota key create"


class Keys:
    def __init__(self, store: IdentityStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: OrderedDict[bytes, tuple[float, Identity | None]] = OrderedDict()
        # Apart, so that strangers push no caller out.
        self._strangers: OrderedDict[bytes, tuple[float, Identity | None]] = OrderedDict()
        self._looking_up: dict[bytes, asyncio.Task[Identity | None]] = {}

    async def authenticate(self, authorization: str | None) -> Identity:
        """The identity behind an authorization header, remembered for a few seconds."""
        if not authorization:
            raise Unauthenticated(f"no credential; {_REMEDY}")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated(f"expected the scheme Bearer, found {scheme[:20]!r}; {_REMEDY}")
        fingerprint = hashlib.sha256(token.encode()).digest()
        known = self._cache.get(fingerprint) or self._strangers.get(fingerprint)
        if known is None or known[0] < self._clock.monotonic():
            identity = await self._look_up_once(fingerprint, token)
            known = (self._clock.monotonic() + CACHE_LIFE_S, identity)
            cache, other = self._cache, self._strangers
            if identity is None:
                cache, other = other, cache
            other.pop(fingerprint, None)
            cache[fingerprint] = known
            if len(cache) > CACHE_MAX:
                cache.popitem(last=False)
        if known[1] is None:
            raise Unauthenticated(f"the key is unknown, revoked or expired; {_REMEDY}")
        return known[1]

    async def create(self, tenant: str, label: str, roles: frozenset[Role], ttl_s: float | None) -> tuple[str, ApiKey]:
        """A new key: its text, which is not to be had again, and its record."""
        if not QUEUE.fullmatch(tenant):
            raise InvalidArgument.field("tenant", f"must be 1 to 64 letters, digits or ._-, found {tenant[:80]!r}")
        if not roles:
            raise InvalidArgument.field("roles", f"must name at least one of {', '.join(Role)}")
        problems = Problems()
        problems.text("label", label, LABEL_BYTES_MAX)
        problems.raise_any()
        if ttl_s is not None and ttl_s <= 0:
            raise InvalidArgument.field("expires", f"must be in the future, found {ttl_s:g} s from now")
        key_id = secrets.token_hex(6)
        secret = secrets.token_urlsafe(32)
        record = await self._store.create_key(tenant, key_id, _sha256(secret), label, roles, ttl_s)
        return f"{PREFIX}_{key_id}_{secret}", record

    async def all(self, tenant: str | None) -> list[ApiKey]:
        return await self._store.list_keys(tenant)

    async def revoke(self, key_id: str) -> bool:
        return await self._store.revoke_key(key_id.removeprefix(f"{PREFIX}_").partition("_")[0])

    async def tenants(self) -> "list[Tenant]":
        return await self._store.tenants()

    async def _look_up_once(self, fingerprint: bytes, token: str) -> Identity | None:
        """One look-up for all that ask at the same time. A key in use may always be looked up again, so that strangers
        lock nobody out."""
        work = self._looking_up.get(fingerprint)
        if work is None:
            if len(self._looking_up) >= LOOK_UPS_MAX and fingerprint not in self._cache:
                raise ResourceExhausted(
                    f"{len(self._looking_up)} keys are being looked up already; try again", retry_after_s=1.0
                )
            work = self._looking_up[fingerprint] = asyncio.ensure_future(self._look_up(token))
            work.add_done_callback(lambda done: self._looked_up(fingerprint, done))
        return await asyncio.shield(work)

    def _looked_up(self, fingerprint: bytes, done: "asyncio.Future[Identity | None]") -> None:
        self._looking_up.pop(fingerprint)
        if not done.cancelled():
            # Who asked may have gone, and then nobody hears of a failure.
            done.exception()

    async def _look_up(self, token: str) -> Identity | None:
        parts = token.split("_", 2)
        if len(parts) != 3 or parts[0] != PREFIX or not parts[1].isascii() or len(token) > 200 or "\0" in token:
            return None
        return await self._store.authenticate(parts[1], _sha256(parts[2]))


def require(identity: Identity, *roles: Role) -> None:
    """Refuses a caller with none of these roles. An operator may do what a client may."""
    held = identity.roles | ({Role.CLIENT} if Role.OPERATOR in identity.roles else set())
    if held.isdisjoint(roles):
        raise PermissionDenied(
            f"this call needs the role {' or '.join(roles)}, key {identity.key_id} has "
            f"{', '.join(sorted(identity.roles))}; create one with: rota key create --role {roles[0]}"
        )


def require_installation(identity: Identity) -> None:
    """Refuses a caller whose tenant is not the one that may act for the installation as a whole."""
    if identity.tenant != INSTALLATION_TENANT:
        raise PermissionDenied(
            f"this call concerns the installation as a whole and needs a key of the tenant {INSTALLATION_TENANT}, key "
            f"{identity.key_id} belongs to {identity.tenant}; create one with: rota key create --role operator"
        )


def _sha256(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
