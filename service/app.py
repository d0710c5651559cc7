"""The ASGI application, built from the settings."""

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from fastapi_offline import FastAPIOffline
from opentelemetry.trace import Tracer

from service import openapi, prometheus
from service.auth.route_policy import RoutePolicies
from service.context import build_context
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
    accelerator_derivation,
    accelerators,
    events,
    health,
    jobs,
    labels,
    reference,
    retention,
    shares,
    uploads,
)
from service.routes.results import artifacts, changes, compare, figures, graph, passes, timeline, trace
from service.web.pages import (
    accelerator_pages,
    chart_page,
    compare_pages,
    graph_page,
    job_accelerator_page,
    job_pages,
    list_pages,
    memory_page,
    pass_pages,
    report_download,
    sessions,
    start_pages,
    timeline_page,
)
from service.web.pages.problem_pages import ProblemPages, unexpected_error_page
from service.web.templating import perfetto_viewer, static_files
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.queue.reconciler import reconciler
from worker.retention.retention_policy import RetentionCollector
from worker.sandbox.fork_client import ForkClient
from worker.webhooks.deliveries import schedule_lost_orders

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
    *(uploads, accelerators, accelerator_derivation),
    *(
        figures,
        jobs,
        events,
        labels,
        shares,
        artifacts,
        report_download,
        changes,
        graph,
        passes,
        trace,
        timeline,
        compare,
        retention,
    ),
    *(reference, about, health),
)
_PAGES = (
    start_pages,
    list_pages,
    chart_page,
    job_pages,
    job_accelerator_page,
    graph_page,
    pass_pages,
    timeline_page,
    memory_page,
    compare_pages,
    accelerator_pages,
    sessions,
    static_files,
    perfetto_viewer,
)
# FastAPI's own: we make the traces and metrics that docs/operating.md names, and no others leave
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def create_app(settings: Settings | None = None, tracer: Tracer | None = None) -> FastAPI:
    """Returns the app; settings default to those of the environment, and without a tracer there are no traces.

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
            context = app.state.context = build_context(chosen, light, compiler)
            light.start()
            if chosen.auth != "off":
                warn_without_keys(ApiKeys(context.store))
            jobs, queue = context.jobs.records, context.jobs.queue
            collector = RetentionCollector(
                context.settings, context.store, jobs, context.submissions.results, context.deleter, queue
            )

            def between_steps() -> None:
                schedule_lost_orders(context.jobs.webhooks, jobs, queue.schedule)
                collector.step()

            with (
                reconciler(jobs, queue, chosen.reconcile_seconds, between_steps),
                prometheus.exporting_otlp(meters.registry),
            ):
                async with context.jobs.events.run():
                    yield
            queue.connection.close()
            context.access.rates.close()

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
    for resource in (*_ROUTES, *_PAGES):
        # as they are: `include_router` would analyse every endpoint a second time, an eighth of the start
        app.router.routes.extend(resource.router.routes)
    policies = RoutePolicies(app.routes, documentation)
    openapi.install_openapi(app, policies)
    app.add_middleware(BodyLimit, settings=chosen, policies=policies)
    app.add_middleware(RefuseContentCodings)
    # what is added later sees a request earlier
    app.add_middleware(AccessControl, settings=chosen, policies=policies)
    allow_origins(app, chosen.origins)
    app.add_middleware(CrossOriginGuard, settings=chosen)
    app.add_middleware(ProblemPages)
    app.add_middleware(SecurityHeaders, settings=chosen)
    app.add_middleware(Compression)
    app.add_middleware(HeadAsGet)
    app.state.meters = meters
    meters.registry.register(BackendCollector(lambda: app.state.context))
    app.add_middleware(RequestObserver, meters=meters, tracer=tracer)
    problems.install_problem_handlers(app)
    app.add_exception_handler(Exception, unexpected_error_page)
    return app
