"""Health: does the process answer, and could a job run."""

import redis
from fastapi import APIRouter

from service.context import Here
from service.documents import problems
from service.problems import ProblemError
from service.schemas import Health, Readiness

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the process answers")
def get_health() -> Health:
    """Always ok."""
    return Health()


@router.get("/readyz", summary="Whether jobs can be accepted and run", responses=problems("not-ready"))
def get_readiness(here: Here) -> Readiness:
    """Redis answers, the store can be written, and a worker listens."""
    found = Readiness(redis=False, store=False, workers=0)
    try:
        here.store.probe()
        found.store = True
        here.queue.connection.ping()
        found.redis = True
        found.workers = here.queue.workers()
    except (OSError, redis.RedisError) as error:
        raise ProblemError("not-ready", f"{found}: {error}", headers={"Retry-After": "1"}) from error
    if not found.workers:
        raise ProblemError("not-ready", f"{found}: no worker listens", headers={"Retry-After": "1"})
    return found
