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
    CheckConstraint,
    Column,
    DateTime,
    Double,
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
    Column("weight", Integer, nullable=False, server_default=text("100")),
    Column("max_in_flight", Integer),
    Column("history_s", Double),
    Column("version", BigInteger, nullable=False, server_default=text("1")),
    Column("updated_at", _instant, nullable=False, server_default=text("now()")),
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
    Column("peer_address", Text),
    Column("draining", Boolean, nullable=False, server_default=text("false")),
)

shards = Table(
    "shards",
    metadata,
    Column("shard", SmallInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("owner", _uuid),
    Column("watermark", _instant),
    Column("incarnation", Text),
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
        # Attempts of lives that ended in death: history lets go of them, and they are seen for as long as the job.
        Column("past", JSONB),
    ]


def _redrive_columns() -> list[Column[object]]:
    """How often a job was brought back from the dead letters, and by which key the last time."""
    return [Column("redrives", Integer), Column("redriven_by", Text)]


def _origin_columns() -> list[Column[object]]:
    """The occurrence that a job comes from."""
    return [
        Column("schedule_uid", _uuid),
        Column("schedule_id", Text),
        Column("schedule_version", BigInteger),
        Column("nominal_at", _instant),
        Column("occurrence_generation", Integer),
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
    *_origin_columns(),
    *_redrive_columns(),
    Column("attempts_before", Integer),
    Column("held_for", _uuid),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index("jobs_due_idx", "shard", "due_at", "id", postgresql_where=text("shard >= 0")),
    Index("jobs_schedule_idx", "schedule_uid", "nominal_at", postgresql_where=text("schedule_uid IS NOT NULL")),
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
    *_origin_columns(),
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
    *_origin_columns(),
    *_redrive_columns(),
    Column("cause", SmallInteger),
    Column("tracestate", Text),
    PrimaryKeyConstraint("tenant_id", "id"),
    # As with `jobs_due_idx`, only a statement that says so may use it.
    Index("dead_jobs_died_idx", "tenant_id", "died_at", "id", postgresql_where=text("attempt >= 0")),
)

# `slot`: at most one running redrive of a tenant has each.
redrives = Table(
    "redrives",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("id", _uuid, nullable=False),
    Column("slot", SmallInteger, nullable=False),
    Column("letters", ARRAY(_uuid)),
    Column("filter", JSONB),
    Column("rate", Double, nullable=False),
    Column("max_count", BigInteger),
    Column("new_generation", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("cursor_at", _instant),
    Column("cursor_id", _uuid),
    Column("next_at", _instant, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("redriven", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", _instant, nullable=False),
    Column("finished_at", _instant),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index("redrives_slot_key", "tenant_id", "slot", unique=True, postgresql_where=text("state = 1")),
    Index("redrives_next_idx", "next_at", "id", postgresql_where=text("state = 1")),
    postgresql_with={"fillfactor": "50"},
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

schedules = Table(
    "schedules",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("uid", _uuid, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    Column("definition", JSONB, nullable=False),
    Column("labels", JSONB),
    Column("type", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("run_timeout_ms", BigInteger, nullable=False),
    Column("start_by_s", Double),
    Column("total_s", Double),
    Column("content_type", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("headers", JSONB),
    Column("job_labels", JSONB),
    Column("options", JSONB),
    Column("concurrency_key", Text),
    Column("apply_set", Text),
    Column("traceparent", Text),
    Column("created_at", _instant, nullable=False),
    Column("updated_at", _instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    UniqueConstraint("uid", name="schedules_uid_key"),
    Index("schedules_apply_set_idx", "tenant_id", "apply_set", "id", postgresql_where=text("apply_set IS NOT NULL")),
)

schedule_timers = Table(
    "schedule_timers",
    metadata,
    Column("uid", _uuid, primary_key=True),
    Column("tenant_id", Integer, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("cursor_at", _instant, nullable=False),
    Column("next_nominal", _instant),
    Column("next_due", _instant),
    Column("arm_at", _instant),
    Column("fired", BigInteger, nullable=False),
    Column("buffered", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("pause_after", Integer, nullable=False),
    Column("fates", ARRAY(BigInteger), nullable=False),
    Column("episode", JSONB),
    Column("paused_at", _instant),
    Column("last_nominal", _instant),
    Column("last_fire_at", _instant),
    Column("last_job", _uuid),
    Column("state_reason", Text),
    Column("state_author", Text),
    Column("state_at", _instant, nullable=False),
    Column("tzdata", Text, nullable=False),
    Index("schedule_timers_arm_idx", "shard", "arm_at", "uid", postgresql_where=text("arm_at IS NOT NULL")),
    postgresql_with={
        "fillfactor": "80",
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_vacuum_threshold": "2000",
    },
)

occurrences = Table(
    "occurrences",
    metadata,
    Column("schedule_uid", _uuid, nullable=False),
    Column("nominal_at", _instant, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("tenant_id", Integer, nullable=False),
    Column("due_at", _instant, nullable=False),
    Column("origin", SmallInteger, nullable=False),
    Column("fate", SmallInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("recorded_at", _instant, nullable=False),
    Column("local_time", Text, nullable=False),
    Column("reason", Text),
    Column("job_id", _uuid),
    Column("blocking_job", _uuid),
    Column("backfill_id", _uuid),
    Column("count", BigInteger, nullable=False),
    Column("last_nominal", _instant),
    Column("missed", BigInteger),
    Column("first_missed", _instant),
    Column("forced", Boolean, nullable=False),
    Column("payload", LargeBinary),
    Column("content_type", Text),
    PrimaryKeyConstraint("schedule_uid", "nominal_at", "generation"),
    Index("occurrences_waiting_idx", "schedule_uid", "nominal_at", "generation", postgresql_where=text("fate = 2")),
    postgresql_partition_by="RANGE (nominal_at)",
)


def _kept(name: str, source: Table, *key: str) -> Table:
    """What outlives the days of `source` for a tenant with a longer span, in tables of its own, a month each."""
    return Table(
        name,
        metadata,
        *(Column(column.name, column.type, nullable=column.nullable) for column in source.columns),
        PrimaryKeyConstraint("tenant_id", *key),
        postgresql_partition_by="LIST (tenant_id)",
    )


kept_jobs = _kept("kept_jobs", finished_jobs, "id", "finished_at")
kept_attempts = _kept("kept_attempts", attempts, "job_id", "fence", "ended_at")
kept_occurrences = _kept("kept_occurrences", occurrences, "schedule_uid", "nominal_at", "generation")

deleted_schedules = Table(
    "deleted_schedules",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("uid", _uuid, nullable=False),
    Column("deleted_at", _instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id", "uid"),
)

calendars = Table(
    "calendars",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("uid", _uuid, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("dates", ARRAY(Text), nullable=False),
    Column("notes", Text, nullable=False),
    Column("labels", JSONB),
    Column("created_at", _instant, nullable=False),
    Column("updated_at", _instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
)

schedule_calendars = Table(
    "schedule_calendars",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("calendar_id", Text, nullable=False),
    Column("schedule_uid", _uuid, nullable=False),
    PrimaryKeyConstraint("tenant_id", "calendar_id", "schedule_uid"),
    Index("schedule_calendars_schedule_uid_idx", "schedule_uid"),
)

backfills = Table(
    "backfills",
    metadata,
    Column("id", _uuid, primary_key=True),
    Column("schedule_uid", _uuid, nullable=False),
    Column("tenant_id", Integer, nullable=False),
    Column("shard", SmallInteger, nullable=False),
    Column("start_at", _instant, nullable=False),
    Column("end_at", _instant, nullable=False),
    Column("include_fired", Boolean, nullable=False),
    Column("rate", Double, nullable=False),
    Column("overlap_mode", SmallInteger),
    Column("overlap_limit", Integer),
    Column("priority", SmallInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("cursor_at", _instant, nullable=False),
    Column("next_nominal", _instant),
    Column("next_at", _instant, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("fired", BigInteger, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", _instant, nullable=False),
    Column("finished_at", _instant),
    Index("backfills_schedule_uid_id_idx", "schedule_uid", "id"),
    Index("backfills_next_idx", "shard", "next_at", "id", postgresql_where=text("state = 1")),
)

queues = Table(
    "queues",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("weight", Integer, nullable=False),
    Column("rate", Double),
    Column("rate_burst", Integer),
    Column("max_in_flight", Integer),
    Column("max_in_flight_per_key", Integer),
    Column("version", BigInteger, nullable=False),
    Column("paused_at", _instant),
    Column("pause_reason", Text),
    Column("pause_author", Text),
    Column("created_at", _instant, nullable=False),
    Column("updated_at", _instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
)

# What a limited claim keeps of a queue, or of a tenant where `queue` is empty.
meters = Table(
    "meters",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("queue", Text, nullable=False),
    Column("uncounted", Boolean, nullable=False),
    Column("tokens", Double),
    Column("refilled_at", _instant),
    Column("swept_queue", Text, nullable=False),
    Column("swept_key", Text, nullable=False),
    Column("swept_job", _uuid, nullable=False),
    PrimaryKeyConstraint("tenant_id", "queue"),
    Index("meters_uncounted_idx", "tenant_id", "queue", postgresql_where=text("uncounted")),
    postgresql_with={"fillfactor": "50"},
)

# One row for each lease under a limit. Those of leases that ended are found by looking their jobs up.
lease_slots = Table(
    "lease_slots",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("queue", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("job_id", _uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "queue", "key", "job_id"),
    postgresql_with={"autovacuum_vacuum_scale_factor": "0.05", "autovacuum_vacuum_threshold": "1000"},
)

# The ledger of effects whose targets cannot deduplicate. One table with a unique key, forgotten in bounded bites: a key
# cannot be unique over partitions of days.
effects = Table(
    "effects",
    metadata,
    Column("tenant_id", Integer, nullable=False),
    Column("effect_key", Text, nullable=False),
    Column("id", _uuid, nullable=False),
    Column("job_id", _uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("earlier", SmallInteger, nullable=False),
    Column("policy", SmallInteger, nullable=False),
    Column("begun_at", _instant, nullable=False),
    Column("needed_at", _instant, nullable=False),
    Column("reference", Text),
    Column("resolved_by", Text),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "effect_key"),
    UniqueConstraint("tenant_id", "id", name="effects_id_key"),
    Index("effects_doubt_idx", "tenant_id", "id", postgresql_where=text("state IN (0, 3)")),
    Index("effects_job_idx", "tenant_id", "job_id", "id", postgresql_where=text("state IN (0, 3)")),
    Index("effects_needed_idx", "needed_at", postgresql_where=text("state IN (1, 2)")),
    postgresql_with={"fillfactor": "70"},
)

# Who watches changes of jobs. A row is there as long as they are written down for its tenant, without a gap.
watched_tenants = Table(
    "watched_tenants",
    metadata,
    Column("tenant_id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, Identity(always=True), nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("watched_until", _instant, nullable=False),
    Column("dropped_xid", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "50"},
)

_UNTOLD = ("fence", "content_type", "payload", "past", "schedule_version")


def _only_told(columns: list[Column[object]]) -> list[Column[object]]:
    """What watchers hear of a job."""
    return [column for column in columns if column.name not in _UNTOLD]


# Jobs as they were after each change, written by the triggers of `jobs`, `finished_jobs` and `dead_jobs`.
job_changes = Table(
    "job_changes",
    metadata,
    Column("xid", BigInteger, nullable=False),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    Column("changed_at", _instant, nullable=False),
    *_only_told(_job_columns()),
    Column("state", SmallInteger, nullable=False),
    Column("leased_at", _instant),
    Column("finished_at", _instant),
    Column("deadline_at", _instant),
    Column("session_id", _uuid),
    Column("despite_cancel", Boolean, nullable=False),
    Column("reason", Text),
    *_only_told(_origin_columns()),
    Column("held_for", _uuid),
    PrimaryKeyConstraint("tenant_id", "xid", "seq"),
    postgresql_with={"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_threshold": "5000"},
)

# One row.
installation = Table(
    "installation",
    metadata,
    Column("id", Boolean, primary_key=True, server_default=text("true")),
    Column("peer_secret", LargeBinary, nullable=False),
    Column("settings_version", BigInteger, nullable=False),
    CheckConstraint("id", name="installation_one_row"),
)
