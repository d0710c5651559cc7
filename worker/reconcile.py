"""What the store knows and the queue has lost, and what dead processes left on the disk."""

import logging
import shutil
from datetime import timedelta
from pathlib import Path

from worker.jobs import Jobs, now
from worker.problem import problem
from worker.queue import JobQueue

_log = logging.getLogger(__name__)
# the service records a job before it enqueues it: a younger job is not lost yet
_GRACE = timedelta(seconds=5)

WORKER_LOST = ("worker-lost", "The worker died while it ran the job.")


def reconcile(jobs: Jobs, queue: JobQueue) -> None:
    """Enqueue again what is accepted and nowhere; fail what a dead worker left running."""
    for job_id in jobs.open_ids():
        try:
            job = jobs.get(job_id)
        except KeyError:
            continue  # being created
        if job.ended:
            jobs.close(job_id)
        elif now() - job.created < _GRACE or queue.holds(job_id):
            continue
        elif job.state == "queued":
            _log.warning("job %s was accepted and is not in the queue: enqueued again", job_id)
            queue.submit(job_id)
        elif jobs.fail(job_id, problem(*WORKER_LOST, "the process that ran the job is gone; submit it again")):
            _log.warning("job %s was left running by a dead worker: failed", job_id)


def sweep(jobs: Jobs, scratch: Path) -> None:
    """Remove the directories of ended jobs, whose process was killed before it could."""
    for directory in scratch.glob("job-*"):
        try:
            ended = jobs.get(directory.name.removeprefix("job-")).ended
        except KeyError:
            ended = True
        if ended:
            shutil.rmtree(directory, ignore_errors=True)
