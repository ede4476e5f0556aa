package dev.rota;

import dev.rota.worker.v1.Beat;
import dev.rota.worker.v1.BeatAck;
import dev.rota.worker.v1.Directive;
import dev.rota.worker.v1.HeartbeatRequest;
import dev.rota.worker.v1.HeartbeatResponse;
import dev.rota.worker.v1.Hello;
import dev.rota.worker.v1.SendHeartbeatRequest;
import dev.rota.worker.v1.SendHeartbeatResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * The signs of life of a session. One thread keeps the time of everything that must happen whatever handlers do: beats, the
 * session's TTL, run timeouts. It never waits for the network. Beats go over the stream while it carries, else one by one.
 * All state here belongs to that thread.
 */
final class Beats {
    private static final Logger LOG = System.getLogger("dev.rota.worker");

    private record Sent(long at, List<Long> acks, long inventory) {}

    private final Crew crew;
    private final Session session;
    private final ScheduledExecutorService clock;
    private final Duration patience;
    private final Set<Long> unacked = new LinkedHashSet<>();
    private final Map<Long, Sent> sent = new HashMap<>();
    private final Backoff retry = new Backoff(Limits.BACKOFF_FIRST, Limits.BACKOFF_MAX);
    private final Backoff renew = new Backoff(Limits.RENEW_INTERVAL, Limits.RENEW_INTERVAL_MAX);
    private final Backoff streams = new Backoff(Limits.STREAM_BACKOFF_FIRST, Limits.STREAM_BACKOFF_MAX);
    private ScheduledFuture<?> next;
    private long seq;
    private boolean urgent;
    private long lastAt = System.nanoTime();
    // Full inventories are numbered: wanted, and the newest that was answered.
    private long wanted;
    private long answered;
    private Long proveAt;
    private Long retryAt;
    private long renewAt = System.nanoTime();
    private BeatStream stream;
    private Long streamAt = System.nanoTime();
    private long openedAt;
    private int quick;

    Beats(Crew crew) {
        this.crew = crew;
        this.session = crew.session;
        // An answer that takes longer than this is not worth waiting for.
        patience = Spans.min(session.beatInterval, session.ttl.dividedBy(5));
        clock = Executors.newSingleThreadScheduledExecutor(work -> {
            Thread thread = new Thread(work, "rota-beats");
            thread.setDaemon(true);
            return thread;
        });
    }

    void start() {
        tell(() -> {});
    }

    void stop() {
        tell(() -> {
            if (stream != null) {
                stream.cancel();
                stream = null;
            }
            clock.shutdownNow();
        });
    }

    boolean join(Duration limit) throws InterruptedException {
        return clock.awaitTermination(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    /** These directives are carried out: said in a beat at once, and again until that beat is answered. */
    void acknowledge(List<Long> directives) {
        tell(() -> {
            unacked.addAll(directives);
            urgent = true;
        });
    }

    /** Sends a full inventory with a beat at once, and again until it is answered. */
    void tellInventory() {
        tell(() -> {
            wanted++;
            urgent = true;
        });
    }

    /** A batch must be proven received, well within its delivery TTL; or its proof is on the way. */
    void proveSoon(boolean needed) {
        tell(() -> {
            if (!needed) {
                proveAt = null;
            } else if (proveAt == null) {
                proveAt = System.nanoTime() + session.deliveryTtl.toNanos() / 5;
            }
        });
    }

    /** The link is new: opens a stream on it at once, with the inventory. */
    void reconnected() {
        tell(this::onReconnected);
    }

    private void onReconnected() {
        if (stream != null) {
            stream.cancel();
        }
        stream = null;
        sent.clear();
        streamAt = System.nanoTime();
        quick = 0;
    }

    /** Does something in the thread of beats, and looks at the time after it. */
    private void tell(Runnable word) {
        try {
            clock.execute(() -> {
                try {
                    word.run();
                    step();
                } catch (RuntimeException error) {
                    LOG.log(Level.ERROR, "beats failed", error);
                    session.end(Stop.SESSION_GONE, "beats failed: " + error);
                }
            });
        } catch (RejectedExecutionException over) {
            LOG.log(Level.TRACE, "a word after the end", over);
        }
    }

    private void step() {
        if (clock.isShutdown() || session.endedFor() != Stop.NONE) {
            return;
        }
        long now = System.nanoTime();
        long at = session.checkLife(now);
        Holdings.Overdue overdue = session.holdings.overdue(now);
        overdue.late().forEach(lease -> crew.engine.stop(lease, Stop.TIMED_OUT));
        overdue.stubborn().forEach(crew.engine::giveUp);
        if (isDue(proveAt, now)) {
            proveAt = null;
            wanted++;
            urgent = true;
        }
        boolean due = urgent && now - (lastAt + Limits.BEAT_SPACING.toNanos()) >= 0;
        due |= now - (lastAt + session.beatInterval.toNanos()) >= 0 || isDue(retryAt, now);
        if (isDue(silentAt(), now)) {
            LOG.log(Level.WARNING, "{0}: the heartbeat stream does not answer; going on with single beats", session.name);
            stream.cancel();
            stream = null;
            sent.clear();
            streamAt = now + streams.next().toNanos();
            due = true;
        }
        if (stream == null && isDue(streamAt, now)) {
            openStream(now);
        }
        if (due) {
            urgent = false;
            retryAt = null;
            lastAt = now;
            beat(now);
        }
        at = earlier(at, lastAt + (urgent ? Limits.BEAT_SPACING : session.beatInterval).toNanos());
        at = earlier(at, overdue.next());
        at = earlier(at, proveAt);
        at = earlier(at, retryAt);
        at = earlier(at, silentAt());
        at = earlier(at, stream == null ? streamAt : null);
        if (next != null) {
            next.cancel(false);
        }
        next = clock.schedule(() -> tell(() -> {}), Math.max(0, at - now), TimeUnit.NANOSECONDS);
    }

    private static boolean isDue(Long at, long now) {
        return at != null && now - at >= 0;
    }

    private static long earlier(long a, Long b) {
        return b != null && b - a < 0 ? b : a;
    }

    /** When the stream's oldest unanswered beat runs out of patience; null: it is not waited for. */
    private Long silentAt() {
        if (stream == null || sent.isEmpty()) {
            return null;
        }
        long oldest = sent.values().iterator().next().at();
        for (Sent each : sent.values()) {
            oldest = earlier(oldest, each.at());
        }
        return oldest + patience.toNanos();
    }

    private void beat(long now) {
        seq++;
        List<Long> acks = List.copyOf(unacked);
        boolean full = wanted > answered;
        Sent mark = new Sent(now, acks, full ? wanted : 0);
        Beat.Builder beat = Beat.newBuilder()
                .setSeq(seq)
                .setFreeSlots(Math.max(0, crew.engine.slots.free()))
                .addAllProgress(session.takeNotes())
                .addAllAckedDirectives(acks);
        if (full) {
            beat.setInventory(session.holdings.inventory());
        }
        if (stream != null && stream.live) {
            sent.put(seq, mark);
            stream.send(HeartbeatRequest.newBuilder().setBeat(beat).build());
            return;
        }
        SendHeartbeatRequest request = SendHeartbeatRequest.newBuilder().setSession(session.name).setBeat(beat).build();
        crew.link()
                .stub()
                .withDeadlineAfter(patience.toNanos(), TimeUnit.NANOSECONDS)
                .sendHeartbeat(request, new StreamObserver<>() {
                    @Override
                    public void onNext(SendHeartbeatResponse answer) {
                        tell(() -> onAck(answer.getAck(), mark));
                    }

                    @Override
                    public void onError(Throwable error) {
                        tell(() -> onLoneFailure(RotaException.of(error)));
                    }

                    @Override
                    public void onCompleted() {
                        // The answer was all.
                    }
                });
    }

    private void onLoneFailure(RotaException error) {
        if (isGone(error)) {
            return;
        }
        LOG.log(Level.WARNING, "{0}: beat: {1}", session.name, error.getMessage());
        long now = System.nanoTime();
        if (error.isTransient()) {
            retryAt = now + retry.next(error.retryAfter()).toNanos();
        }
        // Rarer each time: the coordinator may be slow instead of unreachable.
        if (error.code() == Status.Code.DEADLINE_EXCEEDED && now - renewAt >= 0) {
            renewAt = now + renew.next().toNanos();
            if (crew.link().renew("beats are not answered")) {
                onReconnected();
                crew.poller.repeat();
            }
        }
    }

    /** The session is the only resource that these calls name. */
    private boolean isGone(RotaException error) {
        if (error.code() != Status.Code.NOT_FOUND) {
            return false;
        }
        session.end(Stop.SESSION_GONE, error.getMessage());
        return true;
    }

    private void onMessage(BeatStream from, HeartbeatResponse message) {
        switch (message.getMessageCase()) {
            case ACK -> {
                if (stream != null && from != stream) {
                    return;
                }
                Sent mark = sent.remove(message.getAck().getSeq());
                from.live = true;
                onAck(message.getAck(), mark);
            }
            case DIRECTIVE -> direct(List.of(message.getDirective()));
            default -> LOG.log(Level.WARNING, "{0}: a message of unknown kind is ignored", session.name);
        }
    }

    private void onAck(BeatAck ack, Sent mark) {
        if (mark != null) {
            session.renew(mark.at(), Spans.of(ack.getRenewedFor(), session.ttl));
            retry.reset();
            renew.reset();
            answered = Math.max(answered, mark.inventory());
            mark.acks().forEach(unacked::remove);
        }
        ack.getLostList().forEach(held -> crew.lose(new Lease.Id(held.getJob(), held.getFence())));
        direct(ack.getDirectivesList());
    }

    private void direct(List<Directive> directives) {
        crew.direct(directives);
    }

    private void onStreamEnd(BeatStream from, RotaException error) {
        if ((error != null && isGone(error)) || from != stream) {
            return;
        }
        stream = null;
        sent.clear();
        long now = System.nanoTime();
        if (from.live && now - openedAt >= session.beatInterval.toNanos()) {
            streams.reset();
            quick = 0;
        }
        if (from.live && quick == 0) {
            streamAt = now;
        } else {
            // Refused, or cut again and again: single beats until the next try.
            streamAt = now + streams.next().toNanos();
            urgent = true;
        }
        quick++;
        if (error != null && error.code() == Status.Code.UNIMPLEMENTED) {
            streamAt = null;
        }
        LOG.log(Level.INFO, "{0}: heartbeat stream ended: {1}", session.name, error == null ? "by the coordinator" : error.getMessage());
    }

    private void openStream(long now) {
        wanted++;
        sent.put(0L, new Sent(now, List.of(), wanted));
        openedAt = now;
        stream = new BeatStream();
        crew.link().stub().heartbeat(stream);
        Hello hello = Hello.newBuilder()
                .setSession(session.name)
                .setInventory(session.holdings.inventory())
                .build();
        stream.send(HeartbeatRequest.newBuilder().setHello(hello).build());
    }

    /** One Heartbeat stream. */
    private final class BeatStream implements ClientResponseObserver<HeartbeatRequest, HeartbeatResponse> {
        /** The hello was answered: the stream carries. */
        private boolean live;

        private ClientCallStreamObserver<HeartbeatRequest> requests;

        @Override
        public void beforeStart(ClientCallStreamObserver<HeartbeatRequest> requests) {
            this.requests = requests;
        }

        void send(HeartbeatRequest request) {
            requests.onNext(request);
        }

        void cancel() {
            requests.cancel("given up", null);
        }

        @Override
        public void onNext(HeartbeatResponse message) {
            tell(() -> onMessage(this, message));
        }

        @Override
        public void onError(Throwable error) {
            tell(() -> onStreamEnd(this, RotaException.of(error)));
        }

        @Override
        public void onCompleted() {
            tell(() -> onStreamEnd(this, null));
        }
    }
}
