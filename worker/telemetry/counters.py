"""Counters and histograms of all jobs on all machines, kept in Redis: a job's process is too short-lived to be scraped.

One hash holds the counters. A histogram is a count for each bucket, not cumulative, and the sum. Each process adds what
it has counted in one pipeline; where Redis is away it is lost, and a Redis that lost its data begins at 0, which is
what Prometheus takes a restart for. The values of a label come from a list, or are ``other``: the process of a job may
be under the control of whoever wrote the model, and sends what it likes.
"""

import bisect
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import redis

from accel import errors
from accel.errors import CyclopsError

_log = logging.getLogger(__name__)
OTHER = "other"
_SUM, _OVER = "sum", "inf"
_MODEL_STAGES = ("quantize", "import", "partition", "pack", "schedule", "flatten", "inject", "sync", "allocate", "emit")
# the supervisor's own stages, then the stages of ``accel/driver/job_stages.py``
STAGES = ("fetch", *_MODEL_STAGES, "simulate", "verify", "report", "publish", OTHER)
_LIMITS = {"worker_lost", "time-limit", "memory-limit", "output-limit", "internal-error"}
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_STAGE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)


def _problem_types() -> tuple[str, ...]:
    """Returns the types of problems that a job can fail with."""
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CyclopsError)]
    return (*sorted({error.type for error in found} | _LIMITS), OTHER)


@dataclass(frozen=True)
class CountedMetric:
    """One counter or histogram.

    Attributes:
        name: as Prometheus knows it, without ``_total``.
        meaning: in a sentence.
        label: the name of its label, if it has one.
        values: the values that the label may have; any other counts as ``OTHER``.
        buckets: the upper bounds of a histogram, in seconds; none of a counter.
        shown: whether values that have not been counted yet are shown, as 0.
    """

    name: str
    meaning: str
    label: str | None = None
    values: tuple[str, ...] = ("",)
    buckets: tuple[float, ...] = ()
    shown: bool = True

    def label_value(self, given: str) -> str:
        """Returns ``given`` if it is a known value of the label, else ``OTHER``."""
        return given if given in self.values else OTHER


ENDED = CountedMetric(
    "cyclops_jobs_ended", "Jobs that ended, by state.", "state", ("succeeded", "failed", "canceled", OTHER)
)
FAILED = CountedMetric(
    "cyclops_jobs_failed", "Jobs that failed, by type of problem.", "type", _problem_types(), shown=False
)
WAIT = CountedMetric("cyclops_job_wait_seconds", "Time from a job's creation to its first attempt.", buckets=_SECONDS)
DURATION = CountedMetric(
    "cyclops_job_duration_seconds",
    "Time of the attempt that ended a job, from its inputs to its artifacts, by state.",
    "state",
    ("succeeded", "failed", "canceled", OTHER),
    _SECONDS,
    shown=False,
)
STAGE = CountedMetric(
    "cyclops_stage_duration_seconds", "Time of a stage of a job.", "stage", STAGES, _STAGE_SECONDS, shown=False
)
CACHE = CountedMetric(
    "cyclops_cache_requests", "Compiled functions looked for in the cache.", "result", ("hit", "miss", OTHER)
)
LOST = CountedMetric("cyclops_attempts_lost", "Attempts whose process died or vanished before the job ended.")
RESTORED = CountedMetric("cyclops_jobs_restored", "Jobs found in neither queue nor process, and enqueued again.")
WEBHOOKS = CountedMetric(
    "cyclops_webhook_attempts",
    "Attempts to send a webhook, by what came of them.",
    "result",
    ("delivered", "repeated", "failed", OTHER),
)
MEASURES = (ENDED, FAILED, WAIT, DURATION, STAGE, CACHE, LOST, RESTORED, WEBHOOKS)


def counters_key(queue: str) -> str:
    """Returns the key of the hash in Redis."""
    return f"cyclops:tally:{queue}"


def counter_field(measure: CountedMetric, value: str = "", part: str = "") -> str:
    """Returns the name in the hash of a counter, of a histogram's bucket (``part`` is its bound), or of its sum."""
    return f"{measure.name}|{value}|{part}"


class Counters:
    """Counts of one process that have not been added to Redis."""

    def __init__(self, queue: str) -> None:
        self._key = counters_key(queue)
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._sums: defaultdict[str, float] = defaultdict(float)

    @classmethod
    def one(cls, measure: CountedMetric, value: str, queue: str, connection: redis.Redis) -> None:
        """Adds 1 to a counter in Redis, unless Redis is away."""
        counters = cls(queue)
        counters.count(measure, value)
        counters.add(connection)

    def count(self, measure: CountedMetric, value: str = "", by: int = 1) -> None:
        """Adds to a counter."""
        self._counts[counter_field(measure, measure.label_value(value))] += by

    def observe(self, measure: CountedMetric, seconds: float, value: str = "") -> None:
        """Adds an observation to a histogram; a negative one, by clocks that differ, counts as 0."""
        seconds, value = max(seconds, 0.0), measure.label_value(value)
        place = bisect.bisect_left(measure.buckets, seconds)
        part = str(measure.buckets[place]) if place < len(measure.buckets) else _OVER
        self._counts[counter_field(measure, value, part)] += 1
        self._sums[counter_field(measure, value, _SUM)] += seconds

    def add(self, connection: redis.Redis) -> None:
        """Adds all counts to those in Redis; if Redis is away they are lost."""
        counts, sums = dict(self._counts), dict(self._sums)
        self._counts.clear()
        self._sums.clear()
        if not counts:
            return
        try:
            with connection.pipeline(transaction=False) as pipeline:
                for name, count in counts.items():
                    pipeline.hincrby(self._key, name, count)
                for name, seconds in sums.items():
                    pipeline.hincrbyfloat(self._key, name, seconds)
                pipeline.execute()
        except redis.RedisError as error:
            _log.warning("counts are lost, as Redis is away: %s", error)


@dataclass(frozen=True)
class Distribution:
    """A histogram: the counts up to each bound and over all, cumulative, and the sum."""

    buckets: tuple[tuple[str, float], ...]
    total: float


def parse_counters(reply: Mapping[bytes, bytes]) -> dict[str, float]:
    """Parses the hash of Redis; values that are no numbers are skipped."""
    found: dict[str, float] = {}
    for name, value in reply.items():
        try:
            found[name.decode()] = float(value)
        except ValueError:
            continue
    return found


def counts(measure: CountedMetric, found: Mapping[str, float]) -> dict[str, float]:
    """Returns a counter by the values of its label."""
    every = {value: found.get(counter_field(measure, value)) for value in measure.values}
    hidden = {OTHER} if measure.shown else set(measure.values)
    return {value: count or 0.0 for value, count in every.items() if count is not None or value not in hidden}


def distributions(measure: CountedMetric, found: Mapping[str, float]) -> dict[str, Distribution]:
    """Returns a histogram by the values of its label."""
    shown = {}
    for value in measure.values:
        total = found.get(counter_field(measure, value, _SUM))
        if total is None and not measure.shown:
            continue
        reached, buckets = 0.0, []
        for bound in measure.buckets:
            reached += found.get(counter_field(measure, value, str(bound)), 0.0)
            buckets.append((str(bound), reached))
        reached += found.get(counter_field(measure, value, _OVER), 0.0)
        shown[value] = Distribution((*buckets, ("+Inf", reached)), total or 0.0)
    return shown
