package dev.rota;

import dev.rota.worker.v1.OpenSessionRequest;
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Takes jobs from queues and runs up to {@code slots} of them at a time. Threads of its own keep the session alive, whatever
 * handlers do. SIGTERM and SIGINT are heeded by {@link #run} where it was asked to.
 */
public final class Worker implements AutoCloseable {
    /**
     * Runs one attempt of a job. What it returns is the job's result: null, bytes, a CharSequence, a {@link Payload} or
     * anything with a JSON form, up to 64 KiB. What it throws fails the attempt; {@link JobException} says more, and a
     * {@link StoppedException} or InterruptedException says that it stopped because it was asked to.
     */
    @FunctionalInterface
    public interface Handler {
        Object handle(Lease lease) throws Exception;
    }

    private final Builder settings;
    private final Endpoint endpoint;
    private final Counts counts = new Counts();
    private Engine engine;
    private boolean stopped;

    private Worker(Builder settings) {
        this.settings = settings;
        endpoint = Endpoint.resolve(settings.address, settings.apiKey, System.getenv());
    }

    /** A worker with the defaults. */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Works until it is stopped, by {@link #stop}, {@link #close}, the coordinator, or a shutdown of the virtual machine,
     * which SIGTERM and SIGINT begin: it then drains before the machine ends. Blocks.
     *
     * @throws RotaException when the server refuses the session, for example for want of a valid API key; an unreachable
     *     server is waited for
     */
    public void run() throws InterruptedException {
        ExecutorService own = settings.executor == null ? threads() : null;
        Engine made;
        synchronized (this) {
            if (engine != null) {
                throw new IllegalStateException("the worker runs already");
            }
            if (stopped) {
                return;
            }
            made = new Engine(settings, endpoint, identity(), own == null ? settings.executor : own, counts);
            engine = made;
        }
        Object over = new Object();
        boolean[] ended = {false};
        Thread hook = new Thread(() -> awaitEnd(made, over, ended), "rota-shutdown");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            made.run();
        } finally {
            synchronized (over) {
                ended[0] = true;
                over.notifyAll();
            }
            if (own != null) {
                own.shutdownNow();
            }
            removeHook(hook);
            synchronized (this) {
                engine = null;
            }
        }
    }

    /** Drains and ends, for good; from any thread, also before {@link #run}. */
    public synchronized void stop() {
        stopped = true;
        if (engine != null) {
            engine.drain();
        }
    }

    /** Ends without waiting for handlers. */
    public synchronized void stopNow() {
        stopped = true;
        if (engine != null) {
            engine.hurry();
        }
    }

    /** As {@link #stop}; {@link #run} returns once it has drained. */
    @Override
    public void close() {
        stop();
    }

    /** What it has done so far. */
    public Map<String, Long> counts() {
        return counts.snapshot();
    }

    private OpenSessionRequest identity() {
        return OpenSessionRequest.newBuilder()
                .setWorker(Text.clean(settings.name, Limits.IDENTITY_BYTES_MAX))
                .setSdk(Version.SDK)
                .setBuildId(settings.buildId)
                .addAllQueues(settings.queues)
                .addAllTypes(settings.handlers.keySet())
                .setSlots(settings.slots)
                .putAllLabels(settings.labels)
                .setProtocolVersion(Version.PROTOCOL)
                .build();
    }

    private static void awaitEnd(Engine engine, Object over, boolean[] ended) {
        engine.drain();
        synchronized (over) {
            while (!ended[0]) {
                try {
                    over.wait();
                } catch (InterruptedException error) {
                    return;
                }
            }
        }
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            // It runs, and is done.
            return;
        }
    }

    private static ExecutorService threads() {
        return Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work, "rota-handler");
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Says what a worker takes. */
    public static final class Builder {
        String address;
        String apiKey;
        List<String> queues = List.of("default");
        int slots = 10;
        String name = defaultName();
        String buildId = "";
        Map<String, String> labels = Map.of();
        Duration drainTimeout = Limits.DRAIN_TIMEOUT;
        Duration unwindTimeout = Limits.UNWIND_TIMEOUT;
        boolean interrupt = true;
        Executor executor;
        OpenTelemetry openTelemetry = GlobalOpenTelemetry.get();
        final Map<String, Handler> handlers = new TreeMap<>();

        private Builder() {}

        /** host:port, grpc://host:port or grpcs://host:port; default: ROTA_ADDRESS, else 127.0.0.1:7070. */
        public Builder address(String address) {
            this.address = address;
            return this;
        }

        /** Default: ROTA_API_KEY, else, on this machine only, the key of {@code rota dev}. */
        public Builder apiKey(String apiKey) {
            this.apiKey = apiKey;
            return this;
        }

        /** Queues to take jobs from; default: default. */
        public Builder queues(String... queues) {
            if (queues.length < 1 || queues.length > Limits.QUEUES_MAX) {
                throw new IllegalArgumentException("queues: expected 1 to " + Limits.QUEUES_MAX + " names, found " + queues.length);
            }
            this.queues = List.of(queues);
            return this;
        }

        /** Jobs that run at a time; default 10. */
        public Builder slots(int slots) {
            if (slots < 1 || slots > Limits.SLOTS_MAX) {
                throw new IllegalArgumentException("slots: expected 1 to " + Limits.SLOTS_MAX + ", found " + slots);
            }
            this.slots = slots;
            return this;
        }

        /** For people; default: host and process id. */
        public Builder name(String name) {
            this.name = name;
            return this;
        }

        /** The build of the handlers, for people. */
        public Builder buildId(String buildId) {
            this.buildId = buildId;
            return this;
        }

        public Builder labels(Map<String, String> labels) {
            this.labels = Map.copyOf(labels);
            return this;
        }

        /** How long running handlers may take to end when the worker leaves; default 30 s. */
        public Builder drainTimeout(Duration timeout) {
            drainTimeout = checked("drainTimeout", timeout);
            return this;
        }

        /** How long they may take once they are asked to stop; default 1 s. */
        public Builder unwindTimeout(Duration timeout) {
            unwindTimeout = checked("unwindTimeout", timeout);
            return this;
        }

        /** Whether a stop interrupts the handler's thread; default true. */
        public Builder interrupt(boolean interrupt) {
            this.interrupt = interrupt;
            return this;
        }

        /** Where handlers run; default: threads of the worker's own. One with virtual threads will do. */
        public Builder executor(Executor executor) {
            this.executor = executor;
            return this;
        }

        /** Where spans go; default: the global one. */
        public Builder openTelemetry(OpenTelemetry openTelemetry) {
            this.openTelemetry = openTelemetry;
            return this;
        }

        /** Registers a handler for jobs of a type. */
        public Builder handle(String type, Handler handler) {
            if (type.isEmpty() || handlers.containsKey(type)) {
                throw new IllegalArgumentException("type: expected a name without a handler, found \"" + type + "\"");
            }
            if (handlers.size() >= Limits.TYPES_MAX) {
                throw new IllegalArgumentException(
                        "expected at most " + Limits.TYPES_MAX + " types; run another worker for the rest");
            }
            handlers.put(type, handler);
            return this;
        }

        public Worker build() {
            if (handlers.isEmpty()) {
                throw new IllegalStateException("expected a handler, found none; register one with handle(type, handler)");
            }
            return new Worker(this);
        }

        private static Duration checked(String name, Duration given) {
            if (given.isNegative()) {
                throw new IllegalArgumentException(name + ": expected a span that is not negative, found " + given);
            }
            return given;
        }

        private static String defaultName() {
            String host;
            try {
                host = InetAddress.getLocalHost().getHostName();
            } catch (UnknownHostException error) {
                host = "unknown";
            }
            return host + "-" + ProcessHandle.current().pid();
        }
    }
}
