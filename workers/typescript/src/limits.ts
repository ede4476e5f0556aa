/** Every limit of the SDK, in one place. Sizes are bytes, spans are milliseconds. The first ones are the contract's. */
export const RESULT_BYTES_MAX = 64 * 1024;
export const FAILURE_TYPE_BYTES_MAX = 256;
export const FAILURE_MESSAGE_BYTES_MAX = 8 * 1024;
export const FAILURE_STACK_BYTES_MAX = 32 * 1024;
export const NOTE_BYTES_MAX = 1024;
export const REASON_BYTES_MAX = 1024;
export const IDENTITY_BYTES_MAX = 128;
export const RECEIPT_BYTES_MAX = 1024;
export const RECEIPTS_MAX = 16;
export const SPAWNED_JOBS_MAX = 100;
export const BATCH_JOBS_MAX = 1_000;
export const QUEUES_MAX = 64;
export const TYPES_MAX = 512;
export const SLOTS_MAX = 10_000;
export const LEASE_JOBS_MAX = 1_000;
export const RESULTS_PER_CALL_MAX = 500;
export const RETRY_AFTER_MAX_MS = 3_600_000;
export const WAIT_JOB_MAX_MS = 10_000;

/** The server receives at most 4 MiB; the rest is room for framing and for the fields around the data. */
export const SEND_BYTES_MAX = 3_670_016;
export const RECEIVE_BYTES_MAX = 16 * 1024 * 1024;
/** A lone result and its spawned jobs must fit into one request. */
export const RESULT_CALL_BYTES_MAX = SEND_BYTES_MAX - 64 * 1024;

export const KEEPALIVE_MS = 30_000;
export const KEEPALIVE_TIMEOUT_MS = 10_000;
export const CALL_TIMEOUT_MS = 30_000;
export const CONNECT_TIMEOUT_MS = 5_000;
/** gRPC's own defaults (up to 120 s between tries) would outlive a session's TTL. */
export const CONNECT_BACKOFF_FIRST_MS = 100;
export const CONNECT_BACKOFF_MOST_MS = 1_000;
/** A new connection at most this often, however many calls find the old one dead. */
export const RENEW_INTERVAL_MS = 2_000;
export const RENEW_INTERVAL_MOST_MS = 30_000;

/** What stands in for a span that the server leaves out. */
export const LEASE_TTL_MS = 15_000;
export const DELIVERY_TTL_MS = 5_000;
export const BEAT_INTERVAL_MS = 5_000;

export const LEASE_WAIT_MS = 10_000;
export const LEASE_ANSWER_GRACE_MS = 3_000;
/** A small poll costs as much as a large one: this long it is worth waiting for more free slots. */
export const SLOT_LINGER_MS = 5;
export const SLOW_DOWN_MS = 1_000;
export const SLOW_DOWN_FOR_MS = 5_000;

export const OUTCOME_LINGER_MS = 5;
export const COMPLETE_TIMEOUT_MS = 10_000;
export const BEAT_NOTES_MAX = 500;
export const DIRECTIVES_KEPT = 4_096;
export const BEAT_SPACING_MS = 10;
export const STREAM_BACKOFF_FIRST_MS = 100;
export const STREAM_BACKOFF_MOST_MS = 30_000;
export const BACKOFF_FIRST_MS = 50;
export const BACKOFF_MOST_MS = 5_000;

export const DRAIN_TIMEOUT_MS = 30_000;
export const UNWIND_TIMEOUT_MS = 1_000;
export const CLOSE_TIMEOUT_MS = 3_000;
export const PARKED_POLL_GRACE_MS = 1_000;
export const FLUSH_TIMEOUT_MS = 10_000;
/** Each phase of leaving when the worker is told to leave at once. */
export const AT_ONCE_MS = 500;
/** A handler that was stopped at its run timeout may clean up this long before its failure is reported. */
export const TIMEOUT_REPORT_GRACE_MS = 1_000;
/** How long a job of a type without a handler stays away from this worker. */
export const NO_HANDLER_DELAY_MS = 5_000;
/** How long after its deadline a dead job may be redriven, where nobody says otherwise. */
export const REDRIVE_MS = 14 * 86_400_000;
