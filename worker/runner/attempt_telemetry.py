"""Telemetry of one attempt at a job: its counts (``worker/tally.py``), its spans, and the fields of its log lines.

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
    """The account of one attempt; what was counted is in Redis when the context ends.

    Args:
        job_id: the job.
        queue: the queue's name.
        connection: a Redis that fails soon where there is none.
        tracer: makes spans; None: there are none.
    """

    def __init__(self, job_id: str, queue: str, connection: redis.Redis, tracer: Tracer | None) -> None:
        self._job_id = job_id
        self._connection = connection
        self._tracer = tracer
        self._tally = Counters(queue)
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
        self._stage_over()
        if self._span is not None:
            self._span.end()
        self._tally.add(self._connection)

    def begin(self, number: int) -> None:
        """The attempt of this number begins; each but the first says that one before it was lost."""
        logs.bind(attempt=number)
        self._number = number
        if number == 1:
            self._tally.observe(WAIT, time.time() - created_at(self._job_id))
        else:
            self._tally.count(LOST)
        self._tally.add(self._connection)  # at once: this process may die too

    def trace(self, origin: Origin) -> None:
        """Go on with the trace of the request that made the job."""
        logs.bind(request_id=origin.request_id)
        if self._tracer is not None:
            self._span = self._started(self._tracer, origin)
            logs.bind(trace_id=f"{self._span.get_span_context().trace_id:032x}")
        _log.info("job %s: attempt %d", self._job_id, self._number)

    def _started(self, tracer: Tracer, origin: Origin) -> Span:
        """The job's span, with that of its wait if it is the first."""
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

    def gave_up(self, problem: Problem) -> None:
        """The job had no attempt left; it has failed for that."""
        self._tally.count(LOST)
        self._failed(problem)

    def stage(self, stage: Stage | None) -> None:
        """A stage begins, unless it is the one that lasts; None: nothing new."""
        name = STAGE.value(stage.name) if stage is not None else None
        if name is None or (self._stage is not None and self._stage[0] == name):
            return
        if self._stages < _MOST_STAGES:
            self._stages += 1
            self._stage_over()
            self._stage = name, time.monotonic(), time.time_ns()

    @contextmanager
    def own_stage(self, name: str) -> Iterator[None]:
        """A stage of the attending process itself, as long as the block lasts."""
        self._stage_over()
        self._stage = name, time.monotonic(), time.time_ns()
        try:
            yield
        finally:
            self._stage_over()

    def _stage_over(self) -> None:
        if self._stage is not None:
            name, begun, begun_ns = self._stage
            self._tally.observe(STAGE, time.monotonic() - begun, name)
            self._child(f"stage {name}", begun_ns, time.time_ns())
            self._stage = None

    def _child(self, name: str, begun: int, over: int) -> None:
        """A span below the job's; the times are nanoseconds since 1970."""
        if self._tracer is not None and self._span is not None:
            self._tracer.start_span(name, set_span_in_context(self._span), start_time=begun).end(over)

    def counting(self, cache: CacheStore) -> CacheStore:
        """The cache, with what is found in it counted."""
        return _CountingCache(cache, lambda found: self._tally.count(CACHE, "hit" if found else "miss"))

    def died(self, reason: str) -> None:
        """The process of the job died; nothing has ended, and the next attempt counts this one as lost."""
        if self._span is not None:
            self._span.set_status(StatusCode.ERROR, reason)

    def ended(self, problem: Problem | None) -> None:
        """The job has ended with this attempt, with this problem or none."""
        state = "succeeded" if problem is None else "failed"
        _log.info("job %s: %s", self._job_id, state if problem is None else f"{state}, {problem.type}")
        if problem is None:
            self._tally.count(ENDED, state)
        else:
            self._failed(problem)
        self._lasted(state)

    def ended_elsewhere(self) -> None:
        """The job has been ended by somebody else, who counts it: it was canceled."""
        _log.info("job %s: ended elsewhere", self._job_id)
        self._lasted("canceled")

    def _failed(self, problem: Problem) -> None:
        slug = problem.type.removeprefix("/problems/")
        self._tally.count(ENDED, "failed")
        self._tally.count(FAILED, slug)
        if self._span is not None:
            self._span.set_attribute("error.type", FAILED.value(slug))
            self._span.set_status(StatusCode.ERROR)

    def _lasted(self, state: str) -> None:
        self._stage_over()
        self._tally.observe(DURATION, time.monotonic() - self._begun, state)
        if self._span is not None:
            self._span.set_attribute("cyclops.state", state)


class _CountingCache:
    def __init__(self, cache: CacheStore, told: Callable[[bool], None]) -> None:
        self._cache = cache
        self._told = told

    def get(self, key: str) -> bytes | None:
        found = self._cache.get(key)
        self._told(found is not None)
        return found

    def put(self, key: str, data: bytes) -> None:
        self._cache.put(key, data)
