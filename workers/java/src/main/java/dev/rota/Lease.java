package dev.rota;

import dev.rota.v1.CreateJobRequest;
import dev.rota.v1.EffectReceipt;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The right to run one attempt of a job, and all that a handler needs to know. Safe for use by many threads. */
public final class Lease {
    private enum State {
        QUEUED,
        RUNNING,
        SETTLED
    }

    /** What names a grant. */
    record Id(String job, long fence) {}

    final Session session;
    private final dev.rota.worker.v1.Lease message;
    private final long receivedAt;
    private final List<CreateJobRequest> spawned = new ArrayList<>();
    private final List<EffectReceipt> receipts = new ArrayList<>();
    private State state = State.QUEUED;
    private Stop stop = Stop.NONE;
    private Thread thread;

    Lease(dev.rota.worker.v1.Lease message, Session session, long receivedAt) {
        this.message = message;
        this.session = session;
        this.receivedAt = receivedAt;
    }

    /** jobs/{id} */
    public String job() {
        return message.getJob();
    }

    /** The job's id. */
    public String id() {
        return job().replaceFirst("^jobs/", "");
    }

    /** Grows with every attempt. Targets that check it refuse a late one. */
    public long fence() {
        return message.getFence();
    }

    /** 1 for the first grant. */
    public int attempt() {
        return message.getAttempt();
    }

    /** The handler's name. */
    public String type() {
        return message.getType();
    }

    /** Where the job came from. */
    public String queue() {
        return message.getQueue();
    }

    /** The handler's input. */
    public Payload payload() {
        return Payload.from(message.getPayload());
    }

    /** The payload as UTF-8. */
    public String text() {
        return payload().text();
    }

    /** The payload as JSON; null when there is none. Throws a JsonSyntaxException. */
    public <T> T json(Class<T> type) {
        return payload().json(type);
    }

    /** Named texts beside the payload. */
    public Map<String, String> headers() {
        return message.getHeadersMap();
    }

    /** The idempotency key of the job's effect: equal in all attempts, retries and redrives. */
    public String effectKey() {
        return message.getEffectKey();
    }

    /** HTTP headers for a target that honours idempotency keys: Idempotency-Key and Rota-Fence. */
    public Map<String, String> effectHeaders() {
        return Map.of("Idempotency-Key", effectKey(), "Rota-Fence", Long.toString(fence()));
    }

    /** As {@link #effectHeaders(Duration, Duration)}, for jobs that are redriven within 14 days of their deadline. */
    public Map<String, String> effectHeaders(Duration window) {
        return effectHeaders(window, Limits.REDRIVE);
    }

    /**
     * As {@link #effectHeaders()}, for a target that remembers keys for a window. Warns, once for each job type, when the job
     * may be tried for longer, or be redriven up to so long after its deadline.
     */
    public Map<String, String> effectHeaders(Duration window, Duration redrive) {
        EffectWindow.warn(type(), window, untilDeadline(), redrive);
        return effectHeaders();
    }

    /** schedules/{id} that the job comes from; empty: none. */
    public String schedule() {
        return message.getSchedule();
    }

    /** Informative: the instant that the schedule's rule names; null: none. */
    public Instant nominalTime() {
        return message.hasNominalTime() ? Spans.of(message.getNominalTime()) : null;
    }

    /** Informative: when the job became due. */
    public Instant dueTime() {
        return message.hasDueTime() ? Spans.of(message.getDueTime()) : null;
    }

    /** 0 to 9, 9 first. */
    public int priority() {
        return message.getPriority();
    }

    /** The most attempts that count. */
    public int maxAttempts() {
        return message.getMaxAttempts();
    }

    /** Attempts that counted before this one. */
    public int attemptsCounted() {
        return message.getAttemptsCounted();
    }

    /** W3C trace context of the grant; empty when it has none. */
    public String traceparent() {
        return message.getTraceparent();
    }

    /** W3C vendor state. */
    public String tracestate() {
        return message.getTracestate();
    }

    /** sessions/{id} that holds the lease. */
    public String session() {
        return session.name;
    }

    /** Until the run timeout or the job's deadline, whichever is first; never negative. */
    public Duration remaining() {
        Duration until = runTimeout().isZero() ? Duration.ofSeconds(Long.MAX_VALUE / 2) : runTimeout();
        if (message.hasDeadline()) {
            until = Spans.min(until, Spans.of(message.getDeadline()));
        }
        return Spans.max(Duration.ZERO, until.minusNanos(System.nanoTime() - receivedAt));
    }

    /** No beat was answered for two thirds of the session's TTL: at its end the attempt is aborted. */
    public boolean atRisk() {
        return session.atRisk();
    }

    /** Why the handler is asked to stop. Its own success still wins where it can. */
    public synchronized Stop stopReason() {
        return stop;
    }

    /** Throws StoppedException once the handler is asked to stop. */
    public void throwIfStopped() {
        Stop reason = stopReason();
        if (reason != Stop.NONE) {
            throw new StoppedException("the handler is asked to stop: " + reason);
        }
    }

    /** Tells people how far it is, with the next beat; only the latest note is sent, cut at 1 KiB. */
    public void progress(String note) {
        session.note(this, Text.clean(note, Limits.NOTE_BYTES_MAX));
    }

    /** Creates a job in the transaction of this one's success; nothing when it does not succeed. */
    public synchronized void spawn(NewJob job) {
        if (spawned.size() >= Limits.SPAWNED_JOBS_MAX) {
            throw new IllegalStateException(
                    "expected at most " + Limits.SPAWNED_JOBS_MAX + " spawned jobs; create more with a Client");
        }
        spawned.add(job.request());
    }

    /** Keeps with the attempt what a target answered, for example a payment id. */
    public synchronized void receipt(String reference) {
        if (receipts.size() >= Limits.RECEIPTS_MAX) {
            throw new IllegalStateException("expected at most " + Limits.RECEIPTS_MAX + " receipts, found one more");
        }
        receipts.add(EffectReceipt.newBuilder()
                .setEffectKey(effectKey())
                .setReference(Text.clean(reference, Limits.RECEIPT_BYTES_MAX))
                .build());
    }

    @Override
    public String toString() {
        return "Lease " + type() + " " + job() + " attempt " + attempt() + " fence " + fence();
    }

    Id key() {
        return new Id(message.getJob(), message.getFence());
    }

    Duration runTimeout() {
        return Spans.of(message.getRunTimeout());
    }

    /** Beyond it no further attempt is made; null: there is no such bound. */
    private Duration untilDeadline() {
        return message.hasDeadline()
                ? Spans.max(Duration.ZERO, Spans.of(message.getDeadline()).minusNanos(System.nanoTime() - receivedAt))
                : null;
    }

    /** When the run timeout ends, counted from receipt: the request may have been parked for long before the grant. */
    long runUntil() {
        return receivedAt + runTimeout().toNanos();
    }

    synchronized List<CreateJobRequest> spawned() {
        return List.copyOf(spawned);
    }

    synchronized List<EffectReceipt> receipts() {
        return List.copyOf(receipts);
    }

    /** Nothing of what was refused may be sent again. */
    synchronized void forgetExtras() {
        spawned.clear();
        receipts.clear();
    }

    /** Records why, and interrupts the handler; false when it had been asked for a reason as grave. */
    boolean askToStop(Stop reason, boolean interrupt) {
        Thread running;
        synchronized (this) {
            if (stop.compareTo(reason) >= 0) {
                return false;
            }
            stop = reason;
            running = state == State.RUNNING && interrupt ? thread : null;
            if (running != null) {
                // While the lock is held the thread cannot go on to another handler.
                running.interrupt();
            }
        }
        return true;
    }

    /** Whether the handler may start: once, and not after the outcome was decided. */
    synchronized boolean begin(Thread runner) {
        if (state != State.QUEUED) {
            return false;
        }
        state = State.RUNNING;
        thread = runner;
        return true;
    }

    /** The handler has returned: its thread is not to be interrupted any more. */
    synchronized void returned() {
        thread = null;
    }

    /** Claims the right to decide the outcome, which only the first caller gets. */
    synchronized boolean settle() {
        boolean first = state != State.SETTLED;
        state = State.SETTLED;
        return first;
    }

    synchronized boolean settleUnstarted() {
        if (state != State.QUEUED) {
            return false;
        }
        state = State.SETTLED;
        return true;
    }

    synchronized boolean isWorthless() {
        return stop.compareTo(Stop.LOST) >= 0;
    }
}
