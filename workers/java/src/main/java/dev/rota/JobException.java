package dev.rota;

import java.time.Duration;

/** How an attempt ends when a handler has more to say than that it failed: throw what its factory methods make. */
public final class JobException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    enum Kind {
        RETRY,
        FATAL,
        RELEASE,
        FAILED,
        EFFECT_UNKNOWN
    }

    private final Kind kind;
    private final Duration delay;
    private final String type;
    private final String stack;
    private final Boolean retryable;

    private JobException(Kind kind, String message, Throwable cause, Duration delay, String type, String stack, Boolean retryable) {
        super(message, cause);
        this.kind = kind;
        this.delay = delay;
        this.type = type;
        this.stack = stack;
        this.retryable = retryable;
    }

    /** Failed; try again, not before {@code after}, at most an hour. */
    public static JobException retry(String message, Duration after) {
        return new JobException(Kind.RETRY, message, null, after, "", "", null);
    }

    /** As {@link #retry(String, Duration)}, with the class and words of its cause. */
    public static JobException retry(Throwable cause, Duration after) {
        return new JobException(Kind.RETRY, cause.getMessage(), cause, after, "", "", null);
    }

    /** Failed for good: no retry, whatever the policy says. */
    public static JobException fatal(String message) {
        return new JobException(Kind.FATAL, message, null, Duration.ZERO, "", "", null);
    }

    /** As {@link #fatal(String)}, with the class and words of its cause. */
    public static JobException fatal(Throwable cause) {
        return new JobException(Kind.FATAL, cause.getMessage(), cause, Duration.ZERO, "", "", null);
    }

    /** Give the job back unfinished, not before {@code delay}, at most an hour. Does not count as an attempt. */
    public static JobException release(String reason, Duration delay) {
        return new JobException(Kind.RELEASE, reason, null, delay, "", "", null);
    }

    /** Failed, told in terms of the work instead of this program's. The retry policy decides. */
    public static JobException failed(String type, String message, String stack) {
        return new JobException(Kind.FAILED, message, null, Duration.ZERO, type, stack, null);
    }

    /** As {@link #failed(String, String, String)}, and says whether a retry may help. */
    public static JobException failed(String type, String message, String stack, boolean retryable) {
        return new JobException(Kind.FAILED, message, null, Duration.ZERO, type, stack, retryable);
    }

    /** Failed, and nobody knows whether the effect was applied, for example because the target did not answer. */
    public static JobException effectUnknown(String message, Throwable cause) {
        return new JobException(Kind.EFFECT_UNKNOWN, message, cause, Duration.ZERO, "", "", null);
    }

    Kind kind() {
        return kind;
    }

    Duration delay() {
        return delay;
    }

    String type() {
        return type;
    }

    String stack() {
        return stack;
    }

    Boolean retryable() {
        return retryable;
    }
}
