package dev.rota;

/**
 * The one counter of capacity: free = total - (running + received and not yet started). Sessions share it, since a handler
 * that outlives its session still takes its slot.
 */
final class Slots {
    final int total;
    private int used;

    Slots(int total) {
        this.total = total;
    }

    synchronized int used() {
        return used;
    }

    synchronized int free() {
        return total - used;
    }

    synchronized void take(int count) {
        used += count;
    }

    synchronized void give(int count) {
        used -= count;
        notifyAll();
    }

    /** Wakes whoever waits here, to look at something else. */
    synchronized void wake() {
        notifyAll();
    }

    /** Waits for a change, at most so many nanoseconds. */
    synchronized void await(long nanos) throws InterruptedException {
        if (nanos > 0) {
            wait(nanos / 1_000_000, (int) (nanos % 1_000_000));
        }
    }
}
