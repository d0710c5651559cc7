"""Metrics for Prometheus."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import choose_encoder

from service.http.declarations import declare_content
from service.prometheus import RequestMetrics

_TEXT = "text/plain"
_OPEN_METRICS = "application/openmetrics-text"
router = APIRouter(tags=["health"])


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
def get_metrics(request: Request, meters: Annotated[RequestMetrics, Depends(_meters)]) -> Response:
    """Requests of this process; the queue, the workers, and what all jobs came to since Redis was last empty.

    It is answered whether Redis and the store are there or not: two gauges tell.
    """
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(meters.registry), media_type=media_type)
