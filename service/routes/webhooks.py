"""What is told of a job's end, and to whom."""

from fastapi import APIRouter

from service.caller import Owner
from service.context import Here
from service.documents import problems
from service.job_id import JobId
from service.schemas import Deliveries

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("/{id}/webhooks", summary="Look after a job's webhooks", responses=problems("not-found"))
def list_webhooks(id: JobId, here: Here, owner: Owner) -> Deliveries:  # noqa: A002 - the API's name
    """How far each webhook is that was named for this job, oldest first; secrets are not shown.

    Several submissions may have been answered with the same job; each may have named one.
    """
    return Deliveries(items=here.orders.of(here.own_job(id, owner).id))
