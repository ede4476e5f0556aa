package rota

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

var w3c = propagation.TraceContext{}

func tracerOf(provider trace.TracerProvider) trace.Tracer {
	return provider.Tracer("github.com/rota-scheduler/rota/workers/go", trace.WithInstrumentationVersion(version))
}

// handedOn puts the current trace context into a call's metadata.
func handedOn(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}

// startRun is the consumer span of one attempt, child of the lease's context.
func startRun(ctx context.Context, tracer trace.Tracer, lease *Lease) (context.Context, trace.Span) {
	carrier := propagation.MapCarrier{}
	if lease.message.Traceparent != "" {
		carrier["traceparent"], carrier["tracestate"] = lease.message.Traceparent, lease.message.Tracestate
	}
	return tracer.Start(w3c.Extract(ctx, carrier), "rota.run "+lease.Type(),
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "rota"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", lease.Queue()),
			attribute.String("messaging.message.id", lease.Job()),
			attribute.String("rota.job.type", lease.Type()),
			attribute.Int("rota.attempt", lease.Attempt()),
			attribute.Int64("rota.fence", lease.Fence()),
		))
}

func endRun(span trace.Span, made *outcome, err error) {
	span.SetAttributes(attribute.String("rota.outcome", made.kind))
	if err != nil && made.kind == kindFailed {
		span.RecordError(err)
		span.SetStatus(codes.Error, failureType(err))
	}
	span.End()
}

// traceparentOf is the span's own context in W3C form; empty when it has none.
func traceparentOf(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}
