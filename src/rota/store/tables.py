"""The schema, declared once. Migrations build it; a test proves that both agree.

`jobs` holds live work only and carries no column of state or lease in any index, so that a claim is a HOT update:
one index (shard, due_at, id) finds due work, the primary key addresses a row, and a terminal job leaves the table.
That index is of all rows with a shard, which is all rows: only a statement that says `shard >= 0` may use it, so that
no planner looks ids up there, where they come last and each look-up is a scan of the whole index.
Payloads are kept as bytes, exactly as sent. Histories are partitioned by day and dropped, never deleted row by row.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

metadata = MetaData(naming_convention={"pk": "%(table_name)s_pkey", "ix": "%(table_name)s_%(column_0_N_name)s_idx"})

_uuid = UUID(as_uuid=False)
_instant = DateTime(timezone=True)

tenants = Table(
    "tenants",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", _instant, nullable=False, server_default=text("now()")),
    UniqueConstraint("name", name="tenants_name_key"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant_id", Integer, ForeignKey("tenants.id", name="api_keys_tenant_id_fkey"), nullable=False),
    Column("secret_sha256", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    Column("roles", ARRAY(Text), nullable=False),
    Column("created_at", _instant, nullable=False, server_default=text("now()")),
    Column("expires_at", _instant),
    Column("revoked_at", _instant),
)

coordinators = Table(
    "coordinators",
    metadata,
    Column("id", _uuid, primary_key=True),
    Column("address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", _instant, nullable=False, server_default=text("now()")),
    Column("expires_at", _instant, nullable=False),
)

shards = Table(
    "shards",
    metadata,
    Column("shard", SmallInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("owner", _uuid),
    Column("watermark", _instant),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", _uuid, primary_key=True),
    Column("tenant_id", Integer, nullable=False),
    Column("epoch", BigInteger, Identity(always=True), nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("sdk", Text, nullable=False),
    Column("build_id", Text, nullable=False),
    Column("queues", ARRAY(Text), nullable=False),
    Column("types", ARRAY(Text), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("free_slots", Integer, nullable=False),
    Column("labels", JSONB),
    Column("protocol_version", Integer, nullable=False),
    Column("ttl_ms", Integer, nullable=False),
    Column("coordinator", _uuid),
    Column("opened_at", _instant, nullable=False),
    Column("last_beat_at", _instant, nullable=False),
    Column("expires_at", _instant, nullable=False),
    Column("closed_at", _instant),
    Index("sessions_open_idx", "tenant_id", "id", postgresql_where=text("closed_at IS NULL")),
    postgresql_with={"fillfactor": "50"},
)


def _job_columns() -> list[Column[object]]:
    """What a job carries from creation to history."""
    return [
        Column("tenant_id", Integer, nullable=False),
        Column("id", _uuid, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("generation", Integer, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("attempts_counted", Integer, nullable=False),
        Column("max_attempts", Integer, nullable=False),
        Column("run_timeout_ms", BigInteger, nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("due_at", _instant, nullable=False),
        Column("created_at", _instant, nullable=False),
        Column("type", Text, nullable=False),
        Column("queue", Text, nullable=False),
        Column("content_type", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("headers", JSONB),
        Column("labels", JSONB),
        Column("options", JSONB),
        Column("effect_key", Text),
        Column("concurrency_key", Text),
        Column("traceparent", Text),
        Column("last_failure", JSONB),
    ]


jobs = Table(
    "jobs",
    metadata,
    *_job_columns(),
    Column("shard", SmallInteger, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("leased_at", _instant),
    Column("session_id", _uuid),
    Column("start_by", _instant),
    Column("deadline_at", _instant),
    Column("tracestate", Text),
    Column("cancel_reason", Text),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index("jobs_due_idx", "shard", "due_at", "id", postgresql_where=text("shard >= 0")),
    postgresql_with={
        "fillfactor": "70",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_threshold": "2000",
        "autovacuum_analyze_scale_factor": "0.1",
    },
)
finished_jobs = Table(
    "finished_jobs",
    metadata,
    *_job_columns(),
    Column("state", SmallInteger, nullable=False),
    Column("leased_at", _instant),
    Column("finished_at", _instant, nullable=False),
    Column("session_id", _uuid),
    Column("outcome", SmallInteger),
    Column("request_id", Text),
    Column("result", LargeBinary),
    Column("result_content_type", Text),
    Column("effect_state", SmallInteger),
    Column("effect_receipts", JSONB),
    Column("despite_cancel", Boolean, nullable=False),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "id", "finished_at"),
    postgresql_partition_by="RANGE (finished_at)",
)

attempts = Table(
    "attempts",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("job_id", _uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("ended_at", _instant, nullable=False),
    Column("number", Integer, nullable=False),
    Column("session_id", _uuid),
    Column("leased_at", _instant, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("request_id", Text),
    Column("failure", JSONB),
    Column("effect_state", SmallInteger),
    Column("effect_receipts", JSONB),
    PrimaryKeyConstraint("tenant_id", "job_id", "fence", "ended_at"),
    postgresql_partition_by="RANGE (ended_at)",
)

dead_jobs = Table(
    "dead_jobs",
    metadata,
    *_job_columns(),
    Column("leased_at", _instant),
    Column("died_at", _instant, nullable=False),
    Column("session_id", _uuid),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "id"),
)

requests = Table(
    "requests",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("method", SmallInteger, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("answer", ARRAY(_uuid), nullable=False),
    Column("created_at", _instant, nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("tenant_id", "method", "request_id"),
    Index("requests_created_at_idx", "created_at"),
)

dedupe_keys = Table(
    "dedupe_keys",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("job_id", _uuid, nullable=False),
    Column("held_until", _instant),
    PrimaryKeyConstraint("tenant_id", "key"),
    Index("dedupe_keys_held_until_idx", "held_until"),
)
