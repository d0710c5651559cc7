"""Pages of jobs, newest first, from the index; and the repair of the index from the store, a part at a time."""

import itertools
import logging
import time
from collections.abc import Callable
from itertools import islice

import redis

from worker.records.job_index import JobIndex, JobSelection
from worker.records.job_record import Job
from worker.records.job_store import Jobs

_log = logging.getLogger(__name__)
# records that a page may cost; one that has found less by then ends there
_MOST_READ = 1000

_Ids = Callable[[str | None, int], list[str]]


def page_of_jobs(
    jobs: Jobs, index: JobIndex, selection: JobSelection, cursor: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """Returns a page of the selection's jobs and the cursor of the next page; None if it is the last.

    A cursor is the id of the last job that was looked at: an id that is made later is higher, so a page does not move
    when jobs are added. Where the index cannot be used the ids come from the store.
    """
    try:
        if index.is_complete():
            return _page(jobs, selection, cursor, limit, lambda at, most: index.newest(selection, at, most), index)
    except redis.RedisError as error:
        _log.warning("jobs are listed from the store: %s", error)
    ids = jobs.ids()

    def from_store(at: str | None, most: int) -> list[str]:
        return list(islice((job_id for job_id in ids if at is None or job_id < at), most))

    return _page(jobs, selection, cursor, limit, from_store, None)


def _page(
    jobs: Jobs, selection: JobSelection, cursor: str | None, limit: int, ids: _Ids, index: JobIndex | None
) -> tuple[list[Job], str | None]:
    found: list[Job] = []
    read = 0
    while True:
        most = limit + 1 - len(found)
        some = ids(cursor, most)
        records = {job.id: job for job in jobs.existing(some)}
        found += [job for job in records.values() if selection.has(job)]
        if index is not None:
            _mend(index, selection, some, records)
        if len(found) > limit:
            return found[:limit], found[limit - 1].id
        if len(some) < most:
            return found, None
        cursor, read = some[-1], read + len(some)
        if read >= _MOST_READ:
            return found, cursor


def _mend(index: JobIndex, selection: JobSelection, ids: list[str], records: dict[str, Job]) -> None:
    """Corrects index entries of jobs that have changed state or have been deleted."""
    for job_id in ids:
        if job_id not in records:
            index.drop(selection, job_id)
        elif not selection.has(records[job_id]):
            index.put(records[job_id])


_SECONDS = 0.5  # of a turn
_AT_ONCE = 64


def repair_index(jobs: Jobs, index: JobIndex, open_ids: list[str]) -> None:
    """Corrects the index for open jobs, and continues a rebuild if the index was lost.

    A job's mark under ``open/`` goes once its end is in the index. So what one of the two has and the other has not is
    what some process could not note, be it because Redis was away or because it died.

    Args:
        jobs: the jobs of all owners.
        index: the index.
        open_ids: the current result of :meth:`Jobs.open_ids`.

    Raises:
        redis.RedisError: Redis is away.
        StoreUnavailableError: the store is away.
    """
    deadline = time.monotonic() + _SECONDS
    for job_id in sorted(set(open_ids) ^ set(index.open_ids())):
        jobs.update_index(job_id)
        if time.monotonic() > deadline:
            return
    if not index.is_complete():
        _rebuild(jobs, index, deadline)


def _rebuild(jobs: Jobs, index: JobIndex, deadline: float) -> None:
    done = index.rebuild_cursor()
    ids = iter([job_id for job_id in reversed(jobs.ids()) if job_id > done])
    while some := list(itertools.islice(ids, _AT_ONCE)):
        for job in jobs.existing(some):
            index.put(job)
        index.advance_rebuild(done, some[-1])
        done = some[-1]
        if time.monotonic() > deadline:
            return
    index.finish_rebuild(done)
