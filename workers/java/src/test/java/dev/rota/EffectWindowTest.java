package dev.rota;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rota.worker.v1.OpenSessionResponse;
import java.time.Duration;
import java.util.Map;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class EffectWindowTest {
    private static final Map<String, String> HEADERS = Map.of("Idempotency-Key", "key", "Rota-Fence", "7");
    private static final Duration HOUR = Duration.ofHours(1);

    private final Logger logger = Logger.getLogger("dev.rota.worker");
    private final StringBuilder words = new StringBuilder();
    private final Handler ear = new Handler() {
        @Override
        public void publish(LogRecord told) {
            words.append(told.getLevel()).append(' ').append(told.getMessage());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    };

    @BeforeEach
    void listen() {
        logger.setUseParentHandlers(false);
        logger.addHandler(ear);
        EffectWindow.forgetWarnings();
    }

    @AfterEach
    void listenNoMore() {
        logger.removeHandler(ear);
        logger.setUseParentHandlers(true);
    }

    private static Lease lease(Duration deadline) {
        Session session = new Session(
                OpenSessionResponse.newBuilder().setSession("sessions/s1").build(), System.nanoTime(), () -> {});
        var message = dev.rota.worker.v1.Lease.newBuilder()
                .setJob("jobs/1")
                .setType("work")
                .setFence(7)
                .setEffectKey("key");
        if (deadline != null) {
            message.getDeadlineBuilder().setSeconds(deadline.toSeconds());
        }
        return new Lease(message.build(), session, System.nanoTime());
    }

    /** What is said of a target that remembers keys for an hour. */
    private String told(Duration deadline, Duration redrive) {
        words.setLength(0);
        assertEquals(HEADERS, lease(deadline).effectHeaders(HOUR, redrive));
        return words.toString();
    }

    @Test
    void effectHeaders() {
        assertEquals(HEADERS, lease(null).effectHeaders());
        assertEquals("", words.toString());
    }

    @Test
    void howMuchTooEarlyATargetForgetsKeys() {
        Duration day = Duration.ofDays(1);
        Duration second = Duration.ofSeconds(1);
        assertEquals(0, EffectWindow.shortfallSeconds(day, HOUR, Duration.ZERO));
        assertEquals(1, EffectWindow.shortfallSeconds(day, day, second));
        assertEquals(1, EffectWindow.shortfallSeconds(second.multipliedBy(60), second.multipliedBy(30), second.multipliedBy(31)));
        assertEquals(Double.POSITIVE_INFINITY, EffectWindow.shortfallSeconds(HOUR, null, Duration.ZERO));
    }

    @Test
    void aTargetThatForgetsTooEarlyIsWarnedOfOnce() {
        assertEquals("", told(HOUR.dividedBy(2), Duration.ZERO));
        String warning = told(HOUR.multipliedBy(2), Duration.ZERO);
        assertTrue(warning.startsWith("WARNING job type work: its target forgets idempotency keys after 3600 s, 3600 s"), warning);
        assertEquals("", told(HOUR.multipliedBy(2), Duration.ZERO));
        EffectWindow.forgetWarnings();
        String unbounded = told(null, Duration.ZERO);
        assertTrue(unbounded.contains("no total timeout"), unbounded);
    }

    @Test
    void redrivesCount() {
        assertEquals(HEADERS, lease(HOUR.dividedBy(2)).effectHeaders(HOUR));
        assertTrue(words.toString().contains("1207800 s before the last possible attempt"), words.toString());
    }
}
