package dev.rota;

import dev.rota.worker.v1.HeldLease;
import dev.rota.worker.v1.Inventory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The leases that a session holds, from receipt to the answered outcome, and for each poller the last batch received. */
final class Holdings {
    /** What ran longer than it may, and the nanosecond at which to look again; {@code next} null: not at all. */
    record Overdue(List<Lease> late, List<Lease> stubborn, Long next) {}

    private final Map<Lease.Id, Lease> leases = new HashMap<>();
    private final Map<Integer, Long> batches = new HashMap<>();
    /** Those that were asked to stop at their run timeout, and when they are given up. */
    private final Map<Lease.Id, Long> late = new HashMap<>();

    synchronized int size() {
        return leases.size();
    }

    /**
     * Takes a batch in; the leases that were not held before, since an answer may come twice. Both become visible together,
     * so that an inventory never claims a batch without its leases.
     */
    synchronized List<Lease> add(int poller, long batch, List<Lease> received) {
        if (batch != 0) {
            batches.put(poller, batch);
        }
        List<Lease> fresh = new ArrayList<>();
        for (Lease lease : received) {
            if (leases.putIfAbsent(lease.key(), lease) == null) {
                fresh.add(lease);
            }
        }
        return fresh;
    }

    synchronized Lease find(Lease.Id id) {
        return leases.get(id);
    }

    /** The lease, which is held no more; null when it was not. */
    synchronized Lease take(Lease.Id id) {
        late.remove(id);
        return leases.remove(id);
    }

    synchronized List<Lease> takeAll() {
        List<Lease> all = all();
        leases.clear();
        late.clear();
        return all;
    }

    synchronized List<Lease> all() {
        return new ArrayList<>(leases.values());
    }

    synchronized Overdue overdue(long now) {
        List<Lease> fresh = new ArrayList<>();
        List<Lease> stubborn = new ArrayList<>();
        Long next = null;
        for (Lease lease : leases.values()) {
            Long until = late.get(lease.key());
            if (until != null) {
                if (until - now <= 0) {
                    stubborn.add(lease);
                    continue;
                }
            } else if (lease.runTimeout().isZero()) {
                continue;
            } else {
                until = lease.runUntil();
                if (until - now <= 0) {
                    fresh.add(lease);
                    until = now + Limits.TIMEOUT_REPORT_GRACE.toNanos();
                    late.put(lease.key(), until);
                }
            }
            next = next == null || until - next < 0 ? until : next;
        }
        return new Overdue(fresh, stubborn, next);
    }

    synchronized Inventory inventory() {
        Inventory.Builder told = Inventory.newBuilder().putAllBatches(batches);
        leases.keySet().forEach(id -> told.addLeases(HeldLease.newBuilder().setJob(id.job()).setFence(id.fence())));
        return told.build();
    }
}
