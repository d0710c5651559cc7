import subprocess
import sys

import pytest
from opentelemetry.exporter.otlp.proto.http import trace_exporter

from worker.telemetry.tracing import job_tracer, wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("environment", "traces"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, True),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_ask_for_it(environment: dict[str, str], traces: bool) -> None:
    assert wanted("TRACES", environment) is traces


@pytest.mark.slow
def test_a_collector_that_is_away_holds_a_worker_up_for_two_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    class Exporter(trace_exporter.OTLPSpanExporter):
        def __init__(self, timeout: float) -> None:
            given.append(timeout)
            super().__init__(timeout=timeout)

    monkeypatch.setattr(trace_exporter, "OTLPSpanExporter", Exporter)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with job_tracer() as tracer:
        tracer.start_span("job").end()
    assert given == [2.0]


@pytest.mark.slow
def test_nothing_is_loaded_where_it_is_not_wanted() -> None:
    program = """
import os, sys
[os.environ.pop(name) for name in list(os.environ) if name.startswith("OTEL_")]
from service.app import create_app
from worker.telemetry.tracing import job_tracer, preload, service_tracer
preload()
with job_tracer() as job, service_tracer() as service:
    assert job is service is None
create_app()
heavy = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "requests")  # the rest of the SDK comes with redis
print([name for name in sys.modules if name.startswith(heavy)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
