package dev.rota;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Between the contract's spans and instants and Java's. */
final class Spans {
    private Spans() {}

    static Duration of(com.google.protobuf.Duration span) {
        return Duration.ofSeconds(span.getSeconds(), span.getNanos());
    }

    /** What was given, or something else where that is zero. */
    static Duration of(com.google.protobuf.Duration span, Duration otherwise) {
        Duration found = of(span);
        return found.isZero() || found.isNegative() ? otherwise : found;
    }

    static com.google.protobuf.Duration message(Duration span) {
        return com.google.protobuf.Duration.newBuilder().setSeconds(span.getSeconds()).setNanos(span.getNano()).build();
    }

    static Instant of(Timestamp instant) {
        return Instant.ofEpochSecond(instant.getSeconds(), instant.getNanos());
    }

    static Timestamp message(Instant instant) {
        return Timestamp.newBuilder().setSeconds(instant.getEpochSecond()).setNanos(instant.getNano()).build();
    }

    static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    static Duration max(Duration a, Duration b) {
        return a.compareTo(b) > 0 ? a : b;
    }
}
