"""Who asks: the owner of what a request makes, and of what it may see.

Dependencies that wait for nothing are coroutines, here as elsewhere: FastAPI calls each other one in a thread.
"""

from typing import Annotated

from fastapi import Depends, Request

from service.identity import ANONYMOUS, NOBODY, Caller
from service.problems import ProblemError


async def caller_of(request: Request) -> Caller:
    """Who asks, as the door found out; without a door in front nobody is let in."""
    caller = getattr(request.state, "caller", ANONYMOUS)
    assert isinstance(caller, Caller)
    return caller


Asker = Annotated[Caller, Depends(caller_of)]


async def _owner(caller: Asker) -> str:
    if caller.owner == NOBODY:
        raise ProblemError("unauthorized", "this needs a key", headers={"WWW-Authenticate": "Bearer"})
    return caller.owner


Owner = Annotated[str, Depends(_owner)]
