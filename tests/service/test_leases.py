"""Granting through the service: what is missing is counted, and every grant has an effect key."""

import pytest

from rota.domain.ids import Fence, TenantId
from rota.service.leases import Leases
from rota.store.port import Claim
from rota.telemetry import Metrics

from ..store.world import Held, World


@pytest.fixture
def leases(world: World, metrics: Metrics) -> Leases:
    return Leases(world.leases, world.owner, metrics, None)


def count(metrics: Metrics, name: str) -> int:
    return sum(cell[0] for cell in metrics._series[name].values())


async def test_grants_and_misses(world: World, leases: Leases, metrics: Metrics) -> None:
    specs = [world.spec() for _ in range(5)]
    await world.create(*specs)
    session = await world.new_session()
    claims = [Claim(world.entry(s), world.mint(s.shard), session) for s in specs]
    claims[2] = Claim(claims[2].entry, Fence(1), session)
    grants = await leases.claim(claims, {world.tenant: "acme"}, 0.0)
    assert {(g.job_id, g.fence) for g in grants} == {(c.entry.id, c.fence) for n, c in enumerate(claims) if n != 2}
    assert (count(metrics, "rota.leases.granted"), count(metrics, "rota.claims.missed")) == (4, 1)


@pytest.mark.parametrize(("given", "key"), [("", "acme/{id}/0"), ("order/7", "order/7")])
async def test_the_effect_key_is_equal_in_all_attempts(world: World, leases: Leases, given: str, key: str) -> None:
    spec, session = world.spec(effect_key=given), await world.new_session()
    await world.create(spec)
    keys = []
    for _ in range(3):
        claim = Claim(world.entry(spec), world.mint(spec.shard), session)
        (grant,) = await leases.claim([claim], {world.tenant: "acme", TenantId(1): "other"}, 0.0)
        keys.append(grant.effect_key)
        await world.fail(Held(spec, grant))
    assert keys == [key.format(id=spec.id)] * 3
