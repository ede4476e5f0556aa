package dev.rota.fleet;

import dev.rota.Effects;
import dev.rota.Lease;
import dev.rota.Worker;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/** The Java SDK's worker of the mixed fleet and of the benchmark: see workers/conformance/README.md. */
public final class Main {
    private static final int SAY_EVERY = 100;
    private static final AtomicLong STARTED = new AtomicLong();
    private static final ThreadLocal<Connection> TARGET = ThreadLocal.withInitial(Main::connect);

    private Main() {}

    private record Wish(double slow_ms, double fails) {}

    public static void main(String[] arguments) throws InterruptedException {
        int slots = arguments.length == 2 ? Integer.parseInt(arguments[1]) : 20;
        Thread leash = new Thread(Main::awaitEndOfInput, "leash");
        leash.setDaemon(true);
        leash.start();
        Thread main = Thread.currentThread();
        // A machine that ends by a signal says 143; this one says that it left in order.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> awaitEnd(main)));
        try (Worker worker = Worker.builder()
                .slots(slots)
                .handle("noop", lease -> starting())
                .handle("pay", Main::pay)
                .build()) {
            var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            say("{\"ready_cpu_s\": " + process.getProcessCpuTime() / 1e9 + "}");
            worker.run();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void awaitEnd(Thread main) {
        try {
            main.join();
        } catch (InterruptedException error) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Object starting() {
        long started = STARTED.incrementAndGet();
        if (started % SAY_EVERY == 0) {
            say("{\"started\": " + started + "}");
        }
        return null;
    }

    private static void awaitEndOfInput() {
        try {
            System.in.readAllBytes();
        } catch (IOException error) {
            System.err.println(error);
        }
        Runtime.getRuntime().halt(1);
    }

    private static Connection connect() {
        URI url = URI.create(System.getenv("FLEET_TARGET"));
        String[] user = url.getUserInfo().split(":", 2);
        try {
            Connection made = DriverManager.getConnection(
                    "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath(), user[0], user[1]);
            made.setAutoCommit(false);
            return made;
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    /** One row for each job, in the transaction of its effect key; goes wrong at random before or after it. */
    private static Object pay(Lease lease) throws Exception {
        starting();
        Wish wish = lease.json(Wish.class);
        // A wish to stop interrupts it.
        Thread.sleep((long) wish.slow_ms());
        maybeFail(wish, "the target is away");
        Connection target = TARGET.get();
        try (PreparedStatement insert =
                target.prepareStatement("insert into payments (job, fence, sdk) values (?, ?, 'java')")) {
            if (Effects.once(target, lease)) {
                insert.setString(1, lease.job());
                insert.setLong(2, lease.fence());
                insert.executeUpdate();
            }
            target.commit();
        } catch (SQLException | RuntimeException error) {
            target.rollback();
            throw error;
        }
        maybeFail(wish, "failed after its commit");
        return null;
    }

    private static void maybeFail(Wish wish, String words) {
        if (ThreadLocalRandom.current().nextDouble() < wish.fails()) {
            throw new IllegalStateException(words);
        }
    }
}
