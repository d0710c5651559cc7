"""Jobs that have ended, with the files that they left."""

import shutil
import tempfile
from pathlib import Path

from worker.records.job_artifacts import publish
from worker.records.job_record import Job, Summary
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.runner.job_outputs import output_files
from worker.storage.object_store import Store

RESULT = Summary(verified=True, cycles=7, macs_share=1.0)


def publish_all(store: Store, job_id: str, attempt: int, directory: Path) -> None:
    """Publish copies of all files below the directory."""
    with tempfile.TemporaryDirectory() as copies:
        shutil.copytree(directory, copies, dirs_exist_ok=True)
        publish(store, job_id, attempt, output_files(Path(copies)))


def ended(store: Store, directory: Path, attempt: int = 1) -> Job:
    """The record of a job that succeeded at this attempt and left the files of the directory."""
    jobs = Jobs(store)
    job_id = jobs.create(JobRequest(model="a" * 64, accelerator="vta"))
    publish_all(store, job_id, attempt, directory)
    jobs.succeed(job_id, attempt, RESULT)
    return jobs.get(job_id)
