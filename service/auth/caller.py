"""The caller of a request: the owner of what it makes, and of what it may see.

Dependencies that do not block are coroutines, as everywhere in the service: FastAPI calls any other in a thread.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.auth.rate_limits import UNCOUNTED, RateCounter
from service.http.problems import ProblemError
from worker.identity.share_links import ShareTarget
from worker.records.job_record import LOCAL

NO_OWNER = ""  # no owner's name: nothing belongs to it


@dataclass(frozen=True)
class Caller:
    """The caller of a request.

    Attributes:
        owner: the owner whose jobs and uploads it sees; ``NO_OWNER`` for a request without a key, or with a link alone.
        shared: what it may read in addition, by a link.
        counted_as: the name under which its requests are counted.
    """

    owner: str
    shared: ShareTarget | None = None
    counted_as: str = ""

    def counted_for_job_of(self, owner: str) -> str:
        """Returns the name under which the caller's open requests for a job of ``owner`` are counted.

        All who come by links to jobs of the same owner count as one.
        """
        return self.owner or f"link:{owner}"


ANONYMOUS = Caller(NO_OWNER)
LOCAL_CALLER = Caller(LOCAL)  # where no keys are needed


async def caller_of(request: Request) -> Caller:
    """Returns the caller that access control found; without access control in front, one who may do nothing."""
    caller = getattr(request.state, "caller", ANONYMOUS)
    assert isinstance(caller, Caller)
    return caller


CurrentCaller = Annotated[Caller, Depends(caller_of)]


async def _counter_of(request: Request) -> RateCounter:
    counter = getattr(request.state, "counter", UNCOUNTED)
    assert isinstance(counter, RateCounter)
    return counter


CurrentCounter = Annotated[RateCounter, Depends(_counter_of)]


async def _owner(caller: CurrentCaller) -> str:
    if caller.owner == NO_OWNER:
        raise ProblemError("unauthorized", "this needs a key", headers={"WWW-Authenticate": "Bearer"})
    return caller.owner


CurrentOwner = Annotated[str, Depends(_owner)]
