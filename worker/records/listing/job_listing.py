"""Pages of jobs, sorted, from the index; and the repair of the index from the store, a part at a time."""

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import redis

from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.listing.job_index import JobIndex, JobSelection
from worker.records.listing.job_row import JOB_SORTS, NEWEST, JobRow, JobSort
from worker.records.listing.list_order import Position, Sort

_log = logging.getLogger(__name__)
# records that a page may cost; one that has found less by then ends there
_MOST_READ = 1000

_Ids = Callable[[str | None, int], list[str]]
# gives the names of models, programs and accelerators of these jobs by their ids, among which words are looked for
JobNames = Callable[[Iterable[JobRow]], Mapping[str, str]]


class IndexIncompleteError(Exception):
    """There are more jobs than are sorted without the index."""

    def __init__(self) -> None:
        super().__init__(f"while the index of jobs is made anew, more than {_MOST_READ:,} are sorted by time alone")


def _no_names(_rows: Iterable[JobRow]) -> Mapping[str, str]:
    return {}


def page_of_jobs(
    jobs: Jobs,
    index: JobIndex,
    selection: JobSelection,
    cursor: str | None,
    limit: int,
    sort: JobSort = NEWEST,
    names: JobNames = _no_names,
) -> tuple[list[Job], str | None]:
    """Returns a page of the selection's jobs and the cursor of the next page; None if it is the last.

    A cursor is the place in the order of the last job that was looked at. So a page does not move when jobs are added;
    that of the newest jobs is an id, as an id that is made later is higher. The newest of a selection that the index
    has as sets cost what the page costs; every other page costs a look at all rows of the owner.

    Where the index cannot be used the records come from the store.

    Raises:
        CursorError: the cursor is of another sort.
        IndexIncompleteError: the index cannot be used, and the owner has too many jobs to be sorted without it.
    """
    order = JOB_SORTS[sort]
    after = None if cursor is None else order.decode(cursor)
    try:
        if index.is_complete():
            if sort == NEWEST and selection.by_sets:
                newest = _Found(jobs, selection, names, index)
                return newest.page(after and after.id, limit, lambda at, most: index.newest(selection, at, most), order)
            return _page_of_rows(jobs, index, selection, order, after, limit, names)
    except redis.RedisError as error:
        _log.warning("jobs are listed from the store: %s", error)
    return _page_from_store(_Found(jobs, selection, names, None), jobs.ids(), order, after, limit)


def rows_of_jobs(jobs: Jobs, index: JobIndex, selection: JobSelection, names: JobNames = _no_names) -> list[JobRow]:
    """Returns the rows of a selection's jobs, newest first, as the index has them: a job may have changed since.

    Raises:
        IndexIncompleteError: the index cannot be used, and there are too many jobs to look at all of them.
    """
    try:
        if index.is_complete():
            rows = index.rows(selection.owner)
            called = names(rows) if selection.words else {}
            found = [row for row in rows if selection.has_row(row, called)]
            return sorted(found, key=lambda row: row.id, reverse=True)
    except redis.RedisError as error:
        _log.warning("jobs are listed from the store: %s", error)
    ids = jobs.ids()
    if len(ids) > _MOST_READ:
        raise IndexIncompleteError
    return [JobRow.of(job) for job in _Found(jobs, selection, names, None).among(ids)[0]]


def _page_of_rows(
    jobs: Jobs,
    index: JobIndex,
    selection: JobSelection,
    order: Sort[JobRow],
    after: Position | None,
    limit: int,
    names: JobNames,
) -> tuple[list[Job], str | None]:
    """Returns a page from the rows of the index, once the rows on it are what the records say."""
    rows = {row.id: row for row in index.rows(selection.owner)}
    called = names(rows.values()) if selection.words else {}
    read: dict[str, Job] = {}
    most, wrong = limit + 1, True
    while wrong:
        found = order.following((row for row in rows.values() if selection.has_row(row, called)), after)
        unread = [row for row in found[:most] if row.id not in read]
        read |= {job.id: job for job in jobs.existing(row.id for row in unread) if job.owner == selection.owner}
        wrong = False
        for row in unread:
            if row.id not in read:
                del rows[row.id]
                index.drop(JobSelection(selection.owner, (), row.model or row.program, row.accelerator), row.id)
                wrong = True
            elif (now := JobRow.of(read[row.id])) != row:
                rows[row.id] = now
                jobs.update_index(row.id)
                wrong = True
        most *= 2  # of an index that is wrong all over
    page = [read[row.id] for row in found[:limit]]
    return page, order.encode(order.position(found[limit - 1])) if len(found) > limit else None


def _page_from_store(
    found: "_Found", ids: list[str], order: Sort[JobRow], after: Position | None, limit: int
) -> tuple[list[Job], str | None]:
    """Returns a page without the index."""
    if order.name.removeprefix("-") == "submitted":
        ordered = ids if order.ids_descend else list(reversed(ids))

        def from_store(at: str | None, most: int) -> list[str]:
            rest = (job_id for job_id in ordered if at is None or ((job_id < at) == order.ids_descend and job_id != at))
            return list(islice(rest, most))

        return found.page(after and after.id, limit, from_store, order)
    if len(ids) > _MOST_READ:
        raise IndexIncompleteError
    records = {job.id: job for job in found.among(ids)[0]}
    rows = order.following((JobRow.of(job) for job in records.values()), after)
    page = [records[row.id] for row in rows[:limit]]
    return page, order.encode(order.position(rows[limit - 1])) if len(rows) > limit else None


class _Found:
    """The jobs of a selection among ids, by their records; ``index``, if it is given, is corrected."""

    def __init__(self, jobs: Jobs, selection: JobSelection, names: JobNames, index: JobIndex | None) -> None:
        self._jobs = jobs
        self._selection = selection
        self._names = names
        self._index = index

    def page(self, at: str | None, limit: int, ids: _Ids, order: Sort[JobRow]) -> tuple[list[Job], str | None]:
        """Returns a page of the jobs that ``ids`` gives in their order, and the cursor of the next."""
        found: list[Job] = []
        read = 0
        while True:
            most = limit + 1 - len(found)
            some = ids(at, most)
            jobs, records = self.among(some)
            found += jobs
            if self._index is not None:
                self._mend(self._index, some, records)
            if len(found) > limit:
                return found[:limit], order.encode(Position(None, found[limit - 1].id))
            if len(some) < most:
                return found, None
            at, read = some[-1], read + len(some)
            if read >= _MOST_READ:
                return found, order.encode(Position(None, at))

    def among(self, ids: list[str]) -> tuple[list[Job], dict[str, Job]]:
        """Returns the selected jobs among ``ids``, and the records of all that exist."""
        records = {job.id: job for job in self._jobs.existing(ids)}
        called = self._names(map(JobRow.of, records.values())) if self._selection.words else {}
        return [job for job in records.values() if self._selection.has(job, called)], records

    def _mend(self, index: JobIndex, ids: list[str], records: dict[str, Job]) -> None:
        """Corrects index entries of jobs that have changed state or have been deleted."""
        for job_id in ids:
            if job_id not in records:
                index.drop(self._selection, job_id)
            elif not self._selection.has(records[job_id], {}):
                self._jobs.update_index(job_id)


_SECONDS = 0.5  # of a turn
_AT_ONCE = 64


def repair_index(jobs: Jobs, index: JobIndex, open_ids: list[str]) -> None:
    """Corrects the index for open jobs, and continues a rebuild if the index was lost.

    A job's mark under ``open/`` goes once its end is in the index, and is there while a job is changed. So what one of
    the two has and the other has not is what some process could not note, be it because Redis was away or because it
    died.

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
        jobs.put_into(index, some)
        index.advance_rebuild(done, some[-1])
        done = some[-1]
        if time.monotonic() > deadline:
            return
    index.finish_rebuild(done)
