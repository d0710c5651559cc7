"""The span of a request, under the one that its client names (W3C trace context)."""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from worker.telemetry import logs

_HEADERS = {"traceparent", "tracestate"}


@contextlib.contextmanager
def of_request(tracer: Tracer | None, scope: Scope) -> Iterator[Span | None]:
    """The span as the current one, its trace bound to the lines logged; None without a tracer."""
    if tracer is None:
        yield None
        return
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    carrier = {name: value for name, value in given.items() if name in _HEADERS}
    parent = TraceContextTextMapPropagator().extract(carrier)
    span = tracer.start_span(str(scope["method"])[:16], context=parent, kind=SpanKind.SERVER)
    logs.bind(trace_id=f"{span.get_span_context().trace_id:032x}")
    with use_span(span, end_on_exit=True, record_exception=False):
        yield span


def answered(span: Span | None, method: str, route: str, status: int) -> None:
    """Say what came of the request."""
    if span is None:
        return
    span.update_name(f"{method} {route}")
    span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)


def current_parent() -> str | None:
    """The ``traceparent`` of the span that is the current one, for what goes on in other processes; None without."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
