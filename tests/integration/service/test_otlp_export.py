import time

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.prometheus import exporting_otlp, otlp_metrics
from tests.helpers.collector import collector
from worker.telemetry.tracing import resource, service_tracer


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("c_total", "A counter.", ["l"], registry=registry).labels("v").inc(3)
    Gauge("g_bytes", "A gauge.", registry=registry).set(-2)
    times = Histogram("h_seconds", "A histogram.", ["l"], buckets=(0.1, 1, 10), registry=registry)
    for seconds in (0.05, 0.5, 0.7, 99):
        times.labels("v").observe(seconds)
    times.labels("w").observe(5)
    Counter("unused_total", "Nothing of it.", ["l"], registry=registry)
    return registry


def test_the_same_as_a_collector_reads_it(registry: CollectorRegistry) -> None:
    message = encode_metrics(otlp_metrics(list(registry.collect()), resource("api"), 17))
    (group,) = message.resource_metrics
    assert {item.key: item.value.string_value for item in group.resource.attributes}["service.name"] == "cyclops-api"
    found = {metric.name: metric for metric in group.scope_metrics[0].metrics}
    assert found.keys() == {"c", "g_bytes", "h_seconds"}
    (point,) = found["c"].sum.data_points
    assert (point.as_double, point.attributes[0].value.string_value, point.time_unix_nano) == (3, "v", 17)
    assert found["c"].sum.is_monotonic
    assert found["g_bytes"].gauge.data_points[0].as_double == -2
    assert (found["g_bytes"].unit, found["h_seconds"].unit) == ("By", "s")
    first, second = found["h_seconds"].histogram.data_points
    assert list(first.bucket_counts) == [1, 2, 0, 1]
    assert list(first.explicit_bounds) == [0.1, 1, 10]
    assert (first.count, first.sum) == (4, pytest.approx(100.25))
    assert list(second.bucket_counts) == [0, 0, 1, 0]
    assert not first.HasField("min")


def test_what_was_counted_last_is_exported_at_the_end(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{kept.url}/v1/metrics")
        with exporting_otlp(registry):
            assert kept.metrics == []
        assert len(kept.metrics) == 1


@pytest.mark.slow
def test_an_api_whose_collector_is_away_leaves_soon(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    begin = time.monotonic()
    with service_tracer() as tracer, exporting_otlp(registry):
        tracer.start_span("request").end()
    assert time.monotonic() - begin < 6
