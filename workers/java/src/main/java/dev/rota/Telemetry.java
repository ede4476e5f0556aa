package dev.rota;

import dev.rota.worker.v1.Result;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/** Trace context between creators, coordinators and handlers: W3C Trace Context. */
final class Telemetry {
    /** What a handler came to, and with which error, if any. */
    record Ran(Outcome outcome, Throwable error) {}

    private static final W3CTraceContextPropagator W3C = W3CTraceContextPropagator.getInstance();
    private static final TextMapGetter<Map<String, String>> GETTER = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(Map<String, String> carrier) {
            return carrier.keySet();
        }

        @Override
        public String get(Map<String, String> carrier, String key) {
            return carrier.get(key);
        }
    };

    private final Tracer tracer;

    Telemetry(OpenTelemetry openTelemetry) {
        tracer = openTelemetry.getTracer("dev.rota", Version.VERSION);
    }

    /** Runs a handler in the consumer span of its attempt, child of the lease's context. */
    Outcome run(Lease lease, Function<String, Ran> handler) {
        Context above = Context.root();
        if (!lease.traceparent().isEmpty()) {
            above = W3C.extract(
                    above, Map.of("traceparent", lease.traceparent(), "tracestate", lease.tracestate()), GETTER);
        }
        Span span = tracer.spanBuilder("rota.run " + lease.type())
                .setParent(above)
                .setSpanKind(SpanKind.CONSUMER)
                .setAttribute("messaging.system", "rota")
                .setAttribute("messaging.operation.type", "process")
                .setAttribute("messaging.destination.name", lease.queue())
                .setAttribute("messaging.message.id", lease.job())
                .setAttribute("rota.job.type", lease.type())
                .setAttribute("rota.attempt", lease.attempt())
                .setAttribute("rota.fence", lease.fence())
                .startSpan();
        try (Scope scope = span.makeCurrent()) {
            Ran ran = handler.apply(span.isRecording() ? handedOn().getOrDefault("traceparent", "") : "");
            Result.OutcomeCase kind = ran.outcome().kind();
            span.setAttribute("rota.outcome", kind.name().toLowerCase(Locale.ROOT));
            if (ran.error() != null && kind == Result.OutcomeCase.FAILED) {
                span.recordException(ran.error());
                span.setStatus(StatusCode.ERROR);
            }
            return ran.outcome();
        } finally {
            span.end();
        }
    }

    /** A producer span around a creation. */
    <T> T creating(String type, int count, Function<Map<String, String>, T> call) {
        Span span = tracer.spanBuilder("rota.create " + type)
                .setSpanKind(SpanKind.PRODUCER)
                .setAttribute("messaging.system", "rota")
                .setAttribute("messaging.operation.type", "send")
                .setAttribute("messaging.batch.message_count", count)
                .startSpan();
        try (Scope scope = span.makeCurrent()) {
            return call.apply(handedOn());
        } catch (RuntimeException error) {
            span.recordException(error);
            span.setStatus(StatusCode.ERROR);
            throw error;
        } finally {
            span.end();
        }
    }

    /** The current trace context as call metadata; empty outside of a span. */
    private static Map<String, String> handedOn() {
        Map<String, String> carrier = new HashMap<>();
        W3C.inject(Context.current(), carrier, Map::put);
        return carrier;
    }
}
