"""A collector of OpenTelemetry over HTTP, for tests: it keeps what it is sent."""

import contextlib
import gzip
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span; ids are hexadecimal, times are nanoseconds."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    begin: int
    end: int
    failed: bool
    attributes: dict[str, str]


@dataclass
class Collector:
    url: str
    spans: list[Received] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {item.key: item.value.string_value for item in group.resource.attributes}["service.name"]
                self.spans += [_received(service, span) for scope in group.scope_spans for span in scope.spans]

    def of_trace(self, trace: str) -> list[Received]:
        return [span for span in self.spans if span.trace == trace]

    def wait(self, there: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.05)


def _received(service: str, span: object) -> Received:
    return Received(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == 2,
        {item.key: item.value.string_value or str(item.value.int_value) for item in span.attributes},
    )


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
            kept.authorizations.add(self.headers["Authorization"])
            kept.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()
