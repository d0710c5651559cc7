"""The application: settings in, an ASGI app out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from fastapi_offline import FastAPIOffline

from accel.accelerator.read_text import MAX_BYTES
from service import openapi, problems
from service.context import Context
from service.head import HeadAsGet
from service.limits import BodyLimit
from service.routes import (
    accelerators,
    artifacts,
    catalogue,
    health,
    jobs,
    models,
    programs,
    schemas,
    tensors,
    tir,
    trace,
)
from worker.accelerators import Accelerators
from worker.jobs import Jobs
from worker.planner import Planner
from worker.queue import JobQueue
from worker.redis_server import connect
from worker.settings import Settings
from worker.store import Store
from worker.traces import Traces
from worker.uploads import models as model_uploads
from worker.uploads import programs as program_uploads
from worker.uploads import tensors as tensor_uploads

_DESCRIPTION = """
Upload an ONNX model, name an accelerator, and get the TIR after every pass, the instruction stream, a cycle count, and
proof that the program computes the right numbers.

1. `POST /v1/models` with the file: the answer has its id.
2. `POST /v1/jobs` with `{"model": id, "accelerator": "vta"}`: 202, and the job's `Location`.
3. `GET` that until its state is `succeeded`; then its `report`, `trace`, `tir` and `outputs`.

`POST /v1/jobs?dry_run=true` says what would run where, and why, without compiling. `GET /v1/accelerators` lists the
accelerators; documents of your own have the form of `GET /v1/schemas/accelerator`.

A program that is compiled already, by another job or by another tool, is only simulated: `POST /v1/programs`, then
`POST /v1/jobs` with `{"program": id}`.

Every error is a problem document (RFC 9457); its `type` leads to an explanation.
"""
_ROUTES = (models, programs, tensors, accelerators, schemas, jobs, artifacts, tir, trace, catalogue, health)
# a request is answered within a second, be it with 503: a worker has more patience
_REDIS_RETRIES = 2


def context(settings: Settings) -> Context:
    """What the routes work on."""
    store = Store(settings.store_dir)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    connection = connect(settings.redis_url or "redis://localhost:6379", retries=_REDIS_RETRIES)
    return Context(
        settings=settings,
        store=store,
        models=model_uploads(store),
        programs=program_uploads(store),
        tensors=tensor_uploads(store),
        accelerators=Accelerators(store),
        jobs=Jobs(store),
        queue=JobQueue(connection, settings.queue, job_seconds=settings.job_seconds),
        traces=Traces(),
        planner=Planner(settings),
    )


def create_app(settings: Settings | None = None) -> FastAPI:
    """The app; without settings they come from the environment.

    Nothing is touched before the app starts up, so that its OpenAPI document needs no store and no Redis.
    """
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.context = context(chosen)
        yield
        app.state.context.queue.connection.close()

    app: FastAPI = FastAPIOffline(
        title="Cyclops",
        version=version("cyclops"),
        summary="Compile a neural network for a tensor accelerator, simulate it, and prove the result.",
        description=_DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
    )
    app.add_middleware(
        BodyLimit,
        limits={
            "/v1/models": chosen.max_model_bytes,
            "/v1/programs": chosen.max_program_bytes,
            "/v1/tensors": chosen.max_tensors_bytes,
            "/v1/accelerators": MAX_BYTES,
        },
        default=chosen.max_body_bytes,
    )
    app.add_middleware(HeadAsGet)
    problems.install(app)
    for resource in _ROUTES:
        app.include_router(resource.router)
    app.add_api_route("/", _home, include_in_schema=False)
    openapi.install(app)
    return app


def _home() -> RedirectResponse:
    """Whoever opens the address in a browser wants the documentation."""
    return RedirectResponse("/docs")
