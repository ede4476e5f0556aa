package dev.rota;

import dev.rota.worker.v1.CompleteRequest;
import dev.rota.worker.v1.CompleteResponse;
import io.grpc.Status;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;

/**
 * Reports outcomes: many in one call, each until it is answered or its lease is lost. One that is refused never holds up the
 * others of its call.
 */
final class Completions {
    private static final Logger LOG = System.getLogger("dev.rota.worker");
    /** Given by gRPC itself, without a word of Rota's, to a request beyond the server's receive limit. */
    private static final String TOO_LARGE = "larger than max";

    private record Postponed(long at, Outcome item) {}

    private final Crew crew;
    private final Session session;
    private final Thread thread;
    private final Backoff backoff = new Backoff(Limits.BACKOFF_FIRST, Limits.BACKOFF_MAX);
    private final Deque<Outcome> queue = new ArrayDeque<>();
    /** Refused one by one for the moment: each goes again at its own instant and holds up nobody. */
    private final List<Postponed> postponed = new ArrayList<>();
    private int unanswered;
    private boolean stopped;

    Completions(Crew crew) {
        this.crew = crew;
        this.session = crew.session;
        thread = new Thread(this::run, "rota-completions");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    synchronized void stop() {
        stopped = true;
        notifyAll();
    }

    boolean join(Duration limit) throws InterruptedException {
        thread.join(Math.max(1, limit.toMillis()));
        return !thread.isAlive();
    }

    /** Takes an outcome, from any thread; never waits. */
    synchronized void put(Outcome item) {
        unanswered++;
        queue.add(item);
        notifyAll();
    }

    /** Waits until everything put so far is answered or dropped; whether it is. */
    synchronized boolean flush(Duration limit) throws InterruptedException {
        long until = System.nanoTime() + limit.toNanos();
        while (unanswered > 0) {
            long left = until - System.nanoTime();
            if (left <= 0) {
                return false;
            }
            wait(left / 1_000_000 + 1);
        }
        return true;
    }

    private void run() {
        try {
            while (waitForSome()) {
                linger();
                List<Outcome> batch = nextBatch();
                try {
                    send(batch);
                } catch (RuntimeException error) {
                    // Nothing that one batch holds may end the reporting of all others.
                    LOG.log(Level.ERROR, "outcomes could not be sent, or their answer not be read", error);
                    long at = System.nanoTime() + Limits.SLOW_DOWN.toNanos();
                    batch.forEach(item -> postpone(at, item));
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        int rest;
        synchronized (this) {
            rest = queue.size() + postponed.size();
            queue.clear();
            postponed.clear();
        }
        drop(rest);
    }

    /** False when it was told to stop. */
    private synchronized boolean waitForSome() throws InterruptedException {
        while (!stopped) {
            long now = System.nanoTime();
            Long next = null;
            for (Iterator<Postponed> left = postponed.iterator(); left.hasNext(); ) {
                Postponed each = left.next();
                if (each.at() - now <= 0) {
                    queue.add(each.item());
                    left.remove();
                } else if (next == null || each.at() - next < 0) {
                    next = each.at();
                }
            }
            if (!queue.isEmpty()) {
                return true;
            }
            if (next == null) {
                wait();
            } else {
                wait((next - now) / 1_000_000 + 1);
            }
        }
        return false;
    }

    /** Waits for company while more outcomes are expected and do come: at most 5 ms. */
    private void linger() throws InterruptedException {
        long until = System.nanoTime() + Limits.OUTCOME_LINGER.toNanos();
        int seen = 0;
        while (true) {
            int waiting;
            synchronized (this) {
                waiting = queue.size();
            }
            boolean busy = crew.engine.slots.used() > 0;
            if (waiting <= seen || waiting >= session.maxResults || !busy || System.nanoTime() - until >= 0) {
                return;
            }
            seen = waiting;
            Thread.sleep(1);
        }
    }

    private List<Outcome> nextBatch() {
        List<Outcome> batch = new ArrayList<>();
        int dropped = 0;
        int size = 0;
        synchronized (this) {
            while (!queue.isEmpty() && batch.size() < session.maxResults) {
                Outcome first = queue.peek();
                if (!batch.isEmpty() && size + first.size > Limits.SEND_BYTES_MAX) {
                    break;
                }
                queue.remove();
                if (first.lease.isWorthless() || session.endedFor() != Stop.NONE) {
                    dropped++;
                    continue;
                }
                size += first.size;
                batch.add(first);
            }
        }
        drop(dropped);
        return batch;
    }

    private void drop(int count) {
        if (count > 0) {
            LOG.log(Level.INFO, "{0}: {1} outcomes dropped, their leases are lost", session.name, count);
            crew.engine.counts.dropped.add(count);
            answered(count);
        }
    }

    private synchronized void answered(int count) {
        unanswered -= count;
        notifyAll();
    }

    private synchronized void postpone(long at, Outcome item) {
        postponed.add(new Postponed(at, item));
    }

    private void send(List<Outcome> batch) throws InterruptedException {
        if (batch.isEmpty()) {
            return;
        }
        CompleteRequest.Builder request = CompleteRequest.newBuilder().setSession(session.name);
        batch.forEach(item -> request.addResults(item.result));
        try {
            CompleteResponse answer = crew.link().call(Limits.COMPLETE_TIMEOUT, stub -> stub.complete(request.build()));
            backoff.reset();
            settle(batch, answer);
        } catch (RotaException error) {
            onRefusal(batch, error);
        }
    }

    /** The call as a whole failed. */
    private void onRefusal(List<Outcome> batch, RotaException error) throws InterruptedException {
        if (error.code() == Status.Code.NOT_FOUND) {
            session.end(Stop.SESSION_GONE, error.getMessage());
            drop(batch.size());
            return;
        }
        boolean large = error.code() == Status.Code.RESOURCE_EXHAUSTED && error.getMessage().contains(TOO_LARGE);
        if (error.code() == Status.Code.INVALID_ARGUMENT || large) {
            if (batch.size() == 1) {
                reject(batch.get(0), error);
                return;
            }
            // One of them is at fault, and the others must not wait for it.
            int half = batch.size() / 2;
            send(batch.subList(0, half));
            send(batch.subList(half, batch.size()));
            return;
        }
        Duration wait = backoff.next(error.retryAfter());
        wait = error.isTransient() ? wait : Spans.max(wait, Limits.SLOW_DOWN);
        LOG.log(
                error.isTransient() ? Level.DEBUG : Level.ERROR,
                "{0}: {1} outcomes not taken, again in {2}: {3}",
                session.name,
                batch.size(),
                wait,
                error.getMessage());
        synchronized (this) {
            for (int at = batch.size() - 1; at >= 0; at--) {
                queue.addFirst(batch.get(at));
            }
            long until = System.nanoTime() + wait.toNanos();
            for (long left = wait.toNanos(); left > 0 && !stopped; left = until - System.nanoTime()) {
                wait(left / 1_000_000 + 1);
            }
        }
    }

    private void settle(List<Outcome> batch, CompleteResponse response) {
        for (int at = 0; at < batch.size(); at++) {
            Outcome item = batch.get(at);
            if (at >= response.getStatusesCount()) {
                // A malformed answer says nothing of the rest.
                postpone(System.nanoTime() + Limits.SLOW_DOWN.toNanos(), item);
            } else if (response.getStatuses(at).getStatus().getCode() == Status.Code.OK.value()) {
                session.holdings.take(item.lease.key());
                crew.engine.counts.count(item.kind());
                answered(1);
            } else {
                onStatus(item, RotaException.of(response.getStatuses(at).getStatus()));
            }
        }
    }

    private void onStatus(Outcome item, RotaException error) {
        if (error.isTransient()) {
            Duration wait = Spans.min(Limits.BACKOFF_FIRST.multipliedBy(1L << Math.min(item.repeated, 7)), Limits.BACKOFF_MAX);
            item.repeated++;
            postpone(System.nanoTime() + Spans.max(wait, error.retryAfter()).toNanos(), item);
        } else if (error.code() == Status.Code.INVALID_ARGUMENT) {
            reject(item, error);
        } else {
            // Final: a stale fence, another outcome stored, another owner.
            Level level = error.code() == Status.Code.ABORTED ? Level.INFO : Level.ERROR;
            LOG.log(level, "{0}: outcome {1} refused: {2}", item.lease, item.kind(), error.getMessage());
            crew.lose(item.lease.key());
            drop(1);
        }
    }

    /** A content that the coordinator cannot take: the attempt fails, and says why. */
    private void reject(Outcome item, RotaException error) {
        LOG.log(Level.ERROR, "{0}: outcome {1} refused: {2}", item.lease, item.kind(), error.getMessage());
        if (item.rejected) {
            // Even the plain failure is refused. The coordinator ends the attempt at its run timeout.
            session.holdings.take(item.lease.key());
            drop(1);
            return;
        }
        Outcome instead = item.rejectedFor(error.getMessage());
        synchronized (this) {
            queue.addFirst(instead);
        }
    }
}
