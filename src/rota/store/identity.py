"""Tenants and their API keys. Only a key's SHA-256 is stored: a key is 256 random bits, so no slow hash is needed."""

from dataclasses import dataclass

from rota.domain.ids import TenantId
from rota.domain.model import ApiKey, Identity, Role, Tenant
from rota.store.engine import Database, Row, Run

_KEY = "k.id, k.tenant_id, t.name, k.label, k.roles, k.created_at, k.expires_at, k.revoked_at"

_AUTHENTICATE = """
SELECT k.tenant_id, t.name, k.roles
FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
WHERE k.id = %(id)s AND k.secret_sha256 = %(secret)s
  AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
"""

_TENANT = "INSERT INTO tenants (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING"

_CREATE = f"""
WITH k AS (
    INSERT INTO api_keys (id, tenant_id, secret_sha256, label, roles, expires_at)
    SELECT %(id)s, t.id, %(secret)s, %(label)s, %(roles)s, now() + %(ttl_s)s::float8 * interval '1 second'
    FROM tenants t WHERE t.name = %(name)s
    RETURNING *
)
SELECT {_KEY} FROM k JOIN tenants t ON t.id = k.tenant_id
"""

_LIST = f"""
SELECT {_KEY} FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
WHERE %(tenant)s::text IS NULL OR t.name = %(tenant)s
ORDER BY k.created_at, k.id
"""

_REVOKE = "UPDATE api_keys SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL RETURNING id"

_TENANTS = "SELECT id, name, created_at FROM tenants ORDER BY id"

_PEER_SECRET = "SELECT peer_secret FROM installation"


@dataclass(frozen=True, slots=True)
class PgIdentity:
    """IdentityStore on PostgreSQL."""

    db: Database

    async def authenticate(self, key_id: str, secret_sha256: bytes) -> Identity | None:
        rows = await self.db.writes.run(_AUTHENTICATE, {"id": key_id, "secret": secret_sha256}, write=False)
        if not rows:
            return None
        tenant_id, tenant, roles = rows[0]
        return Identity(TenantId(tenant_id), tenant, key_id, frozenset(Role(role) for role in roles))

    async def create_key(
        self,
        tenant: str,
        key_id: str,
        secret_sha256: bytes,
        label: str,
        roles: frozenset[Role],
        ttl_s: float | None,
    ) -> ApiKey:
        async def work(run: Run) -> list[Row]:
            await run(_TENANT, {"name": tenant})
            return await run(
                _CREATE,
                {
                    "id": key_id,
                    "name": tenant,
                    "secret": secret_sha256,
                    "label": label,
                    "roles": sorted(roles),
                    "ttl_s": ttl_s,
                },
            )

        return _key((await self.db.writes.transact(work))[0])

    async def list_keys(self, tenant: str | None) -> list[ApiKey]:
        return [_key(row) for row in await self.db.writes.run(_LIST, {"tenant": tenant}, write=False)]

    async def revoke_key(self, key_id: str) -> bool:
        return bool(await self.db.writes.run(_REVOKE, {"id": key_id}))

    async def tenants(self) -> list[Tenant]:
        rows = await self.db.writes.run(_TENANTS, {}, write=False)
        return [Tenant(TenantId(id), name, created_at) for id, name, created_at in rows]

    async def peer_secret(self) -> bytes:
        rows = await self.db.writes.run(_PEER_SECRET, {}, write=False)
        return bytes(rows[0][0])


def _key(r: Row) -> ApiKey:
    return ApiKey(r[0], TenantId(r[1]), r[2], r[3], frozenset(Role(x) for x in r[4]), r[5], r[6], r[7])
