"""What ``/metrics`` shows besides the requests of this process: the queue, the workers, and what jobs came to.

Redis knows all of that, for all machines, so that every api shows the same; an answer is there whether it does or not.
"""

import logging
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

import redis
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from service.context import Context
from worker.queue.queue_statistics import QueueStatistics, read_queue_statistics
from worker.records.job_record import FORMAT
from worker.telemetry.counters import MEASURES, Measure, counts, distributions

_log = logging.getLogger(__name__)


class Backends(Collector):
    """Collects from Redis and the store, when it is asked and not before.

    Args:
        context: gives what the app works on.
    """

    def __init__(self, context: Callable[[], Context]) -> None:
        self._context = context

    def describe(self) -> list[Metric]:
        """Nothing: to find it out would ask Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What there is."""
        here = self._context()
        about = {"version": version("cyclops"), "record_format": str(FORMAT)}
        yield InfoMetricFamily("cyclops_build", "The version of this api.", about)
        yield from _store(here)
        yield from _redis(here)


def _store(here: Context) -> Iterator[Metric]:
    begin, answers = time.perf_counter(), True
    try:
        here.store.exists("probe")
    except OSError as error:
        _log.warning("the store: %s", error)
        answers = False
    yield from _health("store", "the store", time.perf_counter() - begin if answers else None)


def _redis(here: Context) -> Iterator[Metric]:
    try:
        found = read_queue_statistics(here.queue)
    except redis.RedisError as error:
        _log.warning("Redis: %s", error)
        yield from _health("redis", "Redis", None)
        return
    yield from _health("redis", "Redis", found.seconds)
    yield from _now(found)
    for measure in MEASURES:
        yield (_histogram if measure.buckets else _counter)(measure, found.tally)


def _health(name: str, what: str, seconds: float | None) -> Iterator[Metric]:
    up = 1 if seconds is not None else 0
    yield GaugeMetricFamily(f"cyclops_{name}_up", f"Whether {what} answers, 1 or 0.", up)
    if seconds is not None:
        meaning = f"Time of one request to {what}, made for this answer."
        yield GaugeMetricFamily(f"cyclops_{name}_latency_seconds", meaning, seconds)


def _now(found: QueueStatistics) -> Iterator[Metric]:
    jobs = {"queued": found.queued, "resting": found.resting, "running": found.busy}
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


def _counter(measure: Measure, tally: dict[str, float]) -> Metric:
    family = CounterMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
    for value, count in counts(measure, tally).items():
        family.add_metric(_values(measure, value), count)
    return family


def _histogram(measure: Measure, tally: dict[str, float]) -> Metric:
    family = HistogramMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
    for value, found in distributions(measure, tally).items():
        family.add_metric(_values(measure, value), buckets=list(found.buckets), sum_value=found.total)
    return family


def _labels(measure: Measure) -> list[str]:
    return [measure.label] if measure.label is not None else []


def _values(measure: Measure, value: str) -> list[str]:
    return [value] if measure.label is not None else []
