"""Metrics: this process's requests, the state of Redis, store, queue and workers, and their export by OTLP.

Redis knows the queue, the workers and the ended jobs of all machines, so that every api shows the same. ``/metrics``
answers whether Redis does or not. An OpenTelemetry collector gets the same metrics under the same names.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import redis
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from service.context import Context
from worker.queue.queue_statistics import QueueStatistics, read_queue_statistics
from worker.records.job_record import FORMAT
from worker.telemetry.counters import MEASURES, CountedMetric, counts, distributions
from worker.telemetry.tracing import LEAVE_SECONDS, resource, wanted

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestMetrics:
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
        """Counts a response, and its seconds unless they are None."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(method, route).observe(seconds)


_log = logging.getLogger(__name__)


class BackendCollector(Collector):
    """Collects the state of Redis and the store at each scrape.

    Args:
        context: gives what the app works on.
    """

    def __init__(self, context: Callable[[], Context]) -> None:
        self._context = context

    def describe(self) -> list[Metric]:
        """Returns nothing: describing the metrics would take a request to Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics."""
        context = self._context()
        about = {"version": version("cyclops"), "record_format": str(FORMAT)}
        yield InfoMetricFamily("cyclops_build", "The version of this api.", about)
        yield from _store_metrics(context)
        yield from _redis_metrics(context)


def _store_metrics(context: Context) -> Iterator[Metric]:
    begin, answers = time.perf_counter(), True
    try:
        context.store.exists("probe")
    except OSError as error:
        _log.warning("the store: %s", error)
        answers = False
    yield from _backend_health("store", "the store", time.perf_counter() - begin if answers else None)


def _redis_metrics(context: Context) -> Iterator[Metric]:
    try:
        found = read_queue_statistics(context.jobs.queue)
    except redis.RedisError as error:
        _log.warning("Redis: %s", error)
        yield from _backend_health("redis", "Redis", None)
        return
    yield from _backend_health("redis", "Redis", found.seconds)
    yield from _queue_metrics(found)
    for measure in MEASURES:
        yield (_histogram if measure.buckets else _counter)(measure, found.counters)


def _backend_health(name: str, what: str, seconds: float | None) -> Iterator[Metric]:
    up = 1 if seconds is not None else 0
    yield GaugeMetricFamily(f"cyclops_{name}_up", f"Whether {what} answers, 1 or 0.", up)
    if seconds is not None:
        meaning = f"Time of one request to {what}, made for this answer."
        yield GaugeMetricFamily(f"cyclops_{name}_latency_seconds", meaning, seconds)


def _queue_metrics(found: QueueStatistics) -> Iterator[Metric]:
    jobs = {"queued": found.queued, "resting": found.delayed, "running": found.busy}
    yield _gauge("cyclops_jobs", "Jobs that have not ended, by state.", "state", jobs)
    if found.open is not None:
        meaning = "Jobs that had not ended when one last looked for lost jobs in the store."
        yield GaugeMetricFamily("cyclops_open_jobs", meaning, found.open)
    meaning = "How long the job at the head of the queue has existed; 0 without one."
    yield GaugeMetricFamily("cyclops_queue_head_age_seconds", meaning, found.oldest)
    yield _gauge(
        "cyclops_workers", "Workers that are alive, by state.", "state", {"idle": found.idle, "busy": found.busy}
    )


def _gauge(name: str, meaning: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _counter(measure: CountedMetric, tally: dict[str, float]) -> Metric:
    family = CounterMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
    for value, count in counts(measure, tally).items():
        family.add_metric(_values(measure, value), count)
    return family


def _histogram(measure: CountedMetric, tally: dict[str, float]) -> Metric:
    family = HistogramMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
    for value, found in distributions(measure, tally).items():
        family.add_metric(_values(measure, value), buckets=list(found.buckets), sum_value=found.total)
    return family


def _labels(measure: CountedMetric) -> list[str]:
    return [measure.label] if measure.label is not None else []


def _values(measure: CountedMetric, value: str) -> list[str]:
    return [value] if measure.label is not None else []


if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import export

_INTERVAL = "60000"  # milliseconds, as OpenTelemetry has it
_SCOPE = "cyclops"


@contextlib.contextmanager
def exporting_otlp(registry: CollectorRegistry) -> Iterator[None]:
    """Exports the registry's metrics from a thread while the context lasts, and once at its end."""
    if not wanted("METRICS"):
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    exporter, stop = OTLPMetricExporter(), threading.Event()
    thread = threading.Thread(target=_export_periodically, args=(registry, exporter, stop), name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LEAVE_SECONDS)
        exporter.shutdown()  # it tries no more
        thread.join()


def _export_periodically(registry: CollectorRegistry, exporter: "export.MetricExporter", stop: threading.Event) -> None:
    seconds = int(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL)) / 1e3
    sender = resource("api")
    stopped = False
    while not stopped:
        stopped = stop.wait(seconds)
        exporter.export(otlp_metrics(list(registry.collect()), sender, time.time_ns()))  # it logs what goes wrong


def otlp_metrics(families: Sequence[Metric], sender: Any, now: int) -> "export.MetricsData":
    """Returns the families as OTLP metrics at ``now``, in nanoseconds since 1970, without start times."""
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - only where it is wanted
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    metrics = [
        export.Metric(family.name, family.documentation, _unit(family.name), _data_points(family, now))
        for family in families
        if family.samples
    ]
    scope = export.ScopeMetrics(InstrumentationScope(_SCOPE), metrics, "")
    return export.MetricsData([export.ResourceMetrics(sender, [scope], "")])


def _unit(name: str) -> str:
    return next((unit for ending, unit in (("_seconds", "s"), ("_bytes", "By")) if name.endswith(ending)), "1")


def _data_points(family: Metric, now: int) -> "export.Sum | export.Gauge | export.Histogram":
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415

    cumulative = export.AggregationTemporality.CUMULATIVE
    if family.type == "histogram":
        return export.Histogram(_histogram_points(family.samples, now), cumulative)
    # a counter may say when it was created besides
    samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    points = [export.NumberDataPoint(sample.labels, 0, now, sample.value) for sample in samples]
    return export.Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else export.Gauge(points)


def _histogram_points(samples: Sequence[Sample], now: int) -> "list[export.HistogramDataPoint]":
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415

    grouped: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        key = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        grouped.setdefault(key, []).append(sample)
    points = []
    for labels, group in grouped.items():
        reached = [(sample.labels["le"], int(sample.value)) for sample in group if sample.name.endswith("_bucket")]
        total = next((sample.value for sample in group if sample.name.endswith("_sum")), 0.0)
        counts = [count - before for (_, count), before in zip(reached, [0, *(n for _, n in reached)], strict=False)]
        bounds = [float(bound) for bound, _ in reached[:-1]]
        points.append(
            export.HistogramDataPoint(
                attributes=dict(labels),
                start_time_unix_nano=0,
                time_unix_nano=now,
                count=reached[-1][1],
                sum=total,
                bucket_counts=counts,
                explicit_bounds=bounds,
                min=None,  # type: ignore[arg-type] # the form allows it, and it is not known
                max=None,  # type: ignore[arg-type]
            )
        )
    return points
