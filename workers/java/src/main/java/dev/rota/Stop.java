package dev.rota;

/** Why a handler is asked to stop, the gravest last. From {@link #LOST} on its outcome is worthless and dropped. */
public enum Stop {
    /** It is not. */
    NONE,
    /** It ran longer than its run timeout. */
    TIMED_OUT,
    /** The worker leaves and waits no longer. */
    LEAVING,
    /** Somebody cancelled the job. */
    CANCEL,
    /** The coordinator says that the lease is gone. */
    LOST,
    /** No beat was answered for the session's TTL. */
    EXPIRED,
    /** The session ended. */
    SESSION_GONE
}
