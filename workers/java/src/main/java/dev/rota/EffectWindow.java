package dev.rota;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Warns of targets that forget idempotency keys while a job may still be tried. */
final class EffectWindow {
    private record Told(String type, Duration window) {}

    private static final Logger LOG = System.getLogger("dev.rota.worker");
    // Each type and window is worth one warning in the life of a process.
    private static final Set<Told> WARNED = ConcurrentHashMap.newKeySet();

    private EffectWindow() {}

    /**
     * By how many seconds a target forgets a key too early: it is sent for the last time up to {@code total} (null: there is
     * no total timeout) and {@code redrive} after the first. 0: early enough.
     */
    static double shortfallSeconds(Duration window, Duration total, Duration redrive) {
        return total == null
                ? Double.POSITIVE_INFINITY
                : Math.max(0, total.plus(redrive).minus(window).toMillis() / 1e3);
    }

    static void warn(String type, Duration window, Duration total, Duration redrive) {
        double shortfall = shortfallSeconds(window, total, redrive);
        if (shortfall == 0 || !WARNED.add(new Told(type, window))) {
            return;
        }
        if (Double.isInfinite(shortfall)) {
            LOG.log(
                    Level.WARNING,
                    "job type " + type + " has no total timeout, and its target forgets idempotency keys after "
                            + window.toSeconds() + " s: an attempt after that is a second effect; give its jobs a total timeout");
            return;
        }
        LOG.log(
                Level.WARNING,
                "job type " + type + ": its target forgets idempotency keys after " + window.toSeconds() + " s, "
                        + Math.round(shortfall) + " s before the last possible attempt, redrives included: an attempt after"
                        + " that is a second effect; give its jobs a shorter total timeout");
    }

    /** Says everything again. */
    static void forgetWarnings() {
        WARNED.clear();
    }
}
