"""Observation of every request: its id, an access log line, metrics, and a trace span.

No path, query, header or address is kept: they may hold secrets, and the values of a label must be few. The route's
template says enough.
"""

import logging
import time
from dataclasses import dataclass
from http import HTTPStatus

from opentelemetry.trace import Tracer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http import request_context
from service.prometheus import RequestMetrics
from worker.telemetry import logs

_log = logging.getLogger("cyclops.access")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_STREAM = b"text/event-stream"
_CLIENT_LEFT = 499  # as nginx has it: nobody waited for the answer
_PROBES = {"/healthz", "/readyz", "/metrics"}


@dataclass
class _Answer:
    """The response as far as it has been sent."""

    status: int | None = None
    size: int = 0
    stream: bool = False


class RequestObserver:
    """ASGI middleware: observes requests, outside all other middleware. Without a tracer there are no spans."""

    def __init__(self, app: ASGIApp, meters: RequestMetrics, tracer: Tracer | None = None) -> None:
        self._app = app
        self._meters = meters
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        answer = _Answer()
        named = request_context.chosen_id(scope["headers"])
        # for good: an exception is answered outside of this; the next request of the connection begins anew
        logs.begin(**{request_context.REQUEST_ID_FIELD: named})
        tracer = self._tracer if scope["path"] not in _PROBES else None
        with self._meters.in_progress.track_inprogress(), request_context.request_span(tracer, scope) as span:
            try:
                await self._app(scope, receive, self._noting(answer, named, send))
            except Exception:
                answer.status = answer.status or HTTPStatus.INTERNAL_SERVER_ERROR
                raise
            finally:
                if answer.stream:
                    self._meters.streams.dec()
                method, route, status = (
                    _method(scope),
                    _route_template(scope, answer.status),
                    answer.status or _CLIENT_LEFT,
                )
                request_context.record_response(span, method, route, status)
                seconds = time.perf_counter() - begin
                self._meters.answered(method, route, status, None if answer.stream else seconds)
                _log_request(method, route, status, seconds, answer.size)

    def _noting(self, answer: _Answer, named: str, send: Send) -> Send:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                headers = list(message.get("headers", ()))
                kind = next((value for name, value in headers if name == b"content-type"), b"")
                if kind.startswith(_STREAM) and not answer.stream:
                    answer.stream = True
                    self._meters.streams.inc()
                if all(name != request_context.REQUEST_ID_HEADER.lower().encode() for name, _ in headers):
                    headers.append((request_context.REQUEST_ID_HEADER.lower().encode(), named.encode()))
                message = {**message, "headers": headers}
            elif message["type"] == "http.response.body":
                answer.size += len(message.get("body", b""))
            await send(message)

        return noting


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in _METHODS else "other"


def _route_template(scope: Scope, status: int | None) -> str:
    """Returns the template of the route; paths without a route are not shown."""
    route = scope.get("route")
    path = getattr(route, "path_format", None)
    if isinstance(path, str):
        return path
    return "unmatched" if status in {None, HTTPStatus.NOT_FOUND} else "other"


def _log_request(method: str, route: str, status: int, seconds: float, size: int) -> None:
    milliseconds = round(seconds * 1e3, 3)
    fields = logs.fields(method=method, route=route, status=status, ms=milliseconds, bytes=size)
    _log.info("%s %s %d in %.1f ms, %d bytes", method, route, status, milliseconds, size, extra=fields)
