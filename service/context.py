"""What the routes work on, made once for each app."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from service.caller import Asker
from service.following.feeds import Feeds
from service.following.stream import Places
from service.identity import Caller
from service.inspection import Inspections
from service.keyring import Keyring
from service.problems import ProblemError
from service.rates import Rates
from service.turns import Turns
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
    plans: Turns
    inspections: Inspections
    keeping: Turns
    keyring: Keyring
    shares: ShareLinks
    rates: Rates
    feeds: Feeds
    streams: Places
    waiters: Places

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


async def _context(request: Request, caller: Asker) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)
    return context.seen_by(caller)


Here = Annotated[Context, Depends(_context)]
