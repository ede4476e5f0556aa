"""Every limit of the SDK, in one place. Sizes are bytes, spans are seconds."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# What the contract allows.
RESULT_BYTES: Final = 64 * KIB
FAILURE_TYPE_BYTES: Final = 256
FAILURE_MESSAGE_BYTES: Final = 8 * KIB
FAILURE_STACK_BYTES: Final = 32 * KIB
NOTE_BYTES: Final = KIB
REASON_BYTES: Final = KIB
IDENTITY_BYTES: Final = 128
RECEIPT_BYTES: Final = KIB
RECEIPTS: Final = 16
SPAWNED_JOBS: Final = 100
BATCH_JOBS: Final = 1_000
PAGE_JOBS: Final = 1_000
QUEUES: Final = 64
TYPES: Final = 512
SLOTS: Final = 10_000
LEASE_JOBS: Final = 1_000
RESULTS_PER_CALL: Final = 500
RETRY_AFTER_S: Final = 3_600.0
WAIT_JOB_S: Final = 10.0
WAIT_POLL_FIRST_S: Final = 0.05
WAIT_POLL_MOST_S: Final = 1.0

# The server receives at most 4 MiB; the rest is room for framing and for the fields around the data.
SEND_BYTES: Final = 3_670_016
RECEIVE_BYTES: Final = 16 * MIB
# A lone result and its spawned jobs must fit into one request.
RESULT_CALL_BYTES: Final = SEND_BYTES - 64 * KIB

# Connections.
KEEPALIVE_S: Final = 30.0
KEEPALIVE_TIMEOUT_S: Final = 10.0
CALL_ATTEMPTS: Final = 4
CALL_TIMEOUT_S: Final = 30.0
# gRPC's own defaults (20 s to connect, up to 120 s between tries) would outlive a session's TTL.
CONNECT_TIMEOUT_S: Final = 5.0
CONNECT_BACKOFF_FIRST_S: Final = 0.1
CONNECT_BACKOFF_MOST_S: Final = 1.0
# A new connection at most this often, however many calls find the old one dead.
RENEW_INTERVAL_S: Final = 2.0
RENEW_INTERVAL_MOST_S: Final = 30.0

# What stands in for a span that the server leaves out.
LEASE_TTL_S: Final = 15.0
DELIVERY_TTL_S: Final = 5.0
BEAT_INTERVAL_S: Final = 5.0

# Polling.
LEASE_WAIT_S: Final = 10.0
LEASE_ANSWER_GRACE_S: Final = 3.0
# A small poll costs as much as a large one: this long it is worth waiting for more free slots.
SLOT_LINGER_S: Final = 0.005
SLOW_DOWN_S: Final = 1.0
# After SLOW_DOWN polls are that far apart, for so long at most.
SLOW_DOWN_FOR_S: Final = 5.0

# Outcomes.
OUTCOME_LINGER_S: Final = 0.005
OUTCOME_LINGER_STEP_S: Final = 0.001
COMPLETE_TIMEOUT_S: Final = 10.0
EFFECT_CALL_TIMEOUT_S: Final = 5.0

# Beats.
BEAT_NOTES: Final = 500
DIRECTIVES_KEPT: Final = 4_096
# Beats asked for out of turn are at least this far apart.
BEAT_SPACING_S: Final = 0.01
STREAM_BACKOFF_FIRST_S: Final = 0.1
STREAM_BACKOFF_MOST_S: Final = 30.0

# Backoff of calls that are repeated until they succeed.
BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MOST_S: Final = 5.0

# Leaving.
DRAIN_TIMEOUT_S: Final = 30.0
CLOSE_TIMEOUT_S: Final = 3.0
PARKED_POLL_GRACE_S: Final = 1.0
UNWIND_TIMEOUT_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 10.0
# Each of these when the worker is told to leave at once.
AT_ONCE_S: Final = 0.5
# A handler that was stopped at its run timeout may clean up this long before its failure is reported.
TIMEOUT_REPORT_GRACE_S: Final = 1.0
# How long a job of a type without a handler stays away from this worker.
NO_HANDLER_DELAY_S: Final = 5.0
