"""The outbox as its relay and its operator see it: all SQL after the installation.

A row waits, is claimed for a while by a relay that sends it, and is deleted once Rota has answered; or it is parked,
with the reason. A claim is no lock: it keeps relays from doing the same work, and nothing goes wrong when two do, since
Rota knows what it has seen by its request id.

Every statement reads a stretch of one index, or rows by their key. None is prepared: a plan made while the table was
empty would be kept while it grows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from psycopg import sql

from rota.outbox.database import Connection, Row
from rota.outbox.limits import (
    BATCH_BYTES,
    BATCH_ROWS,
    CLAIM_S,
    ERROR_CHARS_MAX,
    IN_DOUBT_S,
    LOOK_ROWS,
    ROW_OVERHEAD_BYTES,
    TIDY_KEYS,
)
from rota.outbox.wish import Parcel, Wish

COUNT_MAX = 100_000
"""Rows that are counted; more are said to be that many or more."""


class Kind(Enum):
    """How a row, or several, can be claimed."""

    ALONE = "alone"
    PLAIN = "plain"
    """In a batch with others."""

    LOW = "low"
    """In a batch with others of low priority, which Rota may refuse for a while."""

    LOST = "lost"
    """A whole batch of a relay that died."""


@dataclass(frozen=True, slots=True)
class Item:
    """What can be claimed: a row, or a batch from row `seq` to row `last`."""

    kind: Kind
    seq: int
    bytes: int
    last: int = 0
    size: int = 1
    key: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look has found, in order. Rows up to `last` were looked at, or keys up to `last_key`."""

    items: Sequence[Item]
    all_read: bool
    last: int = 0
    last_key: str = ""


@dataclass(frozen=True, slots=True)
class Parked:
    """A row that somebody has to decide about."""

    seq: int
    id: str
    type: str
    queue: str
    ordering_key: str | None
    enqueued_at: Any
    sent_at: Any
    parked_at: Any
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What is in the table, up to COUNT_MAX rows of each kind."""

    waiting: int
    claimed: int
    parked: int
    oldest_s: float | None


# Rows that came after `after`. A row of a key counts only when it is its key's first.
_LOOK_NEW = """
SELECT e.seq, e.bytes, e.claimable, e.alone, e.low, NULL, NULL FROM (
    SELECT o.seq, o.bytes, o.alone, (o.options ->> 'priority')::integer < 4 AS low,
           o.claimed_until IS NULL AND o.parked_at IS NULL AND (o.ordering_key IS NULL OR o.seq = (
               SELECT f.seq FROM {outbox} f WHERE f.ordering_key = o.ordering_key
               ORDER BY f.ordering_key, f.seq LIMIT 1)) AS claimable
    FROM {outbox} o WHERE o.seq > %(after)s ORDER BY o.seq LIMIT %(limit)s
) e ORDER BY e.seq"""

# Rows without a key that the looks at new ones left behind: committed late, released, or claimed by a relay that died.
_LOOK_BEHIND = """
SELECT o.seq, o.bytes, o.claimed_until IS NULL OR o.claimed_until <= now() AND o.batch_size IS NULL AS claimable,
       o.alone, (o.options ->> 'priority')::integer < 4 AS low,
       o.batch_last, CASE WHEN o.claimed_until <= now() AND o.seq = o.batch_first THEN o.batch_size END
FROM {outbox} o
WHERE o.ordering_key IS NULL AND o.parked_at IS NULL AND o.seq > %(after)s AND o.seq <= %(upto)s
ORDER BY o.seq LIMIT %(limit)s"""

# The first row of each key, from key to key; rows behind one that is parked are never read.
_LOOK_KEYS = """
WITH RECURSIVE heads AS (
    (SELECT o.ordering_key, o.seq, o.bytes, o.claimed_until, o.parked_at FROM {outbox} o
     WHERE o.ordering_key > %(after)s ORDER BY o.ordering_key, o.seq LIMIT 1)
    UNION ALL
    SELECT n.* FROM heads h CROSS JOIN LATERAL (
        SELECT o.ordering_key, o.seq, o.bytes, o.claimed_until, o.parked_at FROM {outbox} o
        WHERE o.ordering_key > h.ordering_key ORDER BY o.ordering_key, o.seq LIMIT 1) n
)
SELECT h.ordering_key, h.seq, h.bytes,
       h.seq <= %(upto)s AND h.parked_at IS NULL AND (h.claimed_until IS NULL OR h.claimed_until <= now()) AS claimable
FROM heads h LIMIT %(limit)s"""

# What follows in keys whose row before is published.
_LOOK_NEXT = """
SELECT n.seq FROM unnest(%(keys)s::text[], %(seqs)s::bigint[]) AS w (key, seq) CROSS JOIN LATERAL (
    SELECT o.seq, o.parked_at, o.claimed_until FROM {outbox} o
    WHERE o.ordering_key = w.key AND o.seq > w.seq ORDER BY o.ordering_key, o.seq LIMIT 1
) n WHERE n.parked_at IS NULL AND (n.claimed_until IS NULL OR n.claimed_until <= now())"""

_ROW = """o.seq, o.id::text, o.request_id, o.ordering_key, o.type, o.queue, o.payload, o.content_type, o.run_time,
       o.options, o.bytes, o.attempts, o.sent_at < now() - make_interval(secs => %(in_doubt_s)s)"""

_CLAIM_ALONE = f"""
WITH locked AS (
    SELECT o.seq FROM {{outbox}} o
    WHERE o.seq = ANY (%(seqs)s) AND o.alone AND o.parked_at IS NULL
          AND (o.claimed_until IS NULL OR o.claimed_until <= now())
    ORDER BY o.seq FOR UPDATE SKIP LOCKED
)
UPDATE {{outbox}} o SET claimed_until = now() + make_interval(secs => %(claim_s)s),
    sent_at = coalesce(o.sent_at, now()), attempts = o.attempts + 1
WHERE o.seq = ANY (ARRAY (SELECT l.seq FROM locked l))
RETURNING {_ROW}"""

_CLAIM_BATCH = f"""
WITH locked AS (
    SELECT o.seq FROM {{outbox}} o
    WHERE o.seq = ANY (%(seqs)s) AND NOT o.alone AND o.batch_size IS NULL AND o.parked_at IS NULL
    ORDER BY o.seq FOR UPDATE SKIP LOCKED
)
UPDATE {{outbox}} o SET claimed_until = now() + make_interval(secs => %(claim_s)s), sent_at = now(),
    attempts = o.attempts + 1, batch_first = (SELECT min(l.seq) FROM locked l),
    batch_last = (SELECT max(l.seq) FROM locked l), batch_size = (SELECT count(*) FROM locked l)
WHERE o.seq = ANY (ARRAY (SELECT l.seq FROM locked l))
RETURNING {_ROW}"""

# All of a batch or nothing.
_CLAIM_AGAIN = f"""
WITH locked AS (
    SELECT o.seq FROM {{outbox}} o
    WHERE o.seq BETWEEN %(first)s AND %(last)s AND o.batch_first = %(first)s AND o.claimed_until <= now()
    ORDER BY o.seq FOR UPDATE SKIP LOCKED
)
UPDATE {{outbox}} o SET claimed_until = now() + make_interval(secs => %(claim_s)s),
    sent_at = coalesce(o.sent_at, now()), attempts = o.attempts + 1
WHERE o.seq = ANY (ARRAY (SELECT l.seq FROM locked l)) AND (SELECT count(*) FROM locked l) = %(size)s
RETURNING {_ROW}"""

_DELETE = "DELETE FROM {outbox} o WHERE o.seq = ANY (%(seqs)s)"

_PARK = """
UPDATE {outbox} o SET parked_at = now(), reason = %(reason)s, error = %(error)s, claimed_until = NULL, alone = true,
    batch_first = NULL, batch_last = NULL, batch_size = NULL
WHERE o.seq = ANY (%(seqs)s)"""

# Refused as a whole, and so not created: each of them by itself then. Not when another relay has claimed it since.
_DISSOLVE = """
UPDATE {outbox} o SET claimed_until = now(), sent_at = NULL, alone = true, attempts = 0,
    batch_first = NULL, batch_last = NULL, batch_size = NULL
WHERE o.seq = ANY (%(seqs)s) AND o.attempts = 1"""

_RELEASE = """
UPDATE {outbox} o SET claimed_until = now() + make_interval(secs => %(delay_s)s)
WHERE o.seq = ANY (%(seqs)s)"""

# A key whose lock is held is in use, whatever is visible of it. Of one that is deleted just when its last user has
# committed, the next makes a new row.
_TIDY = """
WITH looked AS (
    SELECT k.ordering_key FROM {outbox_keys} k WHERE k.ordering_key > %(after)s
    ORDER BY k.ordering_key LIMIT %(limit)s
), idle AS (
    SELECT l.ordering_key FROM looked l WHERE (
        SELECT o.seq FROM {outbox} o WHERE o.ordering_key = l.ordering_key ORDER BY o.ordering_key, o.seq LIMIT 1
    ) IS NULL
), locked AS (
    SELECT k.ordering_key FROM {outbox_keys} k WHERE k.ordering_key = ANY (ARRAY (SELECT i.ordering_key FROM idle i))
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {outbox_keys} k WHERE k.ordering_key = ANY (ARRAY (SELECT l.ordering_key FROM locked l))
)
SELECT max(l.ordering_key) FROM looked l HAVING count(*) = %(limit)s"""

_COUNTS = """
SELECT (SELECT count(*) FROM (SELECT FROM {outbox} o WHERE o.parked_at IS NULL ORDER BY o.seq LIMIT %(limit)s) w),
       (SELECT count(*) FROM (SELECT o.claimed_until FROM {outbox} o WHERE o.parked_at IS NULL
                              ORDER BY o.seq LIMIT %(limit)s) c WHERE c.claimed_until > now()),
       (SELECT count(*) FROM (SELECT FROM {outbox} o WHERE o.parked_at IS NOT NULL ORDER BY o.seq LIMIT %(limit)s) p),
       (SELECT extract(epoch FROM now() - o.enqueued_at)::double precision FROM {outbox} o WHERE o.parked_at IS NULL
        ORDER BY o.seq LIMIT 1)"""

_PARKED = """
SELECT o.seq, o.id::text, o.type, o.queue, o.ordering_key, o.enqueued_at, o.sent_at, o.parked_at, o.reason, o.error
FROM {outbox} o WHERE o.parked_at IS NOT NULL AND o.seq > %(after)s ORDER BY o.seq LIMIT %(limit)s"""

_RETRY = """
UPDATE {outbox} o SET parked_at = NULL, reason = NULL, error = NULL, sent_at = NULL, attempts = 0
WHERE o.seq = ANY (%(seqs)s) AND o.parked_at IS NOT NULL RETURNING o.seq"""

_DISCARD = "DELETE FROM {outbox} o WHERE o.seq = ANY (%(seqs)s) AND o.parked_at IS NOT NULL RETURNING o.seq"


class Table:
    """The statements over one connection. All raise RotaError: Unavailable when it is worth trying again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._composed: dict[str, sql.Composed] = {}

    async def look_new(self, after: int, limit: int = LOOK_ROWS) -> Found:
        rows = await self._run(_LOOK_NEW, {"after": after, "limit": limit})
        return _found(rows, after, limit)

    async def look_behind(self, after: int, upto: int, limit: int = LOOK_ROWS) -> Found:
        rows = await self._run(_LOOK_BEHIND, {"after": after, "upto": upto, "limit": limit})
        return _found(rows, after, limit)

    async def look_keys(self, after: str, upto: int, limit: int = LOOK_ROWS) -> Found:
        rows = await self._run(_LOOK_KEYS, {"after": after, "upto": upto, "limit": limit})
        items = [Item(Kind.ALONE, seq, bytes, key=key) for key, seq, bytes, claimable in rows if claimable]
        return Found(items, len(rows) < limit, last_key=rows[-1][0] if rows else after)

    async def look_next(self, published: Mapping[str, int]) -> list[int]:
        """The row that follows in each key after the published one, if it is free."""
        rows = await self._run(_LOOK_NEXT, {"keys": list(published), "seqs": list(published.values())})
        return [seq for (seq,) in rows]

    async def claim_alone(self, seqs: Sequence[int]) -> list[Parcel]:
        rows = await self._run(_CLAIM_ALONE, {"seqs": list(seqs), **_TERMS})
        return [Parcel((Wish(*row),), batch=False) for row in sorted(rows)]

    async def claim_batch(self, seqs: Sequence[int]) -> list[Parcel]:
        """Makes one batch of rows that are in none."""
        return _batch(await self._run(_CLAIM_BATCH, {"seqs": list(seqs), **_TERMS}))

    async def claim_again(self, first: int, last: int, size: int) -> list[Parcel]:
        """Takes over the batch of a relay that died; nothing when another relay was faster."""
        return _batch(await self._run(_CLAIM_AGAIN, {"first": first, "last": last, "size": size, **_TERMS}))

    async def delete(self, seqs: Sequence[int]) -> None:
        await self._run(_DELETE, {"seqs": list(seqs)})

    async def park(self, seqs: Sequence[int], reason: str, error: str) -> None:
        error = error.replace("\0", "")[:ERROR_CHARS_MAX]
        await self._run(_PARK, {"seqs": list(seqs), "reason": reason, "error": error})

    async def dissolve(self, seqs: Sequence[int]) -> None:
        await self._run(_DISSOLVE, {"seqs": list(seqs)})

    async def release(self, seqs: Sequence[int], delay_s: float) -> None:
        await self._run(_RELEASE, {"seqs": list(seqs), "delay_s": delay_s})

    async def tidy(self, after: str) -> str | None:
        """Drops keys without rows from among the next thousand; where to go on, or None at the end."""
        rows = await self._run(_TIDY, {"after": after, "limit": TIDY_KEYS})
        return str(rows[0][0]) if rows else None

    async def counts(self) -> Counts:
        ((waiting, claimed, parked, oldest_s),) = await self._run(_COUNTS, {"limit": COUNT_MAX})
        return Counts(waiting, claimed, parked, oldest_s)

    async def parked(self, after: int, limit: int) -> list[Parked]:
        return [Parked(*row) for row in await self._run(_PARKED, {"after": after, "limit": limit})]

    async def retry(self, seqs: Sequence[int]) -> list[int]:
        """Lets parked rows be sent again; those that were parked."""
        return sorted(seq for (seq,) in await self._run(_RETRY, {"seqs": list(seqs)}))

    async def discard(self, seqs: Sequence[int]) -> list[int]:
        """Deletes parked rows; those that were parked."""
        return sorted(seq for (seq,) in await self._run(_DISCARD, {"seqs": list(seqs)}))

    async def _run(self, text: str, params: Mapping[str, object]) -> Sequence[Row]:
        if text not in self._composed:
            self._composed[text] = self._connection.place.compose(text)
        return await self._connection.run(self._composed[text], params)


_TERMS: Mapping[str, object] = {"claim_s": CLAIM_S, "in_doubt_s": IN_DOUBT_S}


def batches(items: Iterable[Item]) -> list[list[int]]:
    """Rows in batches that one call can carry."""
    made: list[list[int]] = []
    weight = 0
    for item in items:
        weight += item.bytes + ROW_OVERHEAD_BYTES
        if not made or len(made[-1]) == BATCH_ROWS or weight > BATCH_BYTES:
            made.append([])
            weight = item.bytes + ROW_OVERHEAD_BYTES
        made[-1].append(item.seq)
    return made


def _found(rows: Sequence[Row], after: int, limit: int) -> Found:
    items = []
    for seq, bytes, claimable, alone, low, last, size in rows:
        if size is not None:
            items.append(Item(Kind.LOST, seq, BATCH_BYTES, last, size))
        elif claimable:
            items.append(Item(Kind.ALONE if alone else Kind.LOW if low else Kind.PLAIN, seq, bytes))
    return Found(items, len(rows) < limit, last=rows[-1][0] if rows else after)


def _batch(rows: Sequence[Row]) -> list[Parcel]:
    return [Parcel(tuple(Wish(*row) for row in sorted(rows, key=lambda row: row[0])), batch=True)] if rows else []
