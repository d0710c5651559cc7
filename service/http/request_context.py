"""The id and the trace span of the current request.

The id is the client's or a random one; it stands in the response, in problems, and in every line logged. The span
continues the trace that the client names (W3C trace context).
"""

import contextlib
import re
import secrets
from collections.abc import Iterable, Iterator
from http import HTTPStatus

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from worker.telemetry import logs
from worker.telemetry.logs import bound_fields

REQUEST_ID_HEADER = "X-Request-Id"
REQUEST_ID_FIELD = "request_id"
_SAFE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")


def chosen_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the client's request id if it is the only one, of at most 64 safe characters; else a random id."""
    given = [value for name, value in headers if name == REQUEST_ID_HEADER.lower().encode()]
    if len(given) == 1 and _SAFE.fullmatch(given[0]):
        return given[0].decode()
    return secrets.token_hex(16)


def request_id() -> str | None:
    """Returns the id of the current request; None outside a request."""
    found = bound_fields().get(REQUEST_ID_FIELD)
    return str(found) if found is not None else None


_TRACE_HEADERS = {"traceparent", "tracestate"}


@contextlib.contextmanager
def request_span(tracer: Tracer | None, scope: Scope) -> Iterator[Span | None]:
    """Opens the request's span as the current one, and binds its trace to log lines; gives None without a tracer."""
    if tracer is None:
        yield None
        return
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    carrier = {name: value for name, value in given.items() if name in _TRACE_HEADERS}
    parent = TraceContextTextMapPropagator().extract(carrier)
    span = tracer.start_span(str(scope["method"])[:16], context=parent, kind=SpanKind.SERVER)
    logs.bind(trace_id=f"{span.get_span_context().trace_id:032x}")
    with use_span(span, end_on_exit=True, record_exception=False):
        yield span


def record_response(span: Span | None, method: str, route: str, status: int) -> None:
    """Records the outcome of the request in its span."""
    if span is None:
        return
    span.update_name(f"{method} {route}")
    span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)


def current_traceparent() -> str | None:
    """Returns the ``traceparent`` of the current span, for work in other processes; None without a span."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")
