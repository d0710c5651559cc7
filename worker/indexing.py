"""The index of the jobs, made to agree with the store, a part at each turn of the reconciler."""

import itertools
import time

from worker.index import JobIndex
from worker.jobs import Jobs

_SECONDS = 0.5  # of a turn
_AT_ONCE = 64


def mend_index(jobs: Jobs, index: JobIndex, open_ids: list[str]) -> None:
    """Note what has not been noted of the open jobs, and go on making the index anew if it was lost.

    A job's mark under ``open/`` goes once its end is in the index. So what one of the two has and the other has not is
    what some process could not note, be it because Redis was away or because it died.

    Args:
        jobs: of everybody.
        index: the index.
        open_ids: what :meth:`Jobs.open_ids` said just now.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailableError: the store is.
    """
    deadline = time.monotonic() + _SECONDS
    for job_id in sorted(set(open_ids) ^ set(index.open_ids())):
        jobs.note(job_id)
        if time.monotonic() > deadline:
            return
    if not index.whole():
        _rebuild(jobs, index, deadline)


def _rebuild(jobs: Jobs, index: JobIndex, deadline: float) -> None:
    done = index.rebuilt()
    ids = iter([job_id for job_id in reversed(jobs.ids()) if job_id > done])
    while some := list(itertools.islice(ids, _AT_ONCE)):
        for job in jobs.among(some):
            index.put(job)
        index.advance(done, some[-1])
        done = some[-1]
        if time.monotonic() > deadline:
            return
    index.finish(done)
