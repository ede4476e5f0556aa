"""Ids: their order, their layout, and what is derived from them for ever."""

import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.ids import (
    JobId,
    ScheduleUid,
    ShardNo,
    TenantId,
    digest,
    epoch_of,
    id_in_shard,
    mint_fence,
    occurrence_id,
    parse_name,
    shard_of,
    uuid7,
)
from rota.domain.model import JobOrigin, effect_key

CANONICAL = "0195a2b4-c6d8-7abc-9def-0123456789ab"

milliseconds = st.integers(0, 2**48 - 1)
random_bits = st.integers(0, 2**80 - 1)


def test_uuid7_is_the_example_of_rfc_9562() -> None:
    made = uuid7(0x017F22E279B0, 0xCC3 << 68 | 0x18C4DC0C0C07398F)
    assert made == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@given(milliseconds, random_bits)
def test_uuid7_has_its_version_and_variant(unix_ms: int, bits: int) -> None:
    text = uuid7(unix_ms, bits)
    made = uuid.UUID(text)
    assert str(made) == text
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == unix_ms


@given(milliseconds, milliseconds, random_bits, random_bits)
def test_uuid7_orders_by_time_as_text(earlier: int, later: int, bits: int, other_bits: int) -> None:
    if earlier != later:
        assert (uuid7(earlier, bits) < uuid7(later, other_bits)) == (earlier < later)


@given(milliseconds, random_bits, random_bits)
def test_uuid7_keeps_every_random_bit_that_it_has_room_for(unix_ms: int, bits: int, other_bits: int) -> None:
    used = 0xFFF << 68 | 0x3FFFFFFFFFFFFFFF
    assert (uuid7(unix_ms, bits) == uuid7(unix_ms, other_bits)) == (bits & used == other_bits & used)


@pytest.mark.parametrize(
    ("tenant", "job", "shard"),
    [
        (0, "00000000-0000-7000-8000-000000000000", 0),
        (0, "00000000-0000-7000-8000-0000000000ff", 255),
        (1, "00000000-0000-7000-8000-000000000000", 55),
        (1, CANONICAL, 226),
        (2, CANONICAL, 25),
        (2_147_483_647, CANONICAL, 116),
        (7, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 16),
    ],
)
def test_shards_are_the_same_for_ever(tenant: int, job: str, shard: int) -> None:
    """Rows lie in the shard that was computed when they were made: a changed function would lose them."""
    assert shard_of(TenantId(tenant), JobId(job)) == shard


@pytest.mark.parametrize("tenant", [1, 2, 255, 256, 99_999])
def test_shards_are_spread_evenly(tenant: int) -> None:
    rng = random.Random(tenant)
    per_shard = 200
    ids = [uuid7(1_774_000_000_000, rng.getrandbits(80)) for _ in range(limits.SHARD_COUNT * per_shard)]
    counts = Counter(shard_of(TenantId(tenant), JobId(id)) for id in ids)
    assert set(counts) == set(range(limits.SHARD_COUNT))
    chi_square = sum((count - per_shard) ** 2 / per_shard for count in counts.values())
    # 255 degrees of freedom: 380 is passed by chance once in a million.
    assert chi_square < 380


def test_tenants_do_not_share_a_hot_shard() -> None:
    assert len({shard_of(TenantId(tenant), JobId(CANONICAL)) for tenant in range(256)}) == 256


epochs = st.integers(0, limits.EPOCH_MAX)
counters = st.integers(1, 2**limits.FENCE_COUNTER_BITS - 1)


@given(epochs, counters, epochs, counters)
def test_fences_grow_with_epoch_then_counter(epoch: int, counter: int, epoch_2: int, counter_2: int) -> None:
    fence, fence_2 = mint_fence(epoch, counter), mint_fence(epoch_2, counter_2)
    assert (fence < fence_2) == ((epoch, counter) < (epoch_2, counter_2))
    assert epoch_of(fence) == epoch


def test_the_last_fence_is_an_int64() -> None:
    assert mint_fence(limits.EPOCH_MAX, 2**limits.FENCE_COUNTER_BITS - 1) == 2**63 - 1


@pytest.mark.parametrize("counter", [-1, 0, 2**limits.FENCE_COUNTER_BITS])
def test_no_fence_runs_into_another_epoch(counter: int) -> None:
    with pytest.raises(OverflowError, match="the shard needs a new epoch"):
        mint_fence(3, counter)


def test_the_effect_key_changes_with_the_generation_only() -> None:
    assert effect_key("acme", JobId(CANONICAL), 0) == f"acme/{CANONICAL}/0"
    assert effect_key("acme", JobId(CANONICAL), 1) == f"acme/{CANONICAL}/1"


def test_the_effect_key_of_an_occurrences_job_names_the_instant() -> None:
    nominal = datetime(2026, 3, 8, 8, 0, tzinfo=timezone(timedelta(hours=1)))
    origin = JobOrigin(ScheduleUid("u"), "nightly", nominal, 2)
    job = JobId(CANONICAL)
    assert effect_key("acme", job, 0, origin) == "acme/u/2026-03-08T07:00:00Z/2"
    # A redrive that asks for a new effect is not the next occurrence of that instant.
    assert effect_key("acme", job, 1, origin) == "acme/u/2026-03-08T07:00:00Z/2.1"


@pytest.mark.parametrize(
    ("micros", "generation", "id"),
    [(0, 0, "20260308T070000Z"), (250_000, 0, "20260308T070000.250000Z"), (0, 3, "20260308T070000Z-3")],
)
def test_an_occurrences_id_follows_from_its_instant(micros: int, generation: int, id: str) -> None:
    assert occurrence_id(datetime(2026, 3, 8, 7, 0, 0, micros, tzinfo=UTC), generation) == id


@given(milliseconds, random_bits, st.integers(1, 2**31 - 1), st.integers(0, 255))
def test_a_schedules_job_lives_in_its_shard(ms: int, bits: int, tenant: int, shard: int) -> None:
    id = uuid7(ms, bits)
    found = id_in_shard(id, TenantId(tenant), ShardNo(shard))
    assert shard_of(TenantId(tenant), found) == shard
    assert (found[:-2], len(found)) == (id[:-2], 36)


@pytest.mark.parametrize(
    "name",
    [
        f"jobs/{CANONICAL}",
        CANONICAL,
        CANONICAL.upper(),
        f"jobs/{CANONICAL.upper()}",
        CANONICAL.replace("-", ""),
    ],
)
def test_names_are_taken(name: str) -> None:
    assert parse_name("name", name, "jobs") == CANONICAL


@pytest.mark.parametrize(
    "name",
    [
        "",
        "jobs/",
        "jobs/1",
        f"sessions/{CANONICAL}",
        f"jobs/jobs/{CANONICAL}",
        f"tenants/acme/jobs/{CANONICAL}",
        f"jobs/{CANONICAL}/attempts/1",
        f"jobs/{CANONICAL}\n",
        f"jobs/{CANONICAL}\0",
        f"jobs/{CANONICAL[:-1]}\ud800",
        f"jobs/{CANONICAL} ",
        f"jobs/{CANONICAL[:-1]}g",
        f"jobs/{{{CANONICAL}}}",
        f"jobs/urn:uuid:{CANONICAL}",
        # Python's int() reads these, and PostgreSQL would not.
        f"jobs/{CANONICAL[:-2]}_b",
        f"jobs/+{CANONICAL[1:]}",
        f"jobs/0x{CANONICAL[2:]}",
        f"jobs/{CANONICAL[:-1]}\uff11",
        "jobs/" + "a" * 10_000,
    ],
)
def test_other_names_are_refused_with_their_field(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_name("job", name, "jobs")
    assert [v.field for v in refused.value.violations] == ["job"]
    assert "expected jobs/{id} with a UUID" in refused.value.message
    assert len(refused.value.message) < 400
    refused.value.message.encode()


def test_a_digest_tells_where_one_part_ends() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"", b"a") != digest(b"a", b"")
    assert digest(b"a") != digest(b"a", b"")
    assert len(digest()) == 32
    # Request ids are compared by digests that an older version stored.
    assert digest(b"CreateJob", b"{}").hex() == "14cd98aa6f3d35e1c57a6898ab38a6967ae3299775bfec059941358c32ee9b7a"
