"""What one process of the api counts of its own requests, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Meters:
    """The counters of one app.

    Attributes:
        registry: where they are read; others are added to it.
        in_progress: the gauge of requests that are being answered.
        streams: the gauge of event streams that are open.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # they would double what Prometheus stores
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "cyclops_http_requests_total", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "cyclops_http_request_duration_seconds",
            "Time from a request to the end of its answer, event streams left out.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.in_progress = Gauge(
            "cyclops_http_requests_in_progress", "Requests that are being answered.", registry=self.registry
        )
        self.streams = Gauge("cyclops_event_streams", "Event streams that are open.", registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request was answered, in so many seconds; None: how long it took says nothing."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(method, route).observe(seconds)
