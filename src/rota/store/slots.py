"""What runs under limits: one row for each lease of a queue or tenant whose leases are counted.

A slot is written by the claim that grants the lease, and no end of a lease touches it: whether it still stands for one
is looked up in the job's own row, by fence and state. So no counter can drift, whatever is lost or killed.

Limits hold exactly since three kinds of transactions meet in fixed places:

- A limited claim locks the rows of the limited tenants and queues that it is about, in one order, until it has
  committed. Whoever is next sees its slots and what it left of a rate.
- A plain claim tests in its own statement that nothing is limited, by reading `queues` with a row lock that locks
  no row, which takes the table's lock in the mode ROW SHARE.
- A change that brings a first limit takes that table's lock in the mode EXCLUSIVE, which waits for every claim on its
  way and goes before every later one; readers and dumps pass by it. What was leased before is counted after that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.domain.ids import TenantId
from rota.domain.limiting import AGAIN_S, Gate, Room, refilled
from rota.domain.queue import QueueSettings
from rota.store.engine import Row, Run, array, by_key, text_array
from rota.store.port import Claim

QueueKey = tuple[TenantId, str]

SWEEP_MIN: Final = 8
"""Slots that a claim looks at beside two for each of its grants."""

SWEEP_FROM: Final = 200
"""Fewer slots than this are counted faster than swept."""

ZERO: Final = "00000000-0000-0000-0000-000000000000"

IS_LIMITED: Final = """(q.rate IS NOT NULL OR q.max_in_flight IS NOT NULL OR q.max_in_flight_per_key IS NOT NULL
    OR q.paused_at IS NOT NULL)"""

# Which of these queues are limited by themselves, and which by their tenant: '' for all of its queues.
LIMITED: Final = f"""
    SELECT q.* FROM (
        SELECT q.tenant_id, q.id
        FROM unnest(%(q_tenants)t::int[], %(q_ids)t::text[]) AS w (tenant_id, id)
        JOIN queues q ON {by_key("q", "w")}
        WHERE {IS_LIMITED}
        FOR KEY SHARE OF q
    ) q
    UNION ALL
    SELECT t.id, '' FROM unnest(%(q_tenants)t::int[]) AS w (id)
    JOIN tenants t ON {by_key("t", "w", ["id"])}
    WHERE t.max_in_flight IS NOT NULL
"""

# The lists are in order, so that two claims never wait for each other. Waiting for a lock gives the row as it is then.
_HOLD = f"""
WITH t AS MATERIALIZED (
    SELECT t.id, t.max_in_flight FROM unnest(%(tenants)t::int[]) AS w (id)
    JOIN tenants t ON {by_key("t", "w", ["id"])}
    WHERE t.max_in_flight IS NOT NULL
    FOR NO KEY UPDATE OF t
), q AS MATERIALIZED (
    SELECT q.* FROM unnest(%(q_tenants)t::int[], %(q_ids)t::text[]) AS w (tenant_id, id)
    JOIN queues q ON {by_key("q", "w")}
    WHERE {IS_LIMITED}
    FOR NO KEY UPDATE OF q
)
SELECT id, '', NULL::float8, NULL::int, max_in_flight, NULL::int, false FROM t
UNION ALL
SELECT tenant_id, id, rate, rate_burst, max_in_flight, max_in_flight_per_key, paused_at IS NOT NULL FROM q
"""

_METERS = f"""
SELECT m.tenant_id, m.queue, m.uncounted, m.tokens, extract(epoch FROM c.now - m.refilled_at)::float8,
       (extract(epoch FROM c.now) * 1000000)::bigint
FROM (SELECT clock_timestamp() AS now OFFSET 0) c
CROSS JOIN unnest(%(tenants)t::int[], %(queues)t::text[]) AS w (tenant_id, queue)
JOIN meters m ON {by_key("m", "w", ["tenant_id", "queue"])}
"""

_TENANTS_SLOTS = """
    SELECT s.* FROM unnest(%(tenants)t::int[]) AS w (tenant_id)
    JOIN lease_slots s ON s.tenant_id = ANY (ARRAY[w.tenant_id])
"""

_QUEUES_SLOTS = f"""
    SELECT s.* FROM unnest(%(q_tenants)t::int[], %(q_ids)t::text[]) AS w (tenant_id, queue)
    JOIN lease_slots s ON {by_key("s", "w", ["tenant_id", "queue"])}
"""

_KEYS_SLOTS = f"""
    SELECT s.* FROM unnest(%(k_tenants)t::int[], %(k_queues)t::text[], %(k_keys)s::text[]) AS w (tenant_id, queue, key)
    JOIN lease_slots s ON {by_key("s", "w", ["tenant_id", "queue", "key"])}
"""

_SLOTS = f"{_TENANTS_SLOTS} UNION ALL {_QUEUES_SLOTS} UNION ALL {_KEYS_SLOTS}"

_COUNT = f"""
SELECT s.tenant_id, s.queue, s.key, count(*)::int FROM ({_SLOTS}) s GROUP BY s.tenant_id, s.queue, s.key
"""

# A scalar sub-select, since a join might begin with all leased jobs.
_LIVE = """coalesce((SELECT j.fence = s.fence AND j.state IN (3, 5) FROM jobs j
                       WHERE j.tenant_id = s.tenant_id AND j.id = s.job_id), false)"""

_KEY = ("tenant_id", "queue", "key", "job_id")

_DROP_STALE = f"""
    DELETE FROM lease_slots d USING s
    WHERE NOT s.live AND {by_key("d", "s", _KEY)} AND d.fence = s.fence
"""

_COUNT_LIVE = f"""
WITH s AS MATERIALIZED (SELECT s.*, {_LIVE} AS live FROM ({_SLOTS}) s), gone AS ({_DROP_STALE})
SELECT s.tenant_id, s.queue, s.key, count(*)::int FROM s WHERE s.live GROUP BY s.tenant_id, s.queue, s.key
"""

_WRITE = f"""
WITH slots AS (
    INSERT INTO lease_slots (tenant_id, queue, key, job_id, fence)
    SELECT * FROM unnest(%(tenants)t::int[], %(queues)t::text[], %(keys)s::text[], %(jobs)t::uuid[],
                         %(fences)t::bigint[])
    ON CONFLICT (tenant_id, queue, key, job_id) DO UPDATE SET fence = excluded.fence
)
UPDATE meters m SET tokens = w.tokens, refilled_at = timestamptz 'epoch' + w.us * interval '1 microsecond'
FROM unnest(%(m_tenants)t::int[], %(m_queues)t::text[], %(m_tokens)t::float8[], %(m_us)t::bigint[])
     AS w (tenant_id, queue, tokens, us)
WHERE {by_key("m", "w", ["tenant_id", "queue"])}
"""

# Some of the slots of a queue, or of a tenant where `queue` is empty, from where the last sweep ended.
_SWEEP = f"""
WITH w AS (
    SELECT m.*, w.most
    FROM unnest(%(tenants)t::int[], %(queues)t::text[], %(mosts)t::int[]) AS w (tenant_id, queue, most)
    JOIN meters m ON {by_key("m", "w", ["tenant_id", "queue"])}
), s AS MATERIALIZED (
    SELECT w.queue AS scope, s.*, {_LIVE} AS live FROM w CROSS JOIN LATERAL (
        (SELECT * FROM lease_slots s
         WHERE w.queue <> '' AND s.tenant_id = w.tenant_id AND s.queue = w.queue
           AND (s.key, s.job_id) > (w.swept_key, w.swept_job)
         ORDER BY s.key, s.job_id LIMIT w.most)
        UNION ALL
        (SELECT * FROM lease_slots s
         WHERE w.queue = '' AND s.tenant_id = w.tenant_id
           AND (s.queue, s.key, s.job_id) > (w.swept_queue, w.swept_key, w.swept_job)
         ORDER BY s.queue, s.key, s.job_id LIMIT w.most)
    ) s
), gone AS ({_DROP_STALE})
UPDATE meters m
SET swept_queue = coalesce(e.queue, ''), swept_key = coalesce(e.key, ''), swept_job = coalesce(e.job_id, '{ZERO}')
FROM w LEFT JOIN LATERAL (
    SELECT s.queue, s.key, s.job_id FROM s WHERE s.tenant_id = w.tenant_id AND s.scope = w.queue
    ORDER BY s.queue, s.key, s.job_id OFFSET w.most - 1
) e ON true
WHERE {by_key("m", "w", ["tenant_id", "queue"])}
"""

_UNCOUNTED = """
SELECT m.tenant_id, m.queue FROM meters m WHERE m.uncounted
ORDER BY m.tenant_id, m.queue LIMIT 1 FOR UPDATE SKIP LOCKED
"""

# What is leased was due, so one range of each shard has it. A minute more, for a clock that was set back since.
_TAKE_LEASED = """
INSERT INTO lease_slots (tenant_id, queue, key, job_id, fence)
SELECT j.tenant_id, j.queue, coalesce(j.concurrency_key, ''), j.id, j.fence
FROM shards s CROSS JOIN LATERAL (
    SELECT * FROM jobs j
    WHERE j.shard = s.shard AND j.shard >= 0 AND j.due_at <= now() + interval '1 minute' AND j.state IN (3, 5)
      AND j.tenant_id = %(tenant)s AND (%(queue)s = '' OR j.queue = %(queue)s)
) j
ON CONFLICT (tenant_id, queue, key, job_id) DO UPDATE SET fence = excluded.fence
"""

_COUNTED = "UPDATE meters SET uncounted = false WHERE tenant_id = %(tenant)s AND queue = %(queue)s"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of what a claim is about, held by it until its transaction ends."""

    tenants: Mapping[TenantId, int] = field(default_factory=dict)
    """The most in flight of the limited ones."""

    queues: Mapping[QueueKey, QueueSettings] = field(default_factory=dict)
    paused: frozenset[QueueKey] = frozenset()

    @property
    def meters(self) -> list[QueueKey]:
        return [(tenant, "") for tenant in self.tenants] + list(self.queues)

    def counts(self, tenant: TenantId, queue: str) -> bool:
        """Whether a lease needs a slot."""
        settings = self.queues.get((tenant, queue))
        return tenant in self.tenants or (settings is not None and settings.counted)


@dataclass(frozen=True, slots=True)
class Meter:
    """`tokens` as they are at `now_us`. `turned_back`: the clock is before the last refill."""

    uncounted: bool
    tokens: float
    now_us: int
    turned_back: bool


Counts = Counter[Gate]
"""Leases by (tenant, queue, key), where the key may be empty."""


async def hold(run: Run, claims: Iterable[Claim]) -> Limits:
    """Locks what limits these claims, and tells it."""
    pairs = queue_keys(claims)
    tenants: dict[TenantId, int] = {}
    queues: dict[QueueKey, QueueSettings] = {}
    paused: set[QueueKey] = set()
    params = queue_params(pairs) | {"tenants": array(sorted({tenant for tenant, _ in pairs}))}
    for tenant, id, rate, burst, in_flight, per_key, is_paused in await run(_HOLD, params):
        if not id:
            tenants[TenantId(tenant)] = in_flight
            continue
        queues[TenantId(tenant), id] = QueueSettings(
            rate=rate, rate_burst=burst, max_in_flight=in_flight, max_in_flight_per_key=per_key
        )
        if is_paused:
            paused.add((TenantId(tenant), id))
    return Limits(tenants, queues, frozenset(paused))


async def meters(run: Run, found: Limits) -> dict[QueueKey, Meter]:
    keys = found.meters
    params: dict[str, object] = {
        "tenants": array([tenant for tenant, _ in keys]),
        "queues": text_array([queue for _, queue in keys]),
    }
    read: dict[QueueKey, Meter] = {}
    for tenant, queue, uncounted, tokens, elapsed_s, now_us in await run(_METERS, params) if keys else ():
        settings = found.queues.get((tenant, queue))
        now_has = 0.0
        if settings is not None and settings.rate is not None:
            full = tokens is None or elapsed_s is None
            now_has = settings.burst if full else refilled(tokens, elapsed_s, settings.rate, settings.burst)
        read[tenant, queue] = Meter(uncounted, now_has, now_us, elapsed_s is not None and elapsed_s < 0)
    return read


async def count(run: Run, found: Limits, claims: Iterable[Claim], *, live: bool) -> Counts:
    """Slots of everything that is counted. `live`: only those of leases, and the others are dropped."""
    whole = {key for key, s in found.queues.items() if s.max_in_flight is not None and key[0] not in found.tenants}
    keys = {
        (e.tenant_id, e.queue, e.concurrency_key)
        for e in (claim.entry for claim in claims)
        if e.concurrency_key
        and e.tenant_id not in found.tenants
        and (e.tenant_id, e.queue) not in whole
        and (settings := found.queues.get((e.tenant_id, e.queue))) is not None
        and settings.max_in_flight_per_key is not None
    }
    if not (found.tenants or whole or keys):
        return Counter()
    by_key = sorted(keys)
    params = queue_params(sorted(whole)) | {
        "tenants": array(sorted(found.tenants)),
        "k_tenants": array([tenant for tenant, _, _ in by_key]),
        "k_queues": text_array([queue for _, queue, _ in by_key]),
        "k_keys": [key for _, _, key in by_key],
    }
    rows = await run(_COUNT_LIVE if live else _COUNT, params)
    return Counter({Gate(TenantId(tenant), queue, key): slots for tenant, queue, key, slots in rows})


def rooms(found: Limits, meters: Mapping[QueueKey, Meter], counts: Counts, claims: Iterable[Claim]) -> dict[Gate, Room]:
    """What each gate of these claims lets through."""
    by_queue: Counter[QueueKey] = Counter()
    by_tenant: Counter[TenantId] = Counter()
    for gate, slots in counts.items():
        by_queue[gate.tenant_id, gate.queue] += slots
        by_tenant[gate.tenant_id] += slots
    uncounted = Room(shut=True, wait_s=AGAIN_S)
    made: dict[Gate, Room] = {}
    for tenant, most in found.tenants.items():
        meter = meters.get((tenant, ""))
        counted = meter is not None and not meter.uncounted
        made[Gate(tenant)] = Room(places=most - by_tenant[tenant]) if counted else uncounted
    for key, settings in found.queues.items():
        meter = meters.get(key)
        if key in found.paused:
            made[Gate(*key)] = Room(shut=True)
        elif meter is None or (settings.counted and meter.uncounted):
            made[Gate(*key)] = uncounted
        elif settings.max_in_flight is not None or settings.rate is not None:
            places = None if settings.max_in_flight is None else settings.max_in_flight - by_queue[key]
            made[Gate(*key)] = Room(places, settings.rate, settings.burst, meter.tokens)
    for claim in claims:
        entry = claim.entry
        keyed = found.queues.get((entry.tenant_id, entry.queue))
        per_key = None if keyed is None else keyed.max_in_flight_per_key
        if entry.concurrency_key and per_key is not None:
            gate = Gate(entry.tenant_id, entry.queue, entry.concurrency_key)
            made[gate] = Room(places=per_key - counts[gate])
    return made


async def take(
    run: Run, found: Limits, meters: Mapping[QueueKey, Meter], counts: Counts, granted: Sequence[Claim]
) -> None:
    """Writes down what was granted: slots, and what is left of the rates."""
    by_queue = Counter((claim.entry.tenant_id, claim.entry.queue) for claim in granted)
    slots = [claim for claim in granted if found.counts(claim.entry.tenant_id, claim.entry.queue)]
    rated = [
        (key, meters[key])
        for key, settings in found.queues.items()
        if settings.rate is not None and key in meters and (by_queue[key] or meters[key].turned_back)
    ]
    if slots or rated:
        await run(
            _WRITE,
            {
                "tenants": array([c.entry.tenant_id for c in slots]),
                "queues": text_array([c.entry.queue for c in slots]),
                "keys": [c.entry.concurrency_key for c in slots],
                "jobs": array([c.entry.id for c in slots]),
                "fences": array([c.fence for c in slots]),
                "m_tenants": array([tenant for (tenant, _), _ in rated]),
                "m_queues": text_array([queue for (_, queue), _ in rated]),
                "m_tokens": array([meter.tokens - by_queue[key] for key, meter in rated]),
                "m_us": array([meter.now_us for _, meter in rated]),
            },
        )
    swept = _to_sweep(found, counts, by_queue)
    if swept:
        await run(
            _SWEEP,
            {
                "tenants": array([tenant for tenant, _ in swept]),
                "queues": text_array([queue for _, queue in swept]),
                "mosts": array(list(swept.values())),
            },
        )


def _to_sweep(found: Limits, counts: Counts, granted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
    """How many slots to look at under each meter. More than are written, so that those of ended leases never pile up:
    they are counted too, until a gate seems full, and nothing counts those of a key that does not return."""
    by_meter: Counter[QueueKey] = Counter()
    for (tenant, queue), leases in granted.items():
        if found.counts(tenant, queue):
            by_meter[(tenant, "") if tenant in found.tenants else (tenant, queue)] += leases
    known: Counter[QueueKey] = Counter()
    for gate, slots in counts.items():
        known[(gate.tenant_id, "") if gate.tenant_id in found.tenants else (gate.tenant_id, gate.queue)] += slots
    few = {
        key
        for key in by_meter
        if known[key] < SWEEP_FROM and (not key[1] or found.queues[key].max_in_flight is not None)
    }
    return {key: 2 * leases + SWEEP_MIN for key, leases in by_meter.items() if key not in few}


async def count_leased(run: Run) -> bool:
    """Gives slots to what was leased before its first limit, for one queue or tenant; whether there was one."""
    rows: list[Row] = await run(_UNCOUNTED, {})
    for tenant, queue in rows:
        which: dict[str, object] = {"tenant": tenant, "queue": queue}
        await run(_TAKE_LEASED, which)
        await run(_COUNTED, which)
    return bool(rows)


def queue_keys(claims: Iterable[Claim]) -> list[QueueKey]:
    """The queues of these claims, in order."""
    return sorted({(claim.entry.tenant_id, claim.entry.queue) for claim in claims})


def queue_params(keys: Sequence[QueueKey]) -> dict[str, object]:
    return {
        "q_tenants": array([tenant for tenant, _ in keys]),
        "q_ids": text_array([queue for _, queue in keys]),
    }
