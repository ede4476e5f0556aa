"""Identities, and how they are derived.

A job's id is a UUIDv7 in its text form. Its shard is a stable hash of tenant and id. A fence is an int64 with the
shard's epoch in the high bits and a counter of the owner in the low bits: epochs grow at each change of owner, so a
fence is never minted twice and grows for ever.
"""

import hashlib
import re
import uuid
from datetime import UTC, datetime
from typing import NewType

from rota.domain import limits
from rota.domain.errors import InvalidArgument

JobId = NewType("JobId", str)
SessionId = NewType("SessionId", str)
TenantId = NewType("TenantId", int)
CoordinatorId = NewType("CoordinatorId", str)
ShardNo = NewType("ShardNo", int)
Fence = NewType("Fence", int)
ScheduleUid = NewType("ScheduleUid", str)
EffectId = NewType("EffectId", str)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_ANY_CASE = re.compile(r"[0-9A-Fa-f]{8}(-?)[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{4}\1[0-9A-Fa-f]{12}")
"""Stricter than uuid.UUID, which reads with int() and so takes underscores, signs and digits of other scripts."""


def uuid7(unix_ms: int, random_80: int) -> str:
    """A UUIDv7 (RFC 9562) in text form from milliseconds and 80 random bits."""
    value = (unix_ms & 0xFFFFFFFFFFFF) << 80
    value |= 0x7 << 76 | (random_80 >> 68 & 0xFFF) << 64
    value |= 0x2 << 62 | (random_80 & 0x3FFFFFFFFFFFFFFF)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def shard_of(tenant: TenantId, job: JobId) -> ShardNo:
    """The shard that a job belongs to, the same on every coordinator of every version.

    The id's last 62 bits are random, so their low bits spread evenly; the tenant shifts them.
    """
    return ShardNo((int(job[-6:], 16) + tenant * 40_503) % limits.SHARD_COUNT)


def id_in_shard(id: str, tenant: TenantId, shard: ShardNo) -> JobId:
    """A job's id like this one whose shard is the given one: jobs of a schedule live beside it."""
    low = (shard - tenant * 40_503 - (int(id[-6:-2], 16) << 8)) % limits.SHARD_COUNT
    return JobId(f"{id[:-2]}{low:02x}")


def mint_fence(epoch: int, counter: int) -> Fence:
    """The `counter`-th fence of an epoch; never one of the next epoch's."""
    if not 0 < counter < 1 << limits.FENCE_COUNTER_BITS:
        raise OverflowError(f"epoch {epoch} has no fence number {counter}; the shard needs a new epoch")
    return Fence(epoch << limits.FENCE_COUNTER_BITS | counter)


def epoch_of(fence: Fence) -> int:
    """The shard's epoch in which a fence was minted."""
    return fence >> limits.FENCE_COUNTER_BITS


def occurrence_id(nominal: datetime, generation: int) -> str:
    """The id of an occurrence within its schedule, such as 20260308T070000Z, or 20260308T070000.250000Z-1."""
    at = nominal.astimezone(UTC)
    fraction = f".{at.microsecond:06d}" if at.microsecond else ""
    return f"{at:%Y%m%dT%H%M%S}{fraction}Z" + (f"-{generation}" if generation else "")


def parse_name(field: str, name: str, collection: str) -> str:
    """The id in a resource name such as jobs/{uuid}; a bare id is taken too."""
    text = name.removeprefix(collection + "/")
    if _UUID.fullmatch(text):
        return text
    if _UUID_ANY_CASE.fullmatch(text):
        return str(uuid.UUID(text))
    raise InvalidArgument.field(field, f"expected {collection}/{{id}} with a UUID, found {name[:80]!r}")


def digest(*parts: bytes) -> bytes:
    """A SHA-256 over length-prefixed parts: two different sequences never share a preimage."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.digest()
