package dev.rota;

import dev.rota.worker.v1.Directive;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** What works for one session: beats, poller, completions. */
final class Crew {
    private static final Logger LOG = System.getLogger("dev.rota.worker");

    final Engine engine;
    final Session session;
    final Beats beats;
    final Poller poller;
    final Completions completions;
    private final Set<Long> carriedOut = new LinkedHashSet<>();

    Crew(Engine engine, Session session) {
        this.engine = engine;
        this.session = session;
        beats = new Beats(this);
        completions = new Completions(this);
        poller = new Poller(this);
        session.completions = completions;
    }

    Link link() {
        return engine.link;
    }

    /** Beats first. */
    void start() {
        beats.start();
        completions.start();
        poller.start();
    }

    void dismiss() throws InterruptedException {
        poller.abandon();
        beats.stop();
        completions.stop();
        poller.join(Limits.CLOSE_TIMEOUT);
        beats.join(Limits.CLOSE_TIMEOUT);
        completions.join(Limits.CLOSE_TIMEOUT.plus(Duration.ofMillis(1)));
    }

    void lose(Lease.Id id) {
        Lease lease = session.holdings.take(id);
        if (lease != null) {
            engine.lose(List.of(lease), Stop.LOST);
        }
    }

    /** Carries directives out, each once, and acknowledges them. */
    void direct(List<Directive> directives) {
        List<Long> acked = new ArrayList<>();
        for (Directive directive : directives) {
            if (directive.getId() == 0 || isNew(directive.getId())) {
                act(directive);
            }
            if (directive.getId() != 0) {
                acked.add(directive.getId());
            }
        }
        if (!acked.isEmpty()) {
            beats.acknowledge(acked);
        }
    }

    private synchronized boolean isNew(long id) {
        if (!carriedOut.add(id)) {
            return false;
        }
        if (carriedOut.size() > Limits.DIRECTIVES_KEPT) {
            carriedOut.remove(carriedOut.iterator().next());
        }
        return true;
    }

    private void act(Directive directive) {
        LOG.log(Level.INFO, "directive {0} {1} {2}", directive.getKind(), directive.getJob(), directive.getReason());
        Lease.Id id = new Lease.Id(directive.getJob(), directive.getFence());
        switch (directive.getKind()) {
            case DIRECTIVE_KIND_CANCEL -> {
                Lease lease = session.holdings.find(id);
                if (lease != null) {
                    engine.stop(lease, Stop.CANCEL);
                }
            }
            case DIRECTIVE_KIND_LOST -> lose(id);
            case DIRECTIVE_KIND_DRAIN -> engine.drain();
            case DIRECTIVE_KIND_RECONNECT -> {
                if (link().renew("asked for by the coordinator")) {
                    beats.reconnected();
                }
            }
            case DIRECTIVE_KIND_SLOW_DOWN -> poller.slowDown();
            case DIRECTIVE_KIND_RESYNC -> {
                beats.tellInventory();
                poller.repeat();
            }
            default -> LOG.log(Level.WARNING, "a directive of unknown kind {0} is ignored", directive.getKindValue());
        }
    }
}
