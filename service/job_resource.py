"""A job as the API shows it."""

from service.schemas import JobResource
from worker.records.job_record import Job

_PARTS = ("report", "outputs", "trace", "tir", "artifacts", "events", "webhooks", "cancel")


def job_resource(job: Job, position: int | None = None, *, cached: bool = False) -> JobResource:
    """The job's record, where its results are, and how many jobs are before it in the queue, if that is known.

    ``cached``: it answers a submission that made no job.
    """
    home = f"/v1/jobs/{job.id}"
    links = {"self": home} | {part: f"{home}/{part}" for part in _PARTS}
    place = position if job.state == "queued" else None
    # its parts were checked already, when the record was read
    return JobResource.model_construct(**dict(job), position=place, links=links, cached=cached)
