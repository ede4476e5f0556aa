package dev.rota.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.rota.JobException;
import dev.rota.Lease;
import dev.rota.NewJob;
import dev.rota.RotaException;
import dev.rota.Stop;
import dev.rota.StoppedException;
import dev.rota.Worker;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/** The Java SDK under the conformance suite: see workers/conformance/README.md for the lines it reads and writes. */
public final class Main {
    private static final int SHOWN_BYTES = 1_000;
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, CountDownLatch> FINISHING = new ConcurrentHashMap<>();

    private Main() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonObject config = JsonParser.parseString(lines.readLine()).getAsJsonObject();
        Worker.Builder builder = Worker.builder()
                .address(config.get("address").getAsString())
                .apiKey(config.get("api_key").getAsString())
                .queues(JSON.fromJson(config.get("queues"), String[].class))
                .slots(config.get("slots").getAsInt())
                .drainTimeout(seconds(config.get("drain_timeout").getAsDouble()));
        if (config.has("trace") && config.get("trace").getAsBoolean()) {
            builder.openTelemetry(OpenTelemetrySdk.builder()
                    .setTracerProvider(SdkTracerProvider.builder().build())
                    .build());
        }
        config.getAsJsonObject("types").entrySet().forEach(each -> builder.handle(each.getKey(), handler(each.getValue())));
        Worker worker = builder.build();
        Thread listener = new Thread(() -> listen(lines));
        listener.setDaemon(true);
        listener.start();
        Thread main = Thread.currentThread();
        // A machine that ends by a signal says 143; this one says that it left in order.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> haltAfter(main)));
        try {
            worker.run();
        } catch (RotaException refused) {
            tell("refused", Map.of("reason", refused.reason(), "message", refused.getMessage()));
            Runtime.getRuntime().halt(1);
        }
        tell("left", worker.counts());
        Runtime.getRuntime().halt(0);
    }

    private static void haltAfter(Thread main) {
        try {
            main.join();
        } catch (InterruptedException error) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static void listen(BufferedReader lines) {
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                finish(JsonParser.parseString(line).getAsJsonObject().get("finish").getAsString()).countDown();
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static synchronized void tell(String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>(fields);
        line.put("event", event);
        OUT.println(JSON.toJson(line));
    }

    private static CountDownLatch finish(String job) {
        return FINISHING.computeIfAbsent(job, name -> new CountDownLatch(1));
    }

    private static Duration seconds(double given) {
        return Duration.ofNanos((long) (given * 1e9));
    }

    private static Worker.Handler handler(JsonElement behaviour) {
        String name = behaviour.isJsonPrimitive()
                ? behaviour.getAsString()
                : behaviour.getAsJsonObject().keySet().iterator().next();
        JsonElement argument = behaviour.isJsonPrimitive() ? null : behaviour.getAsJsonObject().get(name);
        return lease -> {
            started(lease);
            Watch watch = new Watch(lease);
            try {
                return act(lease, name, argument);
            } finally {
                // The thread may be interrupted, which the watch must survive.
                boolean interrupted = Thread.interrupted();
                watch.end();
                tell("ended", Map.of("job", lease.job(), "fence", lease.fence()));
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        };
    }

    private static void started(Lease lease) {
        int size = lease.payload().data().size();
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("job", lease.job());
        fields.put("fence", lease.fence());
        fields.put("attempt", lease.attempt());
        fields.put("type", lease.type());
        fields.put("payload", size <= SHOWN_BYTES ? lease.text() : "");
        fields.put("payload_bytes", size);
        fields.put("effect_key", lease.effectKey());
        fields.put("effect_headers", lease.effectHeaders());
        fields.put("traceparent", lease.traceparent());
        fields.put("headers", lease.headers());
        fields.put("remaining", Math.min(lease.remaining().toSeconds(), 1_000_000_000L));
        tell("started", fields);
    }

    private static Object act(Lease lease, String name, JsonElement argument) throws Exception {
        switch (name) {
            case "return":
                return argument == null ? "ok" : argument.getAsString();
            case "hold":
                finish(lease.job()).await();
                return "finished";
            case "deaf", "block":
                sleepDeaf(seconds(argument.getAsDouble()));
                return name.equals("deaf") ? "late" : "blocked";
            case "fail":
                throw failure(argument == null ? new JsonObject() : argument.getAsJsonObject());
            case "result_bytes":
                return new byte[argument.getAsInt()];
            case "release":
                throw JobException.release("the case says so", argument == null ? Duration.ZERO : seconds(argument.getAsDouble()));
            case "unasked":
                throw new StoppedException("nobody asked");
            case "unknown_effect":
                throw JobException.effectUnknown("no answer from the target", null);
            case "spawn":
                for (int n = 0; n < argument.getAsInt(); n++) {
                    lease.spawn(NewJob.of("child", Map.of("n", n)));
                }
                return "spawned";
            case "receipt":
                lease.receipt(argument.getAsString());
                return "receipted";
            case "progress":
                lease.progress(argument.getAsString());
                finish(lease.job()).await();
                return "finished";
            default:
                throw new IllegalArgumentException("no such behaviour: " + name);
        }
    }

    private static void sleepDeaf(Duration span) {
        long until = System.nanoTime() + span.toNanos();
        for (long left = span.toNanos(); left > 0; left = until - System.nanoTime()) {
            try {
                Thread.sleep(left / 1_000_000 + 1);
            } catch (InterruptedException wish) {
                continue;
            }
        }
    }

    private static Exception failure(JsonObject given) {
        String message = given.has("message") ? given.get("message").getAsString() : "went wrong";
        if (given.has("text")) {
            message = "before\0middle\ud800after";
        }
        if (given.has("message_bytes")) {
            message = "é".repeat(given.get("message_bytes").getAsInt() / 2);
        }
        if (given.has("retryable") && !given.get("retryable").getAsBoolean()) {
            return JobException.fatal(message);
        }
        if (given.has("retry_after")) {
            return JobException.retry(message, seconds(given.get("retry_after").getAsDouble()));
        }
        if (given.has("type")) {
            return JobException.failed(given.get("type").getAsString(), message, "");
        }
        return new IllegalStateException(message);
    }

    /** Tells once that the attempt is at risk, and once for each reason to stop, before the handler has ended. */
    private static final class Watch {
        private final Lease lease;
        private final Set<String> told = new HashSet<>();
        private final Thread thread;

        private Watch(Lease lease) {
            this.lease = lease;
            thread = new Thread(this::run);
            thread.setDaemon(true);
            thread.start();
        }

        private void end() throws InterruptedException {
            thread.interrupt();
            thread.join();
        }

        private void run() {
            boolean over = false;
            while (!over) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException error) {
                    over = true;
                }
                look();
            }
        }

        private void look() {
            if (lease.atRisk()) {
                once("at_risk", "at_risk", Map.of());
            }
            String reason = reason(lease.stopReason());
            if (!reason.isEmpty()) {
                once(reason, "stopping", Map.of("reason", reason));
            }
        }

        private void once(String key, String event, Map<String, String> more) {
            if (told.add(key)) {
                Map<String, Object> fields = new LinkedHashMap<>(more);
                fields.put("job", lease.job());
                fields.put("fence", lease.fence());
                tell(event, fields);
            }
        }

        private static String reason(Stop stop) {
            return switch (stop) {
                case NONE -> "";
                case TIMED_OUT -> "timeout";
                case LEAVING -> "leaving";
                case CANCEL -> "cancel";
                default -> "lost";
            };
        }
    }
}
