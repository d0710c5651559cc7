"""The metrics of ``/metrics`` for a collector of OpenTelemetry, now and then, where the environment names one.

They are the same, under the same names: so there is one list of what is counted.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Sample

from worker.telemetry.tracing import LEAVE_SECONDS, resource, wanted

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import export

_INTERVAL = "60000"  # milliseconds, as OpenTelemetry has it
_SCOPE = "cyclops"


@contextlib.contextmanager
def exported(registry: CollectorRegistry) -> Iterator[None]:
    """Export what the registry collects, from a thread, as long as the context lasts, and once at its end."""
    if not wanted("METRICS"):
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    exporter, stop = OTLPMetricExporter(), threading.Event()
    thread = threading.Thread(target=_keep, args=(registry, exporter, stop), name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LEAVE_SECONDS)
        exporter.shutdown()  # it tries no more
        thread.join()


def _keep(registry: CollectorRegistry, exporter: "export.MetricExporter", stop: threading.Event) -> None:
    seconds = int(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL)) / 1e3
    sender = resource("api")
    stopped = False
    while not stopped:
        stopped = stop.wait(seconds)
        exporter.export(metrics_data(list(registry.collect()), sender, time.time_ns()))  # it logs what goes wrong


def metrics_data(families: Sequence[Metric], sender: Any, now: int) -> "export.MetricsData":
    """The same as OpenTelemetry has it. ``now``: nanoseconds since 1970. When counting began is not told."""
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - only where it is wanted
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    metrics = [
        export.Metric(family.name, family.documentation, _unit(family.name), _data(family, now))
        for family in families
        if family.samples
    ]
    scope = export.ScopeMetrics(InstrumentationScope(_SCOPE), metrics, "")
    return export.MetricsData([export.ResourceMetrics(sender, [scope], "")])


def _unit(name: str) -> str:
    return next((unit for ending, unit in (("_seconds", "s"), ("_bytes", "By")) if name.endswith(ending)), "1")


def _data(family: Metric, now: int) -> "export.Sum | export.Gauge | export.Histogram":
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
