package dev.rota;

import java.time.Duration;

/** Every limit of the SDK, in one place. The first ones are the contract's. */
final class Limits {
    static final int RESULT_BYTES_MAX = 64 * 1024;
    static final int FAILURE_TYPE_BYTES_MAX = 256;
    static final int FAILURE_MESSAGE_BYTES_MAX = 8 * 1024;
    static final int FAILURE_STACK_BYTES_MAX = 32 * 1024;
    static final int NOTE_BYTES_MAX = 1024;
    static final int REASON_BYTES_MAX = 1024;
    static final int IDENTITY_BYTES_MAX = 128;
    static final int RECEIPT_BYTES_MAX = 1024;
    static final int RECEIPTS_MAX = 16;
    static final int SPAWNED_JOBS_MAX = 100;
    static final int BATCH_JOBS_MAX = 1_000;
    static final int QUEUES_MAX = 64;
    static final int TYPES_MAX = 512;
    static final int SLOTS_MAX = 10_000;
    static final int LEASE_JOBS_MAX = 1_000;
    static final int RESULTS_PER_CALL_MAX = 500;
    static final Duration RETRY_AFTER_MAX = Duration.ofHours(1);
    static final Duration WAIT_JOB_MAX = Duration.ofSeconds(10);

    /** The server receives at most 4 MiB; the rest is room for framing and for the fields around the data. */
    static final int SEND_BYTES_MAX = 3_670_016;

    static final int RECEIVE_BYTES_MAX = 16 * 1024 * 1024;
    /** A lone result and its spawned jobs must fit into one request. */
    static final int RESULT_CALL_BYTES_MAX = SEND_BYTES_MAX - 64 * 1024;

    static final Duration KEEPALIVE = Duration.ofSeconds(30);
    static final Duration KEEPALIVE_TIMEOUT = Duration.ofSeconds(10);
    static final Duration CALL_TIMEOUT = Duration.ofSeconds(30);
    static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(5);
    /** A new connection at most this often, however many calls find the old one dead. */
    static final Duration RENEW_INTERVAL = Duration.ofSeconds(2);

    static final Duration RENEW_INTERVAL_MAX = Duration.ofSeconds(30);

    /** What stands in for a span that the server leaves out. */
    static final Duration LEASE_TTL = Duration.ofSeconds(15);

    static final Duration DELIVERY_TTL = Duration.ofSeconds(5);
    static final Duration BEAT_INTERVAL = Duration.ofSeconds(5);

    static final Duration LEASE_WAIT = Duration.ofSeconds(10);
    static final Duration LEASE_ANSWER_GRACE = Duration.ofSeconds(3);
    /** A small poll costs as much as a large one: this long it is worth waiting for more free slots. */
    static final Duration SLOT_LINGER = Duration.ofMillis(5);

    static final Duration SLOW_DOWN = Duration.ofSeconds(1);
    static final Duration SLOW_DOWN_FOR = Duration.ofSeconds(5);

    static final Duration OUTCOME_LINGER = Duration.ofMillis(5);
    static final Duration COMPLETE_TIMEOUT = Duration.ofSeconds(10);
    static final int BEAT_NOTES_MAX = 500;
    static final int DIRECTIVES_KEPT = 4_096;
    static final Duration BEAT_SPACING = Duration.ofMillis(10);
    static final Duration STREAM_BACKOFF_FIRST = Duration.ofMillis(100);
    static final Duration STREAM_BACKOFF_MAX = Duration.ofSeconds(30);
    static final Duration BACKOFF_FIRST = Duration.ofMillis(50);
    static final Duration BACKOFF_MAX = Duration.ofSeconds(5);
    /** Between tries to reach a coordinator that is away. */
    static final Duration CONNECT_BACKOFF_MAX = Duration.ofSeconds(1);

    static final Duration DRAIN_TIMEOUT = Duration.ofSeconds(30);
    static final Duration UNWIND_TIMEOUT = Duration.ofSeconds(1);
    static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(3);
    static final Duration PARKED_POLL_GRACE = Duration.ofSeconds(1);
    static final Duration FLUSH_TIMEOUT = Duration.ofSeconds(10);
    /** Each phase of leaving when the worker is told to leave at once. */
    static final Duration AT_ONCE = Duration.ofMillis(500);
    /** A handler that was stopped at its run timeout may clean up this long before its failure is reported. */
    static final Duration TIMEOUT_REPORT_GRACE = Duration.ofSeconds(1);
    /** How long a job of a type without a handler stays away from this worker. */
    static final Duration NO_HANDLER_DELAY = Duration.ofSeconds(5);

    /** How long after its deadline a dead job may be redriven, where nobody says otherwise. */
    static final Duration REDRIVE = Duration.ofDays(14);

    private Limits() {}
}
