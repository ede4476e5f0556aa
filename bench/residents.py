"""Jobs that are not due for a month: rows as the product writes them, in numbers that calls would take hours for."""

import sys
import time

import psycopg
from rota_sdk import Client

from bench.errors import BenchError
from bench.work import JOB
from rota.domain import ids, limits
from rota.domain.ids import JobId, TenantId

AHEAD_S = 30 * 86_400
BITE = 500_000
"""Rows of one statement."""

CHECKED = 200

_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""

# A UUIDv7 of the moment, whose other bits are as good as random, in the shard that its last digits and its tenant say;
# and a due time of its own, a second after that of the row before.
_COPIES = """
INSERT INTO jobs ({columns})
SELECT {values}
FROM (SELECT * FROM jobs WHERE tenant_id = %(tenant)s AND id = %(pattern)s::uuid) j,
     generate_series(%(first)s::int, %(last)s::int) n,
     LATERAL (SELECT md5(n::text || j.id) AS random) r,
     LATERAL (SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + n / 1000), 12, '0')
                      || '7' || substr(random, 1, 3) || 'a' || substr(random, 4, 15))::uuid AS id,
                     ('x' || substr(random, 13, 6))::bit(24)::int AS low) i
"""

_CHANGED = {
    "id": "i.id",
    "shard": "(i.low + j.tenant_id * 40503) %% {shards}",
    "due_at": "j.due_at + n * interval '1 second'",
}


def load(address: str, key: str, url: str, count: int) -> float:
    """One job by a call, and all others as copies of its row; the seconds that it took."""
    began = time.monotonic()
    with Client(address, api_key=key) as client:
        pattern = client.create_job(JOB, payload={}, delay=AHEAD_S).id
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute("SELECT tenant_id FROM jobs WHERE id = %s::uuid", [pattern]).fetchone()
        assert row is not None
        columns = [name for (name,) in conn.execute(_COLUMNS)]
        changed = {name: value.format(shards=limits.SHARD_COUNT) for name, value in _CHANGED.items()}
        values = [changed.get(name, f'j."{name}"') for name in columns]
        statement = _COPIES.format(columns=", ".join(f'"{c}"' for c in columns), values=", ".join(values))
        for first in range(1, count, BITE):
            last = min(first + BITE, count) - 1
            params = {"tenant": row[0], "pattern": pattern, "first": first, "last": last}
            conn.execute(statement.encode(), params)
            if count > BITE:
                print(f"bench/run: {last + 1:,} of {count:,} timers", file=sys.stderr)
        _check(conn, TenantId(row[0]))
    return time.monotonic() - began


def settle(url: str) -> float:
    """As after some time of calm: vacuumed, analysed, written out. The size of the database in MB."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")
        conn.execute("CHECKPOINT")
        row = conn.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return float(row[0] / 2**20)


def _check(conn: psycopg.Connection, tenant: TenantId) -> None:
    """A row in the wrong shard would be found by nobody."""
    for id, shard in conn.execute(
        "SELECT id::text, shard FROM jobs WHERE due_at > now() + interval '1 day' LIMIT %s", [CHECKED]
    ):
        wanted = ids.shard_of(tenant, JobId(id))
        if shard != wanted:
            raise BenchError(f"expected job {id} in shard {wanted}, found it in {shard}; residents.py is out of date")
