"""The limits and paces of the outbox. Sizes are bytes, spans are seconds."""

from typing import Final

from rota.domain.limits import CREATE_BATCH_MAX, REQUEST_LIFE_S

ORDERING_KEY_BYTES_MAX: Final = 256

WINDOW_ROWS: Final = 1_000
"""Rows of one relay that are claimed and not yet answered."""

WINDOW_BYTES: Final = 16 * 1024 * 1024
BATCH_ROWS: Final = min(250, CREATE_BATCH_MAX)
BATCH_BYTES: Final = 2 * 1024 * 1024
"""Of one call; what the server takes is 4 MiB."""

ROW_OVERHEAD_BYTES: Final = 512
"""What a row weighs in a call beside its payload and options, rounded up."""

LOOK_ROWS: Final = 1_000
"""Rows that one look at the table reads."""

CALL_TIMEOUT_S: Final = 10.0
CLAIM_S: Final = 30.0
"""After this a relay is taken for dead, and its rows are sent by another. Longer than a call, since what is sent twice
costs twice; nothing else."""

IN_DOUBT_S: Final = REQUEST_LIFE_S - 6 * 3_600.0
"""So long after the first call that may have created a job, its request id may be forgotten before the answer comes:
the margin is for clocks that differ."""

POLL_BUSY_S: Final = 0.05
POLL_IDLE_S: Final = 1.0
PASS_EVERY_S: Final = 1.0
"""Between two passes over what the look at new rows has left behind."""

PASS_SHARE: Final = 0.1
"""Of the time that passes may take, where they take long."""

TIDY_EVERY_S: Final = 60.0
TIDY_KEYS: Final = 1_000

LINGER_S: Final = 0.005
"""After an answer: this long it is worth waiting for others, to be written in one statement."""

RETRY_FIRST_S: Final = 0.1
RETRY_MOST_S: Final = 5.0
"""While Rota or the database does not answer."""

ROW_RETRY_FIRST_S: Final = 0.5
ROW_RETRY_MOST_S: Final = 60.0
"""When Rota answers, and does not take this row now."""

DRAIN_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 5
STATEMENT_S: Final = 30.0
ERROR_CHARS_MAX: Final = 2_000
