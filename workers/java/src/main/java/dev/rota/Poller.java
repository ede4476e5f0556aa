package dev.rota;

import com.google.common.util.concurrent.ListenableFuture;
import dev.rota.worker.v1.LeaseRequest;
import dev.rota.worker.v1.LeaseResponse;
import io.grpc.Status;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;

/** Asks for jobs: one call in flight, the same request_id until it is answered, the last batch acknowledged. */
final class Poller {
    private static final Logger LOG = System.getLogger("dev.rota.worker");
    private static final int NUMBER = 0;

    private final Crew crew;
    private final Session session;
    private final Backoff backoff = new Backoff(Limits.BACKOFF_FIRST, Limits.BACKOFF_MAX);
    private final Thread thread;
    private boolean stopping;
    private boolean again;
    private ListenableFuture<LeaseResponse> inFlight;
    private long notBefore = System.nanoTime();
    private long slowUntil = System.nanoTime();
    private long ackBatch;

    Poller(Crew crew) {
        this.crew = crew;
        this.session = crew.session;
        thread = new Thread(this::run, "rota-poller");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** No further polls. The one in flight may still be answered; {@link #abandon} cuts it off. */
    void stop() {
        synchronized (this) {
            stopping = true;
            notifyAll();
        }
        crew.engine.slots.wake();
    }

    void abandon() {
        stop();
        ListenableFuture<LeaseResponse> call;
        synchronized (this) {
            call = inFlight;
        }
        if (call != null) {
            call.cancel(true);
        }
    }

    /** Waits for its end; whether it came. */
    boolean join(Duration limit) throws InterruptedException {
        thread.join(Math.max(1, limit.toMillis()));
        return !thread.isAlive();
    }

    synchronized void slowDown() {
        long now = System.nanoTime();
        slowUntil = now + Limits.SLOW_DOWN_FOR.toNanos();
        notBefore = later(notBefore, now + slowPause());
    }

    /** The answer to the call in flight may be lost: makes the call again, at once. */
    void repeat() {
        ListenableFuture<LeaseResponse> call;
        synchronized (this) {
            again = true;
            call = inFlight;
        }
        if (call != null) {
            call.cancel(true);
        }
    }

    private synchronized boolean isStopping() {
        return stopping;
    }

    private void run() {
        try {
            for (int free = waitForSlots(); free > 0 && pause(); free = waitForSlots()) {
                if (!poll(free)) {
                    return;
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException error) {
            // Without polls the worker would look alive and do nothing; a new session starts afresh.
            LOG.log(Level.ERROR, "the poller failed", error);
            session.end(Stop.SESSION_GONE, "the poller failed: " + error);
        }
    }

    /**
     * Free slots to ask for; 0 when no poll shall follow. With few of many slots free it lingers for a moment: under load a
     * small poll would be followed at once by another one.
     */
    private int waitForSlots() throws InterruptedException {
        Slots slots = crew.engine.slots;
        int comfortable = Math.max(1, slots.total / 4);
        Long lingerUntil = null;
        synchronized (slots) {
            while (!isStopping()) {
                int free = slots.free();
                if (free >= comfortable) {
                    return Math.min(free, Limits.LEASE_JOBS_MAX);
                }
                long left = Long.MAX_VALUE / 2;
                if (free > 0) {
                    long now = System.nanoTime();
                    lingerUntil = lingerUntil == null ? now + Limits.SLOT_LINGER.toNanos() : lingerUntil;
                    left = lingerUntil - now;
                    if (left <= 0) {
                        return free;
                    }
                } else {
                    lingerUntil = null;
                }
                slots.await(Math.max(1, left));
            }
        }
        return 0;
    }

    /** Waits as the coordinator asked; false when no poll shall follow. */
    private synchronized boolean pause() throws InterruptedException {
        while (!stopping) {
            long left = notBefore - System.nanoTime();
            if (left <= 0) {
                return true;
            }
            wait(left / 1_000_000 + 1);
        }
        return false;
    }

    private synchronized boolean pause(Duration span) throws InterruptedException {
        long until = System.nanoTime() + span.toNanos();
        while (!stopping) {
            long left = until - System.nanoTime();
            if (left <= 0) {
                return true;
            }
            wait(left / 1_000_000 + 1);
        }
        return false;
    }

    /** One logical call; false when no other shall follow. */
    private boolean poll(int free) throws InterruptedException {
        // Jitter, so that idle workers do not come back in the same instant.
        Duration wait = Backoff.jittered(session.wait, 0.8, 1);
        LeaseRequest request = LeaseRequest.newBuilder()
                .setSession(session.name)
                .setPoller(NUMBER)
                .setRequestId(session.nextRequestId())
                .setAckBatch(ackBatch)
                .setCapacity(free)
                .setMaxBytes(Limits.SEND_BYTES_MAX)
                .setWait(Spans.message(wait))
                .build();
        while (true) {
            crew.beats.proveSoon(false);
            try {
                LeaseResponse response = answer(request, wait.plus(Limits.LEASE_ANSWER_GRACE));
                backoff.reset();
                receive(response, System.nanoTime());
                return true;
            } catch (RotaException error) {
                if (ackBatch != 0) {
                    crew.beats.proveSoon(true);
                }
                boolean repeat;
                synchronized (this) {
                    repeat = again && error.code() == Status.Code.CANCELLED && !stopping;
                }
                if (repeat) {
                    continue;
                }
                if (isStopping()) {
                    return false;
                }
                if (error.code() == Status.Code.NOT_FOUND) {
                    session.end(Stop.SESSION_GONE, error.getMessage());
                    return false;
                }
                if (!pauseAfter(error)) {
                    return false;
                }
                if (!error.isTransient()) {
                    return true;
                }
            }
        }
    }

    private LeaseResponse answer(LeaseRequest request, Duration limit) throws InterruptedException {
        ListenableFuture<LeaseResponse> call;
        synchronized (this) {
            // Begun here or never: what comes after a stop would reach the coordinator after the word that the worker leaves.
            if (stopping) {
                throw RotaException.of(Status.CANCELLED.asRuntimeException());
            }
            again = false;
            call = crew.link().future(limit).lease(request);
            inFlight = call;
        }
        try {
            return call.get();
        } catch (CancellationException error) {
            throw RotaException.of(Status.CANCELLED.asRuntimeException());
        } catch (ExecutionException error) {
            throw RotaException.of(error.getCause());
        } finally {
            synchronized (this) {
                inFlight = null;
            }
        }
    }

    /** Waits as the failure deserves; whether to go on. */
    private boolean pauseAfter(RotaException error) throws InterruptedException {
        boolean quiet = error.isTransient() && error.code() != Status.Code.RESOURCE_EXHAUSTED;
        LOG.log(quiet ? Level.DEBUG : Level.WARNING, "{0}: Lease: {1}", session.name, error.getMessage());
        Duration wait = backoff.next(error.retryAfter());
        if (error.code() == Status.Code.UNAVAILABLE) {
            wait = Spans.max(Spans.min(wait, Limits.CONNECT_BACKOFF_MAX), error.retryAfter());
        }
        crew.link().hasten(error);
        // A refusal is an answer, and not one that a quick repetition changes.
        return pause(error.isTransient() ? wait : Spans.max(wait, Limits.SLOW_DOWN));
    }

    private void receive(LeaseResponse response, long now) {
        boolean some = response.getLeasesCount() > 0;
        if (some) {
            List<Lease> leases = new ArrayList<>(response.getLeasesCount());
            response.getLeasesList().forEach(message -> leases.add(new Lease(message, session, now)));
            List<Lease> fresh = session.holdings.add(NUMBER, response.getBatch(), leases);
            crew.engine.slots.take(fresh.size());
            ackBatch = response.getBatch() != 0 ? response.getBatch() : ackBatch;
            crew.beats.proveSoon(true);
            crew.engine.start(fresh);
        }
        synchronized (this) {
            if (some && !response.hasNextPollAfter()) {
                // A coordinator that has still too much to do would not leave that out.
                slowUntil = now;
            }
            if (now - slowUntil < 0) {
                notBefore = later(notBefore, now + slowPause());
            }
            if (response.hasNextPollAfter()) {
                notBefore = later(notBefore, now + Spans.of(response.getNextPollAfter()).toNanos());
            }
        }
        crew.direct(response.getDirectivesList());
    }

    private static long later(long a, long b) {
        return a - b > 0 ? a : b;
    }

    /** Jitter, for workers that were told in the same instant. */
    private static long slowPause() {
        return Backoff.jittered(Limits.SLOW_DOWN, 0.8, 1.2).toNanos();
    }
}
