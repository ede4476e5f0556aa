package dev.rota;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Doubling waits with jitter, so that many workers do not come back in the same instant. */
final class Backoff {
    private final Duration first;
    private final Duration most;
    private Duration bound;

    Backoff(Duration first, Duration most) {
        this.first = first;
        this.most = most;
        this.bound = first;
    }

    synchronized void reset() {
        bound = first;
    }

    /** Between half and all of the current bound; not less than what the server asked for. */
    synchronized Duration next(Duration atLeast) {
        Duration wait = jittered(bound, 0.5, 1);
        Duration doubled = bound.multipliedBy(2);
        bound = doubled.compareTo(most) < 0 ? doubled : most;
        return wait.compareTo(atLeast) < 0 ? atLeast : wait;
    }

    Duration next() {
        return next(Duration.ZERO);
    }

    static Duration jittered(Duration span, double from, double to) {
        return Duration.ofNanos((long) (span.toNanos() * ThreadLocalRandom.current().nextDouble(from, to)));
    }
}
