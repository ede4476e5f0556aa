package dev.rota;

import dev.rota.worker.v1.CloseMode;
import dev.rota.worker.v1.CloseSessionRequest;
import dev.rota.worker.v1.OpenSessionRequest;
import dev.rota.worker.v1.OpenSessionResponse;
import dev.rota.worker.v1.Progress;
import io.grpc.Status;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * A session from its opening to its end. It lives until an instant that only an answered beat moves on, counted from the
 * instant of sending: the coordinator, which counts from receipt, never ends it earlier.
 */
final class Session {
    private static final Logger LOG = System.getLogger("dev.rota.worker");

    final String name;
    final Duration ttl;
    final Duration deliveryTtl;
    final Duration beatInterval;
    final Duration wait;
    final int maxResults;
    final Holdings holdings = new Holdings();
    Completions completions;

    private final AtomicLong ids = new AtomicLong();
    private final Map<Lease.Id, String> notes = new LinkedHashMap<>();
    private final Runnable onEnd;
    private long renewedAt;
    private Duration aliveFor;
    private boolean atRisk;
    private Stop endedFor = Stop.NONE;
    private volatile boolean draining;

    Session(OpenSessionResponse answer, long sentAt, Runnable onEnd) {
        name = answer.getSession();
        ttl = Spans.of(answer.getLeaseTtl(), Limits.LEASE_TTL);
        deliveryTtl = Spans.of(answer.getDeliveryTtl(), Limits.DELIVERY_TTL);
        // A server's mistake must not make beats rarer than the TTL can bear.
        beatInterval = Spans.min(Spans.of(answer.getBeatInterval(), Limits.BEAT_INTERVAL), ttl.dividedBy(3));
        wait = Spans.min(Spans.of(answer.getMaxWait(), Limits.LEASE_WAIT), Limits.LEASE_WAIT);
        int most = answer.getMaxResults() > 0 ? answer.getMaxResults() : Limits.RESULTS_PER_CALL_MAX;
        maxResults = Math.min(most, Limits.RESULTS_PER_CALL_MAX);
        renewedAt = sentAt;
        aliveFor = ttl;
        this.onEnd = onEnd;
    }

    /** Unique among all sessions, for one logical call or outcome. */
    String nextRequestId() {
        return name.replaceFirst("^sessions/", "") + "-" + ids.incrementAndGet();
    }

    synchronized boolean atRisk() {
        return atRisk;
    }

    synchronized Stop endedFor() {
        return endedFor;
    }

    /** No handler starts any more; what was not started is given back. */
    boolean isDraining() {
        return draining;
    }

    void drain() {
        draining = true;
    }

    /** A beat sent at {@code sentAt} was answered with so much life. */
    synchronized void renew(long sentAt, Duration life) {
        // Answers may overtake each other; the latest beat says what holds.
        if (endedFor != Stop.NONE || sentAt - renewedAt < 0) {
            return;
        }
        renewedAt = sentAt;
        aliveFor = life;
        if (atRisk) {
            atRisk = false;
            LOG.log(Level.INFO, "{0}: beats are answered again", name);
        }
    }

    /** Warns and ends as time demands; the next instant to look again. */
    long checkLife(long now) {
        synchronized (this) {
            long until = renewedAt + aliveFor.toNanos();
            long risk = renewedAt + aliveFor.toNanos() * 2 / 3;
            if (now - risk < 0) {
                return risk;
            }
            if (now - until < 0) {
                if (!atRisk) {
                    atRisk = true;
                    LOG.log(Level.WARNING, "{0}: no beat is answered; its {1} leases are about to be lost", name, holdings.size());
                }
                return until;
            }
        }
        end(Stop.EXPIRED, "no beat was answered for " + ttl);
        return now + ttl.toNanos();
    }

    void end(Stop reason, String words) {
        synchronized (this) {
            if (endedFor != Stop.NONE) {
                return;
            }
            endedFor = reason;
        }
        LOG.log(Level.WARNING, "{0} ended ({1}): {2}", name, reason, words);
        onEnd.run();
    }

    synchronized void note(Lease lease, String words) {
        notes.put(lease.key(), words);
    }

    synchronized List<Progress> takeNotes() {
        List<Progress> told = new ArrayList<>();
        for (Iterator<Map.Entry<Lease.Id, String>> left = notes.entrySet().iterator();
                left.hasNext() && told.size() < Limits.BEAT_NOTES_MAX; ) {
            Map.Entry<Lease.Id, String> each = left.next();
            told.add(Progress.newBuilder()
                    .setJob(each.getKey().job())
                    .setFence(each.getKey().fence())
                    .setNote(each.getValue())
                    .build());
            left.remove();
        }
        return told;
    }

    /**
     * Opens a session, under one request_id until it is answered; null when it was told to stop. Throws what the server
     * refuses for good.
     */
    static Session open(Link link, OpenSessionRequest identity, BooleanSupplier stopped, Pause pause, Runnable onEnd)
            throws InterruptedException {
        Backoff backoff = new Backoff(Limits.BACKOFF_FIRST, Limits.BACKOFF_MAX);
        OpenSessionRequest request = identity.toBuilder().setRequestId(UUID.randomUUID().toString()).build();
        for (int failures = 1; !stopped.getAsBoolean(); failures++) {
            long sentAt = System.nanoTime();
            try {
                OpenSessionResponse answer = link.call(Limits.CONNECT_TIMEOUT, stub -> stub.openSession(request));
                Session session = new Session(answer, sentAt, onEnd);
                LOG.log(Level.INFO, "{0} opened, TTL {1}", session.name, session.ttl);
                return session;
            } catch (RotaException error) {
                if (!error.isTransient()) {
                    throw error;
                }
                if (error.code() == Status.Code.DEADLINE_EXCEEDED) {
                    link.renew("no session within the time of a call");
                }
                LOG.log(failures == 1 || failures == 10 ? Level.WARNING : Level.DEBUG, "no session yet: {0}", error.getMessage());
                pause.sleep(backoff.next(error.retryAfter()));
            }
        }
        return null;
    }

    /** Tells the coordinator; when it cannot be told the TTL does the rest. */
    void close(Link link, CloseMode mode, Duration limit) {
        CloseSessionRequest request = CloseSessionRequest.newBuilder().setSession(name).setMode(mode).build();
        try {
            link.call(limit, stub -> stub.closeSession(request));
        } catch (RotaException error) {
            LOG.log(Level.WARNING, "{0}: close was not answered: {1}", name, error.getMessage());
        }
    }

    /** A wait that a stop cuts short. */
    interface Pause {
        void sleep(Duration span) throws InterruptedException;
    }
}
