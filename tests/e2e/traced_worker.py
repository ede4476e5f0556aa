"""A worker that exports its spans to the collector named by the first argument."""

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from rota_sdk import Lease, Worker

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(sys.argv[1], insecure=True)))
trace.set_tracer_provider(provider)

worker = Worker(queues=["default"], slots=5)


@worker.job("flaky")
def flaky(lease: Lease) -> str:
    """Fails once, then works; with a span of its own inside."""
    with trace.get_tracer("application").start_as_current_span("inside"):
        if lease.attempt == 1:
            raise RuntimeError("the first attempt fails")
    return "done"


print("worker", flush=True)
worker.run()
provider.shutdown()
