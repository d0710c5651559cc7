"""What the routes work on: built once for each app, restricted for each request to what its caller may see."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from service.auth.caller import Caller, CurrentCaller
from service.auth.concurrency import FairSemaphore, OwnerSlots
from service.auth.key_cache import KeyCache
from service.auth.rate_limits import RateLimiter
from service.events.hub import EventHub
from service.http.problems import ProblemError
from service.uploads.inspection_queue import InspectionQueue
from worker.config.settings import Settings
from worker.identity.share_links import ShareLinks
from worker.inspection.inspector import Inspector, Planner
from worker.queue.job_queue import JobQueue
from worker.records.accelerator_store import Accelerators
from worker.records.idempotency import Idempotency
from worker.records.job_artifacts import TraceCache
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import UploadLocks
from worker.records.uploads import Model, ProgramInfo, Tensors, Uploads
from worker.retention.deletion import Deleter
from worker.storage.identifiers import ObjectKind
from worker.storage.object_store import Store
from worker.webhooks.deliveries import DeliveryOrders


@dataclass(frozen=True)
class Context:
    """The settings, the store and its views, the queue, and who follows jobs.

    A route's is :meth:`seen_by` who asks: what is another's is not there, whichever way it is looked for.
    """

    settings: Settings
    store: Store
    models: Uploads[Model]
    programs: Uploads[ProgramInfo]
    tensors: Uploads[Tensors]
    accelerators: Accelerators
    jobs: Jobs
    answers: ResultCache
    idempotency: Idempotency
    claims: UploadLocks
    eraser: Deleter
    orders: DeliveryOrders
    queue: JobQueue
    traces: TraceCache
    planner: Planner
    inspector: Inspector
    plans: FairSemaphore
    inspections: InspectionQueue
    keeping: FairSemaphore
    keyring: KeyCache
    shares: ShareLinks
    rates: RateLimiter
    feeds: EventHub
    streams: OwnerSlots
    waiters: OwnerSlots

    def seen_by(self, caller: Caller) -> "Context":
        """The same, without what the caller may not see."""
        shared = {caller.shared.kind: caller.shared} if caller.shared else {}
        job = shared.get("jobs")
        return replace(
            self,
            models=self.models.seen_by(caller.owner, shared.get("models")),
            programs=self.programs.seen_by(caller.owner, shared.get("programs")),
            tensors=self.tensors.seen_by(caller.owner, shared.get("tensors")),
            accelerators=self.accelerators.seen_by(caller.owner, shared.get("accelerators")),
            jobs=self.jobs.seen_by(caller.owner, job and job.id),
        )

    def job(self, job_id: str) -> Job:
        """The job's record.

        Raises:
            ProblemError: there is no such job.
        """
        try:
            return self.jobs.get(job_id)
        except KeyError:
            raise ProblemError("not-found", f"there is no job {job_id!r}", field="id") from None

    def require(self, kind: ObjectKind, name: str) -> None:
        """See that there is such a thing.

        Raises:
            ProblemError: there is none.
        """
        get: dict[ObjectKind, Callable[[str], object]] = {
            "jobs": self.jobs.get,
            "models": self.models.get,
            "programs": self.programs.get,
            "tensors": self.tensors.get,
            "accelerators": self.accelerators.brief,
        }
        try:
            get[kind](name)
        except KeyError:
            raise ProblemError("not-found", f"there is no {name!r} among the {kind}", field="id") from None

    def own_job(self, job_id: str, owner: str) -> Job:
        """The record of a job that the owner may change.

        Raises:
            ProblemError: the owner has no such job.
        """
        job = self.job(job_id)
        if job.owner != owner:
            raise ProblemError("not-found", f"there is no job {job_id!r}", field="id")
        return job


async def _request_context(request: Request, caller: CurrentCaller) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)
    return context.seen_by(caller)


RequestContext = Annotated[Context, Depends(_request_context)]
