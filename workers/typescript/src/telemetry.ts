import { context, type Span, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import type { Result } from "./gen/rota/worker/v1/worker_pb.js";
import type { Lease } from "./lease.js";
import { VERSION } from "./version.js";

const getter = {
  get: (carrier: Record<string, string>, key: string) => carrier[key],
  keys: (carrier: Record<string, string>) => Object.keys(carrier),
};
const setter = {
  set: (carrier: Record<string, string>, key: string, value: string) => {
    carrier[key] = value;
  },
};
const w3c = new W3CTraceContextPropagator();

function tracer() {
  return trace.getTracer("@rota-scheduler/rota", VERSION);
}

/** The current trace context as call metadata; empty outside of a span. */
export function handedOn(): Record<string, string> {
  const carrier: Record<string, string> = {};
  w3c.inject(context.active(), carrier, setter);
  return carrier;
}

interface Ran {
  result: Result;
  error?: unknown;
}

/**
 * The consumer span of one attempt, child of the lease's context and current while the handler runs. Without a tracer
 * provider set up by the application nothing is made. `parent` is the span's own context in W3C form.
 */
export async function runTraced(lease: Lease, run: (parent: () => string) => Promise<Ran>): Promise<Result> {
  const carrier: Record<string, string> = lease.traceparent
    ? { traceparent: lease.traceparent, tracestate: lease.tracestate }
    : {};
  const above = w3c.extract(context.active(), carrier, getter);
  const span = tracer().startSpan(
    `rota.run ${lease.type}`,
    {
      kind: SpanKind.CONSUMER,
      attributes: {
        "messaging.system": "rota",
        "messaging.operation.type": "process",
        "messaging.destination.name": lease.queue,
        "messaging.message.id": lease.job,
        "rota.job.type": lease.type,
        "rota.attempt": lease.attempt,
        "rota.fence": String(lease.fence),
      },
    },
    above,
  );
  const { result, error } = await context.with(trace.setSpan(above, span), () => run(() => traceparentOf(span)));
  span.setAttribute("rota.outcome", result.outcome.case ?? "");
  if (error !== undefined && result.outcome.case === "failed") {
    span.recordException(error as Error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
  return result;
}

/** A producer span around a creation, whose context travels with the call. */
export async function creating<T>(
  type: string,
  count: number,
  call: (metadata: Record<string, string>) => Promise<T>,
): Promise<T> {
  const attributes = {
    "messaging.system": "rota",
    "messaging.operation.type": "send",
    "messaging.batch.message_count": count,
  };
  return tracer().startActiveSpan(`rota.create ${type}`, { kind: SpanKind.PRODUCER, attributes }, async (span) => {
    try {
      return await call(handedOn());
    } catch (error) {
      span.recordException(error as Error);
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}

function traceparentOf(span: Span): string {
  if (!span.isRecording()) {
    return "";
  }
  const carrier: Record<string, string> = {};
  w3c.inject(trace.setSpan(context.active(), span), carrier, setter);
  return carrier["traceparent"] ?? "";
}
