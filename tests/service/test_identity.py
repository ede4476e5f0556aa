"""Keys through the service: shown once, remembered for seconds, and never taken for another's."""

import asyncio

import pytest

from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument, PermissionDenied, Unauthenticated
from rota.domain.ids import TenantId
from rota.domain.model import Identity, Role
from rota.service import identity
from rota.service.identity import CACHE_LIFE_S, Keys, require

from ..store.world import World, fresh_id

WORKER = frozenset({Role.WORKER})


class HandClock(SystemClock):
    """Monotonic time moves by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def keys(world: World, clock: HandClock) -> Keys:
    return Keys(world.identity, clock)


async def test_a_key_authenticates(keys: Keys) -> None:
    tenant = f"t-{fresh_id()}"
    text, record = await keys.create(tenant, "label", WORKER, None)
    assert text.startswith(f"rota_{record.id}_")
    for header in (f"Bearer {text}", f"bearer {text}", f"BEARER {text}"):
        assert await keys.authenticate(header) == Identity(record.tenant_id, tenant, record.id, WORKER)
    other, _ = await keys.create(tenant, "label", WORKER, None)
    assert other != text


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer rota_x",
        "Bearer rota__",
        "Bearer other_{id}_{secret}",
        "Bearer rota_{id}_",
        "Bearer rota_{id}_{secret}x",
        "Bearer rota_{id}_{secret} ",
        "Bearer {secret}",
        "Bearer rota_{id}é_{secret}",
        "Bearer rota_{id}_\0",
        "Bearer rota_{id}_" + "x" * 10_000,
        "Bearer rota_' OR 1=1 --_{secret}",
    ],
)
async def test_what_is_no_key(keys: Keys, header: str | None) -> None:
    text, record = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    secret = text.removeprefix(f"rota_{record.id}_")
    sent = header.format(id=record.id, secret=secret) if header else header
    with pytest.raises(Unauthenticated, match="rota key create") as refused:
        await keys.authenticate(sent)
    assert secret not in refused.value.message


async def test_a_revoked_key_is_refused_within_the_life_of_the_cache(keys: Keys, clock: HandClock) -> None:
    text, record = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    assert await keys.authenticate(f"Bearer {text}")
    assert await keys.revoke(text)
    clock.at = CACHE_LIFE_S
    assert await keys.authenticate(f"Bearer {text}")
    clock.at = CACHE_LIFE_S + 0.001
    with pytest.raises(Unauthenticated):
        await keys.authenticate(f"Bearer {text}")
    assert not await keys.revoke(record.id)


async def test_a_refusal_is_remembered_too_and_a_new_key_is_known_at_once(keys: Keys) -> None:
    for number in range(3):
        with pytest.raises(Unauthenticated):
            await keys.authenticate(f"Bearer rota_unknown_{number % 2}")
    text, _ = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    assert await keys.authenticate(f"Bearer {text}")


async def test_an_expired_key_is_refused(world: World, keys: Keys, clock: HandClock) -> None:
    text, record = await keys.create(f"t-{fresh_id()}", "label", WORKER, 3_600.0)
    assert await keys.authenticate(f"Bearer {text}")
    await world.sql("UPDATE api_keys SET expires_at = now() WHERE id = %(id)s", id=record.id)
    clock.at = CACHE_LIFE_S + 1
    with pytest.raises(Unauthenticated):
        await keys.authenticate(f"Bearer {text}")


async def test_the_cache_is_bounded(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CACHE_MAX", 3)
    text, _ = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    for number in range(10):
        await keys.authenticate(f"Bearer {text}")
        with pytest.raises(Unauthenticated):
            await keys.authenticate(f"Bearer rota_unknown_{number}")
        assert len(keys._cache) <= 3


async def test_strangers_lock_nobody_out(keys: Keys, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "LOOK_UPS_MAX", 2)
    monkeypatch.setattr(identity, "CACHE_MAX", 3)
    text, record = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    assert (await keys.authenticate(f"Bearer {text}")).key_id == record.id
    for number in range(5):
        with pytest.raises(Unauthenticated):
            await keys.authenticate(f"Bearer rota_unknown_{number}")
    # Its look-up is due again, while more strangers come than are looked up at a time.
    clock.at = CACHE_LIFE_S + 1
    headers = [f"Bearer rota_more_{number}" for number in range(5)] + [f"Bearer {text}"] * 3
    answers = await asyncio.gather(*(keys.authenticate(header) for header in headers), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers[:5]] == ["Unauthenticated"] * 2 + ["ResourceExhausted"] * 3
    assert [getattr(answer, "key_id", answer) for answer in answers[5:]] == [record.id] * 3
    assert keys._looking_up == {}


async def test_callers_that_come_together_cost_one_look_up(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    text, record = await keys.create(f"t-{fresh_id()}", "label", WORKER, None)
    looked_up = []
    look_up = keys._look_up

    async def counted(token: str) -> Identity | None:
        looked_up.append(token)
        return await look_up(token)

    monkeypatch.setattr(keys, "_look_up", counted)
    callers = [asyncio.ensure_future(keys.authenticate(f"Bearer {text}")) for _ in range(5)]
    await asyncio.sleep(0)
    # One that goes takes the answer from nobody.
    callers[0].cancel()
    answers = await asyncio.gather(*callers[1:])
    assert [answer.key_id for answer in answers] == [record.id] * 4
    assert looked_up == [text]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"tenant": ""}, "tenant"),
        ({"tenant": "a b"}, "tenant"),
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": "a\0"}, "tenant"),
        ({"tenant": "t" * 65}, "tenant"),
        ({"roles": frozenset()}, "roles"),
        ({"label": "\0"}, "label"),
        ({"label": "l" * 201}, "label"),
        ({"ttl_s": 0.0}, "expires"),
        ({"ttl_s": -1.0}, "expires"),
        ({"label": "\udcff"}, "label"),
    ],
)
async def test_wishes_for_keys_that_are_refused(keys: Keys, wish: dict[str, object], field: str) -> None:
    given: dict[str, object] = {"tenant": f"t-{fresh_id()}", "label": "label", "roles": WORKER, "ttl_s": None} | wish
    with pytest.raises(InvalidArgument) as refused:
        await keys.create(**given)  # type: ignore[arg-type]
    assert [v.field for v in refused.value.violations] == [field]


@pytest.mark.parametrize(
    ("held", "needed", "allowed"),
    [
        ({Role.CLIENT}, {Role.CLIENT}, True),
        ({Role.WORKER}, {Role.CLIENT}, False),
        ({Role.CLIENT}, {Role.WORKER}, False),
        ({Role.CLIENT}, {Role.OPERATOR}, False),
        ({Role.OPERATOR}, {Role.OPERATOR}, True),
        # An operator may do what a client may, and is no worker.
        ({Role.OPERATOR}, {Role.CLIENT}, True),
        ({Role.OPERATOR}, {Role.WORKER}, False),
        ({Role.WORKER}, {Role.CLIENT, Role.WORKER}, True),
        (set(), {Role.CLIENT}, False),
    ],
)
def test_roles(held: set[Role], needed: set[Role], allowed: bool) -> None:
    caller = Identity(TenantId(1), "t", "k", frozenset(held))
    if allowed:
        require(caller, *needed)
        return
    with pytest.raises(PermissionDenied, match=rf"needs the role {' or '.join(needed)}.*rota key create --role"):
        require(caller, *needed)


async def test_listing(keys: Keys) -> None:
    tenant = f"t-{fresh_id()}"
    _, record = await keys.create(tenant, "label", WORKER, 60.0)
    assert await keys.all(tenant) == [record]
    assert tenant in [t.name for t in await keys.tenants()]
    assert await keys.all(f"t-{fresh_id()}") == []
