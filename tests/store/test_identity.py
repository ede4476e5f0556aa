"""Keys and tenants: only a living key with its own secret stands for anybody."""

import asyncio
import hashlib

import pytest

from rota.domain.model import Identity, Role

from .world import World, fresh_id

ROLES = frozenset({Role.CLIENT, Role.WORKER})


def sha(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def key_id() -> str:
    return fresh_id()[-12:]


async def new_key(world: World, tenant: str, secret: str = "s", ttl_s: float | None = None) -> str:
    id = key_id()
    await world.identity.create_key(tenant, id, sha(secret), "label", ROLES, ttl_s)
    return id


async def test_a_key_stands_for_its_tenant_and_roles(world: World) -> None:
    tenant, id = f"t-{fresh_id()}", key_id()
    before = await world.now()
    key = await world.identity.create_key(tenant, id, sha("s"), "lábel", ROLES, 3_600.0)
    assert (key.id, key.tenant, key.label, key.roles, key.revoked_at) == (id, tenant, "lábel", ROLES, None)
    assert key.created_at >= before
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).total_seconds() == 3_600
    assert await world.identity.authenticate(id, sha("s")) == Identity(key.tenant_id, tenant, id, ROLES)


@pytest.mark.parametrize(
    ("wrong", "ttl_s"),
    [("unknown id", None), ("wrong secret", None), ("empty secret", None), ("revoked", None), ("expired", -0.001)],
)
async def test_what_does_not_stand_for_anybody(world: World, wrong: str, ttl_s: float | None) -> None:
    id = await new_key(world, f"t-{fresh_id()}", "right", ttl_s)
    if wrong == "revoked":
        assert await world.identity.revoke_key(id)
    secret = {"wrong secret": sha("left"), "empty secret": b""}.get(wrong, sha("right"))
    asked = key_id() if wrong == "unknown id" else id
    assert await world.identity.authenticate(asked, secret) is None


async def test_the_secret_of_another_key_does_not_fit(world: World) -> None:
    tenant = f"t-{fresh_id()}"
    one, two = await new_key(world, tenant, "one"), await new_key(world, tenant, "two")
    assert await world.identity.authenticate(one, sha("two")) is None
    assert await world.identity.authenticate(two, sha("two"))


async def test_a_key_is_revoked_once(world: World) -> None:
    id = await new_key(world, f"t-{fresh_id()}")
    assert [await world.identity.revoke_key(x) for x in (id, id, key_id())] == [True, False, False]


async def test_a_tenant_is_created_with_its_first_key_and_once(world: World) -> None:
    name = f"t-{fresh_id()}"
    await asyncio.gather(*(new_key(world, name) for _ in range(6)))
    assert [t.name for t in await world.identity.tenants() if t.name == name] == [name]
    keys = await world.identity.list_keys(name)
    assert len(keys) == 6
    assert len({key.tenant_id for key in keys}) == 1
    assert [key.created_at for key in keys] == sorted(key.created_at for key in keys)


async def test_keys_are_listed_by_tenant(world: World) -> None:
    one, two = f"t-{fresh_id()}", f"T-{fresh_id()}"
    ids = {one: await new_key(world, one), two: await new_key(world, two)}
    for name, id in ids.items():
        assert [key.id for key in await world.identity.list_keys(name)] == [id]
    assert {key.id for key in await world.identity.list_keys(None)} >= set(ids.values())
    assert await world.identity.list_keys("nobody") == []


async def test_no_secret_is_stored(world: World) -> None:
    id = await new_key(world, f"t-{fresh_id()}", "plain-secret")
    row = await world.value("SELECT k::text FROM api_keys k WHERE id = %(id)s", id=id)
    assert "plain-secret" not in row
    assert sha("plain-secret").hex() in row
