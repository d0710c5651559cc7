"""Telemetry of one attempt: counters (``worker/telemetry/counters.py``), spans, and fields of log lines.

Times are those at which the supervisor learns of something, so that they are known however the job's process ends.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import redis
from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AnyValue

from accel.util.content_cache import CacheStore
from worker.records.job_record import Origin, Stage
from worker.records.problem_details import Problem
from worker.storage.identifiers import created_at
from worker.telemetry import logs
from worker.telemetry.counters import CACHE, DURATION, ENDED, FAILED, LOST, STAGE, WAIT, Counters
from worker.telemetry.tracing import context_of

_log = logging.getLogger(__name__)
_MOST_STAGES = 200  # the job's process says when one begins


class AttemptTelemetry:
    """The telemetry of one attempt; its counters are added to Redis when the context ends.

    Args:
        job_id: the job.
        queue: the queue's name.
        connection: a Redis that fails soon where there is none.
        tracer: creates spans; None for no spans.
    """

    def __init__(self, job_id: str, queue: str, connection: redis.Redis, tracer: Tracer | None) -> None:
        self._job_id = job_id
        self._connection = connection
        self._tracer = tracer
        self._counters = Counters(queue)
        self._begun = time.monotonic()
        self._number = 1
        self._span: Span | None = None
        self._stage: tuple[str, float, int] | None = None
        self._stages = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_stage()
        if self._span is not None:
            self._span.end()
        self._counters.add(self._connection)

    def begin(self, number: int) -> None:
        """Records that attempt ``number`` begins; each but the first counts one lost attempt."""
        logs.bind(attempt=number)
        self._number = number
        if number == 1:
            self._counters.observe(WAIT, time.time() - created_at(self._job_id))
        else:
            self._counters.count(LOST)
        self._counters.add(self._connection)  # at once: this process may die too

    def continue_trace(self, origin: Origin) -> None:
        """Starts the job's span in the trace of the request that created the job."""
        logs.bind(request_id=origin.request_id)
        if self._tracer is not None:
            self._span = self._start_span(self._tracer, origin)
            logs.bind(trace_id=f"{self._span.get_span_context().trace_id:032x}")
        _log.info("job %s: attempt %d", self._job_id, self._number)

    def _start_span(self, tracer: Tracer, origin: Origin) -> Span:
        """Starts the job's span and, in the first attempt, adds the span of its wait."""
        begun = time.time_ns() - int((time.monotonic() - self._begun) * 1e9)
        created = int(created_at(self._job_id) * 1e9)
        first = self._number == 1
        attributes: dict[str, AnyValue] = {"cyclops.job": self._job_id, "cyclops.attempt": self._number}
        span = tracer.start_span(
            "job", context_of(origin.traceparent), attributes=attributes, start_time=created if first else begun
        )
        if first:
            tracer.start_span("wait", set_span_in_context(span), start_time=created).end(max(begun, created))
        return span

    def record_exhausted(self, problem: Problem) -> None:
        """Records that the job failed because it had no attempt left."""
        self._counters.count(LOST)
        self._record_failure(problem)

    def stage(self, stage: Stage | None) -> None:
        """Records the beginning of a stage; None, or the current stage, changes nothing."""
        name = STAGE.label_value(stage.name) if stage is not None else None
        if name is None or (self._stage is not None and self._stage[0] == name):
            return
        if self._stages < _MOST_STAGES:
            self._stages += 1
            self._end_stage()
            self._stage = name, time.monotonic(), time.time_ns()

    @contextmanager
    def supervisor_stage(self, name: str) -> Iterator[None]:
        """Records a stage of the supervisor itself for the duration of the block."""
        self._end_stage()
        self._stage = name, time.monotonic(), time.time_ns()
        try:
            yield
        finally:
            self._end_stage()

    def _end_stage(self) -> None:
        if self._stage is not None:
            name, begun, begun_ns = self._stage
            self._counters.observe(STAGE, time.monotonic() - begun, name)
            self._add_span(f"stage {name}", begun_ns, time.time_ns())
            self._stage = None

    def _add_span(self, name: str, begun: int, over: int) -> None:
        """Adds a child of the job's span; times are nanoseconds since 1970."""
        if self._tracer is not None and self._span is not None:
            self._tracer.start_span(name, set_span_in_context(self._span), start_time=begun).end(over)

    def counting_cache(self, cache: CacheStore) -> CacheStore:
        """Returns a cache that counts hits and misses of ``cache``."""
        return _CountingCache(cache, lambda found: self._counters.count(CACHE, "hit" if found else "miss"))

    def record_death(self, reason: str) -> None:
        """Records on the span that the job's process died; the next attempt counts this one as lost."""
        if self._span is not None:
            self._span.set_status(StatusCode.ERROR, reason)

    def record_end(self, problem: Problem | None) -> None:
        """Records that this attempt ended the job, with this problem or none."""
        state = "succeeded" if problem is None else "failed"
        _log.info("job %s: %s", self._job_id, state if problem is None else f"{state}, {problem.type}")
        if problem is None:
            self._counters.count(ENDED, state)
        else:
            self._record_failure(problem)
        self._record_duration(state)

    def record_ended_elsewhere(self) -> None:
        """Records that the job was ended elsewhere (canceled), where its end is counted."""
        _log.info("job %s: ended elsewhere", self._job_id)
        self._record_duration("canceled")

    def _record_failure(self, problem: Problem) -> None:
        slug = problem.type.removeprefix("/problems/")
        self._counters.count(ENDED, "failed")
        self._counters.count(FAILED, slug)
        if self._span is not None:
            self._span.set_attribute("error.type", FAILED.label_value(slug))
            self._span.set_status(StatusCode.ERROR)

    def _record_duration(self, state: str) -> None:
        self._end_stage()
        self._counters.observe(DURATION, time.monotonic() - self._begun, state)
        if self._span is not None:
            self._span.set_attribute("cyclops.state", state)


class _CountingCache:
    def __init__(self, cache: CacheStore, on_lookup: Callable[[bool], None]) -> None:
        self._cache = cache
        self._on_lookup = on_lookup

    def get(self, key: str) -> bytes | None:
        found = self._cache.get(key)
        self._on_lookup(found is not None)
        return found

    def put(self, key: str, data: bytes) -> None:
        self._cache.put(key, data)
