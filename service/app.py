"""The ASGI application, built from the settings."""

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from fastapi.telemetry import TelemetryConfig
from fastapi_offline import FastAPIOffline
from opentelemetry.trace import Tracer

from service import openapi, prometheus
from service.auth.concurrency import FairSemaphore, OwnerSlots
from service.auth.key_cache import KeyCache
from service.auth.rate_limits import RateLimiter
from service.auth.route_policy import RoutePolicies, access
from service.context import Context
from service.events.hub import EventHub
from service.http import problems
from service.middleware.access_control import AccessControl, warn_without_keys
from service.middleware.bodies import BodyLimit, HeadAsGet, RefuseContentCodings
from service.middleware.compression import Compression
from service.middleware.cross_origin import CrossOriginGuard, allow_origins
from service.middleware.observation import RequestObserver
from service.middleware.security_headers import SecurityHeaders
from service.prometheus import BackendCollector, RequestMetrics
from service.routes import (
    about,
    accelerators,
    artifacts,
    events,
    health,
    jobs,
    labels,
    models,
    programs,
    reference,
    retention,
    shares,
    tensors,
    trace,
)
from service.uploads.inspection_queue import InspectionQueue
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.identity.share_links import ShareLinks
from worker.inspection.inspector import Inspector, Planner
from worker.process.scratch import sweep_scratch
from worker.queue.job_queue import JobQueue
from worker.queue.reconciler import reconciler
from worker.records.accelerator_store import Accelerators
from worker.records.idempotency import Idempotency
from worker.records.job_artifacts import TraceCache
from worker.records.job_store import Jobs
from worker.records.result_cache import ResultCache
from worker.records.upload_locks import UploadLocks
from worker.records.uploads import models as model_uploads
from worker.records.uploads import programs as program_uploads
from worker.records.uploads import tensors as tensor_uploads
from worker.retention.deletion import Deleter
from worker.retention.retention_policy import RetentionCollector
from worker.sandbox.fork_client import ForkClient
from worker.storage.connections import open_async_redis, open_redis, open_store
from worker.webhooks.deliveries import DeliveryOrders, schedule_lost_orders

_DESCRIPTION = """
Upload an ONNX model, name an accelerator, and get the TIR after every pass, the instruction stream, a cycle count, and
proof that the program computes the right numbers.

1. `POST /v1/models` with the file: the answer has its id.
2. `POST /v1/jobs` with `{"model": id, "accelerator": "vta"}`: 202, and the job's `Location`.
3. `GET` that until its state is `succeeded`, or with `Prefer: wait=60`, or follow its `events`; then its `report`,
   `trace`, `tir` and `outputs`.

`POST /v1/jobs?dry_run=true` says what would run where, and why, without compiling. `GET /v1/accelerators` lists the
accelerators; documents of your own have the form of `GET /v1/schemas/accelerator`.

A program that is compiled already, by another job or by another tool, is only simulated: `POST /v1/programs`, then
`POST /v1/jobs` with `{"program": id}`.

Every error is a problem document (RFC 9457); its `type` leads to an explanation.
"""
_ROUTES = (
    *(models, programs, tensors, accelerators),
    *(jobs, events, labels, shares, artifacts, trace, retention),
    *(reference, about, health),
)
# a request is answered soon, be it with 503: a worker has more patience
_REDIS_RETRIES = 2
_REDIS_SECONDS = 1.0
_STORE_SECONDS = 4.0
_KEPT_AT_ONCE = 4  # uploads that are sent to the store, each by a thread
# FastAPI's own: we make the traces and metrics that docs/operating.md names, and no others leave
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
# to count requests is not worth a wait
_RATES_SECONDS = 0.25


def build_context(settings: Settings, light: ForkClient, compiler: ForkClient) -> Context:
    """Returns what the routes work on.

    The fork servers run ``worker.inspection.upload_tasks`` and ``worker.inspection.compiler_tasks``.
    """
    store = open_store(settings, patience=_STORE_SECONDS)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    sweep_scratch(settings.scratch_dir)
    if settings.redis_url is None:
        settings = settings.model_copy(update={"redis_url": "redis://localhost:6379"})
    connection = open_redis(settings, retries=_REDIS_RETRIES, timeout=_REDIS_SECONDS)
    queue = JobQueue(connection, settings.queue)
    accelerators, jobs = Accelerators(store), Jobs(store, queue.index)
    answers = ResultCache(store, jobs, accelerators)
    # where no keys are needed all are one
    share = 1.0 if settings.auth == "off" else settings.streams_share
    quick = open_async_redis(settings, timeout=_REDIS_SECONDS)
    return Context(
        settings=settings,
        store=store,
        models=model_uploads(store),
        programs=program_uploads(store),
        tensors=tensor_uploads(store),
        accelerators=accelerators,
        jobs=jobs,
        answers=answers,
        claims=UploadLocks(store),
        eraser=Deleter(store, jobs, answers, queue.index),
        orders=DeliveryOrders(store),
        idempotency=Idempotency(store, jobs, settings.idempotency_seconds),
        queue=queue,
        traces=TraceCache(),
        planner=Planner(settings, compiler),
        inspector=Inspector(settings, light, compiler),
        plans=FairSemaphore(settings.plans_at_once, settings.plan_wait_seconds, "dry runs are under way"),
        inspections=InspectionQueue(settings.inspections_at_once, settings.inspection_wait_seconds),
        keeping=FairSemaphore(_KEPT_AT_ONCE, settings.inspection_wait_seconds, "uploads are sent to the store"),
        keyring=KeyCache(ApiKeys(store), settings.auth_cache_seconds),
        shares=ShareLinks(store),
        rates=RateLimiter(open_redis(settings, retries=0, timeout=_RATES_SECONDS)),
        feeds=EventHub(jobs, queue.waiting, open_async_redis(settings, timeout=None), quick),
        streams=OwnerSlots(settings.streams_at_once, share),
        waiters=OwnerSlots(settings.streams_at_once, share),
    )


def create_app(settings: Settings | None = None, tracer: Tracer | None = None) -> FastAPI:
    """The app; without settings they come from the environment, and without a tracer there are no traces.

    Nothing is touched before the app starts up, so that its OpenAPI document needs no store and no Redis.
    """
    chosen = settings or Settings()
    logged = (chosen.log_level, chosen.log_format)
    meters = RequestMetrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with (
            contextlib.closing(ForkClient("worker.inspection.upload_tasks", *logged)) as light,
            contextlib.closing(ForkClient("worker.inspection.compiler_tasks", *logged)) as compiler,
        ):
            here = app.state.context = build_context(chosen, light, compiler)
            light.start()
            if chosen.auth != "off":
                warn_without_keys(ApiKeys(here.store))
            collector = RetentionCollector(here.settings, here.store, here.jobs, here.answers, here.eraser, here.queue)

            def besides() -> None:
                schedule_lost_orders(here.orders, here.jobs, here.queue.agenda)
                collector.step()

            with (
                reconciler(here.jobs, here.queue, chosen.reconcile_seconds, besides),
                prometheus.exporting_otlp(meters.registry),
            ):
                async with here.feeds.running():
                    yield
            here.queue.connection.close()
            here.rates.close()

    app: FastAPI = FastAPIOffline(
        title="Cyclops",
        version=version("cyclops"),
        summary="Compile a neural network for a tensor accelerator, simulate it, and prove the result.",
        description=_DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
    )
    documentation = tuple(app.routes)
    for resource in _ROUTES:
        app.include_router(resource.router)
    app.add_api_route("/", _redirect_to_docs, include_in_schema=False)
    policies = RoutePolicies(app.routes, documentation)
    openapi.install_openapi(app, policies)
    app.add_middleware(BodyLimit, settings=chosen, policies=policies)
    app.add_middleware(RefuseContentCodings)
    # what is added later sees a request earlier
    app.add_middleware(AccessControl, settings=chosen, policies=policies)
    allow_origins(app, chosen.origins)
    app.add_middleware(CrossOriginGuard, settings=chosen)
    app.add_middleware(SecurityHeaders, settings=chosen)
    app.add_middleware(Compression)
    app.add_middleware(HeadAsGet)
    app.state.meters = meters
    meters.registry.register(BackendCollector(lambda: app.state.context))
    app.add_middleware(RequestObserver, meters=meters, tracer=tracer)
    problems.install_problem_handlers(app)
    return app


@access("open")
def _redirect_to_docs() -> RedirectResponse:
    """Whoever opens the address in a browser wants the documentation."""
    return RedirectResponse("/docs")
