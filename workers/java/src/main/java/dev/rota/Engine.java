package dev.rota;

import dev.rota.worker.v1.CloseMode;
import dev.rota.worker.v1.OpenSessionRequest;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;

/**
 * Runs sessions one after the other, and ends in order. A session that ends takes its leases along and is followed by a new
 * one; a stop drains: no new jobs, unstarted ones go back at once, running ones finish, their outcomes are answered, the
 * session is closed. Beats go on until then.
 */
final class Engine {
    private static final Logger LOG = System.getLogger("dev.rota.worker");

    final Link link;
    final Slots slots;
    final Counts counts;
    private final Map<String, Worker.Handler> handlers;
    private final OpenSessionRequest identity;
    private final Executor executor;
    private final Telemetry telemetry;
    private final Duration drainTimeout;
    private final Duration unwindTimeout;
    private final boolean interrupt;
    private final Object wake = new Object();
    private final Deque<Lease> waiting = new ArrayDeque<>();
    private int running;
    private volatile boolean draining;
    private volatile boolean hurried;

    Engine(Worker.Builder settings, Endpoint endpoint, OpenSessionRequest identity, Executor executor, Counts counts) {
        link = new Link(endpoint);
        slots = new Slots(settings.slots);
        this.counts = counts;
        this.identity = identity;
        this.executor = executor;
        handlers = Map.copyOf(settings.handlers);
        telemetry = new Telemetry(settings.openTelemetry);
        drainTimeout = settings.drainTimeout;
        unwindTimeout = settings.unwindTimeout;
        interrupt = settings.interrupt;
    }

    void drain() {
        draining = true;
        signal();
    }

    void hurry() {
        hurried = true;
        drain();
    }

    private void signal() {
        synchronized (wake) {
            wake.notifyAll();
        }
        slots.wake();
    }

    /** Works until it is told to leave. Throws what the server refuses for good. */
    void run() throws InterruptedException {
        Backoff backoff = new Backoff(Limits.BACKOFF_FIRST, Limits.BACKOFF_MAX);
        try {
            while (!draining) {
                Session session = Session.open(link, identity, () -> draining, this::sleep, this::signal);
                if (session == null) {
                    return;
                }
                counts.sessions.increment();
                long openedAt = System.nanoTime();
                Crew crew = new Crew(this, session);
                crew.start();
                synchronized (wake) {
                    while (!draining && session.endedFor() == Stop.NONE) {
                        wake.wait();
                    }
                }
                if (session.endedFor() == Stop.NONE) {
                    leave(crew);
                }
                crew.dismiss();
                if (session.endedFor() != Stop.NONE) {
                    lose(session.holdings.takeAll(), session.endedFor());
                }
                if (System.nanoTime() - openedAt > session.ttl.toNanos()) {
                    backoff.reset();
                } else if (!draining) {
                    sleep(backoff.next());
                }
            }
        } finally {
            link.close();
        }
    }

    private void sleep(Duration span) throws InterruptedException {
        long until = System.nanoTime() + span.toNanos();
        synchronized (wake) {
            for (long left = span.toNanos(); left > 0 && !draining; left = until - System.nanoTime()) {
                wake.wait(left / 1_000_000 + 1);
            }
        }
    }

    /** How long a phase of leaving may take. */
    private Duration patience(Duration limit) {
        return hurried ? Spans.min(limit, Limits.AT_ONCE) : limit;
    }

    private void leave(Crew crew) throws InterruptedException {
        Session session = crew.session;
        long startedAt = System.nanoTime();
        LOG.log(Level.INFO, "{0}: leaving; {1} jobs run", session.name, slots.used());
        session.drain();
        crew.poller.stop();
        session.close(link, CloseMode.CLOSE_MODE_DRAIN, patience(Limits.CLOSE_TIMEOUT));
        giveBackUnstarted(session);
        // The coordinator answers the parked poll; what it grants still goes back.
        if (!crew.poller.join(patience(Limits.PARKED_POLL_GRACE))) {
            crew.poller.abandon();
            crew.poller.join(Limits.CLOSE_TIMEOUT);
        }
        giveBackUnstarted(session);
        waitIdle(session, drainTimeout.minusNanos(System.nanoTime() - startedAt), true);
        if (slots.used() > 0 && session.endedFor() == Stop.NONE) {
            LOG.log(Level.WARNING, "{0} handlers have not ended in time and are stopped", slots.used());
            session.holdings.all().forEach(lease -> stop(lease, Stop.LEAVING));
            waitIdle(session, unwindTimeout, true);
            if (hurried) {
                waitIdle(session, patience(unwindTimeout), false);
            }
            for (Lease lease : session.holdings.all()) {
                if (lease.settle()) {
                    deliver(Outcome.released(lease, "the worker leaves before the handler ended", Duration.ZERO));
                }
            }
        }
        // A TTL at least: for so long outcomes are worth something although nobody answers.
        if (!crew.completions.flush(patience(Spans.max(Limits.FLUSH_TIMEOUT, session.ttl)))) {
            LOG.log(Level.ERROR, "{0}: leaving with outcomes that were not answered", session.name);
        }
        if (session.endedFor() == Stop.NONE) {
            session.close(link, CloseMode.CLOSE_MODE_NOW, patience(Limits.CLOSE_TIMEOUT));
        }
        LOG.log(Level.INFO, "{0}: left after {1}", session.name, Duration.ofNanos(System.nanoTime() - startedAt));
    }

    private void waitIdle(Session session, Duration limit, boolean heedHurry) throws InterruptedException {
        long until = System.nanoTime() + limit.toNanos();
        synchronized (slots) {
            while (slots.used() > 0 && session.endedFor() == Stop.NONE && !(heedHurry && hurried)) {
                long left = until - System.nanoTime();
                if (left <= 0) {
                    return;
                }
                slots.await(left);
            }
        }
    }

    private void giveBackUnstarted(Session session) {
        for (Lease lease : session.holdings.all()) {
            withdraw(lease, "the worker leaves", Duration.ZERO);
        }
    }

    /** Fresh leases, from the poller; their slots are taken already. */
    void start(List<Lease> leases) {
        counts.leased.add(leases.size());
        for (Lease lease : leases) {
            if (!handlers.containsKey(lease.type())) {
                LOG.log(Level.ERROR, "{0}: no handler for this type; given back", lease);
                withdraw(lease, "no handler for this type", Limits.NO_HANDLER_DELAY);
                slots.give(1);
                continue;
            }
            synchronized (waiting) {
                waiting.add(lease);
            }
        }
        startWaiting();
    }

    /** In the order of the answers, which is that of the queue; never more than there are slots, whatever was sent. */
    private void startWaiting() {
        synchronized (waiting) {
            while (running < slots.total && !waiting.isEmpty()) {
                Lease lease = waiting.remove();
                running++;
                executor.execute(() -> {
                    try {
                        runOne(lease);
                    } finally {
                        synchronized (waiting) {
                            running--;
                        }
                        slots.give(1);
                        startWaiting();
                    }
                });
            }
        }
    }

    void stop(Lease lease, Stop reason) {
        lease.askToStop(reason, interrupt);
    }

    /** Leases that are gone: their handlers stop, their outcomes are dropped. */
    void lose(List<Lease> leases, Stop why) {
        if (leases.isEmpty()) {
            return;
        }
        counts.lost.add(leases.size());
        LOG.log(Level.WARNING, "{0} leases lost ({1}), first {2}", leases.size(), why, leases.get(0));
        leases.forEach(lease -> stop(lease, why));
    }

    /** Ends a lease without waiting for its handler, which keeps its slot until it returns. */
    void giveUp(Lease lease) {
        if (lease.settleUnstarted()) {
            deliver(Outcome.released(lease, "it could not be started in time", Duration.ZERO));
        } else if (lease.settle()) {
            deliver(Outcome.timedOut(lease, ""));
        }
    }

    /** Ends a lease whose handler has not started. */
    private void withdraw(Lease lease, String reason, Duration delay) {
        if (lease.settleUnstarted()) {
            deliver(Outcome.released(lease, reason, delay));
            boolean queued;
            synchronized (waiting) {
                queued = waiting.remove(lease);
            }
            if (queued) {
                slots.give(1);
            }
        }
    }

    /** Hands on an outcome that is worth sending. */
    private void deliver(Outcome item) {
        if (item.lease.isWorthless()) {
            counts.dropped.increment();
        } else {
            if (item.result.hasFailed()) {
                var failure = item.result.getFailed().getFailure();
                LOG.log(Level.WARNING, "{0} failed: {1}: {2}", item.lease, failure.getType(), failure.getMessage());
            }
            item.lease.session.completions.put(item);
        }
    }

    private void runOne(Lease lease) {
        if (!admit(lease)) {
            return;
        }
        Outcome outcome = telemetry.run(lease, parent -> {
            try {
                return new Telemetry.Ran(Outcome.succeeded(lease, handlers.get(lease.type()).handle(lease), parent), null);
            } catch (Throwable error) {
                return new Telemetry.Ran(Outcome.ofError(lease, error, parent), error);
            }
        });
        lease.returned();
        // What was meant for this handler must not meet the next one.
        Thread.interrupted();
        if (lease.settle()) {
            deliver(outcome);
        }
    }

    /** Whether the handler starts; when it does not, the lease has its outcome. */
    private boolean admit(Lease lease) {
        Stop ended = lease.session.endedFor();
        if (ended != Stop.NONE) {
            // It came with the last answer of a session that is no more.
            lease.askToStop(ended, false);
        }
        Stop asked = lease.stopReason();
        if (asked == Stop.NONE && !lease.session.isDraining()) {
            // Not so when it was withdrawn, and thereby has its outcome.
            return lease.begin(Thread.currentThread());
        }
        if (lease.settleUnstarted()) {
            deliver(
                    asked == Stop.CANCEL
                            ? Outcome.cancelled(lease, "cancelled before it started", "")
                            : Outcome.released(lease, "the worker leaves", Duration.ZERO));
        }
        return false;
    }
}
