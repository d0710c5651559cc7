"""Pages of jobs, newest first."""

import logging
from collections.abc import Callable
from itertools import islice

import redis

from worker.index import JobIndex, Selection
from worker.job_record import Job
from worker.jobs import Jobs

_log = logging.getLogger(__name__)
# records that a page may cost; one that has found less by then ends there
_MOST_READ = 1000

_Ids = Callable[[str | None, int], list[str]]


def page_of_jobs(
    jobs: Jobs, index: JobIndex, selection: Selection, cursor: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """Jobs of the selection, and the cursor of what follows; None if nothing does.

    A cursor is the id of the last job that was looked at: an id that is made later is higher, so a page does not move
    when jobs are added. Where the index cannot be used the ids come from the store.
    """
    try:
        if index.whole():
            return _page(jobs, selection, cursor, limit, lambda at, most: index.newest(selection, at, most), index)
    except redis.RedisError as error:
        _log.warning("jobs are listed from the store: %s", error)
    ids = jobs.ids()

    def from_store(at: str | None, most: int) -> list[str]:
        return list(islice((job_id for job_id in ids if at is None or job_id < at), most))

    return _page(jobs, selection, cursor, limit, from_store, None)


def _page(
    jobs: Jobs, selection: Selection, cursor: str | None, limit: int, ids: _Ids, index: JobIndex | None
) -> tuple[list[Job], str | None]:
    found: list[Job] = []
    read = 0
    while True:
        most = limit + 1 - len(found)
        some = ids(cursor, most)
        records = {job.id: job for job in jobs.among(some)}
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


def _mend(index: JobIndex, selection: Selection, ids: list[str], records: dict[str, Job]) -> None:
    """Note what is not so: a job that is another state by now, or is no more."""
    for job_id in ids:
        if job_id not in records:
            index.drop(selection, job_id)
        elif not selection.has(records[job_id]):
            index.put(records[job_id])
