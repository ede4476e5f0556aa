package dev.rota;

import dev.rota.worker.v1.WorkerServiceGrpc;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** The worker's connection, which can be exchanged for a new one under its calls. */
final class Link {
    private static final Logger LOG = System.getLogger("dev.rota.worker");

    private final Endpoint endpoint;
    private final List<ManagedChannel> old = new ArrayList<>();
    private ManagedChannel channel;
    private long renewedAt;
    private boolean renewed;
    private boolean closed;

    Link(Endpoint endpoint) {
        this.endpoint = endpoint;
        this.channel = endpoint.open();
    }

    /** Blocks until the answer. Throws RotaException. */
    <T> T call(Duration limit, Function<WorkerServiceGrpc.WorkerServiceBlockingStub, T> call) {
        try {
            return call.apply(WorkerServiceGrpc.newBlockingStub(channel())
                    .withDeadlineAfter(limit.toNanos(), TimeUnit.NANOSECONDS));
        } catch (RuntimeException error) {
            RotaException failure = RotaException.of(error);
            hasten(failure);
            throw failure;
        }
    }

    WorkerServiceGrpc.WorkerServiceFutureStub future(Duration limit) {
        return WorkerServiceGrpc.newFutureStub(channel()).withDeadlineAfter(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    WorkerServiceGrpc.WorkerServiceStub stub() {
        return WorkerServiceGrpc.newStub(channel());
    }

    /** Goes over to a new connection; false when that was done a moment ago. Calls on the old one end in their time. */
    synchronized boolean renew(String why) {
        long now = System.nanoTime();
        if (closed || (renewed && now - renewedAt < Limits.RENEW_INTERVAL.toNanos())) {
            return false;
        }
        LOG.log(Level.INFO, "a new connection: {0}", why);
        renewedAt = now;
        renewed = true;
        old.removeIf(ManagedChannel::isTerminated);
        // New calls are refused there, running ones go on.
        channel.shutdown();
        old.add(channel);
        channel = endpoint.open();
        return true;
    }

    /** After a call that found nobody: connects now, where gRPC would wait for up to two minutes before its next try. */
    void hasten(RotaException failure) {
        if (failure.code() == Status.Code.UNAVAILABLE) {
            channel().resetConnectBackoff();
        }
    }

    synchronized void close() {
        closed = true;
        channel.shutdownNow();
        old.forEach(ManagedChannel::shutdownNow);
    }

    private synchronized ManagedChannel channel() {
        return channel;
    }
}
