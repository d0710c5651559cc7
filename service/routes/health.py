"""Health: whether the process answers, and whether a job could run."""

import logging

import redis
from fastapi import APIRouter

from service.context import RequestContext
from service.http.declarations import declare_problems
from service.http.problems import ProblemError
from service.http.resources import Health, Readiness

_log = logging.getLogger(__name__)
router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process answers")
def get_health() -> Health:
    """Always ok."""
    return Health()


@router.get("/readyz", summary="Whether jobs can be accepted and run", responses=declare_problems("not-ready"))
def get_readiness(here: RequestContext) -> Readiness:
    """Redis answers, the store can be written, and a worker listens."""
    found = Readiness(redis=False, store=False, workers=0)
    missing = []
    try:
        here.store.probe()
        found.store = True
    except OSError as error:  # its text has addresses, which are nobody's business
        _log.warning("the store: %s", error)
        missing.append("the store cannot be used")
    try:
        found.workers = here.queue.workers()
        found.redis = True
    except redis.RedisError as error:
        _log.warning("Redis: %s", error)
        missing.append("Redis cannot be used")
    if found.redis and not found.workers:
        missing.append("no worker listens")
    if missing:
        raise ProblemError("not-ready", "; ".join(missing), headers={"Retry-After": "1"})
    return found
