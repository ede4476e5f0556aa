package dev.rota;

import dev.rota.worker.v1.Result;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/** What a worker has done so far. */
final class Counts {
    final LongAdder sessions = new LongAdder();
    final LongAdder leased = new LongAdder();
    final LongAdder lost = new LongAdder();
    final LongAdder dropped = new LongAdder();
    private final LongAdder succeeded = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final LongAdder released = new LongAdder();
    private final LongAdder cancelled = new LongAdder();

    /** An outcome was accepted. */
    void count(Result.OutcomeCase kind) {
        switch (kind) {
            case SUCCEEDED -> succeeded.increment();
            case FAILED -> failed.increment();
            case RELEASED -> released.increment();
            default -> cancelled.increment();
        }
    }

    Map<String, Long> snapshot() {
        Map<String, Long> told = new LinkedHashMap<>();
        told.put("sessions", sessions.sum());
        told.put("leased", leased.sum());
        told.put("lost", lost.sum());
        told.put("dropped", dropped.sum());
        told.put("succeeded", succeeded.sum());
        told.put("failed", failed.sum());
        told.put("released", released.sum());
        told.put("cancelled", cancelled.sum());
        return told;
    }
}
