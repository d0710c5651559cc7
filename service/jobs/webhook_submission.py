"""Webhooks of a submission: checked, and scheduled for the end of its job."""

import contextlib
import hashlib

import redis

from service.context import JobContext
from service.http.problems import ProblemError
from service.http.resources import JobSubmission
from worker.storage.identifiers import new_id
from worker.webhooks.targets import Destinations, parse_url


def check_webhook(request: JobSubmission, jobs: JobContext) -> None:
    """Checks a webhook as far as that needs no network.

    Raises:
        ProblemError: nothing is sent from here, or not to this address.
    """
    if request.webhook is None:
        return
    if not jobs.settings.webhooks:
        raise ProblemError("invalid-request", "this service sends no webhooks", field="webhook")
    target, destinations = parse_url(request.webhook.url), Destinations.of(jobs.settings)
    if target.address is not None:
        refusal = destinations.refusal(target.address, target.port)
    else:  # where a name leads is found out when it is sent
        open_port = bool(destinations.networks) or destinations.has_port(target.port)
        refusal = None if open_port else "port-refused"
    if refusal == "address-refused":
        raise ProblemError("invalid-request", f"{target.address} is no public address", field="webhook.url")
    if refusal is not None:
        detail = f"webhooks go to port {jobs.settings.webhook_ports}, not to {target.port}"
        raise ProblemError("invalid-request", detail, field="webhook.url")


def schedule_webhook(job_id: str, request: JobSubmission, owner: str, jobs: JobContext) -> None:
    """Schedules the webhook for the end of a job that is about to be recorded; a second call does nothing.

    Raises:
        redis.RedisError: Redis is away: it would be sent late.
    """
    if request.webhook is not None:
        jobs.webhooks.place(job_id, job_id, owner, request.webhook)
        jobs.queue.schedule.expect(job_id, owner)


def schedule_webhook_of_ended_job(
    job_id: str, request: JobSubmission, owner: str, key: str | None, jobs: JobContext
) -> None:
    """Schedules the webhook of a submission that an ended job answers.

    Submissions with the same idempotency key are one.
    """
    if request.webhook is None:
        return
    # the time in an id counts, as in those of jobs
    order_id = new_id() if key is None else job_id[:14] + hashlib.sha256(f"{owner}\n{key}".encode()).hexdigest()[:18]
    if jobs.webhooks.place(order_id, job_id, owner, request.webhook):
        with contextlib.suppress(redis.RedisError):  # the sweep finds it
            jobs.queue.schedule.set_due(order_id, owner, 0)
