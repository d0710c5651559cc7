import time
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from worker.execution.job_failure import memory_limit_problem
from worker.queue.job_queue import JobQueue
from worker.queue.reconciler import reconcile
from worker.records.job_record import Origin, Stage
from worker.records.job_store import Jobs
from worker.records.problem_details import problem
from worker.runner.attempt_telemetry import AttemptTelemetry
from worker.storage.identifiers import created_at
from worker.telemetry.counters import (
    CACHE,
    DURATION,
    ENDED,
    FAILED,
    LOST,
    RESTORED,
    STAGE,
    WAIT,
    CountedMetric,
    counters_key,
    counts,
    distributions,
    parse_counters,
)
from worker.telemetry.logs import bound, bound_fields

JOB = f"{int((time.time() - 5) * 1e6):014x}" + "0" * 18


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(kept: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    return provider.get_tracer("test")


@pytest.fixture
def telemetry(queue: JobQueue, tracer: Tracer) -> AttemptTelemetry:
    queue.connection.delete(counters_key(queue.name))
    return AttemptTelemetry(JOB, queue.name, queue.connection, tracer)


@pytest.fixture
def counted(queue: JobQueue) -> Callable[[CountedMetric], dict[str, float]]:
    def read(measure: CountedMetric) -> dict[str, float]:
        found = parse_counters(queue.connection.hgetall(counters_key(queue.name)))
        if measure.buckets:
            return {value: int(told.buckets[-1][1]) for value, told in distributions(measure, found).items()}
        return {value: count for value, count in counts(measure, found).items() if count}

    return read


def stage(name: str) -> Stage:
    return Stage(name=name, step=1, total=2)


def named(spans: tuple[ReadableSpan, ...], name: str) -> ReadableSpan:
    (span,) = [span for span in spans if span.name == name]
    return span


def test_an_attempt_that_succeeds(telemetry: AttemptTelemetry, kept: InMemorySpanExporter, counted: Callable) -> None:
    with bound(), telemetry:
        telemetry.begin(1)
        assert counted(WAIT) == {"": 1}  # before the job is done
        telemetry.continue_trace(Origin(request_id="r", traceparent=f"00-{'ab' * 16}-{'cd' * 8}-01"))
        assert bound_fields() == {"attempt": 1, "request_id": "r", "trace_id": "ab" * 16}
        with telemetry.supervisor_stage("fetch"):
            pass
        for name in ("import", "import", "emit"):
            telemetry.stage(stage(name))
            telemetry.stage(None)
        telemetry.record_end(None)
    assert counted(ENDED) == {"succeeded": 1}
    assert counted(DURATION) == {"succeeded": 1}
    assert counted(STAGE) == {"fetch": 1, "import": 1, "emit": 1}
    assert counted(FAILED) == counted(LOST) == {}
    spans = kept.get_finished_spans()
    job, wait = named(spans, "job"), named(spans, "wait")
    assert f"{job.parent.span_id:016x}" == "cd" * 8
    assert {span.context.trace_id for span in spans} == {int("ab" * 16, 16)}
    assert all(span.parent.span_id == job.context.span_id for span in spans if span is not job)
    assert job.start_time == wait.start_time
    assert abs(wait.start_time / 1e9 - created_at(JOB)) < 0.01
    assert wait.start_time < wait.end_time <= time.time_ns()
    assert [span.name for span in spans] == ["wait", "stage fetch", "stage import", "stage emit", "job"]


def test_a_later_attempt_that_fails(telemetry: AttemptTelemetry, kept: InMemorySpanExporter, counted: Callable) -> None:
    with bound(), telemetry:
        telemetry.begin(2)
        telemetry.continue_trace(Origin())
        telemetry.record_end(memory_limit_problem("out of memory"))
    assert counted(LOST) == {"": 1}
    assert counted(WAIT) == {"": 0}
    assert counted(FAILED) == {"memory-limit": 1}
    assert counted(ENDED) == {"failed": 1}
    (job,) = kept.get_finished_spans()
    assert job.parent is None
    assert job.end_time - job.start_time < 1e9  # not since the job was created
    assert not job.status.is_ok
    assert job.attributes["error.type"] == "memory-limit"


def test_without_an_attempt_left(telemetry: AttemptTelemetry, counted: Callable) -> None:
    with telemetry:
        telemetry.record_exhausted(problem("worker_lost", "Lost.", "thrice"))
    assert counted(LOST) == {"": 1}
    assert counted(FAILED) == {"worker_lost": 1}


def test_an_attempt_that_dies_or_is_ended_elsewhere(
    telemetry: AttemptTelemetry, counted: Callable, queue: JobQueue
) -> None:
    with bound(), telemetry:
        telemetry.begin(1)
        telemetry.continue_trace(Origin())
        telemetry.record_death("killed")
    assert counted(ENDED) == counted(DURATION) == counted(LOST) == {}
    with bound(), AttemptTelemetry(JOB, queue.name, queue.connection, None) as other:
        other.begin(2)
        other.continue_trace(Origin())
        other.record_ended_elsewhere()
    assert counted(ENDED) == {}
    assert counted(DURATION) == {"canceled": 1}


def test_a_process_that_says_what_it_likes(
    telemetry: AttemptTelemetry, kept: InMemorySpanExporter, counted: Callable
) -> None:
    with bound(), telemetry:
        telemetry.begin(1)
        telemetry.continue_trace(Origin(traceparent="nonsense"))
        for number in range(10_000):
            telemetry.stage(stage("import" if number % 2 else f"\n{number}"))
        telemetry.record_end(problem(f"{'x' * 1000}", "X.", "x"))
    assert set(counted(STAGE)) == {"import", "other"}
    assert counted(FAILED) == {"other": 1}
    assert len(kept.get_finished_spans()) < 250
    assert {span.name for span in kept.get_finished_spans()} == {"wait", "stage import", "stage other", "job"}


def test_the_cache(telemetry: AttemptTelemetry, counted: Callable) -> None:
    class Two:
        def get(self, key: str) -> bytes | None:
            return b"x" if key == "there" else None

        def put(self, key: str, data: bytes) -> None:
            self.last = (key, data)

    two = Two()
    with telemetry:
        cache = telemetry.counting_cache(two)
        assert [cache.get(key) for key in ("there", "no", "there")] == [b"x", None, b"x"]
        cache.put("no", b"y")
    assert two.last == ("no", b"y")
    assert counted(CACHE) == {"hit": 2, "miss": 1}


def test_what_is_restored_is_counted(
    jobs: Jobs, queue: JobQueue, request_: object, counted: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.queue.reconciler._APART", 0.05)
    for _ in range(3):
        jobs.create(request_)
    reconcile(jobs, queue)
    assert counted(RESTORED) == {}
    time.sleep(0.06)
    reconcile(jobs, queue)
    reconcile(jobs, queue)
    assert counted(RESTORED) == {"": 3}
