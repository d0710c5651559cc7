"""OpenTelemetry: whether it is enabled, and tracers of the api and of jobs.

The standard variables say so (``OTEL_EXPORTER_OTLP_ENDPOINT`` and what belongs to it); without them no exporter is
loaded. The api has a thread that exports. The supervisor keeps the few spans of each job and exports them at its end,
as it may be killed soon after.
"""

import contextlib
import importlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

_NAME = "cyclops"
_JOB_SECONDS = 2.0  # that a worker waits for a collector after a job
LEAVE_SECONDS = 2.0  # that the api waits for a collector when it ends
_OFF = {"true", "1"}


def wanted(signal: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the environment asks for ``TRACES`` or ``METRICS`` to be exported."""
    endpoint = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environment.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    exporter = environment.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower()
    return bool(endpoint) and exporter == "otlp" and environment.get("OTEL_SDK_DISABLED", "").lower() not in _OFF


def preload() -> None:
    """Imports the modules of tracing, before the first fork."""
    if wanted("TRACES"):
        for module in (
            "opentelemetry.sdk.trace.export.in_memory_span_exporter",
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        ):
            importlib.import_module(module)


def resource(service: str) -> Any:
    """Returns the OpenTelemetry resource ``cyclops-<service>``, unless the environment names another."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where it is wanted

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"{_NAME}-{service}"}
    return Resource.create(named)


@contextlib.contextmanager
def service_tracer() -> Iterator[Tracer | None]:
    """Yields the tracer of the api, which exports from a thread; None where no traces are wanted."""
    if not wanted("TRACES"):
        yield None
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    exporter = OTLPSpanExporter()
    processor = BatchSpanProcessor(exporter)
    try:
        yield _tracer("api", processor)
    finally:
        impatient = threading.Timer(LEAVE_SECONDS, exporter.shutdown)  # then it tries no more
        impatient.start()
        processor.shutdown()  # type: ignore[no-untyped-call]
        impatient.cancel()


@contextlib.contextmanager
def job_tracer() -> Iterator[Tracer | None]:
    """Yields the tracer of one job, which exports when the context ends; None where no traces are wanted."""
    if not wanted("TRACES"):
        yield None
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415

    kept = InMemorySpanExporter()
    try:
        yield _tracer("worker", SimpleSpanProcessor(kept))
    finally:
        spans = kept.get_finished_spans()
        if spans:
            OTLPSpanExporter(timeout=_JOB_SECONDS).export(spans)


def _tracer(service: str, processor: "SpanProcessor") -> Tracer:
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    provider = TracerProvider(resource=resource(service), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer(_NAME)


def context_of(traceparent: str | None) -> Context:
    """Returns the context of the span that the header ``traceparent`` names; an empty one without it."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent} if traceparent else {}, Context())
