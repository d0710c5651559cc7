"""Health: whether the process answers, whether a job could run, and metrics for Prometheus."""

import logging
from typing import Annotated

import redis
from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import choose_encoder

from service.auth.route_policy import access
from service.context import RequestContext
from service.http.declarations import declare_content, declare_problems
from service.http.problems import ProblemError
from service.http.resources import Health, Readiness
from service.prometheus import RequestMetrics

_log = logging.getLogger(__name__)
_TEXT = "text/plain"
_OPEN_METRICS = "application/openmetrics-text"
router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process answers")
@access("open")
def get_health() -> Health:
    """Always ok."""
    return Health()


@router.get("/readyz", summary="Whether jobs can be accepted and run", responses=declare_problems("not-ready"))
@access("open")
def get_readiness(context: RequestContext) -> Readiness:
    """Redis answers, the store can be written, and a worker listens.

    `warm` and `warming` tell how far the workers' warm-up is; it makes nothing not ready.
    """
    found = Readiness(redis=False, store=False, workers=0)
    missing = []
    try:
        context.store.probe()
        found.store = True
    except OSError as error:  # its text has addresses, which are nobody's business
        _log.warning("the store: %s", error)
        missing.append("the store cannot be used")
    try:
        found.workers = context.jobs.queue.workers()
        found.warm, found.warming = context.jobs.queue.warm_up()
        found.redis = True
    except redis.RedisError as error:
        _log.warning("Redis: %s", error)
        missing.append("Redis cannot be used")
    if found.redis and not found.workers:
        missing.append("no worker listens")
    if missing:
        raise ProblemError("not-ready", "; ".join(missing), headers={"Retry-After": "1"})
    return found


async def _meters(request: Request) -> RequestMetrics:
    meters = request.app.state.meters
    assert isinstance(meters, RequestMetrics)
    return meters


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses=declare_content(
        "the metrics, in Prometheus' text format or as OpenMetrics, by `Accept`", _TEXT, _OPEN_METRICS
    ),
)
@access("metrics")
def get_metrics(request: Request, meters: Annotated[RequestMetrics, Depends(_meters)]) -> Response:
    """Requests of this process; the queue, the workers, and what all jobs came to since Redis was last empty.

    It is answered whether Redis and the store are there or not: two gauges tell.
    """
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(meters.registry), media_type=media_type)
