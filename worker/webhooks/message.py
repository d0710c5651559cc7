"""What is sent: the end of a job, signed as Standard Webhooks has it (standardwebhooks.com)."""

from datetime import datetime

import pydantic
from standardwebhooks import Webhook

from worker.job_record import Job


class Message(pydantic.BaseModel):
    """The body."""

    type: str = "job.ended"
    timestamp: datetime
    data: Job


def body_of(job: Job) -> bytes:
    """The body for a job that has ended."""
    assert job.finished is not None
    return Message(timestamp=job.finished, data=job).model_dump_json().encode()


def signed(order_id: str, secret: str, body: bytes, when: datetime) -> dict[str, str]:
    """The headers of an attempt.

    Args:
        order_id: the same for all attempts.
        secret: ``whsec_`` and Base64.
        body: of the request.
        when: the time of this attempt, in UTC.
    """
    return {
        "webhook-id": order_id,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": Webhook(secret).sign(order_id, when, body.decode()),
    }
