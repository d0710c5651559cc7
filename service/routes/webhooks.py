"""Webhook deliveries of a job."""

from fastapi import APIRouter

from service.auth.caller import CurrentOwner
from service.context import RequestContext
from service.http.declarations import declare_problems
from service.http.resources import Deliveries
from service.jobs.job_id import JobId

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("/{id}/webhooks", summary="Look after a job's webhooks", responses=declare_problems("not-found"))
def list_webhooks(id: JobId, here: RequestContext, owner: CurrentOwner) -> Deliveries:  # noqa: A002 - the API's name
    """How far each webhook is that was named for this job, oldest first; secrets are not shown.

    Several submissions may have been answered with the same job; each may have named one.
    """
    return Deliveries(items=here.orders.of(here.own_job(id, owner).id))
