package dev.rota;

import dev.rota.v1.EffectState;
import dev.rota.v1.Failure;
import dev.rota.worker.v1.Cancelled;
import dev.rota.worker.v1.Failed;
import dev.rota.worker.v1.Released;
import dev.rota.worker.v1.Result;
import dev.rota.worker.v1.Succeeded;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.function.UnaryOperator;

/** How an attempt ends: one Result on its way, kept with its request_id until it is answered. */
final class Outcome {
    final Lease lease;
    final Result result;
    final int size;
    final boolean rejected;
    int repeated;

    private Outcome(Lease lease, Result result, boolean rejected) {
        this.lease = lease;
        this.result = result;
        this.size = result.getSerializedSize() + 8;
        this.rejected = rejected;
    }

    Result.OutcomeCase kind() {
        return result.getOutcomeCase();
    }

    /** Success with what the handler returned; a failure that says why when it cannot be kept. */
    static Outcome succeeded(Lease lease, Object value, String traceparent) {
        Payload payload;
        try {
            payload = Payload.of(value);
        } catch (RuntimeException error) {
            return failed(lease, "ResultNotSerializable", words(error), "", traceparent, failed -> failed.setRetryable(false));
        }
        if (payload.data().size() > Limits.RESULT_BYTES_MAX) {
            String told = "expected a result of at most " + Limits.RESULT_BYTES_MAX + " bytes, found "
                    + payload.data().size() + "; store it elsewhere and return where";
            return failed(lease, "ResultTooLarge", told, "", traceparent, failed -> failed.setRetryable(false));
        }
        Succeeded.Builder success = Succeeded.newBuilder();
        if (value != null) {
            success.setResult(payload.message());
        }
        Outcome made = new Outcome(
                lease, result(lease, traceparent).setSucceeded(success).addAllSpawned(lease.spawned()).build(), false);
        if (made.size > Limits.RESULT_CALL_BYTES_MAX) {
            String told = "expected result and spawned jobs of at most " + Limits.RESULT_CALL_BYTES_MAX + " bytes, found "
                    + made.size + "; create large jobs with a Client";
            return failed(lease, "ResultTooLarge", told, "", traceparent, failed -> failed.setRetryable(false));
        }
        return made;
    }

    /** What an error of the handler means, given why the handler was asked to stop, if it was. */
    static Outcome ofError(Lease lease, Throwable error, String traceparent) {
        JobException said = error instanceof JobException found ? found : null;
        if (said != null && said.kind() == JobException.Kind.RELEASE) {
            return released(lease, said.getMessage(), said.delay());
        }
        Stop asked = lease.stopReason();
        if (error instanceof StoppedException || error instanceof InterruptedException) {
            if (asked == Stop.CANCEL) {
                return cancelled(lease, words(error), traceparent);
            }
            if (asked == Stop.LEAVING) {
                return released(lease, "the worker leaves", Duration.ZERO);
            }
        }
        if (said != null && said.kind() == JobException.Kind.FATAL) {
            return failed(lease, type(said), words(said), stack(said), traceparent, failed -> failed.setRetryable(false));
        }
        if (asked == Stop.TIMED_OUT) {
            return timedOut(lease, traceparent);
        }
        if (said == null) {
            return failed(lease, type(error), words(error), stack(error), traceparent, failed -> failed);
        }
        return switch (said.kind()) {
            case FAILED -> failed(
                    lease,
                    said.type(),
                    words(said),
                    said.stack(),
                    traceparent,
                    failed -> said.retryable() == null ? failed : failed.setRetryable(said.retryable()));
            case RETRY -> failed(
                    lease,
                    type(said),
                    words(said),
                    stack(said),
                    traceparent,
                    failed -> failed.setRetryable(true).setRetryAfter(Spans.message(withinAnHour(said.delay()))));
            default -> failed(
                    lease,
                    type(said),
                    words(said),
                    stack(said),
                    traceparent,
                    failed -> failed.setEffectState(EffectState.EFFECT_STATE_UNKNOWN));
        };
    }

    /** The handler ran longer than its run timeout. What it did outside is unknown. */
    static Outcome timedOut(Lease lease, String traceparent) {
        String told = "expected the handler to end within its run timeout of " + lease.runTimeout();
        return failed(
                lease,
                "TimedOut",
                told,
                "",
                traceparent,
                failed -> failed.setRetryable(true).setEffectState(EffectState.EFFECT_STATE_UNKNOWN));
    }

    /** Given back; not counted as an attempt. */
    static Outcome released(Lease lease, String reason, Duration delay) {
        Released.Builder told = Released.newBuilder().setReason(Text.clean(reason, Limits.REASON_BYTES_MAX));
        if (!delay.isZero()) {
            told.setDelay(Spans.message(withinAnHour(delay)));
        }
        return new Outcome(lease, result(lease, "").setReleased(told).build(), false);
    }

    /** Stopped on request. */
    static Outcome cancelled(Lease lease, String reason, String traceparent) {
        Cancelled.Builder told = Cancelled.newBuilder().setReason(Text.clean(reason, Limits.REASON_BYTES_MAX));
        return new Outcome(lease, result(lease, traceparent).setCancelled(told).build(), false);
    }

    /**
     * The failure that takes the place of an outcome which the coordinator cannot accept. It is another logical outcome, so
     * it has a request_id of its own; nothing of the refused content is in it.
     */
    Outcome rejectedFor(String words) {
        lease.forgetExtras();
        String told = "the " + kind().name().toLowerCase(java.util.Locale.ROOT) + " outcome was refused: " + words;
        Outcome made = failed(lease, "OutcomeRejected", told, "", "", failed -> failed.setRetryable(false));
        return new Outcome(lease, made.result, true);
    }

    private static Outcome failed(
            Lease lease,
            String type,
            String words,
            String stack,
            String traceparent,
            UnaryOperator<Failed.Builder> more) {
        Failure failure = Failure.newBuilder()
                .setType(Text.clean(type, Limits.FAILURE_TYPE_BYTES_MAX))
                .setMessage(Text.clean(words, Limits.FAILURE_MESSAGE_BYTES_MAX))
                .setStack(Text.clean(stack, Limits.FAILURE_STACK_BYTES_MAX))
                .build();
        Failed.Builder told = more.apply(Failed.newBuilder().setFailure(failure));
        return new Outcome(lease, result(lease, traceparent).setFailed(told).build(), false);
    }

    private static Result.Builder result(Lease lease, String traceparent) {
        return Result.newBuilder()
                .setJob(lease.job())
                .setFence(lease.fence())
                .setRequestId(lease.session.nextRequestId())
                .addAllEffectReceipts(lease.receipts())
                .setTraceparent(traceparent);
    }

    private static Duration withinAnHour(Duration span) {
        return Spans.max(Duration.ZERO, Spans.min(span, Limits.RETRY_AFTER_MAX));
    }

    /** The class of what went wrong, without what the SDK wraps around it. */
    static String type(Throwable error) {
        if (error instanceof JobException said) {
            return said.getCause() != null ? type(said.getCause()) : said.kind().name();
        }
        return error.getClass().getName();
    }

    /** The words of an error, which are the user's code and may themselves fail. */
    private static String words(Throwable error) {
        try {
            return String.valueOf(error.getMessage());
        } catch (RuntimeException failure) {
            return "(the text of this " + error.getClass().getName() + " cannot be made: " + failure.getClass().getName() + ")";
        }
    }

    private static String stack(Throwable error) {
        StringWriter text = new StringWriter();
        try {
            error.printStackTrace(new PrintWriter(text));
        } catch (RuntimeException failure) {
            return "(the stack cannot be told: " + failure.getClass().getName() + ")";
        }
        return text.toString();
    }
}
