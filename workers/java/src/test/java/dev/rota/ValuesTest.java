package dev.rota;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rota.worker.v1.OpenSessionResponse;
import dev.rota.worker.v1.Result;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ValuesTest {
    private static Lease lease() {
        Session session = new Session(
                OpenSessionResponse.newBuilder().setSession("sessions/s1").build(), System.nanoTime(), () -> {});
        return new Lease(
                dev.rota.worker.v1.Lease.newBuilder().setJob("jobs/1").setFence(7).setEffectKey("key").build(),
                session,
                System.nanoTime());
    }

    @Test
    void textsAreCleanedAndCut() {
        assertEquals("ab", Text.clean("a\0b", 100));
        assertEquals("a\ufffdb", Text.clean("a\ud800b", 100));
        assertEquals("x".repeat(100), Text.clean("x".repeat(100), 100));
        String cut = Text.clean("é".repeat(100), 100);
        assertTrue(cut.getBytes(StandardCharsets.UTF_8).length <= 100 && cut.endsWith("… (cut)"));
        assertFalse(cut.contains("\ufffd"));
        assertEquals("é", Text.clean("éé", 3));
        assertEquals("", Text.clean(null, 3));
    }

    @Test
    void addresses() {
        Endpoint plain = Endpoint.resolve("rota.example", null, Map.of());
        assertEquals("rota.example", plain.host());
        assertEquals(7070, plain.port());
        assertFalse(plain.secure());
        assertTrue(Endpoint.resolve("grpcs://rota.example:443", null, Map.of()).secure());
        assertEquals("::1", Endpoint.resolve("[::1]:9", null, Map.of()).host());
        for (String address : new String[] {"ftp://a:1", "http://a/b", "a b", "a:99999", "://"}) {
            var error = assertThrows(IllegalArgumentException.class, () -> Endpoint.resolve(address, null, Map.of()));
            assertTrue(error.getMessage().startsWith("address: expected host:port"), error.getMessage());
        }
    }

    @Test
    void theKeyOfRotaDevIsFoundOnThisMachineOnly(@TempDir Path home) throws IOException {
        Files.createDirectories(home.resolve("dev"));
        Files.writeString(home.resolve("dev/api-key"), "rk_dev\n");
        Map<String, String> environment = Map.of("ROTA_HOME", home.toString());
        assertEquals("rk_dev", Endpoint.resolve("127.0.0.1:1", null, environment).apiKey());
        assertEquals("", Endpoint.resolve("rota.example:1", null, environment).apiKey());
        assertEquals("rk_given", Endpoint.resolve("127.0.0.1:1", "rk_given", environment).apiKey());
    }

    @Test
    void halfAnIdentityIsRefused() {
        Map<String, String> environment = Map.of("ROTA_TLS_CERT", "cert.pem");
        var error = assertThrows(IllegalArgumentException.class, () -> Endpoint.resolve("a", "", environment));
        assertTrue(error.getMessage().contains("ROTA_TLS_KEY"));
    }

    @Test
    void whatErrorsMean() {
        assertEquals(Result.OutcomeCase.FAILED, Outcome.ofError(lease(), new IllegalStateException("x"), "").kind());
        Outcome fatal = Outcome.ofError(lease(), JobException.fatal("x"), "");
        assertTrue(fatal.result.getFailed().hasRetryable() && !fatal.result.getFailed().getRetryable());
        Outcome later = Outcome.ofError(lease(), JobException.retry("x", Duration.ofHours(2)), "");
        assertEquals(3600, later.result.getFailed().getRetryAfter().getSeconds());
        assertEquals(Result.OutcomeCase.RELEASED, Outcome.ofError(lease(), JobException.release("x", Duration.ZERO), "").kind());
        assertEquals(Result.OutcomeCase.FAILED, Outcome.ofError(lease(), new StoppedException("x"), "").kind());
        Lease cancelled = lease();
        cancelled.askToStop(Stop.CANCEL, true);
        assertEquals(Result.OutcomeCase.CANCELLED, Outcome.ofError(cancelled, new InterruptedException(), "").kind());
        assertEquals(Result.OutcomeCase.FAILED, Outcome.ofError(cancelled, new IllegalStateException("x"), "").kind());
    }

    @Test
    void aResultBeyondTheLimitFailsForGood() {
        Outcome made = Outcome.succeeded(lease(), new byte[65_537], "");
        assertTrue(made.kind() == Result.OutcomeCase.FAILED && !made.result.getFailed().getRetryable());
        assertEquals(Result.OutcomeCase.SUCCEEDED, Outcome.succeeded(lease(), "x".repeat(65_536), "").kind());
    }

    @Test
    void aLeaseIsDecidedOnceAndTheGravestReasonStays() {
        Lease lease = lease();
        assertTrue(lease.begin(Thread.currentThread()));
        assertFalse(lease.begin(Thread.currentThread()));
        assertFalse(lease.settleUnstarted());
        assertTrue(lease.settle());
        assertFalse(lease.settle());
        assertTrue(lease.askToStop(Stop.LOST, false));
        assertFalse(lease.askToStop(Stop.CANCEL, false));
        assertEquals(Stop.LOST, lease.stopReason());
        assertThrows(StoppedException.class, lease::throwIfStopped);
    }

    @Test
    void badOptionsAreNamed() {
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Worker.builder().slots(0)).getMessage().startsWith("slots"));
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Worker.builder().queues()).getMessage().startsWith("queues"));
        assertThrows(IllegalStateException.class, () -> Worker.builder().build());
        assertThrows(IllegalArgumentException.class, () -> Worker.builder().handle("a", l -> null).handle("a", l -> null));
        assertThrows(
                IllegalArgumentException.class,
                () -> NewJob.of("t").delay(Duration.ofSeconds(1)).runTime(java.time.Instant.now()).build());
    }
}
