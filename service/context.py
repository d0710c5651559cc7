"""What the routes work on: built once for each app, restricted for each request to what its caller may see."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import canonical
from accel.report.provenance import file_digest
from service.auth.caller import Caller, CurrentCaller
from service.auth.concurrency import FairSemaphore, OwnerSlots
from service.auth.key_cache import KeyCache
from service.auth.rate_limits import RateLimiter
from service.events.hub import EventHub
from service.http.problems import ProblemError
from service.uploads.inspection_queue import InspectionQueue
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.identity.share_links import ShareLinks
from worker.inspection.inspector import Inspector, Planner
from worker.process.scratch import scratch_directory, sweep_scratch
from worker.queue.job_queue import JobQueue
from worker.records.accelerator_store import Accelerators
from worker.records.idempotency import Idempotency
from worker.records.job_artifacts import Artifacts, TimelineCache, TraceCache
from worker.records.job_record import Job
from worker.records.job_store import Jobs
from worker.records.pass_index import PassIndexCache
from worker.records.result_cache import ResultCache
from worker.records.run_figures_cache import RunFiguresCache
from worker.records.upload_locks import UploadKind, UploadLocks
from worker.records.uploads import Model, ProgramInfo, Tensors, Uploads
from worker.records.uploads import models as model_uploads
from worker.records.uploads import programs as program_uploads
from worker.records.uploads import tensors as tensor_uploads
from worker.retention.deletion import Deleter
from worker.sandbox.fork_client import ForkClient
from worker.storage.connections import open_async_redis, open_redis, open_store
from worker.storage.identifiers import ObjectKind
from worker.storage.object_store import Store
from worker.webhooks.deliveries import DeliveryOrders

# a request is answered soon, be it with 503: a worker has more patience
_REDIS_RETRIES = 2
_REDIS_SECONDS = 1.0
_STORE_SECONDS = 4.0
_RATES_SECONDS = 0.25  # to count requests is not worth a wait
_STORED_AT_ONCE = 4  # uploads that are sent to the store, each by a thread


@dataclass(frozen=True)
class UploadContext:
    """Uploads: stored ones, and what examines and stores new ones.

    Attributes:
        inspector: examines files in confined processes, of which ``inspections`` lets few run at a time.
        storing: lets few uploads be sent to the store at a time.
    """

    settings: Settings
    models: Uploads[Model]
    programs: Uploads[ProgramInfo]
    tensors: Uploads[Tensors]
    accelerators: Accelerators
    inspector: Inspector
    inspections: InspectionQueue
    storing: FairSemaphore

    def restricted_to(self, caller: Caller) -> "UploadContext":
        """Returns the same without what the caller may not see."""
        shared = {caller.shared.kind: caller.shared} if caller.shared else {}
        return replace(
            self,
            models=self.models.seen_by(caller.owner, shared.get("models")),
            programs=self.programs.seen_by(caller.owner, shared.get("programs")),
            tensors=self.tensors.seen_by(caller.owner, shared.get("tensors")),
            accelerators=self.accelerators.seen_by(caller.owner, shared.get("accelerators")),
        )

    def require_visible(self, kind: UploadKind, name: str) -> None:
        """Checks that the caller has this upload, or that it is everybody's.

        Raises:
            ProblemError: there is no such upload.
        """
        get: dict[UploadKind, Callable[[str], object]] = {
            "models": self.models.get,
            "programs": self.programs.get,
            "tensors": self.tensors.get,
            "accelerators": self.accelerators.summary,
        }
        try:
            get[kind](name)
        except KeyError:
            raise ProblemError("not-found", f"there is no {name!r} among the {kind}", field="id") from None

    async def examine_document(self, document: Path | str, owner: str) -> Accelerator:
        """Returns the accelerator of a document, a file or a text, examined in a confined process; it is not kept.

        Raises:
            ProblemError: it cannot be examined within the limits, or it was not its turn in time.
            RefusedError: it cannot be used.
        """

        def examine() -> Accelerator:
            if isinstance(document, Path):
                return self.inspector.accelerator(document)
            with scratch_directory(self.settings.scratch_dir, "document") as folder:
                path = folder / "document"
                path.write_bytes(document.encode())
                return self.inspector.accelerator(path)

        return await self.inspections.run(examine, owner)

    async def keep_document(self, document: Path | str, owner: str) -> tuple[str, Accelerator]:
        """Examines a document, a file or a text, and keeps it; returns its id and the accelerator.

        Raises:
            ProblemError, RefusedError: as :meth:`examine_document`.
        """
        accelerator = await self.examine_document(document, owner)
        return await self.store_document(accelerator, document, owner), accelerator

    async def store_document(self, accelerator: Accelerator, document: Path | str, owner: str) -> str:
        """Keeps the accelerator of a document, a file or a text; returns its id.

        Raises:
            ProblemError: it was not its turn in time, or it cannot be stored.
        """

        def keep() -> str:
            if isinstance(document, Path):
                return self.accelerators.add(accelerator, file_digest(document))
            return self.accelerators.add(accelerator, hashlib.sha256(document.encode()).hexdigest())

        return await self.storing.run(keep, owner)

    async def derive_document(
        self, accelerator: Accelerator, keys: dict[str, Any], name: str | None, owner: str
    ) -> Accelerator:
        """Returns the document of another configuration, derived in a confined process; it is not kept.

        Raises:
            ProblemError, RefusedError: as :meth:`examine_document`.
        """
        document = canonical(accelerator)
        return await self.inspections.run(lambda: self.inspector.derived(document, keys, name), owner)


@dataclass(frozen=True)
class JobContext:
    """Jobs: their records and results, the queue, and who follows them.

    Attributes:
        streams: slots of requests that follow a job's events.
        waiters: slots of requests that wait for a job's end.
    """

    settings: Settings
    store: Store
    records: Jobs
    traces: TraceCache
    timelines: TimelineCache
    passes: PassIndexCache
    figures: RunFiguresCache
    queue: JobQueue
    webhooks: DeliveryOrders
    events: EventHub
    streams: OwnerSlots
    waiters: OwnerSlots

    def restricted_to(self, caller: Caller) -> "JobContext":
        """Returns the same without what the caller may not see."""
        shared = caller.shared.id if caller.shared and caller.shared.kind == "jobs" else None
        return replace(self, records=self.records.seen_by(caller.owner, shared))

    def get(self, job_id: str) -> Job:
        """Returns the job's record: one of the caller's, or on a route that links open also the one that is shared.

        Raises:
            ProblemError: the caller has no such job.
        """
        try:
            return self.records.get(job_id)
        except KeyError:
            raise ProblemError("not-found", f"there is no job {job_id!r}", field="id") from None

    async def positions(self, jobs: Sequence[Job]) -> dict[str, int | None]:
        """Returns how many jobs are before each queued one of these, by its id; None where that is not known."""
        queued = [job.id for job in jobs if job.state == "queued"]
        return dict(zip(queued, await self.events.positions(queued), strict=True))

    def artifacts(self, job: Job) -> Artifacts:
        """Returns the files that the job left."""
        return Artifacts(self.store, job)


@dataclass(frozen=True)
class SubmissionContext:
    """What a submission needs beside uploads and jobs.

    Attributes:
        results: earlier jobs that answer a submission.
        planner: makes the plans of dry runs, of which ``plans`` lets few run at a time.
    """

    results: ResultCache
    idempotency: Idempotency
    upload_locks: UploadLocks
    planner: Planner
    plans: FairSemaphore


@dataclass(frozen=True)
class AccessContext:
    """Who may come in: keys, share links, and rate limits."""

    keys: KeyCache
    shares: ShareLinks
    rates: RateLimiter


@dataclass(frozen=True)
class Context:
    """All that routes work on, by concern.

    A route's is :meth:`restricted_to` its caller: what belongs to another owner cannot be found in it.
    """

    settings: Settings
    store: Store
    uploads: UploadContext
    jobs: JobContext
    submissions: SubmissionContext
    access: AccessContext
    deleter: Deleter

    def restricted_to(self, caller: Caller) -> "Context":
        """Returns the same without what the caller may not see."""
        return replace(self, uploads=self.uploads.restricted_to(caller), jobs=self.jobs.restricted_to(caller))

    def require_visible(self, kind: ObjectKind, name: str) -> None:
        """Checks that the caller has this job or upload, or that it is everybody's.

        Raises:
            ProblemError: there is none.
        """
        if kind == "jobs":
            self.jobs.get(name)
        else:
            self.uploads.require_visible(kind, name)


def build_context(settings: Settings, light: ForkClient, compiler: ForkClient) -> Context:
    """Returns the context of an app, with connections to its store and its Redis.

    Args:
        settings: the app's.
        light: the fork server of ``worker.inspection.upload_tasks``.
        compiler: the fork server of ``worker.inspection.compiler_tasks``.
    """
    store = open_store(settings, retry_seconds=_STORE_SECONDS)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    sweep_scratch(settings.scratch_dir)
    if settings.redis_url is None:
        settings = settings.model_copy(update={"redis_url": "redis://localhost:6379"})
    queue = JobQueue(open_redis(settings, retries=_REDIS_RETRIES, timeout=_REDIS_SECONDS), settings.queue)
    accelerators, jobs = Accelerators(store), Jobs(store, queue.index)
    results = ResultCache(store, jobs, accelerators)
    return Context(
        settings=settings,
        store=store,
        uploads=UploadContext(
            settings=settings,
            models=model_uploads(store),
            programs=program_uploads(store),
            tensors=tensor_uploads(store),
            accelerators=accelerators,
            inspector=Inspector(settings, light, compiler),
            inspections=InspectionQueue(settings.inspections_at_once, settings.inspection_wait_seconds),
            storing=FairSemaphore(_STORED_AT_ONCE, settings.inspection_wait_seconds, "uploads are sent to the store"),
        ),
        jobs=_job_context(settings, store, jobs, queue),
        submissions=SubmissionContext(
            results=results,
            idempotency=Idempotency(store, jobs, settings.idempotency_seconds),
            upload_locks=UploadLocks(store),
            planner=Planner(settings, compiler),
            plans=FairSemaphore(settings.plans_at_once, settings.plan_wait_seconds, "dry runs are under way"),
        ),
        access=AccessContext(
            keys=KeyCache(ApiKeys(store), settings.auth_cache_seconds),
            shares=ShareLinks(store),
            rates=RateLimiter(open_redis(settings, retries=0, timeout=_RATES_SECONDS)),
        ),
        deleter=Deleter(store, jobs, results, queue.index),
    )


def _job_context(settings: Settings, store: Store, jobs: Jobs, queue: JobQueue) -> JobContext:
    # where no keys are needed all callers are one owner
    share = 1.0 if settings.auth == "off" else settings.streams_share
    blocking = open_async_redis(settings, timeout=None)
    quick = open_async_redis(settings, timeout=_REDIS_SECONDS)
    return JobContext(
        settings=settings,
        store=store,
        records=jobs,
        traces=TraceCache(),
        timelines=TimelineCache(),
        passes=PassIndexCache(),
        figures=RunFiguresCache(),
        queue=queue,
        webhooks=DeliveryOrders(store),
        events=EventHub(jobs, queue.waiting, blocking, quick),
        streams=OwnerSlots(settings.streams_at_once, share),
        waiters=OwnerSlots(settings.streams_at_once, share),
    )


def app_context(request: Request) -> Context:
    """Returns the context of the request's app, which sees everything."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


async def _request_context(request: Request, caller: CurrentCaller) -> Context:
    return app_context(request).restricted_to(caller)


RequestContext = Annotated[Context, Depends(_request_context)]


async def _request_uploads(context: RequestContext) -> UploadContext:
    return context.uploads


async def _request_jobs(context: RequestContext) -> JobContext:
    return context.jobs


RequestUploads = Annotated[UploadContext, Depends(_request_uploads)]
RequestJobs = Annotated[JobContext, Depends(_request_jobs)]
