"""Every limit of Rota, named once.

Sizes are bytes, spans are seconds unless a name says otherwise. The public ones are stated in proto/ too.
"""

from typing import Final

DAY_S: Final = 86_400.0

PAYLOAD_BYTES_MAX: Final = 256 * 1024
RESULT_BYTES_MAX: Final = 64 * 1024
CONTENT_TYPE_BYTES_MAX: Final = 128
HEADERS_MAX: Final = 32
HEADERS_BYTES_MAX: Final = 8 * 1024
LABELS_MAX: Final = 32
LABELS_BYTES_MAX: Final = 4 * 1024
MAP_KEY_BYTES_MAX: Final = 128
REQUEST_ID_BYTES_MAX: Final = 128
DEDUPE_KEY_BYTES_MAX: Final = 256
EFFECT_KEY_BYTES_MAX: Final = 512
CONCURRENCY_KEY_BYTES_MAX: Final = 128
REASON_BYTES_MAX: Final = 1024
TRACESTATE_BYTES_MAX: Final = 512
NAME_BYTES_MAX: Final = 128
"""Worker, SDK and build names."""

FAILURE_TYPE_BYTES_MAX: Final = 256
FAILURE_MESSAGE_BYTES_MAX: Final = 8 * 1024
FAILURE_STACK_BYTES_MAX: Final = 32 * 1024
EFFECT_RECEIPTS_MAX: Final = 16
EFFECT_REFERENCE_BYTES_MAX: Final = 1024
SPAWNED_JOBS_MAX: Final = 100

PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 4
PRIORITY_STEP_S: Final = 30.0
"""Waiting this long is worth one level of priority: ageing, and the bound of starvation (9 levels = 270 s)."""

HORIZON_S: Final = 3_653 * DAY_S
"""How far ahead a job may be due: ten years."""

MAX_ATTEMPTS_MAX: Final = 1_000
MAX_ATTEMPTS_DEFAULT: Final = 5
BACKOFF_INITIAL_DEFAULT_S: Final = 1.0
BACKOFF_MAX_DEFAULT_S: Final = 3_600.0
BACKOFF_MAX_S: Final = DAY_S
BACKOFF_MULTIPLIER_DEFAULT: Final = 2.0
BACKOFF_MULTIPLIER_MAX: Final = 10.0
NON_RETRYABLE_TYPES_MAX: Final = 32
RETRY_AFTER_MAX_S: Final = 3_600.0
RELEASE_DELAY_MAX_S: Final = 3_600.0
UNCOUNTED_ATTEMPTS_MAX: Final = 20
"""Undelivered and released attempts do not count, up to this many; the next one counts."""

DEAD_LETTERS_NAMED_MAX: Final = 1_000
"""Dead letters that one call names, and that one call discards."""

REDRIVES_PER_LETTER_MAX: Final = 20
"""How often a letter is redriven in bulk: what dies as often is not helped by trying again."""

REDRIVES_RUNNING_MAX: Final = 4
"""Redrives of one tenant that run at a time."""

REDRIVE_RATE_DEFAULT: Final = 10.0
REDRIVE_RATE_MIN: Final = 0.001
REDRIVE_RATE_MAX: Final = 1_000.0
"""Jobs a second."""

PAST_ATTEMPTS_MAX: Final = 1_000
"""Attempts that stay with a dead letter, the newest."""

PAST_MESSAGE_CHARS_MAX: Final = 500
"""Of a failure's message, for all but the newest of these."""

RUN_TIMEOUT_DEFAULT_S: Final = 3_600.0
RUN_TIMEOUT_MAX_S: Final = 7 * DAY_S
START_BY_MAX_S: Final = 366 * DAY_S
TOTAL_TIMEOUT_MAX_S: Final = 366 * DAY_S
DEDUPE_WINDOW_MAX_S: Final = 30 * DAY_S

CRON_CHARS_MAX: Final = 256
RRULE_BYTES_MAX: Final = 8 * 1024
RRULE_COUNT_MAX: Final = 5_000
"""Instances that COUNT may name: they are counted from DTSTART, once."""

RRULE_DATES_MAX: Final = 500
"""Of RDATE and of EXDATE each."""

TIME_ZONE_CHARS_MAX: Final = 64
INTERVAL_MIN_S: Final = 1
INTERVAL_MAX_S: Final = 3_660 * 86_400
JITTER_MAX_S: Final = DAY_S
EXCLUDED_DATES_MAX: Final = 366
CALENDARS_MAX: Final = 8
"""Calendars that one schedule names."""

DST_CORRECTION_S: Final = 3 * 3_600
"""A change of the clocks by this much or more is a correction of the zone: nothing is replayed."""

RULE_STEPS_MAX: Final = 5_000
"""Steps of one search for a next time, a few microseconds each: what is not found in them is given up."""

RULE_SEARCH_YEARS: Final = 100
"""How far ahead a next time is looked for. The rarest date that cron can name comes every 40 years at least."""

CALENDAR_DATES_MAX: Final = 5_000
NOTES_BYTES_MAX: Final = 4 * 1024
APPLY_SET_BYTES_MAX: Final = 128
LATE_TOLERANCE_DEFAULT_S: Final = 60.0
LATE_TOLERANCE_MAX_S: Final = 3_600.0
CATCH_UP_WINDOW_DEFAULT_S: Final = DAY_S
CATCH_UP_WINDOW_MAX_S: Final = 366 * DAY_S
CATCH_UP_MAX_DEFAULT: Final = 100
CATCH_UP_MAX_MAX: Final = 10_000
OVERLAP_LIMIT_MAX: Final = 10_000
BUFFER_DEFAULT: Final = 100
PAUSE_AFTER_FAILURES_MAX: Final = 1_000
SCHEDULE_BATCH_MAX: Final = 1_000
"""Schedules that one call creates or applies."""

APPLY_CALENDARS_MAX: Final = 100
CALENDAR_SCHEDULES_MAX: Final = 10_000
"""Schedules that name one calendar: all of them follow its change in one transaction."""

BACKFILL_RATE_DEFAULT: Final = 10.0
BACKFILL_RATE_MIN: Final = 0.001
BACKFILL_RATE_MAX: Final = 1_000.0
BACKFILL_OCCURRENCES_MAX: Final = 10_000
BACKFILLS_MAX: Final = 4
"""Running backfills of one schedule."""

MATERIALISE_AHEAD_S: Final = 60.0
"""Occurrences whose overlap policy needs no look at other jobs become jobs this long before their nominal time."""

WALK_MAX: Final = 5_000
"""Occurrences that one step looks at for one schedule."""

WALK_JOBS_MAX: Final = 1_000
"""Jobs that one step makes for one schedule."""

RANGE_MIN: Final = 16
"""So many occurrences in a row without a job and with one fate are kept as one row."""

PREVIEW_COUNT_MAX: Final = 1_000
PREVIEW_COUNT_DEFAULT: Final = 10
PREVIEW_LINES_MAX: Final = 2_000
PREVIEW_STEPS_MAX: Final = 50_000
"""Steps of all searches of one preview."""

CREATE_BATCH_MAX: Final = 1_000
COMPLETE_BATCH_MAX: Final = 500
LEASE_BATCH_MAX: Final = 1_000
CLAIM_BATCH_MAX: Final = 500
"""Jobs of one transaction on the hot path: more would hold the event loop too long."""

LEASE_ANSWER_BYTES_MAX: Final = 3_670_016
"""3.5 MiB: an answer over a client's 4 MiB would fail there after the claim was committed."""

LEASE_OVERHEAD_BYTES: Final = 1024
"""What a lease weighs in an answer beside its payload and headers, rounded up."""

LEASE_WAIT_MAX_S: Final = 50.0
LEASE_WAIT_DEFAULT_S: Final = 10.0
LEASE_DEADLINE_MARGIN_S: Final = 1.0
"""A claim is not begun for a call with less than this left of its deadline."""

LEASE_REPLAY_S: Final = 60.0
JOB_WAIT_MAX_S: Final = 10.0
POLLERS_MAX: Final = 64
SLOTS_MAX: Final = 10_000
SESSION_QUEUES_MAX: Final = 64
SESSION_TYPES_MAX: Final = 512
DIRECTIVES_MAX: Final = 10_000
"""Directives kept for one session until it acknowledges them; more become one RESYNC."""

DIRECTIVES_PER_ANSWER_MAX: Final = 500
"""The oldest of them, in one answer: the next one brings the next."""

SESSIONS_MAX: Final = 20_000
"""Sessions of one tenant that one coordinator talks to; for the others' there is room for an eighth more."""

SESSION_LEASES_MAX: Final = 2 * SLOTS_MAX
"""Leases that one session may hold, those included whose outcomes are on their way."""

IN_FLIGHT_MAX: Final = 1_000_000
"""Leases that a coordinator hands out before outcomes come back."""

STREAMS_MAX: Final = 8
"""Heartbeat streams of one session: it needs one, and dead connections keep theirs for a while."""

BEATS_UNANSWERED_MAX: Final = 16
"""Beats of one session on their way to the database: it needs one, and may have timed out on a few."""

WAITS_MAX: Final = 10_000
"""WaitJob calls of one tenant at one coordinator; for the others' there is room for an eighth more."""

WATCHES_MAX: Final = 200
"""The same of WatchJobs streams: one that has much to tell costs as much as a busy worker."""

CHANGES_KEPT_S: Final = 3_600.0
CHANGES_MAX: Final = 4_000_000
"""Changes of jobs are kept this long for whoever watches, and so many of all tenants: some gigabytes."""

WATCH_LIFE_S: Final = 600.0
"""Changes are written down for so long after the last watcher has gone, so that it can resume."""

CALLS_MAX: Final = 2_000
"""The same of calls that have statements of their own, beside what goes in batches: thousands would wait for a handful
of connections longer than their callers."""

RPCS_MAX: Final = 200_000
"""Calls and streams of all kinds that one coordinator serves at once."""

WEIGHT_MIN: Final = 1
WEIGHT_MAX: Final = 1_000
WEIGHT_DEFAULT: Final = 100
"""Shares of tenants, and of the queues of one tenant."""

QUEUE_RATE_MIN: Final = 0.001
QUEUE_RATE_MAX: Final = 100_000.0
"""Leases a second."""

QUEUE_BURST_MAX: Final = 100_000

QUEUES_MAX: Final = 10_000
"""Queues of one tenant with settings of their own: every coordinator keeps those of all tenants in memory."""

PURGE_MAX: Final = 10_000
"""Jobs that one call cancels."""

PAGE_SIZE_DEFAULT: Final = 50
PAGE_SIZE_MAX: Final = 1_000

SHARD_COUNT: Final = 256
REQUEST_LIFE_S: Final = 7 * DAY_S
"""Also the shortest life of history: a late repetition finds what it is a repetition of."""

HISTORY_MIN_S: Final = DAY_S
HISTORY_MAX_S: Final = 3_660 * DAY_S
HISTORIES_MAX: Final = 64
"""Tenants with a span of their own: each has tables of its own."""

LOOKAHEAD_S: Final = 10.0
"""Jobs due within this span are read into memory."""

QUEUE_ENTRIES_MAX: Final = 20_000
"""Jobs of one queue and type held in memory; what is over stays in the database until there is room."""

FENCE_COUNTER_BITS: Final = 32
EPOCH_MAX: Final = (1 << 31) - 1
EPOCH_STEP: Final = 1 << 16
"""How far epochs go ahead where a database may have forgotten some: more owners than a shard ever had in what a standby
lags behind, or since a backup."""
