"""The caller of a request: the owner of what it makes, and of what it may see.

Dependencies that wait for nothing are coroutines, here as elsewhere: FastAPI calls each other one in a thread.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from service.http.problems import ProblemError
from worker.identity.share_links import ShareTarget
from worker.records.job_record import LOCAL

NO_OWNER = ""  # no owner's name: nothing belongs to it


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        owner: whose things it sees; ``NOBODY`` for a request without a key, or one with a link alone.
        shared: what it may read besides.
        counted_as: under which name its requests are counted.
    """

    owner: str
    shared: ShareTarget | None = None
    counted_as: str = ""

    def following(self, owner: str) -> str:
        """Under which name it is counted who follows a job of this owner: all by links to an owner's jobs are one."""
        return self.owner or f"link:{owner}"


ANONYMOUS = Caller(NO_OWNER)
LOCAL_CALLER = Caller(LOCAL)  # where no keys are needed


async def caller_of(request: Request) -> Caller:
    """Who asks, as the door found out; without a door in front nobody is let in."""
    caller = getattr(request.state, "caller", ANONYMOUS)
    assert isinstance(caller, Caller)
    return caller


CurrentCaller = Annotated[Caller, Depends(caller_of)]


async def _owner(caller: CurrentCaller) -> str:
    if caller.owner == NO_OWNER:
        raise ProblemError("unauthorized", "this needs a key", headers={"WWW-Authenticate": "Bearer"})
    return caller.owner


CurrentOwner = Annotated[str, Depends(_owner)]
